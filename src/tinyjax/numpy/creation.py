"""Arrays from nothing, from Python's lists and scalars, and from NumPy's arrays.

While a function is staged, these record equations: constants that are broadcast, and iota.
"""

from __future__ import annotations

import math
from typing import Final, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.elementwise import (
    apply,
    astype,
    broadcast_shapes,
    broadcast_to,
    inexact_dtype,
    user_dtype,
)
from tinyjax.arrays.promotion import result_type
from tinyjax.arrays.shaping import (
    canonical_axis,
    concatenate,
    expand_dims,
    integer,
    moveaxis,
)
from tinyjax.backend import DeviceLike
from tinyjax.errors import ChoiceError, InputError, ShapeError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    FLOAT0,
    FLOAT64,
    INTEGERS,
    DType,
    real_dtype,
)
from tinyjax.lax.explicit import described_sharding, device_like, sharding_like
from tinyjax.lax.layouts import OutSharding, laid_out, varying_as
from tinyjax.lax.types_said import Described, described
from tinyjax.numpy.arguments import iota, placed, scalar, shape_of
from tinyjax.numpy.from_python import array_of, element_dtype, filling
from tinyjax.numpy.signatures import Nested, ShapeLike, Typed
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.conversion import conversion
from tinyjax.primitives.rounding import floor
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import float0_zeros

#: So many axes NumPy's arrays have at most.
_MOST_AXES: Final = 64

# From what is there.


def asarray(
    a: Nested,
    dtype: npt.DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array, or a copy of NumPy's arrays and of lists. Python scalars are weakly typed unless a dtype is given.

    With a `device` it is there, or as a NamedSharding says. (So it is with that of other functions; but what is being
    traced stays as it is, unless it is to lie on a mesh.)
    """
    if isinstance(a, Array):
        found = array(a, dtype, copy=bool(copy), order=order, device=device)
        if copy is False and found is not a:
            raise ChoiceError(f"asarray: {a.aval} can't have another dtype or device without a copy. Leave copy out.")
        return laid_out(found, out_sharding)
    if isinstance(a, np.ndarray) and isinstance(a, np.ma.MaskedArray):
        a = as_array(a)  # which refuses it
    if copy is False:
        raise ChoiceError("asarray: what isn't an array yet is always copied, so copy can't be False")
    return laid_out(array(a, dtype, order=order, device=device), out_sharding)


def array(
    object: Nested,
    dtype: npt.DTypeLike | None = None,
    *,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """A new array of these elements; nested sequences become axes. Later writes to a NumPy array don't change it.

    >>> array([[1, 2], [3, 4]], "float32")
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if order not in (None, "K", "C"):
        raise UnsupportedError(f"array: the order of elements in memory can't be chosen, got order={order!r}")
    if isinstance(object, np.ndarray) and isinstance(object, np.ma.MaskedArray):
        object = np.asarray(object)  # with all its elements, as NumPy's `array` has them
    out = array_of(object, element_dtype(dtype), copy)
    missing = integer(ndmin, "array: ndmin") - out.aval.ndim
    if missing > 0 and out.aval.ndim + missing > _MOST_AXES:
        raise ShapeError(f"array: ndmin is at most {_MOST_AXES}, as NumPy has it, got {ndmin}")
    return laid_out(placed(expand_dims(out, range(missing)) if missing > 0 else out, device), out_sharding)


# Filled with one value.


def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array filled with one value, or with an array that is broadcast."""
    sizes, chosen = shape_of(shape), element_dtype(dtype)
    return laid_out(placed(broadcast_to(filling(fill_value, chosen), sizes), device), out_sharding)


def zeros(
    shape: ShapeLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of zeros: float64 unless a dtype is given."""
    return laid_out(placed(_filled(shape, 0, dtype), device), out_sharding)


def ones(
    shape: ShapeLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of ones: float64 unless a dtype is given."""
    return laid_out(placed(_filled(shape, 1, dtype), device), out_sharding)


def empty(
    shape: ShapeLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array whose elements don't matter: zeros. float64 unless a dtype is given."""
    return laid_out(placed(_filled(shape, 0, dtype), device), out_sharding)


def _filled(shape: ShapeLike, value: int, dtype: npt.DTypeLike | None) -> Array:
    if isinstance(dtype, np.dtype) and dtype == FLOAT0:  # the tangent of integers, which holds nothing
        return float0_zeros(shape_of(shape))
    return broadcast_to(scalar(value, element_dtype(float if dtype is None else dtype) or FLOAT64), shape_of(shape))


def full_like(
    a: ArrayLike | ShapedArray | Typed | Described,
    fill_value: ArrayLike,
    dtype: npt.DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """An array of the type of a, filled with one value. It is where a is: on a device that a was put on, or on
    several."""
    said = described(a)
    aval = as_array(a).aval if said is None else said
    if out_sharding is None and device is None and shape is None:
        out_sharding = sharding_like(a) if isinstance(a, Array) else described_sharding(a)
    if out_sharding is None and device is None:
        device = device_like(a)
    sizes, chosen = aval.shape if shape is None else shape_of(shape), element_dtype(dtype)
    if chosen is not None or not aval.weak_type:
        value = filling(fill_value, aval.dtype if chosen is None else chosen)
    else:
        (value,) = bind(conversion(aval.dtype, True), as_array(fill_value))
    return laid_out(placed(broadcast_to(varying_as(value, aval), sizes), device), out_sharding)


def zeros_like(
    a: ArrayLike | ShapedArray | Typed | Described,
    dtype: npt.DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Zeros of the type of a."""
    return laid_out(full_like(a, 0, dtype, shape, device=device), out_sharding)


def ones_like(
    a: ArrayLike | ShapedArray | Typed | Described,
    dtype: npt.DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Ones of the type of a."""
    return laid_out(full_like(a, 1, dtype, shape, device=device), out_sharding)


def empty_like(
    prototype: ArrayLike | ShapedArray | Typed | Described,
    dtype: npt.DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Array:
    """An array of the type of another, whose elements don't matter: zeros."""
    return full_like(prototype, 0, dtype, shape, device=device)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """The same elements in memory of their own."""
    return array(a, order=order)


# Ranges.


def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers from `start` (0 if it is the only argument) up to `stop`, without it, `step` apart.

    >>> arange(3), arange(1.0, 2.0, 0.25)
    (Array([0, 1, 2], dtype=int64), Array([1.  , 1.25, 1.5 , 1.75], dtype=float64))
    """
    given = [as_array(start), *(as_array(x) for x in (stop, step) if x is not None)]
    if any(x.aval.shape != () for x in given):
        raise ShapeError(f"arange takes scalars, got {', '.join(str(x.aval) for x in given)}")
    chosen = user_dtype(dtype) or result_type(x.aval for x in given)[0]
    numbers = [x.item() for x in given]
    first, last = (0, numbers[0]) if stop is None else (numbers[0], numbers[1])
    apart = 1 if step is None else numbers[-1]
    if isinstance(first, complex) or isinstance(last, complex) or isinstance(apart, complex):
        raise ChoiceError("arange takes integers and floats, not complex numbers")
    if apart == 0:
        raise InputError("arange: step can't be 0")
    if any(map(math.isnan, (first, last, apart))):
        raise InputError("arange: no size is known of a range with nan")
    if math.isinf(first) or math.isinf(last):
        raise ChoiceError(f"arange: start and stop must be finite, got {first} and {last}")
    if isinstance(first, int) and isinstance(last, int) and isinstance(apart, int):
        size = len(range(first, last, apart))
    else:
        size = max(0, math.ceil((last - first) / apart))
    if chosen == BOOL:
        return laid_out(placed(arange(first, last, apart) != 0, device), out_sharding)
    out = iota(chosen, (size,), 0)
    out = out if apart == 1 else out * scalar(apart, chosen)
    return laid_out(placed(out if first == 0 else out + scalar(first, chosen), device), out_sharding)


@overload
def linspace(
    start: ArrayLike, stop: ArrayLike, num: SupportsIndex = 50, endpoint: bool = True, retstep: Literal[False] = False,
    dtype: npt.DTypeLike | None = None, axis: SupportsIndex = 0, *, device: DeviceLike | None = None,
) -> Array: ...  # fmt: skip
@overload
def linspace(
    start: ArrayLike, stop: ArrayLike, num: SupportsIndex = 50, endpoint: bool = True, *, retstep: Literal[True],
    dtype: npt.DTypeLike | None = None, axis: SupportsIndex = 0, device: DeviceLike | None = None,
) -> tuple[Array, Array]: ...  # fmt: skip
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: npt.DTypeLike | None = None,
    axis: SupportsIndex = 0,
    *,
    device: DeviceLike | None = None,
) -> Array | tuple[Array, Array]:
    """`num` numbers, evenly spaced from `start` to `stop`, along a new axis. With `retstep`, also how far apart."""
    count, low, high = integer(num, "linspace: num"), as_array(start), as_array(stop)
    if count < 0:
        raise ShapeError(f"linspace: num is at least 0, got {count}")
    result = user_dtype(dtype) or inexact_dtype(result_type((low.aval, high.aval))[0])
    within = inexact_dtype(result)
    sizes = broadcast_shapes(low.aval.shape, high.aval.shape)
    at = canonical_axis(axis, len(sizes) + 1, "linspace")
    low, high = astype(low, within), astype(high, within)
    out = placed(_spaced(low, high, count, bool(endpoint), at, result), device)
    return (out, _distance(low, high, count, bool(endpoint))) if retstep else out


@prepared
def _spaced(low: Array, high: Array, count: int, endpoint: bool, at: int, result: DType) -> Array:
    within = low.aval.dtype
    sizes = broadcast_shapes(low.aval.shape, high.aval.shape)
    low, high = broadcast_to(low, sizes), broadcast_to(high, sizes)
    spaces = count - 1 if endpoint else count
    if spaces > 0:
        counted = iota(real_dtype(within), (spaces, *[1] * len(sizes)), 0) / spaces
        out = low * (1 - counted) + high * counted
        out = concatenate([out, expand_dims(high, 0)], 0) if endpoint else out
    else:
        out = broadcast_to(low, (count, *sizes))
    out = moveaxis(out, 0, at)
    return astype(apply(floor, out) if result in INTEGERS else out, result)


@prepared
def _distance(low: Array, high: Array, count: int, endpoint: bool) -> Array:
    """How far apart such numbers are."""
    sizes = broadcast_shapes(low.aval.shape, high.aval.shape)
    spaces = count - 1 if endpoint else count
    if spaces <= 0:
        return scalar(math.nan, low.aval.dtype)
    return (broadcast_to(high, sizes) - broadcast_to(low, sizes)) / spaces


@prepared
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: npt.DTypeLike | None = None,
    axis: SupportsIndex = 0,
) -> Array:
    """The base to powers that are evenly spaced from `start` to `stop`."""
    chosen = user_dtype(dtype)
    within = None if chosen is None else inexact_dtype(chosen)
    powers = as_array(base) ** linspace(start, stop, num, endpoint, dtype=within, axis=axis)
    return powers if chosen is None else astype(powers, chosen)
