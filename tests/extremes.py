"""Numbers at the ends of each dtype, and whether two results are of the same class at all of them.

The class of a number is nan, an infinity, a zero with its sign, or another number of either sign. XLA may flush
subnormal numbers to zero, so a zero is like any number that small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.primitives.catalog import LIMITS
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOATS, INTEGERS, SHORT_NAMES, DType, HostArray, real_dtype

#: Parts of complex numbers. At the very ends of the dtype, products of parts overflow on the way.
PARTS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, -2.5, 0.5, 2, 100)


def extremes(dtype: DType, few: bool = False, ends: bool = True) -> HostArray:
    """The numbers to try of a dtype. `ends`: with the largest and the smallest ones."""
    if dtype == BOOL:
        return np.asarray([False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype.name)
        integers = [0, 1, -1, 2, -2, 3, -3, 7, info.bits - 1, info.bits, info.bits + 1, 100, info.min, info.max]
        return np.asarray([n for n in integers if info.min <= n <= info.max], dtype)
    if dtype in FLOATS:
        eps, tiny, largest = LIMITS[dtype]
        floats = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -2.5, 2]
        if not few:
            floats += [-0.5, 1.5, 2.5, -2, 3, -3, 10, -10, 25, 100, -100, 1000, -1000, 1 / eps, eps, 1 + eps, 1 - eps]
        if ends:
            floats += [largest, -largest, tiny, -tiny]
        return np.asarray(floats, np.float64).astype(dtype)
    parts = np.asarray(PARTS[: 7 if few else None], real_dtype(dtype))
    if ends:
        _, tiny, largest = LIMITS[parts.dtype]
        parts = np.append(parts, np.asarray([largest, -largest, tiny], parts.dtype))
    numbers = np.empty((parts.size, parts.size), dtype)
    numbers.real, numbers.imag = parts[:, None], parts
    return numbers.ravel()


def combinations(dtypes: Sequence[DType], ends: bool = True) -> tuple[HostArray, ...]:
    """Vectors of equal length, one for each dtype: every combination of their extremes."""
    choices = [extremes(dtype, len(dtypes) > 1, ends) for dtype in dtypes]
    if len(dtypes) > 2:
        choices = [choice[:7] for choice in choices]
    grids = np.meshgrid(*[np.arange(len(choice)) for choice in choices], indexing="ij")
    return tuple(choice[grid.ravel()] for choice, grid in zip(choices, grids, strict=True))


def differences(got: HostArray, want: HostArray, rounding: float = 0, signs: bool = True) -> HostArray:
    """The indices where two arrays aren't of the same class; for integers and bools where they differ.

    `rounding` is how large a number may be, in units of the dtype's resolution, to be as good as zero. `signs`: those
    of zeros count.
    """
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype in COMPLEXES:
        of_parts = [differences(getattr(got, of), getattr(want, of), rounding, signs) for of in ("real", "imag")]
        return np.union1d(*of_parts)
    if got.dtype not in FLOATS:
        return np.flatnonzero(got != want)
    eps, tiny, _ = LIMITS[got.dtype]
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        small = (np.maximum(np.abs(x), np.abs(y)) <= max(2 * tiny, rounding * eps)) & ~(signs & (x == 0) & (y == 0))
    return np.flatnonzero((_classes(x) != _classes(y)) & ~small)


def _classes(x: HostArray) -> HostArray:
    kinds = np.select([np.isnan(x), np.isinf(x), x == 0], [0, 1, 2], 3)
    return np.where(np.signbit(x) & ~np.isnan(x), -kinds, kinds)


def check_classes(
    name: str, args: Sequence[HostArray], got: HostArray, want: HostArray, rounding: float = 0, signs: bool = True
) -> None:
    """Fails unless compiled code and the host give numbers of the same class, and shows where they don't."""
    at = differences(got, want, rounding, signs)
    shown = [f"{[x[i] for x in args]}: compiled {got[i]}, host {want[i]}" for i in at[:8]]
    assert not at.size, "\n".join([f"{name} of {SHORT_NAMES[args[0].dtype]}: {at.size} of {got.size}", *shown])
