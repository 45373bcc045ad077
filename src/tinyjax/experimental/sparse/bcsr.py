"""Arrays stored by compressed rows, in batches: where each row begins, and the columns of its elements."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol, Self, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

import tinyjax.numpy as tnp
from tinyjax.errors import DtypeError, InputError, ShapeError, UnsupportedError
from tinyjax.experimental.sparse import conversion, products, reshaping
from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.experimental.sparse.batches import over_batches
from tinyjax.experimental.sparse.bcoo import BCOO, bcoo_fromdense
from tinyjax.experimental.sparse.products import DotDimensionNumbers
from tinyjax.ir.shapes import as_shape
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


class _OfScipy(Protocol):
    """A matrix of `scipy.sparse`."""

    def tocsr(self) -> Any: ...  # SciPy has no types


@final
class BCSR(JAXSparse):
    """Matrices, in batches and of arrays, of which some elements are stored: those of a row follow each other.

    Args:
      args: `data`, of shape (*batch, nse, *dense), `indices`, the columns, of shape (*batch, nse), and `indptr`, where
        each row begins and the last one ends, of shape (*batch, rows + 1).
      shape: (*batch, rows, columns, *dense).
      indices_sorted: whether it is known that the columns of a row are in order.
      unique_indices: whether it is known that none of them is there twice.

    >>> import numpy as np
    >>> mat = BCSR.fromdense(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> mat
    BCSR(float64[2, 3], nse=3)
    >>> mat.indices, mat.indptr
    (Array([1, 0, 2], dtype=int32), Array([0, 1, 3], dtype=int32))
    >>> mat @ np.ones(3)
    Array([2., 5.], dtype=float64)
    """

    __slots__ = ("columns", "indices", "indices_sorted", "indptr", "unique_indices")

    #: The column of each element.
    indices: Array
    #: Where each row begins.
    indptr: Array
    #: How many columns there are.
    columns: int
    indices_sorted: bool
    unique_indices: bool

    def __init__(
        self,
        args: tuple[ArrayLike, ArrayLike, ArrayLike],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        super().__init__()
        data, indices, indptr = map(as_array, args)
        sizes = as_shape(shape)
        for what, array in (("indices", indices), ("indptr", indptr)):
            if not np.issubdtype(array.dtype, np.integer):
                raise DtypeError(f"BCSR: {what} must be integers, got {array.aval}")
        n = indices.ndim - 1
        if n < 0 or len(sizes) < n + 2:
            said = f"BCSR: indices {indices.aval} don't fit the shape {sizes}, of (*batch, rows, columns, *dense)"
            raise ShapeError(said)
        wanted = {
            "data": (data, (*sizes[:n], indices.shape[-1], *sizes[n + 2 :])),
            "indices": (indices, (*sizes[:n], indices.shape[-1])),
            "indptr": (indptr, (*sizes[:n], sizes[n] + 1)),
        }
        for what, (array, right) in wanted.items():
            fits = array.ndim == len(right) and array.shape[n:] == right[n:]
            if not fits or any(size not in (1, full) for size, full in zip(array.shape[:n], right, strict=False)):
                raise ShapeError(f"BCSR of shape {sizes}: {what} must have shape {right}, got {array.aval}")
        if any(
            full != 1 == a == b == c
            for full, a, b, c in zip(sizes[:n], data.shape, indices.shape, indptr.shape, strict=False)
        ):
            data = tnp.broadcast_to(data, (*sizes[:n], *data.shape[n:]))
        self.data = data
        self.indices = indices
        self.indptr = indptr
        self.columns = sizes[n + 1]
        self.indices_sorted = bool(indices_sorted)
        self.unique_indices = bool(unique_indices)

    @property
    def n_batch(self) -> int:
        """The number of batch dimensions."""
        n = self.indices.ndim - 1
        if n < 0 or self.indptr.ndim != n + 1:
            raise InputError(
                f"BCSR: {self.indices.aval} and {self.indptr.aval} belong to no matrix. What maps one, or loops over "
                "it, goes along a batch dimension, counted from the first."
            )
        return n

    @property
    def n_sparse(self) -> int:
        """The number of sparse dimensions, 2."""
        return 2

    @property
    def n_dense(self) -> int:
        """The number of dense dimensions."""
        return self.data.ndim - 1 - self.n_batch

    @property
    @override
    def nse(self) -> int:
        return self.indices.shape[-1]

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        n = self.n_batch
        parts = zip(self.data.shape[:n], self.indices.shape[:n], self.indptr.shape[:n], strict=True)
        batch = [next((size for size in sizes if size != 1), 1) for sizes in parts]
        return (*batch, self.indptr.shape[-1] - 1, self.columns, *self.data.shape[n + 1 :])

    @override
    def _extra(self) -> Iterator[str]:
        if self.n_batch:
            yield f"n_batch={self.n_batch}"
        if self.n_dense:
            yield f"n_dense={self.n_dense}"

    @override
    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], Hashable]:
        """Its arrays, and what is known of them."""
        return (self.data, self.indices, self.indptr), (self.columns, self.indices_sorted, self.unique_indices)

    @classmethod
    @override
    def tree_unflatten(cls, aux_data: Hashable, children: Iterable[Array]) -> Self:
        """One with these arrays, or with what a tree has in their place."""
        node = object.__new__(cls)
        data, indices, indptr = children
        node.data = data
        node.indices = indices
        node.indptr = indptr
        match aux_data:
            case (int() as columns, bool() as is_sorted, bool() as unique):
                node.columns, node.indices_sorted, node.unique_indices = columns, is_sorted, unique
            case _:
                raise InputError(f"BCSR.tree_unflatten: {aux_data!r} isn't what tree_flatten returns")
        return node

    @classmethod
    def fromdense(
        cls,
        mat: ArrayLike,
        *,
        nse: int | None = None,
        index_dtype: npt.DTypeLike = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """As `bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same array, of two sparse dimensions."""
        if arr.n_sparse != 2:
            raise UnsupportedError(
                f"BCSR.from_bcoo: {arr!r} must have two sparse dimensions; update_layout changes that"
            )
        arr = arr if arr.indices_sorted else arr.sort_indices()
        rows = arr.sparse_shape[0]

        def begins(indices: Array) -> Array:
            return tnp.searchsorted(indices[:, 0], tnp.arange(rows + 1, dtype=indices.dtype)).astype(indices.dtype)

        indptr = over_batches(begins, arr.n_batch)(arr.indices)
        return BCSR(
            (arr.data, arr.indices[..., 1], indptr),
            shape=arr.shape,
            indices_sorted=True,
            unique_indices=arr.unique_indices,
        )

    def to_bcoo(self) -> BCOO:
        """The same array by coordinates."""
        places = indices_of(self.indices, self.indptr)
        return BCOO(
            (self.data, places),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: _OfScipy, *, index_dtype: npt.DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """A matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise UnsupportedError("BCSR.from_scipy_sparse makes no batch or dense dimensions")
        found = mat.tocsr()
        kind = np.dtype(index_dtype or np.int32)
        parts = (as_array(found.data), as_array(found.indices.astype(kind)), as_array(found.indptr.astype(kind)))
        return BCSR(parts, shape=found.shape)

    @override
    def todense(self) -> Array:
        return bcsr_todense(self)

    @override
    def transpose(self, axes: Sequence[int] | None = None) -> BCSR:
        return BCSR.from_bcoo(self.to_bcoo().transpose(axes))

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """As `BCOO.sum_duplicates`."""
        return BCSR.from_bcoo(self.to_bcoo().sum_duplicates(nse, remove_zeros))

    @override
    def __matmul__(self, other: JAXSparse | ArrayLike) -> Array | JAXSparse:
        return _again(self.to_bcoo() @ _by_coordinates(other))

    @override
    def __rmatmul__(self, other: JAXSparse | ArrayLike) -> Array | JAXSparse:
        return _again(_by_coordinates(other) @ self.to_bcoo())

    def __neg__(self) -> BCSR:
        return BCSR.from_bcoo(-self.to_bcoo())

    def __getitem__(self, item: object) -> BCSR | BCOO:
        """By coordinates, where fewer than two dimensions are left."""
        found = self.to_bcoo()[item]
        return BCSR.from_bcoo(found) if found.n_sparse == 2 else found


def _by_coordinates(x: JAXSparse | ArrayLike) -> BCOO | Array:
    if isinstance(x, BCSR):
        return x.to_bcoo()
    if isinstance(x, BCOO):
        return x
    if isinstance(x, JAXSparse):
        raise UnsupportedError(f"@ isn't defined for a BCSR and {x!r}. Write .todense().")
    return as_array(x)


def _again(x: Array | JAXSparse) -> Array | JAXSparse:
    return BCSR.from_bcoo(x) if isinstance(x, BCOO) and x.n_sparse == 2 else x


def indices_of(indices: Array, indptr: Array) -> Array:
    """Rows and columns of stored elements; of those beyond the last row, the number of rows."""

    def places(indices: Array, indptr: Array) -> Array:
        numbers = tnp.arange(indices.shape[0], dtype=indptr.dtype)
        rows = tnp.searchsorted(indptr, numbers, side="right").astype(indices.dtype) - 1
        return tnp.stack([rows, indices], axis=-1)

    return over_batches(places, indices.ndim - 1)(indices, indptr)


def bcsr_fromdense(
    mat: ArrayLike,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: npt.DTypeLike = np.int32,
) -> BCSR:
    """The elements of an array that aren't zero, row by row; arguments as of `bcoo_fromdense`.

    >>> import numpy as np
    >>> bcsr_fromdense(np.eye(3)).indptr
    Array([0, 1, 2, 3], dtype=int32)
    """
    found = bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return BCSR.from_bcoo(found)


def bcsr_todense(mat: BCSR) -> Array:
    """The array that a BCSR stands for.

    >>> import numpy as np
    >>> bcsr_todense(BCSR.fromdense(np.eye(2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    return conversion.bcoo_todense(mat.to_bcoo())


def bcsr_extract(indices: ArrayLike, indptr: ArrayLike, mat: ArrayLike) -> Array:
    """The elements of an array at the places of a BCSR.

    >>> import numpy as np
    >>> bcsr_extract(np.array([1, 0]), np.array([0, 1, 2]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([2., 3.], dtype=float64)
    """
    array, places = as_array(mat), indices_of(as_array(indices), as_array(indptr))
    n = places.ndim - 2
    data = tnp.zeros((*array.shape[:n], places.shape[-2], *array.shape[n + 2 :]), array.dtype)
    return conversion.extracted(BCOO((data, places), shape=array.shape), array, True)


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The same array, with no two elements in the same place; `nse` as of `bcoo_sum_duplicates`.

    >>> import numpy as np
    >>> mat = BCSR((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    >>> bcsr_sum_duplicates(mat).data
    Array([3.], dtype=float64)
    """
    return BCSR.from_bcoo(conversion.bcoo_sum_duplicates(mat.to_bcoo(), nse))


def bcsr_dot_general(
    lhs: BCSR | ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: object = None,
    preferred_element_type: npt.DTypeLike | None = None,
    out_sharding: None = None,
) -> Array:
    """`lax.dot_general` of a BCSR and an array.

    >>> import numpy as np
    >>> bcsr_dot_general(BCSR.fromdense(np.eye(2)), np.ones(2), dimension_numbers=(((1,), (0,)), ((), ())))
    Array([1., 1.], dtype=float64)
    """
    del precision, out_sharding
    if isinstance(rhs, JAXSparse):
        raise UnsupportedError("bcsr_dot_general takes an array on the right. Write @, or .to_bcoo() for both.")
    if isinstance(lhs, BCSR):
        return products.bcoo_dot_general(
            lhs.to_bcoo(), rhs, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type
        )
    return products.bcoo_dot_general(
        lhs, rhs, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type
    )


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: None = None
) -> BCSR:
    """`lax.broadcast_in_dim`, as `bcoo_broadcast_in_dim`.

    >>> import numpy as np
    >>> bcsr_broadcast_in_dim(BCSR.fromdense(np.eye(2)), shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    BCSR(float64[3, 2, 2], nse=2, n_batch=1)
    """
    del sharding
    found = reshaping.bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions)
    return BCSR.from_bcoo(found)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Matrices one after the other along a batch or sparse dimension.

    >>> import numpy as np
    >>> bcsr_concatenate([BCSR.fromdense(np.eye(2))] * 2, dimension=0)
    BCSR(float64[4, 2], nse=4)
    """
    return BCSR.from_bcoo(reshaping.bcoo_concatenate([mat.to_bcoo() for mat in operands], dimension=dimension))


def empty_bcsr(
    shape: Sequence[int],
    *,
    dtype: npt.DTypeLike | None = None,
    index_dtype: npt.DTypeLike = np.int32,
    n_dense: int = 0,
    n_batch: int = 0,
    nse: int = 0,
) -> BCSR:
    """A matrix of zeros, with padding for so many elements."""
    sizes = tuple(shape)
    if min(n_batch, n_dense) < 0 or len(sizes) != n_batch + 2 + n_dense:
        raise ShapeError(
            f"empty: a BCSR has two sparse dimensions, got shape {sizes}, n_batch={n_batch}, n_dense={n_dense}"
        )
    batch = sizes[:n_batch]
    return BCSR(
        (
            tnp.zeros((*batch, nse, *sizes[n_batch + 2 :]), dtype),
            tnp.full((*batch, nse), sizes[n_batch + 1], index_dtype),
            tnp.zeros((*batch, sizes[n_batch] + 1), index_dtype),
        ),
        shape=sizes,
    )
