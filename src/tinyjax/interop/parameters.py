"""JAX's parameters as the plain values that the standard registry reads."""

from __future__ import annotations

import enum
from dataclasses import fields, is_dataclass
from typing import Final

import jax
import numpy as np
from jax.extend.core import Primitive as JaxPrimitive
from jax.extend.random import threefry_prng_impl

from tinyjax.interop.shardings import plain
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.text.registry import Member, Record, Unreadable

#: Values of these types mean the same here.
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), np.dtype, Jaxpr)


def generic(value: object) -> object:
    """A parameter without programs in it: numbers, strings, tuples, dtypes, and what was written for all others.

    >>> import jax
    >>> generic((np.int64(2), jax.lax.GatherScatterMode.CLIP))
    (2, Member(enumeration='GatherScatterMode', name='CLIP'))
    """
    if isinstance(value, enum.Enum):  # before numbers: some of JAX's are both
        return Member(type(value).__name__, value.name)
    if isinstance(value, JaxPrimitive):
        return value.name
    if isinstance(value, np.generic):
        found: object = value.item()
        return found
    if isinstance(value, type(threefry_prng_impl)):
        return str(value)  # its tag
    if isinstance(value, jax.lax.Tolerance):
        return Record("Tolerance", tuple((name, getattr(value, name)) for name in ("atol", "rtol", "ulps")))
    found = plain(value)
    if found is not value:
        return found
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        names: tuple[str, ...] = value._fields
        return Record(type(value).__name__, tuple(zip(names, map(generic, value), strict=True)))
    if is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in fields(value))
        return Record(type(value).__name__, tuple((name, generic(getattr(value, name))) for name in names))
    if isinstance(value, tuple | list | range):
        return tuple(map(generic, value))
    if isinstance(value, frozenset):
        return frozenset(map(generic, value))
    if isinstance(value, _PLAIN):
        return value
    return Unreadable(type(value).__name__)
