"""Batched coordinates: how a BCOO is stored, and what is known from that. What is done with it is in files above."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Self, TypeVar

import numpy as np
from typing_extensions import override

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import ChoiceError, DtypeError, InputError, ShapeError
from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.ir.shapes import as_shape
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

#: A class of sparse arrays by coordinates: functions return what they are given.
M = TypeVar("M", bound="Coordinates")


class Coordinates(JAXSparse):
    """Stored elements and their indices along sparse dimensions, which batch dimensions precede and dense ones follow.

    `data` has shape (*batch, nse, *dense), `indices` (*batch, nse, n_sparse). A batch dimension of size 1 of one of
    them is repeated. Elements with the same indices are summed; those with an index beyond the shape are padding.

    The structure is the sizes of the sparse dimensions, and what is known of the indices. Those of the others are the
    arrays', so that what maps or stacks these along a batch dimension does it to the whole.
    """

    __slots__ = ("indices", "indices_sorted", "sparse_shape", "unique_indices")

    #: Where the stored elements are.
    indices: Array
    #: The sizes of the sparse dimensions.
    sparse_shape: tuple[int, ...]
    #: Whether it is known that the indices are in lexicographic order, in each batch.
    indices_sorted: bool
    #: Whether it is known that no two elements have the same indices, in each batch, other than padding.
    unique_indices: bool

    def __init__(
        self,
        args: tuple[ArrayLike, ArrayLike],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        data, indices = _pair(name, args)
        sizes = as_shape(shape)
        if not np.issubdtype(indices.dtype, np.integer):
            raise DtypeError(f"{name}: the indices must be integers, got {indices.aval}")
        n_batch, n_sparse = indices.ndim - 2, indices.shape[-1] if indices.ndim > 1 else 0
        if n_batch < 0 or n_batch + n_sparse > len(sizes):
            raise ShapeError(
                f"{name}: indices have shape (*batch, nse, n_sparse), with at most as many batch and sparse dimensions "
                f"as the shape {sizes}; got {indices.aval}"
            )
        batch, dense = sizes[:n_batch], sizes[n_batch + n_sparse :]
        nse = indices.shape[-2]
        wanted = (*batch, nse, *dense)
        if data.ndim != len(wanted) or data.shape[n_batch:] != wanted[n_batch:]:
            raise ShapeError(
                f"{name}: for {nse} elements with {n_batch} batch and {n_sparse} sparse dimensions of the shape "
                f"{sizes}, data must have shape {wanted}; got {data.aval}"
            )
        for what, array in (("data", data), ("indices", indices)):
            if any(size not in (1, full) for size, full in zip(array.shape, batch, strict=False)):
                raise ShapeError(
                    f"{name}: the batch dimensions of {what} must be {batch}, or 1 where they are repeated; got "
                    f"{array.aval}"
                )
        if any(full != 1 == a == b for full, a, b in zip(batch, data.shape, indices.shape, strict=False)):
            both = zip(batch, data.shape, indices.shape, strict=False)
            repeated = [full if a == 1 else b for full, a, b in both]
            indices = tnp.broadcast_to(indices, (*repeated, nse, n_sparse))
        self.data = data
        self.indices = indices
        self.sparse_shape = sizes[n_batch : n_batch + n_sparse]
        self.indices_sorted = bool(indices_sorted)
        self.unique_indices = bool(unique_indices)

    def like(
        self,
        data: ArrayLike,
        indices: ArrayLike,
        shape: Sequence[int],
        *,
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Self:
        """An array of the same class."""
        return type(self)((data, indices), shape=shape, indices_sorted=indices_sorted, unique_indices=unique_indices)

    def with_data(self, data: ArrayLike) -> Self:
        """Other elements in the same places."""
        return self.like(
            data,
            self.indices,
            self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions: each element of them has indices of its own."""
        n_batch = self.indices.ndim - 2
        if n_batch < 0 or self.data.ndim <= n_batch:
            raise InputError(
                f"{type(self).__name__}: data {self.data.aval} and indices {self.indices.aval} belong to no sparse "
                "array. What maps one, or loops over it, goes along a batch dimension, counted from the first: "
                "update_layout(n_batch=1) makes one."
            )
        return n_batch

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions, which the indices are along."""
        return self.indices.shape[-1]

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions: a stored element is an array along them."""
        return self.data.ndim - 1 - self.n_batch

    @property
    @override
    def nse(self) -> int:
        return self.indices.shape[-2]

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        return (*self.batch_shape, *self.sparse_shape, *self.dense_shape)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The sizes of the batch dimensions."""
        n = self.n_batch
        pairs = zip(self.data.shape[:n], self.indices.shape[:n], strict=True)
        return tuple(b if a == 1 else a for a, b in pairs)

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The sizes of the dense dimensions."""
        return self.data.shape[self.n_batch + 1 :]

    @override
    def _extra(self) -> Iterator[str]:
        if self.n_batch:
            yield f"n_batch={self.n_batch}"
        if self.n_dense:
            yield f"n_dense={self.n_dense}"

    @override
    def tree_flatten(self) -> tuple[tuple[Array, Array], Hashable]:
        """Its data and indices, and what is known of these."""
        return (self.data, self.indices), (self.sparse_shape, self.indices_sorted, self.unique_indices)

    @classmethod
    @override
    def tree_unflatten(cls, aux_data: Hashable, children: Iterable[Array]) -> Self:
        """One with these arrays, or with what a tree has in their place."""
        node = object.__new__(cls)
        data, indices = children
        node.data = data
        node.indices = indices
        match aux_data:
            case (tuple() as sizes, bool() as is_sorted, bool() as unique):
                node.sparse_shape, node.indices_sorted, node.unique_indices = sizes, is_sorted, unique
            case _:
                raise InputError(f"{cls.__name__}.tree_unflatten: {aux_data!r} isn't what tree_flatten returns")
        return node


def _pair(name: str, args: tuple[ArrayLike, ...]) -> tuple[Array, Array]:
    if len(args) != 2:
        raise InputError(f"{name} takes a pair (data, indices), and the shape by name; got {args!r}")
    data, indices = map(as_array, args)
    return data, indices


def check_layout(what: str, ndim: int, n_batch: int, n_dense: int) -> tuple[int, int, int]:
    """The numbers of batch, sparse and dense dimensions; a ChoiceError unless they fit."""
    n_batch, n_dense = operator.index(n_batch), operator.index(n_dense)
    n_sparse = ndim - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ChoiceError(
            f"{what}: n_batch and n_dense must not be negative, and together at most the number of dimensions, {ndim}; "
            f"got n_batch={n_batch} and n_dense={n_dense}"
        )
    return n_batch, n_sparse, n_dense


def limits(mat: Coordinates) -> Array:
    """The sizes of the sparse dimensions, as indices: those of padding."""
    return tnp.asarray(mat.sparse_shape, dtype=mat.indices.dtype).reshape(mat.n_sparse)


def valid(mat: Coordinates) -> Array:
    """Which of the elements are no padding: bools of the shape of the indices, without the last axis."""
    return tnp.all(mat.indices < limits(mat), axis=-1)


def across_dense(mask: Array, n_dense: int) -> Array:
    """What is known of each element, with axes of size 1 for the dense dimensions."""
    return lax.expand_dims(mask, range(mask.ndim, mask.ndim + n_dense))
