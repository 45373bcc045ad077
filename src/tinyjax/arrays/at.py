"""`x.at[index]`: arrays with some of their elements replaced, as new arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.arrays import advanced_indexing, arithmetic, index_keys
from tinyjax.arrays.basic_indexing import Index, is_basic
from tinyjax.arrays.elementwise import astype, broadcast_to, convert, full_like, where
from tinyjax.arrays.lossy import warn_of_loss
from tinyjax.arrays.promotion import result_type
from tinyjax.arrays.shaping import expand_dims, squeeze
from tinyjax.deferred import FORI_LOOP, LAID_OUT
from tinyjax.errors import InputError
from tinyjax.ir.dtypes import BOOL, COMPLEXES, INEXACT, INT64, Scalar
from tinyjax.ir.result_types import made_once
from tinyjax.meshes import NamedSharding, PartitionSpec
from tinyjax.primitives.arithmetic import Max, Min
from tinyjax.primitives.conversion import conversion
from tinyjax.primitives.dynamic import DynamicUpdateSlice
from tinyjax.primitives.elementwise import Elementwise, add, mul
from tinyjax.primitives.gather import ScatterAdd, Scattering
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.slicing import Concatenate, Slice
from tinyjax.primitives.windows import GatherScatterMode, ScatterDimensionNumbers
from tinyjax.tracebacks import filter_class

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike

#: How a result is to lie on a mesh; None: as XLA likes.
OutSharding: TypeAlias = NamedSharding | PartitionSpec | None
ModeLike: TypeAlias = str | GatherScatterMode | None
#: What each scatter does to an element; None: it replaces it.
_ELEMENTWISE: dict[type[Scattering], Elementwise | None] = {
    Scatter: None,
    ScatterAdd: add,
    ScatterMul: mul,
    ScatterMin: Min(),
    ScatterMax: Max(),
}
#: The largest position for which 32 bits do.
_LARGEST: Final = np.iinfo(np.int32).max


def scatter(
    kind: type[Scattering],
    x: Array,
    key: Index,
    values: Array,
    mode: ModeLike,
    indices_are_sorted: bool,
    unique_indices: bool,
    wrap: bool,
) -> Array:
    """x with the elements at `key` updated by `values`, which are broadcast to them. The result has x's type."""
    aval = x.aval
    warn_of_loss(x, values)
    dtype, _ = result_type([aval.strengthen(), values.aval])
    x, values = convert(x, dtype, aval.weak_type), astype(values, dtype)
    settled = GatherScatterMode.from_any(mode)
    key_of_x = index_keys.parse(x, key, wrap)
    whole = expand_dims(x, key_of_x.added) if key_of_x.added else x
    found = advanced_indexing.windows(whole.shape, key_of_x)
    if 0 in found.shape or found.missing is not None:  # nothing is updated
        return x if x.aval == aval else _restored(x, aval.dtype, aval.weak_type)
    values = squeeze(broadcast_to(values, found.shape), found.added)
    vectors, combine = found.positions, _ELEMENTWISE[kind]
    if vectors is None:
        out = values if combine is None else whole._bind(combine, whole, values)[0]
    elif isinstance(vectors, np.ndarray) and vectors.ndim == 1 and found.within and not _keeps_tangent(kind, whole):
        out = _with_box(whole, found, vectors.tolist(), values, combine)
    else:
        if not isinstance(vectors, np.ndarray):
            indices = vectors
        elif vectors.ndim == 1 and found.within:
            indices, settled = _spelled_out(whole, vectors.tolist()), GatherScatterMode.PROMISE_IN_BOUNDS
        else:
            indices = whole._operands(vectors)[1]
        dims, ordered = ScatterDimensionNumbers.of(found.dims), found.ascending
        primitive = kind(dims, settled, indices_are_sorted or ordered, unique_indices or ordered)
        (out,) = whole._bind(primitive, whole, indices, values)
    if key_of_x.added:
        out = squeeze(out, key_of_x.added)
    return _restored(out, aval.dtype, aval.weak_type)


def _keeps_tangent(kind: type[Scattering], x: Array) -> bool:
    """Whether all of x keeps its tangent, which a scatter says, and a slice that is written over doesn't."""
    return kind is ScatterAdd and x.aval.dtype in INEXACT and x.concrete() is None


def _spelled_out(x: Array, vector: list[int]) -> Array:
    """The only index vector, of numbers in the program, not of an array that it closes over."""
    dtype = np.int32 if max(vector) <= _LARGEST else np.int64
    entries = [broadcast_to(x._operands(dtype(entry))[1], (1,)) for entry in vector]
    return entries[0] if len(entries) == 1 else x._bind(made_once(Concatenate, 0), *entries)[0]


def _with_box(
    x: Array, found: advanced_indexing.Windows, vector: list[int], values: Array, combine: Elementwise | None
) -> Array:
    """x with one window, which is known and within it, updated: no scatter is needed."""
    starts = [0] * x.ndim
    for axis, start in zip(found.dims.start_index_map, vector, strict=True):
        starts[axis] = start
    dropped = found.dims.collapsed_slice_dims
    box = expand_dims(values, dropped) if dropped else values
    if combine is not None:
        limits = tuple(start + size for start, size in zip(starts, found.sizes, strict=True))
        (old,) = x._bind(made_once(Slice, tuple(starts), limits), x)
        (box,) = x._bind(combine, old, box)
    return x._bind(made_once(DynamicUpdateSlice), x, box, *advanced_indexing.scalars(x, starts))[0]


def _restored(x: Array, dtype: np.dtype[np.generic], weak_type: bool) -> Array:
    aval = x.aval
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    if aval.dtype in COMPLEXES and dtype not in COMPLEXES:
        x = arithmetic.real(x)
    return x._bind(conversion(dtype, weak_type), x)[0]


@final
@filter_class
@frozen(eq=False, repr=False)
class IndexUpdates:
    """The property `at`: `x.at[index]` can be updated."""

    array: Array

    def __getitem__(self, index: Index) -> IndexUpdate:
        return IndexUpdate(self.array, index)

    @override
    def __repr__(self) -> str:
        return f"{self.array!r}.at"


@final
@filter_class
@frozen(eq=False, repr=False)
class IndexUpdate:
    """Some elements of an array. Each method returns a new array; the array itself stays as it is.

    Repeated positions are all updated; which of several values `set` leaves isn't said. `mode` is what becomes of
    positions out of range: "drop" or "fill" (by default, where they are updated), "clip", or "promise_in_bounds" (by
    default, where they are only read). `wrap_negative_indices`: negative positions count from the end.
    `indices_are_sorted` and `unique_indices` are promises, which may make it faster. `out_sharding` says how the result
    lies on a mesh.

    >>> import numpy as np
    >>> from tinyjax.tracing.concrete import as_array
    >>> as_array(np.zeros(3)).at[1].set(5.0)
    Array([0., 5., 0.], dtype=float64)
    """

    array: Array
    index: Index

    @override
    def __repr__(self) -> str:
        return f"{self.array!r}.at[{self.index!r}]"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        fill_value: ArrayLike | None = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """`x[index]`. Where it is out of range and the mode is "fill": `fill_value`, by default nan, the least signed
        or the greatest unsigned integer, or True."""
        settled = None if mode is None else GatherScatterMode.from_any(mode)
        filled = None if fill_value is None else _known_scalar(self.array, fill_value)

        def taken(x: Array) -> Array:
            return advanced_indexing.get(
                x, self.index, settled, filled, indices_are_sorted, unique_indices, wrap_negative_indices
            )

        return taken(self.array) if out_sharding is None else LAID_OUT.use(taken, [self.array], out_sharding)

    def _lying(
        self, out_sharding: OutSharding, values: ArrayLike, updated: Callable[[IndexUpdate, ArrayLike], Array]
    ) -> Array:
        """What becomes of the array, which lies on a mesh as `out_sharding` says."""
        if out_sharding is None:
            return updated(self, values)
        operands = self.array._operands(values)
        return LAID_OUT.use(lambda x, y: updated(IndexUpdate(x, self.index), y), operands, out_sharding)

    def _updated(
        self, kind: type[Scattering], values: ArrayLike, mode: ModeLike, is_sorted: bool, unique: bool, wrap: bool
    ) -> Array:
        x, operand = self.array._operands(values)
        return scatter(kind, x, self.index, operand, mode, is_sorted, unique, wrap)

    def set(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] = values`."""
        return self._lying(
            out_sharding,
            values,
            lambda at, y: at._updated(Scatter, y, mode, indices_are_sorted, unique_indices, wrap_negative_indices),
        )

    def add(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] += values`, where each of repeated positions counts."""
        return self._lying(
            out_sharding,
            values,
            lambda at, y: at._updated(ScatterAdd, y, mode, indices_are_sorted, unique_indices, wrap_negative_indices),
        )

    def subtract(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] -= values`, where each of repeated positions counts."""
        (_, operand) = self.array._operands(values)
        warn_of_loss(self.array, operand)
        if operand.aval.dtype != BOOL:
            dtype, _ = result_type([self.array.aval.strengthen(), operand.aval])
            operand = arithmetic.negative(convert(operand, dtype))
        return self._lying(
            out_sharding,
            operand,
            lambda at, y: at._updated(ScatterAdd, y, mode, indices_are_sorted, unique_indices, wrap_negative_indices),
        )

    def multiply(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] *= values`, where each of repeated positions counts."""
        return self._lying(
            out_sharding,
            values,
            lambda at, y: at._updated(ScatterMul, y, mode, indices_are_sorted, unique_indices, wrap_negative_indices),
        )

    mul = multiply

    def _factors(self, values: ArrayLike, mode: ModeLike, is_sorted: bool, unique: bool, wrap: bool) -> Array:
        """Ones, multiplied by the values at these elements."""
        x, operand = self.array._operands(values)
        return scatter(ScatterMul, full_like(x, 1), self.index, operand, mode, is_sorted, unique, wrap)

    def divide(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] /= values`, where each of repeated positions counts. Integers become floats."""

        def updated(at: IndexUpdate, y: ArrayLike) -> Array:
            factors = at._factors(y, mode, indices_are_sorted, unique_indices, wrap_negative_indices)
            return arithmetic.divide(at.array, factors)

        return self._lying(out_sharding, values, updated)

    def power(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] **= values`, where each of repeated positions counts."""

        def updated(at: IndexUpdate, y: ArrayLike) -> Array:
            factors = at._factors(y, mode, indices_are_sorted, unique_indices, wrap_negative_indices)
            return arithmetic.power(at.array, factors)

        return self._lying(out_sharding, values, updated)

    def min(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] = minimum(x[index], values)`."""
        return self._lying(
            out_sharding,
            values,
            lambda at, y: at._updated(ScatterMin, y, mode, indices_are_sorted, unique_indices, wrap_negative_indices),
        )

    def max(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        out_sharding: OutSharding = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] = maximum(x[index], values)`."""
        return self._lying(
            out_sharding,
            values,
            lambda at, y: at._updated(ScatterMax, y, mode, indices_are_sorted, unique_indices, wrap_negative_indices),
        )

    def apply(
        self,
        func: Callable[[Array], Array],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: ModeLike = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """As after `x[index] = func(x[index])`, for a function of each element. Where positions are repeated, so is it.

        (With `unique_indices=True` that isn't looked for: then there are derivatives even if the positions are traced.)
        """
        x = self.array
        if not callable(func):
            raise InputError(f"apply: func is a function of an array, got {func!r}")
        if not unique_indices and not all(map(is_basic, self.index if isinstance(self.index, tuple) else [self.index])):
            none = astype(full_like(astype(x, INT64), 0), INT64)
            times = IndexUpdate(none, self.index).add(1, mode=mode, wrap_negative_indices=wrap_negative_indices)
            most = times.max(initial=0)
            known = most.concrete()
            if known is None or int(np.asarray(known.data)) > 1:
                return FORI_LOOP.use(0, most, lambda i, y: where(i < times, astype(func(y), x.dtype), y), x)
        taken = self.get(mode=mode, wrap_negative_indices=wrap_negative_indices)
        changed = astype(func(taken), self.array.dtype)
        return self._updated(Scatter, changed, mode, indices_are_sorted, unique_indices, wrap_negative_indices)


def _known_scalar(x: Array, value: ArrayLike) -> Scalar:
    """A fill value as a Python number."""
    operand = x._operands(value)[1]
    if operand.ndim:
        raise InputError(f"fill_value must be a scalar, got {operand.aval}")
    warn_of_loss(x, operand)
    item: Scalar = operand.item()
    return item
