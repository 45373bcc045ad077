"""NumPy implementations of what NumPy has no function for, or a different one than XLA.

Where operators are applied, the annotations name one dtype for all those of its kind.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.errors import TypingError
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT8,
    INT16,
    INTEGERS,
    UINT8,
    WIDE,
    DType,
    HostArray,
    bits,
    complex_dtype,
    integer_limits,
)
from tinyjax.ir.shapes import Shape
from tinyjax.primitives import complex_values

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
_HALF: Final = frozenset({FLOAT16, BFLOAT16})
#: Where NumPy says nothing of overflows, invalid values and divisions by zero. Running in a copy costs a fraction of
#: what `np.errstate` does.
QUIET: Final = contextvars.Context()
QUIET.run(np.seterr, all="ignore")
#: How many bits the exponent and the mantissa of each float have.
_FORMATS: Final = {FLOAT16: (5, 10), BFLOAT16: (8, 7), FLOAT32: (8, 23), FLOAT64: (11, 52)}


def resolution(dtype: DType) -> float:
    """The distance from 1 to the next number of a float."""
    return 2.0 ** -_FORMATS[dtype][1]


def widened(function: Callable[..., HostArray]) -> Callable[..., HostArray]:
    """The function, computed in float32 for the 16-bit floats and rounded once at the end."""

    def apply(*args: HostArray) -> HostArray:
        dtype = args[0].dtype
        if dtype in _HALF:
            return function(*[arg.astype(FLOAT32) for arg in args]).astype(dtype)
        return function(*args)

    return apply


def unsigned(dtype: DType) -> DType:
    """The unsigned integer dtype of the same width."""
    return np.dtype(f"u{dtype.itemsize}")


def as_unsigned(x: HostArray) -> HostArray:
    """The bits of integers as an unsigned number of the same width; of narrow ones, in a byte."""
    if x.dtype not in WIDE:
        return x.view(unsigned(x.dtype))
    return np.bitwise_and(x.astype(WIDE[x.dtype]).view(np.uint8), np.uint8((1 << bits(x.dtype)) - 1))


def identity(x: HostArray) -> HostArray:
    return x


def broadcaster(sizes: Shape, shape: Shape, dtype: DType) -> Callable[[HostArray], HostArray]:
    """What sees arrays with these sizes and repeats them along axes of size 1 to fill `shape`.

    The same as reshape and `np.broadcast_to`, in a fifth of the time.
    """
    stride, strides = dtype.itemsize, []
    for size in sizes[::-1]:
        strides.append(0 if size == 1 else stride)
        stride *= size
    strides.reverse()

    def broadcast(x: HostArray) -> HostArray:
        if not stride or not x.flags.c_contiguous:
            return np.broadcast_to(x.reshape(sizes), shape)
        return np.ndarray(shape, dtype, x, 0, strides)

    return broadcast


# Floats.


def logistic(x: Floats) -> HostArray:
    one = x.dtype.type(1)
    return np.asarray(one / (one + np.exp(-x)))


def rsqrt(x: Floats) -> HostArray:
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def sign(x: Floats) -> HostArray:
    """The sign; of -0.0 it is -0.0."""
    result = np.sign(x)
    return np.asarray(np.copysign(result, x) if x.dtype in FLOATS else result)


def maximum(x: Floats, y: Floats) -> HostArray | np.generic:
    """The larger one, or nan if one is. 0.0 is larger than -0.0, of which NumPy takes any."""
    found = np.maximum(x, y)
    if np.count_nonzero(found) == found.size:
        return found
    return np.where((x == 0) & (y == 0), np.add(x, y), found)


def minimum(x: Floats, y: Floats) -> HostArray | np.generic:
    """The smaller one, or nan if one is. -0.0 is smaller than 0.0, of which NumPy takes any."""
    found = np.minimum(x, y)
    if np.count_nonzero(found) == found.size:
        return found
    return np.where((x == 0) & (y == 0), -np.subtract(-x, y), found)


def reduced(choose: np.ufunc, x: Floats, axes: tuple[int, ...]) -> HostArray | np.generic:
    """The maximum or minimum over axes, `choose` applied to all. 0.0 is above -0.0, which NumPy forgets."""
    found: HostArray = choose.reduce(x, axes)  # by name, an argument takes longer
    if np.count_nonzero(found) == np.size(found):
        return found
    minus = np.signbit(x) if choose is np.minimum else ~np.signbit(x)
    return _signed(choose, found, np.any((x == 0) & minus, axis=axes))


def accumulated(choose: np.ufunc, x: Floats, axis: int) -> HostArray:
    """The same of all elements so far."""
    found = np.asarray(choose.accumulate(x, axis))
    if np.count_nonzero(found) == found.size:
        return found
    minus = np.signbit(x) if choose is np.minimum else ~np.signbit(x)
    return _signed(choose, found, np.logical_or.accumulate((x == 0) & minus, axis))


def take_extremes(choose: np.ufunc, x: HostArray, index: tuple[Integers, ...], updates: HostArray) -> None:
    """Writes to x the maximum or minimum of its elements and all updates of them, zeros ordered too."""
    if x.dtype not in FLOATS:
        choose.at(x, index, updates)
        return
    minus = choose is np.minimum
    preferred = np.signbit(x) == minus
    preferred &= x == 0
    np.logical_or.at(preferred, index, (updates == 0) & (np.signbit(updates) == minus))
    choose.at(x, index, updates)
    x[...] = _signed(choose, x, preferred)


def _signed(choose: np.ufunc, found: HostArray, preferred: HostArray) -> HostArray:
    """The numbers that were chosen; zeros with the sign that comes first where there is one."""
    zeros = np.asarray([0.0, -0.0] if choose is np.minimum else [-0.0, 0.0], found.dtype)
    return np.where(found == 0, np.where(preferred, zeros[1], zeros[0]), found)


def next_after(x: Floats, y: Floats) -> HostArray | np.generic:
    """The number next to x in the direction of y. Where they are equal it is y, which may be the other zero."""
    found = np.nextafter(x, y)
    return np.where(x == y, y, found) if x.dtype == FLOAT16 else found  # NumPy has its own, which forgets that


def round_half_away(x: Floats) -> HostArray:
    """The nearest integers, halves away from zero."""
    whole = np.trunc(x)
    away = np.abs(x - whole) >= x.dtype.type(0.5)
    return np.where(away, whole + np.sign(x), whole) if np.count_nonzero(away) else np.asarray(whole)


def power(x: Floats, y: HostArray) -> HostArray:
    found = np.asarray(np.power(x, y.astype(x.dtype)))
    if y.size == 1 and y == 0.5:  # for which NumPy takes roots, which have other values at -inf and -0.0
        return np.where(np.isneginf(x), x.dtype.type(np.inf), found + x.dtype.type(0))
    return found


def complex_power(x: HostArray, y: HostArray) -> HostArray:
    return complex_values.power(x.astype(x.dtype), y.astype(x.dtype))


def reduce_precision(x: HostArray, exponent_bits: int, mantissa_bits: int) -> HostArray:
    """x rounded to a float format with this many bits, halves to even: beyond its largest number infinite, and zero
    below its smallest normal one."""
    own_exponent, own_mantissa = _FORMATS[x.dtype]
    wide: Floats = x.astype(np.float64)
    mantissa, exponent = np.frexp(wide)
    digits = min(mantissa_bits, own_mantissa) + 1
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, digits)), exponent - digits)
    if exponent_bits < own_exponent:
        largest = 2 ** (exponent_bits - 1)
        exponent = np.frexp(rounded)[1]
        rounded = np.where(exponent > largest, np.copysign(np.inf, wide), rounded)
        rounded = np.where(exponent < 3 - largest, np.copysign(0, wide), rounded)
    return np.where(np.isfinite(wide), rounded, wide).astype(x.dtype)


def conj(x: HostArray) -> HostArray:
    result: HostArray = np.asarray(np.conjugate(x))
    return result if x.dtype in COMPLEXES else result.astype(complex_dtype(x.dtype))


# Integers.


def divide(x: Integers, y: Integers) -> HostArray:
    """The quotient; of integers rounded towards zero, and with all bits set where the divisor is zero."""
    if x.dtype not in INTEGERS:
        return np.asarray(np.divide(x, y))
    found: HostArray = np.floor_divide(x, y)
    opposite = (x ^ y) < 0
    if np.count_nonzero(opposite):
        found = found + (opposite & (np.fmod(x, y) != 0)).astype(x.dtype)
    if np.count_nonzero(y) == np.size(y):
        return np.asarray(found)
    return np.where(y == 0, np.invert(np.zeros((), x.dtype)), found)


def remainder(x: Integers, y: Integers) -> HostArray:
    """The remainder with the sign of the dividend, which an integer divisor of zero leaves as it is."""
    result = np.asarray(np.fmod(x, y))
    if x.dtype not in INTEGERS or np.count_nonzero(y) == y.size:
        return result
    return np.where(y == 0, x, result)


def integer_power(x: HostArray, y: int, divide: Callable[..., HostArray | np.generic]) -> HostArray:
    """x to the power of y by repeated squaring; integers wrap around."""
    result: HostArray | None = None
    square, n = x, abs(y)
    while n:
        if n & 1:
            result = square if result is None else np.multiply(result, square)
        n >>= 1
        if n:
            square = np.multiply(square, square)
    if result is None:
        return np.ones_like(x)
    if y > 0:
        return np.asarray(result)
    one = np.ones((), x.dtype)
    return np.asarray(divide(one, result))


def population_count(x: Integers) -> HostArray:
    return np.asarray(np.bitwise_count(as_unsigned(x))).astype(x.dtype)


def upper_half_of_product(x: Integers, y: Integers) -> HostArray:
    """By halves of the factors, as of unsigned numbers: a negative one is too large by a power of two."""
    if x.dtype in WIDE:
        return np.asarray(np.right_shift(x.astype(INT16) * y.astype(INT16), bits(x.dtype))).astype(x.dtype)
    wide = unsigned(x.dtype)
    half = wide.itemsize * 4
    low = np.asarray((1 << half) - 1, wide)
    u, v = x.astype(wide), y.astype(wide)
    u1, u0, v1, v0 = np.right_shift(u, half), np.bitwise_and(u, low), np.right_shift(v, half), np.bitwise_and(v, low)
    first = u1 * v0 + np.right_shift(u0 * v0, half)
    second = np.bitwise_and(first, low) + u0 * v1
    upper = u1 * v1 + np.right_shift(first, half) + np.right_shift(second, half)
    if x.dtype.kind == "i":
        upper = upper - v * (x < 0) - u * (y < 0)
    return np.asarray(upper).astype(x.dtype)


def count_leading_zeros(x: Integers) -> HostArray:
    filled, width = as_unsigned(x), bits(x.dtype)
    step = 1
    while step < width:
        filled = np.bitwise_or(filled, np.right_shift(filled, step))
        step *= 2
    return np.asarray(width - np.bitwise_count(filled)).astype(x.dtype)


def shift_right_logical(x: Integers, y: Integers) -> HostArray:
    shifted = np.asarray(np.right_shift(as_unsigned(x), as_unsigned(y)))
    return shifted.astype(x.dtype) if x.dtype in WIDE else shifted.view(x.dtype)


def shift_right_arithmetic(x: Integers, y: Integers) -> HostArray:
    if x.dtype in WIDE:  # with the sign bit where a byte has it
        room = 8 - bits(x.dtype)
        lifted = np.left_shift(as_unsigned(x), room).view(INT8)
        return np.asarray(np.right_shift(np.right_shift(lifted, room), as_unsigned(y).view(INT8))).astype(x.dtype)
    signed = np.dtype(f"i{x.dtype.itemsize}")
    return np.asarray(np.right_shift(x.view(signed), y.view(signed))).view(x.dtype)


# All dtypes.


def convert(x: HostArray, dtype: DType) -> HostArray:
    """x converted as XLA does: the real part of a complex number, and floats to the nearest integer that exists."""
    if x.dtype in COMPLEXES and dtype not in COMPLEXES and dtype != BOOL:
        x = x.real
    if x.dtype.names:
        raise TypingError(f"a key of random numbers is no {dtype.name}: tinyjax.random.key_data gives its words")
    x = x.astype(WIDE[x.dtype]) if x.dtype in WIDE else x  # not all of them can be had of each other
    if x.dtype in FLOATS and dtype in INTEGERS:
        return _saturated(x.astype(np.float64), dtype)
    return x.astype(dtype)


def _saturated(x: Floats, dtype: DType) -> HostArray:
    lowest, highest = integer_limits(dtype)
    above, below = x >= float(highest), x <= float(lowest)
    inside = np.where(above | below | np.isnan(x), 0, x).astype(dtype)
    ends = np.asarray([lowest, highest], dtype)
    return np.where(above, ends[1], np.where(below, ends[0], inside))


def bitcast(x: HostArray, dtype: DType) -> HostArray:
    """The same bits read as another dtype; a narrower one adds an axis, and a wider one takes the last one up."""
    whole: HostArray = np.asarray(x, order="C")
    if x.dtype in WIDE or dtype in WIDE:
        return _bitcast_narrow(whole, dtype)
    if dtype.itemsize == x.dtype.itemsize:
        return whole.view(dtype)
    if dtype.itemsize < x.dtype.itemsize:
        return whole.reshape(*x.shape, 1).view(dtype)
    return whole.view(dtype).reshape(x.shape[:-1])


def _bitcast_narrow(x: HostArray, dtype: DType) -> HostArray:
    """The same for what has less than a byte, or may."""
    old, new = bits(x.dtype), bits(dtype)
    digits = np.unpackbits(x.reshape(*x.shape, 1).view(UINT8), axis=-1, bitorder="little")[..., :old]
    shape = (*x.shape, old // new, new) if old > new else (*x.shape[: x.ndim - (old < new)], new)
    packed = np.packbits(digits.reshape(shape), axis=-1, bitorder="little")
    if dtype in INTEGERS and dtype in WIDE:
        return packed[..., 0].astype(dtype)
    return packed.view(dtype)[..., 0]


def select(which: HostArray, *cases: HostArray) -> HostArray:
    """The case that `which` names at each place: the first where it is too small, the last where it is too large."""
    if len(cases) == 1:
        return np.broadcast_to(cases[0], np.broadcast_shapes(which.shape, cases[0].shape))
    if which.dtype == BOOL:
        no, yes = cases
        if which.shape == no.shape == yes.shape and no.dtype == yes.dtype and no.ndim:  # as most are: this is quicker
            chosen = no.copy()
            np.putmask(chosen, which, yes)
            return chosen
        return np.where(which, yes, no)
    chosen = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        chosen = np.where(which <= i, cases[i], chosen)
    return chosen


def clamp(low: HostArray, x: HostArray, high: HostArray) -> HostArray:
    return np.asarray(np.minimum(np.maximum(low, x), high))


def clamp_floats(low: Floats, x: Floats, high: Floats) -> HostArray:
    return np.asarray(minimum(np.asarray(maximum(low, x), x.dtype), high))
