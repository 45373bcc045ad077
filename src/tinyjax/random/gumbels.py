"""Gumbel's distribution, of the extremes of many numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import FLOAT32, UINT32, DType
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.prepared.functions import prepared
from tinyjax.random.arguments import ShapeLike, dtype_of, number, random_bits, single
from tinyjax.random.drawing import fractions
from tinyjax.tracing.array import Array, ArrayLike


def gumbel(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: npt.DTypeLike | None = None,
    mode: str | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers with Gumbel's distribution, of the extremes of many.

    With `mode="high"` or, for float32, "highest" more bits are used than with "low", the default: for values that are
    rarer than numbers between 0 and 1 are apart.

    >>> from tinyjax.random import key
    >>> gumbel(key(0), (2,))
    Array([ 0.13790566, -0.42599294], dtype=float64)
    """
    one, dtype, sizes = single("gumbel", key), dtype_of("gumbel", dtype, float), as_shape(shape)
    if mode not in (None, "low", "high", "highest"):
        raise ChoiceError(f"Must provide valid mode for gumbel, 'low', 'high' or 'highest', got: {mode}")
    if mode == "highest" and dtype == FLOAT32:
        return laid_out(_finest_gumbel(one, sizes), out_sharding)
    return laid_out(
        _gumbel(one, sizes, dtype) if mode in (None, "low") else _fine_gumbel(one, sizes, dtype), out_sharding
    )


@prepared
def _gumbel(key: Array, shape: Shape, dtype: DType) -> Array:
    return -lax.log(-lax.log(fractions(key, shape, dtype, number(tnp.finfo(dtype).tiny, dtype), 1.0)))


@prepared
def _fine_gumbel(key: Array, shape: Shape, dtype: DType) -> Array:
    info = tnp.finfo(dtype)
    high, low = fractions(key, (2, *shape), dtype)
    found = tnp.where(high >= 0.5, high, high + 2.0**-info.nmant * low + number(info.tiny, dtype))
    return -lax.log(-lax.log1p(-found))


@prepared
def _finest_gumbel(key: Array, shape: Shape) -> Array:
    """Of 64 random bits, of which the half that is nearer to an end is counted from there."""
    drawn = random_bits(key, 32, (2, *shape))
    inverted = ~drawn
    carry = (inverted[1] == np.uint32(2**32 - 1)).astype(UINT32)
    other = tnp.stack([inverted[0] + carry, inverted[1] + np.uint32(1)])
    below = drawn[0] < np.uint32(2**31)
    found = _float_of_bits(tnp.where(below, drawn, other))
    return tnp.where(below, -lax.log(-lax.log1p(-found)), -lax.log(-lax.log(found)))


def _float_of_bits(drawn: Array) -> Array:
    """float32 between 0 and 1 from two words, the upper one first: the leading bits that are set, wherever they are."""
    high, low = drawn
    high_zeros, low_zeros = lax.clz(high), lax.clz(low)
    empty = high_zeros == np.uint32(32)
    rest = tnp.where(empty, low << low_zeros, low >> (np.uint32(32) - high_zeros))
    mantissa = (((high << high_zeros) | rest) >> np.uint32(8)) & np.uint32(2**23 - 1)
    zeros = tnp.where(empty, np.uint32(32) + low_zeros, high_zeros)
    exponent = ((np.uint32(126) - zeros) << np.uint32(23)) & np.uint32(2**30 - 2**22)
    return lax.bitcast_convert_type(exponent | mantissa, FLOAT32)
