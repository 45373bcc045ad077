"""`lossless` says of each pair of dtypes whether converting changes a number."""

from __future__ import annotations

import numpy as np
import pytest

from tests.strategies import STANDARD as DTYPES
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOATS, DType, HostArray
from tinyjax.transforms.simplify_numbers import lossless


def telling(dtype: DType) -> HostArray:
    """Numbers with every bit of the dtype in use, at both ends of its range."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype in COMPLEXES:
        return np.array([1.5 - 2.25j, 1 / 3 + 1e30j]).astype(dtype)
    if dtype in FLOATS:
        one = np.array([1.0]).astype(dtype)
        bits = one.view(f"u{dtype.itemsize}")
        all_ones = (bits - 1).view(dtype)  # the largest number below one
        exponent = {2: 15, 4: 127, 8: 1023}[dtype.itemsize] if dtype.name != "bfloat16" else 127
        return np.concatenate([all_ones, np.array([2.0**exponent, 2.0 ** (1 - exponent), 0.5]).astype(dtype)])
    info = np.iinfo(dtype.name)
    return np.array([info.min, info.max, 1], dtype)


def exactly(array: HostArray) -> list[complex]:
    """The numbers as Python's, which it compares without rounding."""
    if array.dtype in FLOATS:
        array = array.astype(np.float64)
    numbers: list[complex] = array.tolist()
    return numbers


@pytest.mark.parametrize("old", DTYPES, ids=str)
def test_numbers_stay_as_they_are(old: DType) -> None:
    numbers = telling(old)
    for new in DTYPES:
        real = old in COMPLEXES and new not in COMPLEXES
        with np.errstate(all="ignore"):
            converted = (numbers.real if real else numbers).astype(new)
        assert lossless(old, new) == (exactly(converted) == exactly(numbers)), (old, new)
