"""Arrays put side by side, taken apart and repeated, and what is taken at positions: against jax.lax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax.errors import InputError, ShapeError, TinyjaxError, TypingError

X = np.arange(24.0).reshape(2, 3, 4)
NUMBERS = lax.ScatterDimensionNumbers((), (0,), (0,))


def stacking(axis: int) -> Callable[[Any, Any], Any]:
    return lambda m, x: m.stack([x, 2 * x], axis)


def unstacking(axis: int) -> Callable[[Any, Any], Any]:
    return lambda m, x: m.unstack(x, axis)


CASES: dict[str, Callable[[Any, Any], Any]] = {
    **{f"stack {axis}": stacking(axis) for axis in (0, 1, 3, -1, -4)},
    **{f"unstack {axis}": unstacking(axis) for axis in (0, 1, -1)},
    "tile": lambda m, x: m.tile(x, (2, 1, 3)),
    "tile by nothing": lambda m, x: m.tile(x, (2, 0, 1)),
    "broadcast_like": lambda m, x: m.broadcast_like(x[0, 0], x),
    "index_take": lambda m, x: m.index_take(x, (np.array([1, 0, -1]), np.array([2, -1, 5])), (0, 2)),
    "index_take of one axis": lambda m, x: m.index_take(x, (np.array([1, 4]),), (1,)),
    "scatter_sub": lambda m, x: m.scatter_sub(
        x[0, 0], np.array([[1], [3], [1]]), x[1, 0, :3], m.ScatterDimensionNumbers((), (0,), (0,))
    ),
}


@pytest.mark.parametrize("f", CASES.values(), ids=CASES)
@pytest.mark.sweep
def test_values_and_derivatives(f: Callable[[Any, Any], Any]) -> None:
    def total(m: Any) -> Callable[[Any], Any]:
        return lambda x: sum((part * part).sum() for part in jax.tree.leaves(f(m, x)))

    for ours, theirs in (
        (f(lax, X), f(jax.lax, jax.numpy.asarray(X))),
        (tj.jit(lambda x: f(lax, x))(X), f(jax.lax, jax.numpy.asarray(X))),
        (tj.grad(total(lax))(X), jax.grad(total(jax.lax))(X)),
        (tj.vmap(lambda x: f(lax, x))(np.stack([X, -X])), jax.vmap(lambda x: f(jax.lax, x))(np.stack([X, -X]))),
    ):
        for mine, other in zip(tj.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(np.asarray(mine), other)


def test_shapes() -> None:
    assert lax.broadcast_shapes((3, 1), (4,), ()) == jax.lax.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    made = lax.empty((2, 3), "int8")
    assert made.shape == (2, 3)
    assert made.dtype == np.int8


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda: lax.stack([]), InputError, "stack needs at least one array"),
        (lambda: lax.stack([X, X[0]]), ShapeError, r"stack needs arrays of one shape; got f64\[2,3,4\], f64\[3,4\]"),
        (lambda: lax.stack([X, X.astype("float32")]), TypingError, "stack requires"),
        (lambda: lax.stack([X], 4), ShapeError, "stack: axis 4"),
        (lambda: lax.unstack(X, 3), ShapeError, "unstack: axis 3"),
        (
            lambda: lax.tile(X, (2, 2)),
            ShapeError,
            r"tile needs .* each axis of f64\[2,3,4\]; got reps=\(2, 2\)",
        ),
        (lambda: lax.tile(X, (2, 2, -1)), ShapeError, "tile needs a number that isn't negative"),
        (lambda: lax.broadcast_shapes((2,), (3,)), ShapeError, "broadcast"),
        (
            lambda: lax.index_take(X, (np.array([0]),), (0, 1)),
            ShapeError,
            r"index_take .* \(0, 1\); got 1",
        ),
        (lambda: lax.mulhi(1.0, 2.0), TypingError, "mulhi does not accept f64"),
    ],
)
def test_errors(f: Callable[[], Any], error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        f()
