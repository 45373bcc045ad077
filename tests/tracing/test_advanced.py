"""Advanced indexing and `x.at`, against jax and NumPy."""

from __future__ import annotations

from collections.abc import Callable


import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinyjax.numpy as tnp
from tests.numpy.oracle import agree
from tinyjax import Array, grad, jit, jvp, make_jaxpr, vmap
from tinyjax.errors import ConcretizationError, ImmutableArrayError, IndexingError, InputError, ShapeError
from tinyjax.tracing.indexing import Index

UPDATES = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")


@st.composite
def positions(draw: st.DrawFn, size: int, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Positions along an axis, negative ones too."""
    return draw(hnp.arrays(np.int64, shape, elements=st.integers(-size, size - 1)))


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...], static: bool = True) -> tuple[object, ...]:
    """Keys of all kinds of entries; the arrays in one key can be broadcast."""
    common = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    entries: list[object] = []
    axis = 0
    ellipsis = False
    while True:
        kind = draw(st.sampled_from(["none", "slice", "int", "array", "mask", "ellipsis", "end", "array"]))
        if kind == "none" and entries.count(None) < 2:
            entries.append(None)
        elif kind == "ellipsis" and not ellipsis:
            ellipsis = True
            entries.append(...)
        elif kind == "end" or axis == len(shape):
            return tuple(entries)
        elif ellipsis:
            # The axes after an ellipsis are counted from the end, so one entry for each that is left.
            rest = len(shape) - axis
            kept = draw(st.integers(0, rest))
            for at in range(len(shape) - kept, len(shape)):
                entries.append(draw(positions(shape[at], common[draw(st.integers(0, len(common))) :])))
            return tuple(entries)
        elif kind == "slice":
            bounds = st.none() | st.integers(-shape[axis] - 1, shape[axis] + 1)
            step = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
            entries.append(slice(draw(bounds), draw(bounds), step))
            axis += 1
        elif kind == "int":
            entries.append(draw(st.integers(-shape[axis], shape[axis] - 1)))
            axis += 1
        elif kind == "array":
            entries.append(draw(positions(shape[axis], common[draw(st.integers(0, len(common))) :])))
            axis += 1
        elif kind == "mask" and static and not any(isinstance(entry, np.ndarray) for entry in entries):
            mask = draw(hnp.arrays(np.bool_, shape[axis : axis + 2]))
            entries.append(mask)
            axis += mask.ndim
            common = ()
            entries += [slice(None)] * (len(shape) - axis)
            return tuple(entries)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_it_takes_what_numpy_takes(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    key = data.draw(keys(shape))
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    taken = np.asarray(x[key])  # type: ignore[index]
