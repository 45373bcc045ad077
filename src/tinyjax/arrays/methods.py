"""The methods and properties that NumPy users reach for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, SupportsIndex

import numpy.typing as npt

from tinyjax.arrays import arithmetic, elementwise, products, reductions, shaping, taking
from tinyjax.arrays.at import IndexUpdates
from tinyjax.arrays.operators import Operators
from tinyjax.arrays.products import PrecisionLike
from tinyjax.arrays.reductions import Axis
from tinyjax.errors import ShapeError, UnsupportedError
from tinyjax.ir.dtypes import DType, Scalar
from tinyjax.ir.shapes import Shape
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.conversion import copy
from tinyjax.tracebacks import filter_class, filtered_method

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike


def refuse_out(name: str, out: None) -> None:
    """`out` is there because NumPy's own functions pass it on to methods."""
    if out is not None:
        raise UnsupportedError(f"{name}: out is not supported, because arrays are immutable. Use the result instead.")


def refuse_kind(name: str, *given: None) -> None:
    """`kind` and `order` are there because NumPy's own functions pass them on."""
    if given != (None, None):
        raise UnsupportedError(
            f"{name}: kind and order are not supported. stable says whether equal elements stay in order."
        )


@filter_class
class Methods(Operators):
    """Mirrors the methods of `numpy.ndarray`. Where an argument is missing, so is the feature."""

    __slots__ = ()

    # The type.

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def nbytes(self) -> int:
        return self.aval.nbytes

    @property
    def itemsize(self) -> int:
        return self.aval.dtype.itemsize

    @property
    def weak_type(self) -> bool:
        """Whether the dtype yields to that of other operands, because the value came from a Python scalar."""
        return self.aval.weak_type

    # Shapes.

    @property
    @filtered_method
    def T(self) -> Array:  # noqa: N802
        """The axes in reverse order."""
        return shaping.transpose(self._array)

    @property
    @filtered_method
    def mT(self) -> Array:  # noqa: N802
        """The last two axes exchanged."""
        return shaping.matrix_transpose(self._array)

    def reshape(self, *shape: SupportsIndex | Iterable[SupportsIndex], order: str = "C") -> Array:
        """The same elements in another shape, given as a tuple or as arguments; one size may be -1."""
        return shaping.reshape(self._array, _spread("reshape", shape), order)

    def ravel(self, order: str = "C") -> Array:
        """The elements in one axis."""
        return shaping.ravel(self._array, order)

    def flatten(self, order: str = "C") -> Array:
        """The elements in one axis."""
        return shaping.ravel(self._array, order)

    def squeeze(self, axis: SupportsIndex | Iterable[SupportsIndex] | None = None) -> Array:
        """The array without axes of size 1: all of them, or these."""
        return shaping.squeeze(self._array, axis)

    def transpose(self, *axes: SupportsIndex | Iterable[SupportsIndex] | None) -> Array:
        """The axes in this order, given as a tuple or as arguments; reversed by default."""
        if axes in ((), (None,)):
            return shaping.transpose(self._array)
        order = _spread("transpose", axes)
        return shaping.transpose(self._array, order if isinstance(order, Iterable) else (order,))

    def swapaxes(self, axis1: SupportsIndex, axis2: SupportsIndex) -> Array:
        """Two axes exchanged."""
        return shaping.swapaxes(self._array, axis1, axis2)

    def repeat(self, repeats: SupportsIndex, axis: SupportsIndex | None = None) -> Array:
        """Each element this many times, along an axis or in row-major order."""
        return shaping.repeat(self._array, repeats, axis)

    def diagonal(self, offset: SupportsIndex = 0, axis1: SupportsIndex = 0, axis2: SupportsIndex = 1) -> Array:
        """The elements whose index along `axis2` is that along `axis1` plus `offset`, as the last axis."""
        return shaping.diagonal(self._array, offset, axis1, axis2)

    def trace(
        self,
        offset: SupportsIndex = 0,
        axis1: SupportsIndex = 0,
        axis2: SupportsIndex = 1,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
    ) -> Array:
        """The sum of the diagonal."""
        refuse_out("trace", out)
        return reductions.trace(self._array, offset, axis1, axis2, dtype)

    # Elements.

    @property
    @filtered_method
    def real(self) -> Array:
        """The real part."""
        return arithmetic.real(self._array)

    @property
    @filtered_method
    def imag(self) -> Array:
        """The imaginary part."""
        return arithmetic.imag(self._array)

    def conj(self) -> Array:
        """The complex conjugate."""
        return arithmetic.conjugate(self._array)

    def conjugate(self) -> Array:
        """The complex conjugate."""
        return arithmetic.conjugate(self._array)

    def astype(self, dtype: npt.DTypeLike | None, copy: bool = False) -> Array:
        """The elements converted to a dtype; None is float64. Arrays are immutable, so `copy` makes no difference."""
        found = elementwise.user_dtype(float if dtype is None else dtype)
        return self._array if found is None else elementwise.astype(self._array, found)

    def copy(self) -> Array:
        """The same elements in memory of their own."""
        return elementwise.apply(copy, self._array)

    def round(self, decimals: int = 0, out: None = None) -> Array:
        """Rounded to this many decimals, halves to even."""
        refuse_out("round", out)
        return arithmetic.round_(self._array, decimals)

    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None, out: None = None) -> Array:
        """The elements, raised to `min` and lowered to `max`."""
        refuse_out("clip", out)
        x = self._array
        bounds = [None if bound is None else x._operands(bound)[1] for bound in (min, max)]
        return arithmetic.clip(x, bounds[0], bounds[1])

    def dot(
        self,
        b: ArrayLike,
        *,
        precision: PrecisionLike = None,
        preferred_element_type: npt.DTypeLike | None = None,
    ) -> Array:
        """The sum over the last axis of this array and the last but one of b; for scalars the product."""
        return products.dot(self._array, self._operands(b)[1], precision, preferred_element_type)

    # Reductions.

    @prepared
    def sum(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        promote_integers: bool = True,
    ) -> Array:
        """The sum over axes, all by default. Bools and integers are added as 64-bit integers."""
        refuse_out("sum", out)
        return reductions.sum_(
            self._array, axis, dtype, keepdims, self._option(initial), self._option(where), promote_integers
        )

    @prepared
    def prod(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        promote_integers: bool = True,
    ) -> Array:
        """The product over axes, all by default. Bools and integers are multiplied as 64-bit integers."""
        refuse_out("prod", out)
        return reductions.prod(
            self._array, axis, dtype, keepdims, self._option(initial), self._option(where), promote_integers
        )

    @prepared
    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """The maximum over axes, all by default: nan if there is one."""
        refuse_out("max", out)
        return reductions.max_(self._array, axis, keepdims, self._option(initial), self._option(where))

    @prepared
    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """The minimum over axes, all by default: nan if there is one."""
        refuse_out("min", out)
        return reductions.min_(self._array, axis, keepdims, self._option(initial), self._option(where))

    def all(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
    ) -> Array:
        """Whether no element is zero."""
        refuse_out("all", out)
        return reductions.all_(self._array, axis, keepdims, self._option(where))

    def any(
        self, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
    ) -> Array:
        """Whether any element isn't zero."""
        refuse_out("any", out)
        return reductions.any_(self._array, axis, keepdims, self._option(where))

    def mean(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        """The mean over axes, all by default: a float."""
        refuse_out("mean", out)
        return reductions.mean(self._array, axis, dtype, keepdims, self._option(where))

    def var(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array:
        """The variance over axes, all by default. The divisor is the number of elements minus `correction` (`ddof`)."""
        refuse_out("var", out)
        return reductions.var(
            self._array, axis, dtype, _correction(ddof, correction), keepdims, self._option(where), self._option(mean)
        )

    def std(
        self,
        axis: Axis = None,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array:
        """The standard deviation over axes: the square root of the variance."""
        refuse_out("std", out)
        return reductions.std(
            self._array, axis, dtype, _correction(ddof, correction), keepdims, self._option(where), self._option(mean)
        )

    def ptp(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
        """The maximum minus the minimum."""
        refuse_out("ptp", out)
        return reductions.ptp(self._array, axis, keepdims)

    # Along an axis.

    def argmax(self, axis: SupportsIndex | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        """The index of the first maximum, along an axis or in row-major order."""
        refuse_out("argmax", out)
        return reductions.argmax(self._array, axis, bool(keepdims))

    def argmin(self, axis: SupportsIndex | None = None, out: None = None, keepdims: bool | None = None) -> Array:
        """The index of the first minimum, along an axis or in row-major order."""
        refuse_out("argmin", out)
        return reductions.argmin(self._array, axis, bool(keepdims))

    def cumsum(self, axis: SupportsIndex | None = None, dtype: npt.DTypeLike | None = None, out: None = None) -> Array:
        """The sums of all elements so far, along an axis or in row-major order."""
        refuse_out("cumsum", out)
        return reductions.cumsum(self._array, axis, dtype)

    def cumprod(self, axis: SupportsIndex | None = None, dtype: npt.DTypeLike | None = None, out: None = None) -> Array:
        """The products of all elements so far, along an axis or in row-major order."""
        refuse_out("cumprod", out)
        return reductions.cumprod(self._array, axis, dtype)

    def sort(
        self,
        axis: SupportsIndex | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        """The elements in order along an axis, as a new array."""
        refuse_kind("sort", kind, order)
        return reductions.sort(self._array, axis, stable, descending)

    def argsort(
        self,
        axis: SupportsIndex | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        """The indices that sort along an axis."""
        refuse_kind("argsort", kind, order)
        return reductions.argsort(self._array, axis, stable, descending)

    # Some of the elements.

    @property
    def at(self) -> IndexUpdates:
        """`x.at[index].set(values)` is what x would be after `x[index] = values`, as a new array; likewise `add`,
        `subtract`, `multiply`, `divide`, `power`, `min`, `max`, `apply` and `get`."""
        return IndexUpdates(self._array)

    def take(
        self,
        indices: ArrayLike,
        axis: SupportsIndex | None = None,
        out: None = None,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: Scalar | None = None,
    ) -> Array:
        """The elements at these positions along an axis, or in row-major order."""
        refuse_out("take", out)
        x, positions = self._operands(indices)
        return taking.take(x, positions, axis, mode, unique_indices, indices_are_sorted, fill_value)

    def _option(self, value: ArrayLike | None) -> Array | None:
        """An optional argument as an array."""
        return None if value is None else self._operands(value)[1]


def _spread(
    name: str, sizes: tuple[SupportsIndex | Iterable[SupportsIndex] | None, ...]
) -> SupportsIndex | Iterable[SupportsIndex]:
    """What was given as several arguments or as one tuple."""
    if len(sizes) == 1 and sizes[0] is not None:
        return sizes[0]
    # Protocols are slow to check, so plain integers come first.
    listed = [size for size in sizes if type(size) is int or isinstance(size, SupportsIndex)]
    if len(listed) != len(sizes):
        raise ShapeError(f"{name} takes integers, or one sequence of them, got {sizes}")
    return tuple(listed)


def _correction(ddof: float, correction: float | None) -> float:
    if correction is None:
        return ddof
    if ddof != 0:
        raise ShapeError("var and std take ddof or correction, not both")
    return correction
