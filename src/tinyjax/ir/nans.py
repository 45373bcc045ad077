"""One object for each nan, so that parameters which are nan are equal and hash alike: Python goes by their identity."""

from __future__ import annotations

import math
import struct
from functools import lru_cache


def settled(parameter: object) -> object:
    """The parameter, with the one object in the place of each nan, also within tuples.

    >>> settled((1, float("nan"))) == settled((1, float("nan")))
    True
    """
    if type(parameter) is float:
        return _float(struct.pack("<d", parameter)) if math.isnan(parameter) else parameter
    if type(parameter) is complex:
        bits = struct.pack("<dd", parameter.real, parameter.imag)
        return _complex(bits) if math.isnan(parameter.real) or math.isnan(parameter.imag) else parameter
    if type(parameter) is tuple and any(isinstance(item, float | complex | tuple) for item in parameter):
        items = tuple([settled(item) for item in parameter])
        return parameter if all(map(_is, items, parameter)) else items
    return parameter


def _is(x: object, y: object) -> bool:
    return x is y


@lru_cache(maxsize=4096)
def _float(bits: bytes) -> float:
    value: float = struct.unpack("<d", bits)[0]
    return value


@lru_cache(maxsize=4096)
def _complex(bits: bytes) -> complex:
    return complex(*struct.unpack("<dd", bits))
