"""Which elements are among others."""

from __future__ import annotations

from tinyjax.arrays import along_axis
from tinyjax.arrays.elementwise import astype
from tinyjax.arrays.shaping import concatenate, ravel, reshape
from tinyjax.ir.dtypes import BOOL, INT64
from tinyjax.numpy.creation import full, zeros
from tinyjax.prepared import closed
from tinyjax.prepared.functions import prepared_as
from tinyjax.tracing.array import Array


@prepared_as(closed.members)
def members(x: Array, y: Array) -> Array:
    """Which elements of x are among those of a vector, which has some, of the same dtype. nan is not."""
    both = concatenate([ravel(x), y], 0)
    # Of equal elements, one of the vector decides for all.
    places = along_axis.argsort(both)
    ordered = both[places]
    begins = concatenate([full((1,), True, BOOL), ordered[1:] != ordered[:-1]], 0)
    groups = along_axis.cumsum(astype(begins, INT64)) - 1
    held = zeros(groups.shape, BOOL).at[groups].max(places >= x.size)
    return reshape(zeros(groups.shape, BOOL).at[places].set(held[groups], unique_indices=True)[: x.size], x.shape)
