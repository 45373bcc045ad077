"""Functions made of several primitives: called as they are, as a list of kernels, and as a compiled program."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from inspect import isfunction
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import InputError, ShapeError
from tinyjax.prepared import functions
from tinyjax.prepared.functions import prepared
from tinyjax.prepared.runners import Kernel, Kernels
from tinyjax.prepared.table import TABLE
from tinyjax.tracing.concrete import as_operand

Array = np.ndarray[Any, Any]
X = np.array([[1.5, -2.0, 0.0], [-0.5, 3.0, 2.25]])
Y = np.array([0.5, -1.5, 2.0])

#: Each of a module of array functions, and two arrays.
FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "floor_divide": lambda np, x, y: x // y,
    "floor_divide by a number": lambda np, x, y: x // 2,
    "remainder": lambda np, x, y: x % y,
    "divmod": lambda np, x, y: divmod(x, y),
    "fmod": lambda np, x, y: np.fmod(x, y),
    "round": lambda np, x, y: np.round(x, 1),
    "clip": lambda np, x, y: np.clip(x, 1, y),
    "clip below": lambda np, x, y: np.clip(x, max=0.5),
    "where": lambda np, x, y: np.where(x > 0, x, y),
    "all": lambda np, x, y: np.all(x, axis=0),
    "any": lambda np, x, y: np.any(x, axis=(0, 1), keepdims=True),
    "mean": lambda np, x, y: np.mean(x, axis=1),
    "mean of some": lambda np, x, y: np.mean(x, where=x > 0),
    "mean in float32": lambda np, x, y: np.mean(x, dtype="float32"),
    "var": lambda np, x, y: np.var(x, axis=0, ddof=1),
    "std": lambda np, x, y: np.std(x),
    "ptp": lambda np, x, y: np.ptp(x, axis=-1),
    "trace": lambda np, x, y: np.trace(x, 1),
    "median": lambda np, x, y: np.median(x, axis=1, keepdims=True),
    "diagonal": lambda np, x, y: np.diagonal(x, -1),
    "take": lambda np, x, y: np.take(x, np.asarray([2, 0, -1]), axis=1),
    "take_along_axis": lambda np, x, y: np.take_along_axis(x, np.argsort(x, axis=1), axis=1),
    "hypot": lambda np, x, y: np.hypot(x, y),
    "logaddexp": lambda np, x, y: np.logaddexp(x, y),
    "isclose": lambda np, x, y: np.isclose(x, y, equal_nan=True),
    "tril": lambda np, x, y: np.tril(x, 1),
    "triu": lambda np, x, y: np.triu(x),
    "outer": lambda np, x, y: np.outer(x, y),
    "tile": lambda np, x, y: np.tile(x, (2, 1, 2)),
    "linspace": lambda np, x, y: np.linspace(y, 5.0, 4, axis=-1),
    "linspace with the distance": lambda np, x, y: np.linspace(0, y, 3, endpoint=False, retstep=True)[1],
}


def described(out: Any) -> list[tuple[Any, ...]]:
    """The results to the bit, with their types."""
    outs = out if isinstance(out, tuple) else (out,)
    return [(array.aval, np.asarray(array).tobytes()) for array in outs]


def functions_met() -> int:
    return sum(
        isinstance(found.host, Kernels | Kernel) and isfunction(found.kept[0]) for found in TABLE.entries.values()
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8"])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_host(f: Callable[[Any, Any, Any], Any], dtype: str) -> None:
    """What is remembered gives what calling the function gives, on other elements too, and what jax gives."""
    tj.clear_caches()
    pairs = [(np.abs(X * k).astype(dtype) + 1, np.abs(Y + k).astype(dtype) + 1) for k in (1.0, 2.0, 3.0)]
    cold = []
    for x, y in pairs:
        tj.clear_caches()
        cold.append(described(f(tnp, tnp.asarray(x), tnp.asarray(y))))
    hot = [described(f(tnp, tnp.asarray(x), tnp.asarray(y))) for x, y in pairs]
    assert hot == cold
    assert functions_met() > 0 or (dtype in ("int32", "uint8") and f is FUNCTIONS["round"])
    for x, y in pairs:
        ours, theirs = f(tnp, tnp.asarray(x), tnp.asarray(y)), f(jnp, jnp.asarray(x), jnp.asarray(y))
        for out, expected in zip(*(r if isinstance(r, tuple) else (r,) for r in (ours, theirs)), strict=True):
            assert out.dtype == expected.dtype
            np.testing.assert_allclose(np.asarray(out), np.asarray(expected), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_device(f: Callable[[Any, Any, Any], Any]) -> None:
    """One compiled program gives what the host gives, up to rounding, and stays on the device."""
    x, y = tnp.asarray(X), tnp.asarray(Y)
    host = f(tnp, x, y)
    for _ in range(3):
        device = f(tnp, tj.device_put(x), tj.device_put(y))
        for out, expected in zip(*(r if isinstance(r, tuple) else (r,) for r in (device, host)), strict=True):
            assert out.aval == expected.aval
            assert not out.value.on_host
            tolerance = 1e-6 if out.dtype == np.float32 else 1e-14
            np.testing.assert_allclose(np.asarray(out), np.asarray(expected), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_within_transformations(f: Callable[[Any, Any, Any], Any]) -> None:
    """Tracing is never short-cut, whatever has been remembered."""
    x, y = tnp.asarray(X), tnp.asarray(Y)
    tj.clear_caches()
    before = str(tj.make_jaxpr(lambda x, y: f(tnp, x, y))(x, y))
    for _ in range(3):
        f(tnp, x, y)
    after = str(tj.make_jaxpr(lambda x, y: f(tnp, x, y))(x, y))
    assert after == before
    # Not the arguments, but what is done with them is of the transformation.
    staged = tj.make_jaxpr(lambda _: f(tnp, x, y))(0.0)
    assert len(staged.jaxpr.eqns) > 0
    mapped = tj.vmap(lambda x: f(tnp, x, y))(tnp.stack([x, x]))
    for out, expected in zip(*(r if isinstance(r, tuple) else (r,) for r in (mapped, f(tnp, x, y))), strict=True):
        np.testing.assert_allclose(np.asarray(out)[1], np.asarray(expected), rtol=1e-14)


REFUSED: tuple[Callable[[Any], Any], ...] = (
    lambda x: x // 300,
    lambda x: x % 300,
    lambda x: tnp.clip(x, 300),
    lambda x: tnp.where(x > 0, x, 300),
)


def test_errors_stay() -> None:
    """A number that doesn't fit is refused each time, and so is what can't be broadcast."""
    x = tnp.asarray(np.arange(3, dtype=np.uint8))
    for _ in range(3):
        for bad in REFUSED:
            with pytest.raises(InputError, match=re.escape("300 doesn't fit in uint8")):
                bad(x)
        with pytest.raises(ShapeError, match="can't be broadcast together"):
            tnp.hypot(x, tnp.ones(4))
        with pytest.raises(ShapeError, match="axis 2 is out of range"):
            tnp.mean(x, axis=2)


def test_kinds_of_arguments() -> None:
    """Equal arguments of different types are different; those that can't be told apart take the long way."""
    seen: list[object] = []

    @prepared
    def f(x: tj.Array, option: object = None, *, other: object = None) -> tj.Array:
        seen.append(option)
        return x + 1.0

    x = tnp.arange(3.0)
    told_apart: tuple[object, ...] = (1, True, "1", (1,), (1, 2), None, int)
    for option in told_apart:
        for _ in range(4):
            np.testing.assert_array_equal(np.asarray(f(x, option)), [1.0, 2.0, 3.0])
        assert len(seen) == 2  # called, and traced
        seen.clear()
    others: tuple[object, ...] = (1.0, [1], (True,), np.int64(1), {1})
    for option in others:
        for _ in range(4):
            f(x, option)
        assert len(seen) == 4
        seen.clear()
    f(x, other=1), f(x, other=1), f(x, other=1), f(x, other=2)
    assert len(seen) == 3


def test_what_depends_on_elements_is_called() -> None:
    calls: list[int] = []

    @prepared
    def f(x: tj.Array) -> tj.Array:
        calls.append(1)
        return x if bool(tnp.all(x > 0.0)) else -x

    for k in (1.0, -1.0, 1.0, -1.0):
        np.testing.assert_array_equal(np.asarray(f(tnp.asarray(np.full(2, k)))), [1.0, 1.0])
    assert len(calls) == 5  # once more to find out


def test_what_else_is_passed_counts() -> None:
    """In whatever order calls with more and fewer arguments come, by position and by name."""

    def plain(x: tj.Array, axis: int | None = None, keepdims: bool = False, y: tj.Array | None = None) -> tj.Array:
        return tnp.sum(x if y is None else x * y, axis=axis, keepdims=keepdims)

    total = prepared(plain)
    x, weights = tnp.asarray(np.arange(4.0).reshape(2, 2)), tnp.asarray(np.array([1.0, 10.0]))
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        *(((), {}), ((0,), {}), ((1,), {}), ((0, True), {}), ((), {"axis": 1}), ((), {"keepdims": True})),
        *(((), {"keepdims": True, "axis": 0}), ((1,), {"keepdims": True}), ((), {"y": x}), ((0,), {"y": weights})),
    ]
    assert len({repr(plain(x, *args, **kwargs)) for args, kwargs in calls}) >= 8, "they differ"
    for _ in range(3):
        for args, kwargs in [*calls, *reversed(calls)]:
            np.testing.assert_array_equal(total(x, *args, **kwargs), plain(x, *args, **kwargs))


def test_results_are_nobody_elses() -> None:
    """A result that is an argument, or part of one, doesn't change when that is written to."""

    @prepared
    def f(x: tj.Array) -> tuple[tj.Array, tj.Array]:
        return x, x[1:]

    x = np.arange(3.0)
    for _ in range(3):
        whole, part = f(as_operand(x))  # the user's own array, as operators and functions take it
        x += 1.0
        assert np.asarray(part).flags.writeable is False
        np.testing.assert_array_equal(np.asarray(part) + 1.0, x[1:])
        np.testing.assert_array_equal(np.asarray(whole) + 1.0, x)


def test_no_jax_on_the_host() -> None:
    code = """
import sys
import numpy as np
import tinyjax.numpy as tnp
x = tnp.asarray(np.arange(6.0).reshape(2, 3))
for _ in range(3):
    tnp.mean(x, axis=0), x // 2.0, tnp.where(x > 0, x, 0)
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("refusing", ["device", "host"])
def test_one_place_without_a_runner_leaves_the_other(refusing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that has no runner on a device keeps the one that it has on the host, and the other way round."""
    seen: list[object] = []

    @prepared
    def f(x: tj.Array) -> tj.Array:
        seen.append(x)
        return x * 2.0 + 1.0

    x = tnp.arange(3.0)
    places = {"host": x, "device": tj.device_put(x)}
    working = places.pop("host" if refusing == "device" else "device")
    for _ in range(3):
        f(working)
    monkeypatch.setattr(functions, f"_on_{refusing}", lambda *_: None)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(places[refusing])), [1.0, 3.0, 5.0])
    monkeypatch.undo()
    seen.clear()
    np.testing.assert_array_equal(np.asarray(f(working)), [1.0, 3.0, 5.0])
    assert seen == []
    f(places[refusing])  # which isn't tried again and again
    assert seen == [places[refusing]]


def test_arrays_that_only_one_place_has() -> None:
    """What closes over an array on a device has a runner there, whether or not it was called on the host before."""
    seen: list[object] = []
    outside = tj.device_put(tnp.arange(3.0))

    @prepared
    def f(x: tj.Array) -> tj.Array:
        seen.append(x)
        return x + outside

    for x in (tnp.arange(3.0), tj.device_put(tnp.arange(3.0))):
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(f(x)), [0.0, 2.0, 4.0])
    seen.clear()
    f(tj.device_put(tnp.arange(3.0)))
    assert seen == []


KERNELS: dict[str, Any] = {
    "positions, which are the same each time": lambda np, x: np.tril(x) + np.triu(x, 1),
    "more of them than are kept": lambda np, x: np.sum(np.tril(np.ones((40, 40)))) + x,
    "four operands": lambda np, x: np.concatenate([x, x + 1.0, x * 2.0, -x]),
    "three operands": lambda np, x: np.where(x > 0.0, x, 1.0 / x),
    "numbers between": lambda np, x: np.var(x) / np.std(x) + np.mean(x),
}


@pytest.mark.parametrize("name", KERNELS)
def test_steps_on_the_host(name: str) -> None:
    """What needs no argument is computed once, whatever the number of operands of a step; results are always new."""
    f = KERNELS[name]
    marked = prepared(lambda x: f(tnp, x))
    x = tnp.asarray(np.linspace(-1.5, 2.0, 9).reshape(3, 3))
    expected = f(np, np.asarray(x))
    for _ in range(4):
        found = marked(x)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)
        assert not np.asarray(found).flags.writeable
    np.testing.assert_allclose(np.asarray(marked(x + 1.0)), f(np, np.asarray(x) + 1.0), rtol=1e-12)


INTEGER_DTYPES = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=str)
@pytest.mark.parametrize("name", ["div", "rem", "floor_divide", "remainder"])
def test_quotients_of_integers(name: str, dtype: np.dtype[Any]) -> None:
    """With and without zeros and signs among them, which are looked for first; as compiled."""
    limits = np.iinfo(dtype)
    numbers = np.array([0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min + 1, limits.min // 2], dtype)
    operation = getattr(tj.lax, name, None) or getattr(tnp, name)
    pairs = np.array([(x, y) for x in numbers for y in numbers])
    x, y = pairs[:, 0].astype(dtype), pairs[:, 1].astype(dtype)
    defined = (x != limits.min) | (y != dtype.type(-1)) if dtype.kind == "i" else np.ones(x.shape, bool)
    for kept in (defined, defined & (y != 0), defined & (x > 0) & (y > 0), defined & (y == 0)):
        left, right = tnp.asarray(x[kept]), tnp.asarray(y[kept])
        expected = np.asarray(tj.jit(operation)(left, right))
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(operation(left, right)), expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int8", "bool", "complex64"])
def test_chosen_elements(dtype: str) -> None:
    """Of arrays that lie in any order, and of scalars; to the bit, signs of zeros and nans included."""
    numbers = np.array([[0.0, -0.0, 1.0], [np.nan, np.inf, -2.0]])
    with np.errstate(all="ignore"):
        x = numbers.astype(tnp.dtype(dtype))
        y = np.asfortranarray(-numbers[::-1]).astype(tnp.dtype(dtype))
    which = np.array([[True, False, True], [False, True, False]])
    for condition, a, b in ((which, x, y), (which.T, x.T, y.T), (which[0, 0], x[0, 0], y[0, 0]), (which, x, y[0, 0])):
        other = np.broadcast_to(b, np.shape(a))
        found = tj.lax.select(tnp.asarray(condition), tnp.asarray(a), tnp.asarray(other))
        expected = np.where(condition, a, other)
        assert np.asarray(found).tobytes() == np.ascontiguousarray(expected).tobytes()
