"""Random keys of NumPy's indexing."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinyjax.arrays.basic_indexing import Index
from tinyjax.ir.dtypes import HostArray

#: NumPy's indexing, of keys whose type is found out only by running it.
getitem: Callable[[HostArray, Index], HostArray] = vars(operator)["getitem"]
add_at: Callable[[HostArray, Index, HostArray], None] = vars(np)["add"].at
setitem: Callable[[HostArray, Index, HostArray], None] = vars(operator)["setitem"]


def positions(size: int, shape: tuple[int, ...]) -> st.SearchStrategy[npt.NDArray[np.int64]]:
    """Positions along an axis, negative ones too."""
    dtypes = st.sampled_from([np.int64, np.int32, np.int8])
    return dtypes.flatmap(lambda dtype: hnp.arrays(dtype, shape, elements=st.integers(-size, size - 1)))


@st.composite
def slices(draw: st.DrawFn, size: int) -> slice:
    bounds = st.none() | st.integers(-size - 1, size + 1)
    return slice(draw(bounds), draw(bounds), draw(st.sampled_from([None, None, 1, 2, 3, -1, -2])))


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...], masks: bool = True) -> Index:
    """Integers, slices, arrays, masks, new axes and an ellipsis. The arrays of one key can be broadcast."""
    ndim = len(shape)
    common = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    masked = masks and draw(st.integers(0, 3)) == 0
    before = draw(st.integers(0, ndim))
    after = draw(st.integers(0, ndim - before))
    entries: list[SupportsIndex | slice | None] = []
    middle = 0
    for axis in [*range(before), *range(ndim - after, ndim)]:
        if axis == before:
            middle = len(entries)
        size = shape[axis]
        kind = draw(st.sampled_from(["slice", "int", "array", "array"]))
        if kind == "slice":
            entries.append(draw(slices(size)))
        elif kind == "int":
            entries.append(draw(st.integers(-size, size - 1)))
        elif masked:
            count = 2  # so that several masks can be broadcast
            mask = np.zeros(size, np.bool_)
            mask[draw(st.permutations(range(size)))[:count]] = True
            entries.append(mask if size >= count else slice(None))
        else:
            entries.append(draw(positions(size, common[draw(st.integers(0, len(common))) :])))
        if axis == before - 1:
            middle = len(entries)
    found = [*entries[:middle], ..., *entries[middle:]] if before + after < ndim or draw(st.booleans()) else [*entries]
    for _ in range(draw(st.integers(0, 2))):
        found.insert(draw(st.integers(0, len(found))), None)
    return tuple(found)
