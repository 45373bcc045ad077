"""Arrays stored by batched coordinates, with NumPy's operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

import tinyjax.numpy as tnp
from tinyjax.arrays.shaping import canonical_axes, canonical_axis
from tinyjax.errors import UnsupportedError
from tinyjax.experimental.sparse import conversion, elementwise, layouts, slices
from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.experimental.sparse.products import matmul
from tinyjax.experimental.sparse.storage import Coordinates, check_layout
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


class _OfScipy(Protocol):
    """A matrix of `scipy.sparse`."""

    def tocoo(self) -> Any: ...  # SciPy has no types


@final
class BCOO(Coordinates):
    """An array of which some elements are stored, with their indices: batched coordinates.

    Args:
      args: `data`, of shape (*batch, nse, *dense), and `indices`, integers of shape (*batch, nse, n_sparse). Elements
        with the same indices are summed; those with an index beyond the shape are padding, and count for nothing.
      shape: (*batch, *sparse, *dense).
      indices_sorted: whether it is known that indices are in lexicographic order.
      unique_indices: whether it is known that none of them, other than padding, is there twice in a batch.

    Operators are those of arrays: `+`, `-`, `*` and `@` with sparse arrays and others, `/` and `**` by what isn't
    sparse, indexing. What would make a dense array of it unasked is refused; `todense()` asks.

    It is a node of trees with the leaves `data` and `indices`. A transformation that maps it goes along a batch
    dimension; derivatives are those of the stored elements (see `grad`).

    >>> import numpy as np
    >>> mat = BCOO.fromdense(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]]))
    >>> mat
    BCOO(float64[2, 3], nse=3)
    >>> mat.data, mat.indices
    (Array([2., 1., 4.], dtype=float64), Array([[0, 1],
           [1, 0],
           [1, 2]], dtype=int32))
    >>> mat @ np.ones(3)
    Array([2., 5.], dtype=float64)
    >>> (mat + mat.T.T)[1].todense()
    Array([2., 0., 8.], dtype=float64)
    """

    __slots__ = ()

    @classmethod
    def fromdense(
        cls,
        mat: ArrayLike,
        *,
        nse: int | None = None,
        index_dtype: npt.DTypeLike = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """As `bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)

    @classmethod
    def from_scipy_sparse(
        cls, mat: _OfScipy, *, index_dtype: npt.DTypeLike | None = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """A matrix of `scipy.sparse`."""
        if n_dense or n_batch:
            raise UnsupportedError("BCOO.from_scipy_sparse makes no batch or dense dimensions. update_layout does.")
        found = mat.tocoo()
        indices = np.stack([found.row, found.col], axis=-1).astype(index_dtype or np.int32)
        return BCOO((as_array(found.data), as_array(indices)), shape=found.shape)

    @override
    def todense(self) -> Array:
        return conversion.bcoo_todense(self)

    @override
    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The axes in another order, those of each kind among themselves; reversed by default."""
        order = (
            range(self.ndim)[::-1] if axes is None else [canonical_axis(axis, self.ndim, "transpose") for axis in axes]
        )
        return layouts.bcoo_transpose(self, permutation=order)

    @property
    @override
    def T(self) -> BCOO:
        """The axes in reverse order."""
        return self.transpose()

    def update_layout(
        self, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
    ) -> BCOO:
        """As `bcoo_update_layout`."""
        return layouts.bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same with indices in order, none of them twice in a batch, and without stored zeros unless
        `remove_zeros` is False. `nse` is how many elements it stores, which `jit` must be told."""
        if remove_zeros:
            return conversion.without_zeros(self, nse)
        return conversion.bcoo_sum_duplicates(self, nse)

    def sort_indices(self) -> BCOO:
        """The same with indices in order."""
        return conversion.bcoo_sort_indices(self)

    def astype(self, dtype: npt.DTypeLike) -> BCOO:
        """With elements of another dtype."""
        return self.with_data(self.data.astype(dtype))

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> BCOO:
        """The same elements in another shape, given as a tuple or as arguments; one size may be -1."""
        sizes = [int(size) for part in shape for size in (part if isinstance(part, Sequence) else (part,))]
        return slices.reshaped(self, sizes)

    def sum(self, axis: int | Sequence[int] | None = None, dtype: npt.DTypeLike | None = None) -> BCOO | Array:
        """Sums along axes, all by default: then it is an array without axes. The dtype is that of `numpy.sum`."""
        axes = canonical_axes(axis, self.ndim, "sum")
        kind = tnp.sum(tnp.zeros(0, self.dtype), dtype=dtype).dtype
        return elementwise.total(self.astype(kind), axes)

    def __abs__(self) -> BCOO:
        return elementwise.each(self, tnp.abs)

    def __neg__(self) -> BCOO:
        return elementwise.negative(self)

    def __pos__(self) -> BCOO:
        return self

    @override
    def __matmul__(self, other: JAXSparse | ArrayLike) -> BCOO | Array:
        return _found(matmul(self, _operand("@", other)))

    @override
    def __rmatmul__(self, other: JAXSparse | ArrayLike) -> BCOO | Array:
        return _found(matmul(_operand("@", other), self))

    def __mul__(self, other: JAXSparse | ArrayLike) -> BCOO:
        return elementwise.multiply(self, _operand("*", other))

    __rmul__ = __mul__

    def __truediv__(self, other: JAXSparse | ArrayLike) -> BCOO:
        return elementwise.divide(self, _operand("/", other))

    def __add__(self, other: JAXSparse | ArrayLike) -> BCOO | Array:
        return elementwise.add(self, _operand("+", other))

    __radd__ = __add__

    def __sub__(self, other: JAXSparse | ArrayLike) -> BCOO | Array:
        return elementwise.subtract(self, _operand("-", other))

    def __rsub__(self, other: JAXSparse | ArrayLike) -> BCOO | Array:
        return elementwise.add(elementwise.negative(self), _operand("-", other))

    def __pow__(self, power: float) -> BCOO:
        """To a positive power: others would make something of zeros."""
        if not power > 0:
            raise UnsupportedError(f"a sparse array has powers by positive numbers that are known, not by {power!r}")
        return elementwise.each(self, lambda x: x**power)

    def __getitem__(self, item: object) -> BCOO:
        return slices.indexed(self, item)

    def __iter__(self) -> Iterator[BCOO]:
        return (self[i] for i in range(self.shape[0]))


def _operand(what: str, x: JAXSparse | ArrayLike) -> Coordinates | ArrayLike:
    if isinstance(x, JAXSparse) and not isinstance(x, Coordinates):
        raise UnsupportedError(f"{what} isn't defined for a BCOO and {x!r}. Write .to_bcoo() or .todense().")
    return x


def _found(x: Coordinates | Array) -> BCOO | Array:
    if isinstance(x, BCOO | Array):
        return x
    raise UnsupportedError(f"{x!r} is no BCOO")


def bcoo_fromdense(
    mat: ArrayLike,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: npt.DTypeLike = np.int32,
) -> BCOO:
    """The elements of an array that aren't zero, and where they are.

    Args:
      nse: how many are stored in each batch: those that are missing are padding, those that are too many are left out.
        By default as many as there are, which must be known: within `jit`, say it.
      n_batch: how many of the first dimensions are batch dimensions.
      n_dense: how many of the last dimensions are dense.

    >>> import numpy as np
    >>> bcoo_fromdense(np.array([[0.0, 2.0], [1.0, 4.0]]), n_batch=1)
    BCOO(float64[2, 2], nse=2, n_batch=1)
    """
    array = as_array(mat)
    stored = conversion.stored_elements(array, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return BCOO(stored, shape=array.shape, indices_sorted=True, unique_indices=True)


def empty_bcoo(
    shape: Sequence[int],
    *,
    dtype: npt.DTypeLike | None = None,
    index_dtype: npt.DTypeLike = np.int32,
    n_dense: int = 0,
    n_batch: int = 0,
    nse: int = 0,
) -> BCOO:
    """An array of zeros, with padding for so many elements."""
    sizes = tuple(shape)
    n_batch, n_sparse, _ = check_layout("empty", len(sizes), n_batch, n_dense)
    batch, sparse, dense = sizes[:n_batch], sizes[n_batch : n_batch + n_sparse], sizes[n_batch + n_sparse :]
    data = tnp.zeros((*batch, nse, *dense), dtype)
    indices = tnp.broadcast_to(tnp.asarray(sparse, dtype=index_dtype).reshape(n_sparse), (*batch, nse, n_sparse))
    return BCOO((data, indices), shape=sizes, indices_sorted=True, unique_indices=True)


def eye_bcoo(
    rows: int,
    columns: int,
    k: int,
    *,
    dtype: npt.DTypeLike | None = None,
    index_dtype: npt.DTypeLike = np.int32,
    n_batch: int = 0,
    n_dense: int = 0,
) -> BCOO:
    """Ones on a diagonal."""
    n_batch, _, n_dense = check_layout("eye", 2, n_batch, n_dense)
    if n_batch or n_dense:
        return bcoo_fromdense(
            tnp.eye(rows, columns, k, dtype=dtype), n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype
        )
    size = max(0, min(rows, columns - k) if k > 0 else min(rows + k, columns))
    steps = np.arange(size)
    indices = np.stack([steps - min(k, 0), steps + max(k, 0)], axis=-1).astype(index_dtype)
    return BCOO(
        (tnp.ones(size, dtype), as_array(indices)),
        shape=(rows, columns),
        indices_sorted=True,
        unique_indices=True,
    )
