"""Whole numbers and their bits: common divisors, exponents of floats, bits as elements."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

from tinyjax.arrays import reductions, shaping
from tinyjax.arrays.arithmetic import absolute, refuse_complex
from tinyjax.arrays.elementwise import (
    astype,
    broadcast_shapes,
    broadcast_to,
    constant_like,
    promote,
    promote_inexact,
    where,
)
from tinyjax.arrays.shaping import canonical_axis, integer, moveaxis, ravel, reshape
from tinyjax.errors import ChoiceError, InputError
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    UINT8,
    UINT32,
    UINT64,
    integer_limits,
)
from tinyjax.lax.binary import rem
from tinyjax.lax.loops import while_loop
from tinyjax.numpy.arithmetic import clip, maximum
from tinyjax.numpy.creation import asarray
from tinyjax.numpy.logic import isfinite
from tinyjax.numpy.manipulation import pad
from tinyjax.prepared import closed
from tinyjax.prepared.functions import prepared, prepared_as
from tinyjax.primitives.annotations import optimization_barrier
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


def _integers(name: str, x1: ArrayLike, x2: ArrayLike) -> tuple[Array, Array]:
    x, y = promote(asarray(x1), asarray(x2))
    if x.dtype not in INTEGERS:
        raise ChoiceError(f"{name} takes integers, got {x.aval} and {y.aval}")
    return x, y


def _sizes(x: Array, y: Array) -> tuple[Array, Array]:
    shape = broadcast_shapes(x.shape, y.shape)
    return broadcast_to(absolute(astype(x, x.dtype)), shape), broadcast_to(absolute(astype(y, y.dtype)), shape)


def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The greatest common divisor.

    >>> gcd(12, np.array([8, 9]))
    Array([4, 3], dtype=int64)
    """
    return _gcd(*_integers("gcd", x1, x2))


@prepared_as(closed.gcd)
def _gcd(x: Array, y: Array) -> Array:
    return _divisor(*_sizes(x, y))


def _divisor(x: Array, y: Array) -> Array:
    def step(pair: tuple[Array, Array]) -> tuple[Array, Array]:
        a, b = pair
        done = b == 0
        return where(done, a, b), where(done, b, rem(a, where(done, constant_like(b, 1), b)))

    # The least integer has no absolute value, and comes in as it is.
    return absolute(while_loop(lambda pair: reductions.any(pair[1] != 0), step, (x, y))[0])


def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The least common multiple: 0 if one is 0.

    >>> lcm(4, np.array([6, 0]))
    Array([12,  0], dtype=int64)
    """
    return _lcm(*_integers("lcm", x1, x2))


@prepared_as(closed.lcm)
def _lcm(x: Array, y: Array) -> Array:
    x, y = _sizes(x, y)
    divisor = _divisor(x, y)
    return where(divisor == 0, divisor, x // where(divisor == 0, constant_like(divisor, 1), divisor) * y)


# Floats as a fraction and an exponent.

#: The integers that int32 has not all of.
_BEYOND = frozenset({INT64, UINT32, UINT64})
#: For each float dtype the integers of its size, the bits of its fraction, and the exponent of numbers below 1.
_LAYOUT = {
    FLOAT16: (INT16, 10, 14),
    BFLOAT16: (INT16, 7, 126),
    FLOAT32: (INT32, 23, 126),
    FLOAT64: (INT64, 52, 1022),
}


@prepared_as(closed.frexp)
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """A fraction of magnitude between 0.5 and 1, and an int32 exponent of 2, whose product is x.

    >>> frexp(6.0)
    (Array(0.75, dtype=float64), Array(3, dtype=int32))
    """
    (found,) = promote_inexact(as_array(x))
    refuse_complex("frexp", found)
    whole, bits, bias = _LAYOUT[found.dtype]
    # Numbers too small for their exponent gain one first.
    small = absolute(found) < 2.0 ** (1 - bias)
    scaled = where(small, found * 2.0 ** (bits + 1), found)
    (pattern,) = bind(BitcastConvertType(whole), scaled)
    mask = (1 << (8 * whole.itemsize - 1 - bits)) - 1
    exponent = ((pattern >> bits) & mask) - bias
    plain = isfinite(found) & (found != 0)
    exponent = where(small, exponent - (bits + 1), exponent)
    exponent = astype(where(plain, exponent, constant_like(exponent, 0)), INT32)
    # Bits have no derivative; the product with a power of 2 has, and it is exact.
    return where(plain, ldexp(scaled, where(small, -exponent - (bits + 1), -exponent)), found), exponent


@prepared
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 times 2 to the power of the integer x2.

    >>> ldexp(0.75, 3)
    Array(6., dtype=float64)
    """
    (x,), n = promote_inexact(as_array(x1)), as_array(x2)
    refuse_complex("ldexp", x)
    if n.dtype not in INTEGERS and n.dtype != BOOL:
        raise ChoiceError(f"ldexp: the exponent must be an integer, got {n.aval}")
    whole, bits, bias = _LAYOUT[x.dtype]
    least, greatest = -4 * bias, 4 * bias
    if n.dtype in _BEYOND:
        n = astype(n.clip(least if n.dtype == INT64 else None, greatest), INT32)
    else:
        n = astype(n, INT32).clip(least, greatest)
    # In steps, each of which is a number of the dtype: the product may be, where the power isn't.
    for left in range(3, -1, -1):
        part = n.clip(-bias + 1, bias)
        pattern = astype(part + bias, whole) + 1
        # XLA would multiply powers that it knows before x, to one that may be infinite.
        (power,) = bind(optimization_barrier, *bind(BitcastConvertType(x.dtype), pattern << bits))
        x, n = x * power, n - part if left else n
    return x


@prepared_as(closed.of_floats(np.spacing))
def spacing(x: ArrayLike, /) -> Array:
    """The distance to the next float away from 0, with the sign of x; of a float16, that to the next float above, as in
    NumPy. It is infinite where there is none.

    >>> spacing(np.float64(1))
    Array(2.22044605e-16, dtype=float64)
    """
    (found,) = promote_inexact(as_array(x))
    refuse_complex("spacing", found)
    # Made of bits: a difference of neighbours may be subnormal, and XLA's arithmetic makes that 0.
    whole, bits, _ = _LAYOUT[found.dtype]
    (pattern,) = bind(BitcastConvertType(whole), found)
    negative = (pattern < 0) & (pattern != integer_limits(whole)[0])
    magnitude = pattern & integer_limits(whole)[1]
    if found.dtype == FLOAT16:
        magnitude, negative = where(negative, magnitude - 1, magnitude), constant_like(negative, False)
    exponent = maximum(magnitude >> bits, 1)
    normal = maximum(exponent - bits, 0) << bits
    subnormal = constant_like(pattern, 1) << clip(exponent - 1, 0, bits - 1)
    (size,) = bind(BitcastConvertType(found.dtype), where(exponent > bits, normal, subnormal))
    greatest = (((1 << (8 * whole.itemsize - 1 - bits)) - 1) << bits) - 1
    size = where(magnitude == greatest, constant_like(size, np.inf), size)
    return where(isfinite(found), where(negative, -size, size), constant_like(found, np.nan))


# Bits as elements.


def _bit_order(name: str, bitorder: str) -> Array:
    if bitorder not in ("big", "little"):
        raise ChoiceError(f"{name}: bitorder is 'big' or 'little', not {bitorder!r}")
    places = np.arange(8, dtype=np.uint8)
    return as_array(places[::-1].copy() if bitorder == "big" else places)


@prepared_as(closed.packbits)
def packbits(a: ArrayLike, axis: SupportsIndex | None = None, bitorder: str = "big") -> Array:
    """The elements along an axis, or in row-major order, as bits of uint8: whether they aren't zero, eight to a number.

    >>> packbits(np.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    x, places = as_array(a), _bit_order("packbits", bitorder)
    if x.dtype not in INTEGERS and x.dtype != BOOL:
        raise InputError(f"packbits takes integers and bools, got {x.aval}")
    if axis is None:
        x, axis = ravel(x), 0
    at = canonical_axis(axis, x.ndim, "packbits")
    bits = moveaxis(astype(x != 0, UINT8), at, -1)
    bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, -bits.shape[-1] % 8)])
    groups = reshape(bits, (*bits.shape[:-1], bits.shape[-1] // 8, 8)) << places
    return moveaxis(reductions.sum(groups, -1, UINT8), -1, at)


def unpackbits(
    a: ArrayLike, axis: SupportsIndex | None = None, count: SupportsIndex | None = None, bitorder: str = "big"
) -> Array:
    """The bits of uint8 along an axis, or in row-major order, as elements; so many of them, or all but so many if
    `count` is negative.

    >>> unpackbits(np.array([160], "uint8"), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    x, places = as_array(a), _bit_order("unpackbits", bitorder)
    if x.dtype != UINT8:
        raise InputError(f"unpackbits takes uint8, got {x.aval}")
    if axis is None:
        x, axis = ravel(x), 0
    at = canonical_axis(axis, x.ndim, "unpackbits")
    rows = moveaxis(x, at, -1)
    bits = (shaping.expand_dims(rows, -1) >> places) & 1
    bits = reshape(bits, (*rows.shape[:-1], rows.shape[-1] * 8))
    if count is not None:
        wanted, size = integer(count, "unpackbits: count"), bits.shape[-1]
        if wanted > size:
            bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, wanted - size)])
        else:
            bits = bits[..., :wanted]
    return moveaxis(bits, -1, at)
