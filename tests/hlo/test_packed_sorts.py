"""Sorting on CPUs by single integers: the same results as on the host, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinyjax import Array, hlo, jit, lax, make_jaxpr
from tinyjax import numpy as tnp
from tinyjax.ir.dtypes import as_dtype

KEYS = ("bool", "int8", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64")


def numbers(dtype: str, shape: tuple[int, ...], *, subnormal: bool = True) -> np.ndarray:
    rng = np.random.default_rng(0)
    if "int" in dtype:
        limits = np.iinfo(dtype)
        small, wide = rng.integers(0, 5, shape), rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, small.astype(dtype), wide)
    special = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.0, *([1e-39, -1e-39] if subnormal else [])]
    drawn = np.where(rng.random(shape) < 0.5, rng.choice(special, shape), rng.normal(size=shape))
    return (drawn > 0) if dtype == "bool" else drawn.astype(as_dtype(dtype))


@pytest.mark.parametrize("dtype", KEYS)
@pytest.mark.parametrize(("shape", "axis"), [((40, 3), 0), ((2, 40), 1), ((2, 9, 3), 1), ((1,), 0), ((0, 3), 0)])
def test_as_on_the_host(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    def everything(x: Array, y: Array) -> tuple[Array, ...]:
        places = lax.broadcasted_iota("int32", shape, axis)
        other = lax.broadcasted_iota("int16", shape, 0)
        return (*lax.sort((x, y, places, other), dimension=axis, num_keys=1), tnp.argsort(x, axis=axis))

    x = numbers(dtype, shape, subnormal=dtype != "float64")
    y = np.random.default_rng(1).normal(size=shape) < 0
    xs = tnp.asarray(x), tnp.asarray(y)
    for found, expected in zip(jit(everything)(*xs), everything(*xs), strict=True):
        assert found.aval == expected.aval
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
    x = numbers(dtype, shape)
    for alone in (x, np.where((x == 0) | np.isnan(x), np.ones((), x.dtype), x)):  # also where keys tell all apart
        found, expected = jit(lambda x: tnp.sort(x, axis=axis))(alone), tnp.sort(tnp.asarray(alone), axis=axis)
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_what_is_sorted_is_one_array_of_integers() -> None:
    x = np.zeros((4, 9), np.float32)
    for function in (tnp.sort, tnp.argsort):
        text = hlo.lower(make_jaxpr(function)(x), platform="cpu")
        (line,) = [line for line in text.splitlines() if "stablehlo.sort" in line]
        assert line.count("%") == 2
    text = hlo.lower(make_jaxpr(tnp.argsort)(x), platform="cpu")
    assert text.count('"stablehlo.gather"(') == 1  # of what nobody reads: the positions are in what was sorted
    assert '"stablehlo.sort"(%arg0, ' in hlo.lower(make_jaxpr(tnp.argsort)(x), platform="cuda")
