"""Arrays written as indices: `r_`, `c_`, `s_` and `index_exp`."""

from __future__ import annotations

from typing import Final, TypeVar, final

from tinyjax.arrays import shaping
from tinyjax.arrays.shaping import moveaxis
from tinyjax.errors import ChoiceError, InputError
from tinyjax.numpy.creation import asarray
from tinyjax.numpy.joining import concatenate
from tinyjax.numpy.ranges import range_of
from tinyjax.numpy.signatures import Part
from tinyjax.tracing.array import Array

_T = TypeVar("_T")


def _joined(key: Part | tuple[Part, ...], base: str) -> Array:
    """What `r_` and `c_` join, as "axis,ndim,place" says: the parts' first, or else the base."""
    parts = list(key) if isinstance(key, tuple) else [key]
    directive = base
    if parts and isinstance(parts[0], str):
        directive = str(parts.pop(0))
    matrix = directive if directive in ("r", "c") else ""
    own = base if matrix else directive
    try:
        axis, ndim, place = (*map(int, own.split(",")), None, None)[:3]
    except ValueError:
        raise ChoiceError(
            f"r_ could not understand directive {directive!r}: it is a text of up to three integers such as '0,2'"
        ) from None
    axis, least, start = axis or 0, 1 if ndim is None else ndim, (0 if base != "0" else -1) if place is None else place
    arrays: list[Array] = []
    for part in parts:
        if isinstance(part, str):
            raise InputError(f"r_: {part!r} is no array; a text comes first")
        x = range_of(part) if isinstance(part, slice) else asarray(part)
        missing = least - x.ndim
        if missing > 0:
            had, x = x.ndim, shaping.expand_dims(x, range(missing))
            if start != -1 and had:
                # The axes that it had begin at this place, not at the end.
                begin = start if start >= 0 else least + start + 1 - had
                x = moveaxis(x, list(range(missing, least)), list(range(begin, begin + had)))
        arrays.append(x)
    out = concatenate(arrays, axis)
    if matrix and out.ndim == 1:
        return shaping.expand_dims(out, 1 if matrix == "c" else 0)
    return out


@final
class _Rows:
    """`r_[x, 1, 2:5]`: arrays, numbers and ranges joined along the first axis."""

    __slots__ = ()

    def __getitem__(self, key: Part | tuple[Part, ...]) -> Array:
        return _joined(key, "0")


@final
class _Columns:
    """`c_[x, y]`: arrays, numbers and ranges joined along the last axis; vectors are columns."""

    __slots__ = ()

    def __getitem__(self, key: Part | tuple[Part, ...]) -> Array:
        return _joined(key, "-1,2,0")


@final
class _Index:
    """What is between brackets."""

    __slots__ = ("_always",)

    def __getitem__(self, key: _T) -> _T:
        return key


@final
class _Expression:
    """What is between brackets, as a tuple."""

    __slots__ = ()

    def __getitem__(self, key: object) -> tuple[object, ...]:
        return key if isinstance(key, tuple) else (key,)


r_: Final = _Rows()
c_: Final = _Columns()
s_: Final = _Index()
index_exp: Final = _Expression()
