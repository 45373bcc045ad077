"""Entries of an array combined by segments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, SupportsIndex, TypeAlias, final

import numpy as np
from attrs import frozen

import tinyjax.numpy as tnp
from tinyjax.arrays.at import scatter
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError, ConcretizationError, InputError
from tinyjax.ir.dtypes import BOOL, INTEGERS, DType, Scalar, integer_limits
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding
from tinyjax.primitives.gather import ScatterAdd, Scattering
from tinyjax.primitives.scatter import ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.windows import GatherScatterMode
from tinyjax.tracebacks import filter_package
from tinyjax.tracing.array import Array, ArrayLike

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

_Mode: TypeAlias = str | GatherScatterMode | None


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: SupportsIndex | None = None,
    mode: _Mode = None,
    out_sharding: OutSharding = None,
) -> Array:
    """For each segment the sum of the entries of `data`, along its first axes, that belong to it.

    Args:
      data: what is combined, of a shape that begins with that of `segment_ids`.
      segment_ids: the segment of each entry. Those out of range, negative ones too, belong to none.
      num_segments: how many there are, by default one more than the largest of `segment_ids`, which must then be known.
      indices_are_sorted: `segment_ids` are in ascending order.
      unique_indices: no segment has two entries.
      bucket_size: so many entries at a time are combined, and then what they gave; None for all at once.
      mode: what becomes of entries out of range, by default "drop".
      out_sharding: how the result lies on a mesh; entries that are divided along Explicit axes leave it open.

    Returns:
      An array of shape `(num_segments, ...)` and of the dtype of `data`; 0 for empty segments.

    Raises:
      InputError: `segment_ids` aren't integers.
      ShapeError: the entries don't fit `segment_ids`.
      ChoiceError: a negative number of segments, or buckets for none.
      ConcretizationError: `segment_ids` is traced, and `num_segments` isn't given.

    >>> segment_sum([0, 1, 2, 3, 4], [0, 0, 1, 1, 2])
    Array([1, 5, 4], dtype=int64)
    """
    promises = indices_are_sorted, unique_indices
    return _SUM(data, segment_ids, num_segments, promises, bucket_size, mode, out_sharding)


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: SupportsIndex | None = None,
    mode: _Mode = None,
    out_sharding: OutSharding = None,
) -> Array:
    """For each segment the product of its entries; 1 for empty ones. The arguments are those of `segment_sum`.

    >>> segment_prod([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2])
    Array([ 0,  6, 20], dtype=int64)
    """
    promises = indices_are_sorted, unique_indices
    return _PROD(data, segment_ids, num_segments, promises, bucket_size, mode, out_sharding)


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: SupportsIndex | None = None,
    mode: _Mode = None,
    out_sharding: OutSharding = None,
) -> Array:
    """For each segment its largest entry; -inf, or the least integer, for empty ones. The arguments are those of
    `segment_sum`.

    >>> segment_max([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2])
    Array([1, 3, 5], dtype=int64)
    """
    promises = indices_are_sorted, unique_indices
    return _MAX(data, segment_ids, num_segments, promises, bucket_size, mode, out_sharding)


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: SupportsIndex | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: SupportsIndex | None = None,
    mode: _Mode = None,
    out_sharding: OutSharding = None,
) -> Array:
    """For each segment its smallest entry; inf, or the greatest integer, for empty ones. The arguments are those of
    `segment_sum`.

    >>> segment_min([0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 2])
    Array([0, 2, 4], dtype=int64)
    """
    promises = indices_are_sorted, unique_indices
    return _MIN(data, segment_ids, num_segments, promises, bucket_size, mode, out_sharding)


@final
@frozen
class _Combination:
    """How entries are combined: where they are, and what buckets gave; and what empty segments have."""

    name: str
    kind: type[Scattering]
    reduction: Callable[[Array], Array]
    empty: Callable[[DType], Scalar]

    def __call__(
        self,
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: SupportsIndex | None,
        promises: tuple[bool, bool],
        bucket_size: SupportsIndex | None,
        mode: _Mode,
        out_sharding: OutSharding,
    ) -> Array:
        x, ids = tnp.asarray(data), tnp.asarray(segment_ids)
        if ids.dtype not in INTEGERS:
            raise InputError(f"{self.name}: segment_ids must be integers, got {ids.aval}")
        count = _count(self.name, ids, num_segments)
        size = None if bucket_size is None or count == 0 else integer(bucket_size, f"{self.name}: bucket_size")
        if size is not None and size < 1:
            raise ChoiceError(f"{self.name}: bucket_size must be at least 1, got {size}")
        return computed(partial(self._combined, count, promises, size, mode), [x, ids], out_sharding)

    def _combined(
        self, count: int, promises: tuple[bool, bool], size: int | None, mode: _Mode, x: Array, ids: Array
    ) -> Array:
        shape = (count, *x.shape[1:])
        if size is None:
            out = tnp.full(shape, self.empty(x.dtype), dtype=x.dtype)
            return out if count == 0 else scatter(self.kind, out, ids, x, mode, *promises, False)
        buckets = np.arange(ids.shape[0]) // size
        out = tnp.full((-(-ids.shape[0] // size), *shape), self.empty(x.dtype), dtype=x.dtype)
        return self.reduction(scatter(self.kind, out, (buckets, ids), x, mode, *promises, False)).astype(x.dtype)


def _count(name: str, ids: Array, given: SupportsIndex | None) -> int:
    """How many segments there are."""
    if given is None and ids.concrete() is None:
        raise ConcretizationError(
            f"{name}: segment_ids, of type {ids.aval}, are traced, and decide how many segments there are. "
            "Give num_segments, which decides the shape of the result."
        )
    count = int(tnp.max(ids, initial=-1)) + 1 if given is None else integer(given, f"{name}: num_segments")
    if count < 0:
        raise ChoiceError(f"{name}: num_segments must be at least 0, got {count}")
    return count


def _least(dtype: DType) -> Scalar:
    return False if dtype == BOOL else integer_limits(dtype)[0] if dtype in INTEGERS else -np.inf


def _greatest(dtype: DType) -> Scalar:
    return True if dtype == BOOL else integer_limits(dtype)[1] if dtype in INTEGERS else np.inf


_SUM: Final = _Combination("segment_sum", ScatterAdd, lambda out: tnp.sum(out, 0), lambda _: 0)
_PROD: Final = _Combination("segment_prod", ScatterMul, lambda out: tnp.prod(out, 0), lambda _: 1)
_MAX: Final = _Combination("segment_max", ScatterMax, lambda out: tnp.max(out, 0), _least)
_MIN: Final = _Combination("segment_min", ScatterMin, lambda out: tnp.min(out, 0), _greatest)


filter_package(__name__, ["segment_max", "segment_min", "segment_prod", "segment_sum"])
