"""Whether what was found is what was expected, and where the first difference is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tinyjax.ir.dtypes import BFLOAT16, COMPLEXES, FLOAT16, INEXACT, WIDE, DType, HostArray, real_dtype

#: What rounding may do, in relation to the largest number of an array, by the bytes of a real number.
_ROUNDING: Final = {1: 0.5, 2: 4e-2, 4: 2e-4, 8: 1e-8}


class BrokenError(Exception):
    """A law doesn't hold. The message says what differs."""


def precision(dtype: DType) -> float:
    """How far apart numbers of this dtype may be for rounding alone."""
    return _ROUNDING[real_dtype(dtype).itemsize] if dtype in INEXACT else 0.0


def same_types(found: Sequence[HostArray], expected: Sequence[HostArray], what: str) -> None:
    """As many arrays, each of the same shape and dtype."""
    one, other = ([f"{array.dtype}{list(array.shape)}" for array in arrays] for arrays in (found, expected))
    if one != other:
        raise BrokenError(f"{what} are ({', '.join(one)}), expected ({', '.join(other)})")


def same_bits(found: Sequence[HostArray], expected: Sequence[HostArray], what: str) -> None:
    """Equal to the bit, zeros' signs too, but that any nan is as good as another."""
    same_types(found, expected, what)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.dtype not in INEXACT:
            wrong = one != other
        else:
            wrong = np.zeros(one.shape, bool)
            for x, y in zip(_parts(one), _parts(other), strict=True):
                both_nan = np.isnan(x) & np.isnan(y)
                wrong |= ~both_nan & ((x != y) | (np.signbit(x) != np.signbit(y)))
        _refuse(number, one, other, wrong, what)


def close(found: Sequence[HostArray], expected: Sequence[HostArray], what: str, tolerance: float = 0.0) -> None:
    """Equal but for rounding, in relation to the largest number of an array, and wherever nothing overflows."""
    same_types(found, expected, what)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.dtype not in INEXACT:
            _refuse(number, one, other, one != other, what)
            continue
        allowed = max(tolerance, precision(other.dtype))
        wrong = np.zeros(one.shape, bool)
        for x, y in zip(_parts(one), _parts(other), strict=True):
            with np.errstate(all="ignore"):
                counts = np.isfinite(y) & (np.abs(y) < np.sqrt(np.finfo(np.float64).max))
                scale = 1.0 + np.max(np.abs(y), initial=0.0, where=counts)
                wrong |= counts & ~(np.abs(x - y) <= allowed * scale)
        _refuse(number, one, other, wrong, what)


def differs_from_zero(found: HostArray) -> bool:
    """Whether an element isn't zero. Some floats of 8 bits have no zero, and nan stands for it."""
    with np.errstate(all="ignore"):
        lacking = found.dtype in INEXACT and bool(np.isnan(np.zeros(()).astype(found.dtype)))
    return bool(np.any(found)) and not lacking


def _parts(array: HostArray) -> list[HostArray]:
    """The array, or its real and its imaginary part, in a dtype that NumPy computes with."""
    if array.dtype in COMPLEXES:
        return [array.real, array.imag]
    return [array.astype(np.float32) if array.dtype in (BFLOAT16, FLOAT16, *WIDE) else array]


def _refuse(number: int, found: HostArray, expected: HostArray, wrong: HostArray, what: str) -> None:
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f", element {at if len(at) != 1 else at[0]}" if at else ""
    others = int(wrong.sum()) - 1
    rest = f" (and {others} more of its {found.size})" if others else ""
    raise BrokenError(f"{what}: number {number}{place} is {found[at]}, expected {expected[at]}{rest}")
