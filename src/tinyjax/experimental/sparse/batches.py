"""What is done in each batch: functions of one are mapped over the batch dimensions, and indices are put in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.vectorize import vmap
from tinyjax.tracing.array import Array

R = TypeVar("R", Array, tuple[Array, ...], tuple[Array, Array])


def over_batches(f: Callable[..., R], n_batch: int) -> Callable[..., R]:
    """The function of arrays, mapped over their first axes; an axis of size 1 is repeated where others are longer."""
    if not n_batch:
        return f
    inner = over_batches(f, n_batch - 1)

    def mapped(*arrays: Array) -> R:
        longer = any(x.shape[0] != 1 for x in arrays)
        axes = tuple(None if longer and x.shape[0] == 1 else 0 for x in arrays)
        passed = [x[0] if axis is None else x for x, axis in zip(arrays, axes, strict=True)]
        outs: R = vmap(inner, in_axes=axes)(*passed)
        return outs

    return mapped


def columns(indices: Array) -> list[Array]:
    """The indices along each sparse dimension."""
    return [indices[..., i] for i in range(indices.shape[-1])]


def order(indices: Array) -> tuple[Array, Array]:
    """Indices of one batch, (nse, n_sparse), in lexicographic order, and where each was; equal ones stay in order."""
    nse, n_sparse = indices.shape
    places = tnp.arange(nse, dtype=np.int32)
    if not n_sparse:
        return indices, places
    *found, perm = lax.sort([*columns(indices), places], num_keys=n_sparse)
    return tnp.stack(found, axis=-1), perm


def starts(ordered: Array) -> Array:
    """Of ordered indices, which are the first of several that are equal."""
    nse = ordered.shape[0]
    differs = tnp.any(ordered[1:] != ordered[:-1], axis=-1)
    return tnp.concatenate([tnp.ones(min(nse, 1), bool), differs])


def padded(indices: Array, sparse_shape: Sequence[int]) -> Array:
    """All padding with the same indices: the sizes of the dimensions."""
    sizes = tnp.asarray(tuple(sparse_shape), dtype=indices.dtype).reshape(len(sparse_shape))
    return tnp.where(tnp.any(indices >= sizes, axis=-1, keepdims=True), sizes, indices)


def groups(indices: Array, sparse_shape: Sequence[int]) -> tuple[Array, Array, Array]:
    """Equal indices of one batch, taken together: the different ones in order, and then padding, of the same shape as
    they all; which of these each was; and how many there are other than padding."""
    ordered, perm = order(padded(indices, sparse_shape))
    first = starts(ordered)
    number = tnp.cumsum(first, dtype=np.int32) - 1
    sizes = tnp.asarray(tuple(sparse_shape), dtype=indices.dtype).reshape(len(sparse_shape))
    found = tnp.broadcast_to(sizes, ordered.shape).at[number].set(ordered)
    of_each = tnp.zeros(len(perm), np.int32).at[perm].set(number)
    count = tnp.sum(first & tnp.all(ordered < sizes, axis=-1), dtype=np.int32)
    return found, of_each, count


def first_of_equal(indices: Array) -> Array:
    """Which indices of one batch are the first of several that are equal."""
    ordered, perm = order(indices)
    return tnp.zeros(len(perm), bool).at[perm].set(starts(ordered))


def added(target: Array, index: Array | tuple[Array, ...], values: Array) -> Array:
    """The target with values added at places; what is beyond it is left out. Bools are joined by or."""
    if not target.size:
        return target
    at = target.at[index]
    return at.max(values, mode="drop") if target.dtype == bool else at.add(values, mode="drop")


def taken(x: Array, index: tuple[Array, ...]) -> Array:
    """The elements at indices along the first axes; 0 beyond the array."""
    if 0 in x.shape[: len(index)]:
        return tnp.zeros((*index[0].shape, *x.shape[len(index) :]), x.dtype)
    return x.at[index].get(mode="fill", fill_value=False if x.dtype == bool else 0)


def chosen(mask: Array, x: Array) -> Array:
    """The elements where the mask says so; 0 elsewhere."""
    return tnp.where(mask, x, tnp.zeros((), x.dtype))


def summed(x: Array, axis: int | tuple[int, ...], keepdims: bool = False) -> Array:
    """Sums in the same dtype; of bools, whether any is true."""
    if x.dtype == bool:
        return tnp.any(x, axis=axis, keepdims=keepdims)
    return tnp.sum(x, axis=axis, dtype=x.dtype, keepdims=keepdims)
