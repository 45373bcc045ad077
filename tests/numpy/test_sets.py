"""Arrays as sets, against NumPy, and against jax where the size is given."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import ConcretizationError
from tinyjax.ir.dtypes import HostArray

RNG = np.random.default_rng(0)
NAN = np.nan
ARRAYS: list[HostArray] = [
    np.array([3, 1, 3, 2, 1]),
    RNG.integers(0, 4, (3, 4)),
    np.array([2.0, NAN, -0.0, 0.0, NAN, np.inf, 2.0]),
    np.array([1 + 1j, 1, 1 + 1j, 1 - 1j]),
    np.array([True, False, True]),
    np.zeros((0,)),
    np.zeros((0, 3)),
    np.array(5),
    RNG.integers(0, 3, 20).astype("uint8"),
]
PAIRS = [
    (np.array([3, 1, 3, 4]), np.array([2, 3, 3, 7])),
    (np.array([[1.0, NAN], [2.0, -0.0]]), np.array([0.0, 2.5, NAN])),
    (np.zeros(0), np.array([2.0, 1.0])),
    (np.array([2, 1]), np.zeros(0, int)),
    (np.array([1, 2], "int8"), np.array([2.0, 3.0], "float32")),
    (np.array([1j, 2]), np.array([2, 3])),
]


def same(found: object, expected: object, message: str = "") -> None:
    found, expected = (list(x) if isinstance(x, tuple) else [x] for x in (found, expected))
    assert len(found) == len(expected), message
    for a, b in zip(found, map(np.asarray, expected), strict=True):
        assert a.dtype == b.dtype, message
        np.testing.assert_array_equal(np.asarray(a), b, message)


@pytest.mark.parametrize("x", ARRAYS, ids=str)
def test_unique(x: HostArray) -> None:
    flags: dict[str, Any] = {"return_index": True, "return_inverse": True, "return_counts": True}
    for equal_nan in (True, False):
        same(tnp.unique(x, **flags, equal_nan=equal_nan), np.unique(x, **flags, equal_nan=equal_nan))
    for axis in range(-x.ndim, x.ndim):
        if 0 not in x.shape:
            same(tnp.unique(x, **flags, axis=axis), np.unique(x, **flags, axis=axis))
    for name in ("all", "counts", "inverse", "values"):
        expected = getattr(np, f"unique_{name}")(x)
        same(getattr(tnp, f"unique_{name}")(x), np.sort(expected) if name == "values" else expected, name)


SAMPLE = [(2, 7, 4), (5, None, 2)]
ALL = [(i, fill, size) for i in range(len(ARRAYS)) for fill in (None, 7) for size in (1, 4, 9)]


@pytest.mark.parametrize(("i", "fill", "size"), SAMPLE + [pytest.param(*x, marks=pytest.mark.sweep) for x in ALL])
def test_unique_of_a_size(i: int, fill: int | None, size: int) -> None:
    x = ARRAYS[i]
    if x.size or fill:
        for axis in (None, 0) if x.ndim else (None,):
            options: dict[str, Any] = {"size": size, "fill_value": fill, "axis": axis}
            found = tj.jit(lambda x, options=options: tnp.unique(x, True, True, True, **options))(x)
            expected = jnp.unique(x, True, True, True, **options)
            same(found[0], expected[0])
            if x.size:
                same(found[1], expected[1])
                same(found[2], np.asarray(expected[2]))
                same(found[3], expected[3])


@pytest.mark.parametrize(("x", "y"), PAIRS, ids=str)
def test_two(x: HostArray, y: HostArray) -> None:
    for name in ("intersect1d", "setdiff1d", "setxor1d", "union1d"):
        same(getattr(tnp, name)(x, y), getattr(np, name)(x, y), name)
    for invert in (False, True):
        same(tnp.isin(x, y, invert=invert), np.isin(x, y, invert=invert))
    same(tnp.intersect1d(x, y, return_indices=True), np.intersect1d(x, y, return_indices=True))


@pytest.mark.parametrize(
    "name", ["setxor1d", *(pytest.param(x, marks=pytest.mark.sweep) for x in ("intersect1d", "setdiff1d", "union1d"))]
)
def test_two_of_a_size(name: str) -> None:
    x, y = PAIRS[0]
    for size in (1, 6):
        for fill in (None, 9) if size > 1 else (9,):
            found = tj.jit(lambda x, y, s=size, f=fill: getattr(tnp, name)(x, y, size=s, fill_value=f))(x, y)
            same(found, getattr(jnp, name)(x, y, size=size, fill_value=fill), f"{size} {fill}")
    with pytest.raises(ConcretizationError, match="Pass `size`"):
        tj.jit(getattr(tnp, name))(x, y)


def test_derivatives_pass_through() -> None:
    x = np.array([3.0, 1.0, 3.0])
    np.testing.assert_array_equal(tj.grad(lambda x: tnp.unique(x, size=2)[1] * 2)(x), [2, 0, 0])
    np.testing.assert_array_equal(tj.vmap(lambda x: tnp.unique(x, size=2))(np.stack([x, x + 1])), [[1, 3], [2, 4]])


def test_orders() -> None:
    keys = RNG.integers(0, 3, (3, 4, 5))
    for axis in (-1, 0):
        same(tnp.lexsort(keys, axis), np.lexsort(keys, axis))
    x = RNG.normal(size=(4, 5))
    for axis in (0, -1):
        found = np.asarray(tnp.partition(x, 2, axis))
        np.testing.assert_array_equal(found.take(2, axis), np.partition(x, 2, axis).take(2, axis))
        places = np.asarray(tnp.argpartition(x, 2, axis))
        np.testing.assert_array_equal(np.take_along_axis(x, places, axis), found)
    same(tnp.sort_complex(x), np.sort_complex(x))
    with pytest.raises(ValueError, match="kth is a position"):
        tnp.partition(x, 9)
