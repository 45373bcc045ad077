"""The methods and properties that NumPy users reach for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal, SupportsIndex

import numpy.typing as npt

from tinyjax import arrays
from tinyjax.arrays import (
    along_axis,
    arithmetic,
    comparisons,
    elementwise,
    products,
    reductions,
    reinterpretation,
    repeating,
    shaping,
)
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.placed import Placed
from tinyjax.arrays.shaping import integers
from tinyjax.backend import DeviceLike
from tinyjax.deferred import LAID_OUT, NUMPY_FUNCTIONS
from tinyjax.errors import ChoiceError, InputError, ShapeError, UnsupportedError
from tinyjax.ir.dtypes import DType, Scalar
from tinyjax.ir.shapes import Shape
from tinyjax.meshes import NamedSharding, PartitionSpec, Sharding
from tinyjax.primitives.conversion import copy
from tinyjax.tracebacks import filter_class, filtered_method

if TYPE_CHECKING:
    from tinyjax.arrays.at import IndexUpdates
    from tinyjax.tracing.array import Array, ArrayLike


@filter_class
class Methods(Placed):
    """Mirrors the methods of `numpy.ndarray`. Where an argument is missing, so is the feature.

    Those that are functions of `tinyjax.numpy` as well are declared once, as functions: their first argument is self.
    """

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

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The module with the functions of the array API standard: `tinyjax.numpy`."""
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ChoiceError(f"__array_namespace__: the version is '2024.12', or an earlier one, not {api_version!r}")
        return NUMPY_FUNCTIONS.use()

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

    def reshape(
        self,
        *shape: SupportsIndex | Iterable[SupportsIndex],
        order: str = "C",
        out_sharding: NamedSharding | PartitionSpec | None = None,
    ) -> Array:
        """The same elements in another shape, given as a tuple or as arguments; one size may be -1. `out_sharding` says
        how they lie on a mesh."""
        sizes = _spread("reshape", shape)
        if out_sharding is None:
            return shaping.reshape(self._array, sizes, order)
        return LAID_OUT.use(lambda x: shaping.reshape(x, sizes, order), [self._array], out_sharding)

    ravel: Final = shaping.ravel
    flatten: Final = shaping.ravel
    squeeze: Final = shaping.squeeze

    def transpose(self, *axes: SupportsIndex | Iterable[SupportsIndex] | None) -> Array:
        """The axes in this order, given as a tuple or as arguments; reversed by default."""
        if not axes or (len(axes) == 1 and axes[0] is None):
            return shaping.transpose(self._array)
        return shaping.transpose(self._array, integers(_spread("transpose", axes), "transpose: an axis"))

    swapaxes: Final = shaping.swapaxes
    repeat: Final = repeating.repeat
    diagonal: Final = shaping.diagonal
    trace: Final = reductions.trace

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

    conj: Final = arithmetic.conjugate
    conjugate: Final = arithmetic.conjugate

    def astype(
        self, dtype: npt.DTypeLike | None, copy: bool = False, device: DeviceLike | Sharding | None = None
    ) -> Array:
        """The elements converted to a dtype, on a device if one is given; a dtype of None is float64. With `copy` in
        memory of their own, also where there is nothing to convert."""
        converted = elementwise.converted(self._array, float if dtype is None else dtype)
        if device is not None:
            converted = converted.to_device(device)
        return converted.copy() if copy and converted is self._array else converted

    def copy(self) -> Array:
        """The same elements in memory of their own."""
        return elementwise.apply(copy, self._array)

    def view(self, dtype: npt.DTypeLike | None = None, type: None = None) -> Array:
        """The same bytes as elements of another dtype: the last axis is longer or shorter where its size differs."""
        if type is not None:
            raise UnsupportedError("view: type can't be chosen, an array stays one")
        found = elementwise.user_dtype(dtype)
        return self._array if found is None else reinterpretation.view(self._array, found)

    def byteswap(self) -> Array:
        """The bytes of each element in the other order."""
        return reinterpretation.byteswap(self._array)

    round: Final = arithmetic.round
    clip: Final = arithmetic.clip
    dot: Final = products.dot

    # Along axes.

    sum: Final = reductions.sum
    prod: Final = reductions.prod
    max: Final = reductions.max
    min: Final = reductions.min
    ptp: Final = reductions.ptp
    all: Final = reductions.all
    any: Final = reductions.any
    mean: Final = reductions.mean
    var: Final = reductions.var
    std: Final = reductions.std
    argmax: Final = along_axis.argmax
    argmin: Final = along_axis.argmin
    cumsum: Final = along_axis.cumsum
    cumprod: Final = along_axis.cumprod
    sort: Final = along_axis.sort
    argsort: Final = along_axis.argsort

    def argpartition(self, kth: SupportsIndex, axis: SupportsIndex = -1) -> Array:
        """Positions that bring the elements in order: see `numpy.argpartition`."""
        found: Array = NUMPY_FUNCTIONS.use().argpartition(self, kth, axis)
        return found

    def searchsorted(
        self,
        v: ArrayLike,
        side: str = "left",
        sorter: ArrayLike | None = None,
        *,
        method: Literal["scan", "scan_unrolled", "sort", "compare_all"] = "scan",
    ) -> Array:
        """Where v would have its place in this sorted vector: see `numpy.searchsorted`."""
        found: Array = NUMPY_FUNCTIONS.use().searchsorted(self, v, side, sorter, method=method)
        return found

    # Some of the elements.

    @property
    def at(self) -> IndexUpdates:
        """`x.at[index].set(values)` is what x would be after `x[index] = values`, as a new array; likewise `add`,
        `subtract`, `multiply`, `divide`, `power`, `min`, `max`, `apply` and `get`."""
        return arrays.at.IndexUpdates(self._array)

    def __contains__(self, item: ArrayLike) -> bool:
        """Whether any element of a vector is equal to a scalar."""
        if self.aval.ndim != 1:
            raise ShapeError(f"in: the array must have one axis, got {self.aval}. Write (x == value).any().")
        found = self._binary(comparisons.equal, item)
        if found is NotImplemented:
            raise InputError(f"in: an element of an array is a number, and {item!r} is none")
        if found.aval.shape != self.aval.shape or getattr(item, "shape", ()) != ():
            raise ShapeError(f"in: an element of an array is a scalar, and {item!r} is none")
        return bool(reductions.any(found))

    def nonzero(
        self, *, size: int | None = None, fill_value: ArrayLike | Sequence[ArrayLike] | None = None
    ) -> tuple[Array, ...]:
        """The positions of elements that aren't zero: see `numpy.nonzero`."""
        found: tuple[Array, ...] = NUMPY_FUNCTIONS.use().nonzero(self, size=size, fill_value=fill_value)
        return found

    def compress(
        self,
        condition: ArrayLike,
        axis: SupportsIndex | None = None,
        *,
        out: None = None,
        size: int | None = None,
        fill_value: ArrayLike = 0,
    ) -> Array:
        """What is where a condition holds along an axis: see `numpy.compress`."""
        compress = NUMPY_FUNCTIONS.use().compress
        found: Array = compress(condition, self, axis, out=out, size=size, fill_value=fill_value)
        return found

    def choose(self, choices: Sequence[ArrayLike] | ArrayLike, out: None = None, mode: str = "raise") -> Array:
        """Of several arrays, the elements of those that these numbers say: see `numpy.choose`."""
        found: Array = NUMPY_FUNCTIONS.use().choose(self, choices, out, mode)
        return found

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
        return arrays.taking.take(x, positions, axis, mode, unique_indices, indices_are_sorted, fill_value)


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
