"""Matrices by coordinates, by rows and by columns, without batches: JAX's older formats. `BCOO` and `BCSR` do more."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Self, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

import tinyjax.numpy as tnp
from tinyjax.errors import InputError, ShapeError, UnsupportedError
from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.experimental.sparse.bcoo import BCOO, bcoo_fromdense, eye_bcoo
from tinyjax.experimental.sparse.bcsr import BCSR
from tinyjax.ir.shapes import as_shape
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


class Matrix(JAXSparse):
    """What they have in common: three vectors and a shape."""

    __slots__ = ("_aux", "_first", "_second")

    data: Array
    #: Two vectors of integers, and what is known besides: the shape first.
    _first: Array
    _second: Array
    _aux: tuple[tuple[int, int], bool, bool]

    def __init__(
        self, args: tuple[ArrayLike, ArrayLike, ArrayLike], shape: Sequence[int], one: bool = False, other: bool = False
    ) -> None:
        super().__init__()
        name, sizes = type(self).__name__, as_shape(shape)
        if len(sizes) != 2:
            raise ShapeError(f"{name}: the shape must be that of a matrix, got {sizes}")
        arrays = list(map(as_array, args))
        if len(arrays) != 3 or any(x.ndim != 1 for x in arrays):
            raise ShapeError(f"{name} takes three vectors, got {[x.aval for x in arrays]}")
        self.data, self._first, self._second = arrays
        self._aux = ((sizes[0], sizes[1]), one, other)

    @property
    @override
    def shape(self) -> tuple[int, int]:
        return self._aux[0]

    @property
    @override
    def nse(self) -> int:
        return self.data.shape[0]

    @override
    def tree_flatten(self) -> tuple[tuple[Array, Array, Array], Hashable]:
        """Its vectors, and its shape."""
        return (self.data, self._first, self._second), self._aux

    @classmethod
    @override
    def tree_unflatten(cls, aux_data: Hashable, children: Iterable[Array]) -> Self:
        """One with these vectors, or with what a tree has in their place."""
        node = object.__new__(cls)
        data, first, second = children
        node.data, node._first, node._second = data, first, second
        match aux_data:
            case ((int() as rows, int() as columns), bool() as one, bool() as other):
                node._aux = ((rows, columns), one, other)
            case _:
                raise InputError(f"{cls.__name__}.tree_unflatten: {aux_data!r} isn't what tree_flatten returns")
        return node

    def to_bcoo(self) -> BCOO:
        """The same matrix as a BCOO."""
        raise NotImplementedError

    @override
    def todense(self) -> Array:
        return self.to_bcoo().todense()

    @override
    def __matmul__(self, other: JAXSparse | ArrayLike) -> Array:
        if isinstance(other, JAXSparse):
            raise UnsupportedError(f"@ isn't defined for {self!r} and {other!r}. Write .to_bcoo() for both.")
        return product(self.to_bcoo(), other, False)


def product(mat: BCOO, other: ArrayLike, transpose: bool) -> Array:
    """A matrix, or its transpose, times a vector or matrix."""
    found = (mat.T if transpose else mat) @ as_array(other)
    if isinstance(found, BCOO):
        raise UnsupportedError(f"{found!r} isn't dense")
    return found


def check_axes(name: str, axes: Sequence[int] | None) -> None:
    """An InputError unless the axes are to be reversed."""
    if axes is not None and tuple(axes) != (1, 0):
        raise InputError(f"{name}.transpose exchanges rows and columns, and takes no other axes, got {axes!r}")


@final
class COO(Matrix):
    """A matrix as elements, rows and columns, three vectors. `rows_sorted` and `cols_sorted`: what is known of these.

    >>> import numpy as np
    >>> COO((np.array([1.0, 2.0]), np.array([0, 1]), np.array([1, 0])), shape=(2, 2)).todense()
    Array([[0., 1.],
           [2., 0.]], dtype=float64)
    """

    __slots__ = ()

    def __init__(
        self,
        args: tuple[ArrayLike, ArrayLike, ArrayLike],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        super().__init__(args, shape, rows_sorted, cols_sorted)

    @property
    def row(self) -> Array:
        """The row of each element."""
        return self._first

    @property
    def col(self) -> Array:
        """The column of each element."""
        return self._second

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: npt.DTypeLike = np.int32) -> COO:
        """As `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @override
    def to_bcoo(self) -> BCOO:
        return BCOO((self.data, tnp.stack([self.row, self.col], axis=-1)), shape=self.shape)

    @override
    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        check_axes("COO", axes)
        _, rows_sorted, cols_sorted = self._aux
        parts = (self.data, self.col, self.row)
        return COO(parts, shape=self.shape[::-1], rows_sorted=cols_sorted, cols_sorted=rows_sorted)


@final
class CSR(Matrix):
    """A matrix by rows: elements, their columns, and where each row begins.

    >>> import numpy as np
    >>> CSR((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 1, 2])), shape=(2, 2)).todense()
    Array([[0., 1.],
           [2., 0.]], dtype=float64)
    """

    __slots__ = ()

    def __init__(self, args: tuple[ArrayLike, ArrayLike, ArrayLike], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape)

    @property
    def indices(self) -> Array:
        """The column of each element."""
        return self._first

    @property
    def indptr(self) -> Array:
        """Where each row begins."""
        return self._second

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: npt.DTypeLike = np.int32) -> CSR:
        """As `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @override
    def to_bcoo(self) -> BCOO:
        return BCSR((self.data, self.indices, self.indptr), shape=self.shape).to_bcoo()

    @override
    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        check_axes("CSR", axes)
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@final
class CSC(Matrix):
    """A matrix by columns: elements, their rows, and where each column begins.

    >>> import numpy as np
    >>> CSC.fromdense(np.array([[0.0, 1.0], [2.0, 3.0]])).data
    Array([2., 1., 3.], dtype=float64)
    """

    __slots__ = ()

    def __init__(self, args: tuple[ArrayLike, ArrayLike, ArrayLike], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape)

    @property
    def indices(self) -> Array:
        """The row of each element."""
        return self._first

    @property
    def indptr(self) -> Array:
        """Where each column begins."""
        return self._second

    @classmethod
    def fromdense(cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: npt.DTypeLike = np.int32) -> CSC:
        """The elements of a matrix that aren't zero, column by column."""
        return csr_fromdense(as_array(mat).T, nse=nse, index_dtype=index_dtype).transpose()

    @override
    def to_bcoo(self) -> BCOO:
        return self.transpose().to_bcoo().T

    @override
    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        check_axes("CSC", axes)
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def coo_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: npt.DTypeLike = np.int32) -> COO:
    """The elements of a matrix that aren't zero, in order of rows.

    >>> import numpy as np
    >>> coo_fromdense(np.eye(2))
    COO(float64[2, 2], nse=2)
    """
    return coo_of(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype))


def coo_of(found: BCOO) -> COO:
    """A matrix whose elements are in order."""
    return COO((found.data, found.indices[:, 0], found.indices[:, 1]), shape=found.shape, rows_sorted=True)


def csr_of(found: BCOO) -> CSR:
    """The same by rows."""
    rows = BCSR.from_bcoo(found)
    return CSR((rows.data, rows.indices, rows.indptr), shape=rows.shape)


def csr_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: npt.DTypeLike = np.int32) -> CSR:
    """The elements of a matrix that aren't zero, row by row.

    >>> import numpy as np
    >>> csr_fromdense(np.eye(2))
    CSR(float64[2, 2], nse=2)
    """
    return csr_of(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype))


def coo_todense(mat: COO) -> Array:
    """The matrix that a COO stands for.

    >>> import numpy as np
    >>> coo_todense(COO.fromdense(np.ones((1, 2))))
    Array([[1., 1.]], dtype=float64)
    """
    return mat.todense()


def csr_todense(mat: CSR) -> Array:
    """The matrix that a CSR stands for.

    >>> import numpy as np
    >>> csr_todense(CSR.fromdense(np.ones((1, 2))))
    Array([[1., 1.]], dtype=float64)
    """
    return mat.todense()


def coo_matvec(mat: COO, v: ArrayLike, transpose: bool = False) -> Array:
    """The matrix, or its transpose, times a vector.

    >>> import numpy as np
    >>> coo_matvec(COO.fromdense(np.ones((1, 2))), np.array([1.0, 2.0]))
    Array([3.], dtype=float64)
    """
    return product(mat.to_bcoo(), v, transpose)


def coo_matmat(mat: COO, B: ArrayLike, *, transpose: bool = False) -> Array:  # noqa: N803
    """The matrix, or its transpose, times a matrix.

    >>> import numpy as np
    >>> coo_matmat(COO.fromdense(np.ones((1, 2))), np.ones((2, 1)))
    Array([[2.]], dtype=float64)
    """
    return product(mat.to_bcoo(), B, transpose)


def csr_matvec(mat: CSR, v: ArrayLike, transpose: bool = False) -> Array:
    """The matrix, or its transpose, times a vector.

    >>> import numpy as np
    >>> csr_matvec(CSR.fromdense(np.ones((1, 2))), np.array([1.0]), transpose=True)
    Array([1., 1.], dtype=float64)
    """
    return product(mat.to_bcoo(), v, transpose)


def csr_matmat(mat: CSR, B: ArrayLike, *, transpose: bool = False) -> Array:  # noqa: N803
    """The matrix, or its transpose, times a matrix.

    >>> import numpy as np
    >>> csr_matmat(CSR.fromdense(np.ones((1, 2))), np.ones((2, 1)))
    Array([[2.]], dtype=float64)
    """
    return product(mat.to_bcoo(), B, transpose)


def empty_coo(
    shape: Sequence[int], *, dtype: npt.DTypeLike | None = None, index_dtype: npt.DTypeLike = np.int32
) -> COO:
    """A matrix of zeros."""
    none = tnp.zeros(0, index_dtype)
    return COO((tnp.zeros(0, dtype), none, none), shape=shape, rows_sorted=True, cols_sorted=True)


def empty_csr(
    shape: Sequence[int], *, dtype: npt.DTypeLike | None = None, index_dtype: npt.DTypeLike = np.int32
) -> CSR:
    """A matrix of zeros."""
    begins = tnp.zeros(next(iter(shape)) + 1, index_dtype)
    return CSR((tnp.zeros(0, dtype), tnp.zeros(0, index_dtype), begins), shape=shape)


def empty_csc(
    shape: Sequence[int], *, dtype: npt.DTypeLike | None = None, index_dtype: npt.DTypeLike = np.int32
) -> CSC:
    """A matrix of zeros."""
    return empty_csr(tuple(shape)[::-1], dtype=dtype, index_dtype=index_dtype).transpose()


def eye_coo(rows: int, columns: int, k: int, *, dtype: npt.DTypeLike | None = None, index_dtype: npt.DTypeLike) -> COO:
    """Ones on a diagonal."""
    return coo_of(eye_bcoo(rows, columns, k, dtype=dtype, index_dtype=index_dtype))


def eye_csr(rows: int, columns: int, k: int, *, dtype: npt.DTypeLike | None = None, index_dtype: npt.DTypeLike) -> CSR:
    """Ones on a diagonal."""
    return csr_of(eye_bcoo(rows, columns, k, dtype=dtype, index_dtype=index_dtype))


def eye_csc(rows: int, columns: int, k: int, *, dtype: npt.DTypeLike | None = None, index_dtype: npt.DTypeLike) -> CSC:
    """Ones on a diagonal."""
    return eye_csr(columns, rows, -k, dtype=dtype, index_dtype=index_dtype).transpose()
