"""The scalars that literals hold: Python's, rounded to a dtype, and compared to the bit."""

from __future__ import annotations

import struct

import numpy as np

from tinyjax.ir.dtypes import BOOL, FLOATS, INTEGERS, KEYS, DType, Scalar


def scalar_bits(value: Scalar) -> tuple[type, int | bytes]:
    """A key under which scalars are equal only if they are the same bits of the same type."""
    if isinstance(value, complex):
        return complex, struct.pack("<dd", value.real, value.imag)
    if isinstance(value, float):
        return float, struct.pack("<d", value)
    return type(value), int(value)


def python_scalar(value: Scalar | np.generic, dtype: DType) -> Scalar:
    """`value`, rounded to `dtype`, as the Python scalar of that kind. A key is a number of as many bits."""
    if dtype in KEYS:
        return int(value.real)
    if type(value) is int and dtype not in INTEGERS and not -(2**63) <= value < 2**63:
        value = float(value)  # NumPy has no integers of this size for every dtype to come from
    with np.errstate(all="ignore"):
        rounded = np.asarray(value).astype(dtype)
    if dtype in FLOATS:
        return float(rounded)
    if dtype in INTEGERS:
        return int(rounded)
    if dtype is BOOL or dtype == BOOL:
        return bool(rounded)
    return complex(rounded)
