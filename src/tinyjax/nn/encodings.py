"""Numbers of classes as vectors."""

from __future__ import annotations

from typing import SupportsIndex

import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.shaping import canonical_axis, integer
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import BOOL, INT64, INTEGERS, integer_limits
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike


@prepared
def one_hot(
    x: ArrayLike,
    num_classes: SupportsIndex,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: SupportsIndex | str = -1,
    out_sharding: OutSharding = None,
) -> Array:
    """For each number of a class a vector with 1 at that place and 0 elsewhere; zeros for others.

    The vectors lie along the new axis `axis`, or along the axis of that name which `vmap` maps. They are floats by
    default. `out_sharding` says how the result lies on a mesh.

    Raises:
      ShapeError: there is no such axis, or the named one hasn't `num_classes` elements.

    >>> import numpy as np
    >>> one_hot(np.array([0, 2, 3]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float64)
    """
    found, count = tnp.asarray(x), integer(num_classes, "one_hot: num_classes")
    chosen = tnp.float64 if dtype is None else dtype
    if found.dtype == BOOL or (found.dtype in INTEGERS and count - 1 > integer_limits(found.dtype)[1]):
        found = tnp.astype(found, INT64)  # the classes wouldn't be distinct
    if isinstance(axis, str):
        if lax.axis_size(axis) != count:
            raise ShapeError(f"one_hot: {count} classes along axis {axis!r}, which has {lax.axis_size(axis)} elements")
        own = tnp.astype(found == tnp.astype(lax.axis_index(axis), found.dtype), chosen)
        return laid_out(own, out_sharding)
    along = canonical_axis(axis, found.ndim + 1, "one_hot")
    shape = [1] * (found.ndim + 1)
    shape[along] = count
    classes = tnp.reshape(tnp.arange(count, dtype=found.dtype), tuple(shape))
    return laid_out(tnp.astype(tnp.expand_dims(found, along) == classes, chosen), out_sharding)
