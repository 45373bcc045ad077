"""Primitives that are made anew at each call are prepared once: what is equal is found by its value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax as jlax

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, lax
from tinyjax.prepared import primitives
from tinyjax.prepared.table import TABLE
from tinyjax.typing import ArrayLike

X = np.array([[1.0, -0.0, np.nan, 3.0, 3.0, -2.0], [0.0, 5.0, -0.0, 5.0, 2.0, -np.inf]])

CALLS: dict[str, Callable[[Array], object]] = {
    "one result": lambda x: lax.rev(x, (1,)),
    "several results": lambda x: lax.top_k(x, 4),
    "several operands and results": lambda x: lax.sort((x, x + 1.0), dimension=0, num_keys=1),
    "nothing given": lambda x: lax.broadcasted_iota("int32", (2, 3), 1),
    "positions": lambda x: lax.dynamic_slice(x, (0, -3), (1, 2)),
    "a program of lax's": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2)),
    "a factorization": lambda x: lax.linalg.qr(tnp.nan_to_num(x, neginf=0.0), full_matrices=False),
    "a derivative": tj.grad(lambda x: lax.rev(lax.cumsum(x), (0,))[0].sum()),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("place", [tnp.asarray, tj.device_put], ids=["host", "device"])
def test_a_call_is_prepared_once(
    name: str, place: Callable[[np.ndarray[Any, Any]], Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    call, x = CALLS[name], place(X)
    results = [call(x) for _ in range(3)]
    entries = len(TABLE.entries)

    def refuse(*args: object) -> None:
        raise AssertionError(f"prepared again: {args}")

    for attribute in ("prepare", "several_of", "_prepare_device", "_prepare_nearby"):
        monkeypatch.setattr(primitives, attribute, refuse)
    results.append(call(x))
    assert len(TABLE.entries) == entries
    first, *others = map(tj.tree.leaves, results)
    for other in others:
        for one, same in zip(first, other, strict=True):
            assert one.aval == same.aval
            assert np.asarray(one).tobytes() == np.asarray(same).tobytes()
            assert not np.asarray(same).flags.writeable


def test_what_differs_in_bits_or_types_only_isnt_equal() -> None:
    x, far = tnp.zeros(2), tnp.asarray(9)
    dims = lax.GatherDimensionNumbers((), (0,), (0,))
    for _ in range(2):
        for zero in (0.0, -0.0):
            found = lax.gather(x, far[None], dims, (1,), mode="fill", fill_value=zero)
            assert np.signbit(np.asarray(found)) == np.signbit(zero)
        for dtype in ("int32", "float32", "int64", "bool"):
            assert lax.iota("int32", 1).astype(dtype).dtype == dtype
        assert lax.iota("int32", 3).dtype == "int32" != lax.iota("float32", 3).dtype


@pytest.mark.parametrize("size", [1, 2, 6, 255, 256, 257, 600])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int8", "uint32", "bool"])
def test_the_greatest_of_short_and_long_rows(size: int, dtype: str) -> None:
    """Equal ones, nan, and zeros of either sign, as in JAX."""
    rng = np.random.default_rng(size)
    x = rng.choice(np.array([0.0, -0.0, 1.0, 2.0, 100.0, np.nan, -np.nan, np.inf, -np.inf, -3.0]), (2, size))
    if dtype in ("int8", "uint32", "bool"):
        x = rng.integers(0, 5, (2, size))
    x = x.astype(jax.numpy.dtype(dtype))
    for axis, k in ((1, min(3, size)), (1, size), (0, 1), (1, 0)):
        found, expected = lax.top_k(x, k, axis=axis), jlax.top_k(x, k, axis=axis)
        for ours, theirs in zip(found, expected, strict=True):
            assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_functions_of_lax_reduce_without_being_traced(name: str) -> None:
    """As the same function does that is traced; a user's of this name is no such function."""
    ours: Callable[[ArrayLike, ArrayLike], Array] = getattr(lax, name)
    x = np.arange(1.0, 7.0).reshape(2, 3)

    def traced(a: ArrayLike, b: ArrayLike) -> Array:
        return ours(a, b)

    start = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}[name]
    for first in (start, 2.0):
        np.testing.assert_array_equal(lax.reduce(x, first, ours, (1,)), lax.reduce(x, first, traced, (1,)))
        windows = lax.reduce_window(x, first, traced, (1, 2))
        np.testing.assert_array_equal(lax.reduce_window(x, first, ours, (1, 2)), windows)

    def add(a: Array, b: Array) -> Array:
        return tnp.maximum(a, b)

    add.__name__ = add.__qualname__ = name
    np.testing.assert_array_equal(lax.reduce(x, 0.0, add, (1,)), x.max(1))
