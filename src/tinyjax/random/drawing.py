"""What samplers are made of, for arguments that have been checked: uniform and normal numbers."""

from __future__ import annotations

import math

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.ir.dtypes import COMPLEXES, DType, real_dtype
from tinyjax.ir.shapes import Shape
from tinyjax.prepared.functions import prepared
from tinyjax.primitives.key_generators import WIDTHS
from tinyjax.random.arguments import converted, halves, number, random_bits
from tinyjax.tracing.array import Array, ArrayLike


def fractions(key: Array, shape: Shape, dtype: DType, minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0) -> Array:
    """Uniformly distributed ones: the mantissa is random, of numbers from 1 to 2, which are shifted."""
    return _between(key, converted(minval, dtype), converted(maxval, dtype), shape)


@prepared
def _between(key: Array, low: Array, high: Array, shape: Shape) -> Array:
    dtype = low.aval.dtype
    info, width = tnp.finfo(dtype), 8 * dtype.itemsize
    # Where fewer than eight bits are needed, eight are made: of them the others are kept.
    made = 8 if info.nmant < 8 else width
    unsigned = WIDTHS[width]
    mantissa = random_bits(key, made, shape).astype(unsigned) >> number(made - info.nmant, unsigned)
    one = np.asarray(1, dtype)
    floats = lax.bitcast_convert_type(mantissa | one.view(unsigned), dtype) - number(1, dtype)
    return tnp.maximum(low, floats * (high - low) + low)


@prepared
def gaussian(key: Array, shape: Shape, dtype: DType) -> Array:
    """Standard normal ones."""
    if dtype in COMPLEXES:
        re, im = (gaussian(part, shape, real_dtype(dtype)) for part in halves(key))
        return lax.complex(re, im) / number(math.sqrt(2), dtype)
    low = np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype))
    return number(math.sqrt(2), dtype) * lax.erf_inv(fractions(key, shape, dtype, low, 1.0))
