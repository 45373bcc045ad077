"""Errors of Python and NumPy in traced functions, and slices and keys that aren't known: each says what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import (
    ConcretizationError,
    IndexingError,
    InputError,
    RecursiveTracingError,
    TracerIntegerConversionError,
)

X = np.arange(5.0)
Y = np.arange(20.0).reshape(4, 5)


def zeros(shape: Any) -> Any:
    return np.zeros(shape)


def first_of(p: Any) -> Any:
    return np.zeros(p["n"][0])


#: Shapes that aren't known, given to NumPy.
SHAPES: dict[str, Callable[[Any], Any]] = {
    "ones": np.ones,
    "zeros": np.zeros,
    "empty": lambda n: np.empty(n, np.float32),
    "full": lambda n: np.full(n, 1.0),
    "pair": lambda n: np.zeros((2, n)),
    "in a tree": lambda n: first_of({"n": (n,)}),
    "in a function": lambda n: zeros(n) * 2,
    "computed": lambda n: np.zeros((n * tnp.ones(1, "uint8")).sum().astype("uint8")),  # which no variable holds
}


@pytest.mark.parametrize("transformed", [tj.jit, tj.make_jaxpr, lambda f: lambda n: tj.vmap(f)(np.arange(n))])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_are_not_known(name: str, transformed: Any) -> None:
    message = "A shape must be known, but NumPy got" if name == "computed" else "can't be used as an index or size: it"
    with pytest.raises(TracerIntegerConversionError, match=message) as found:
        transformed(SHAPES[name])(3)
    assert ("u8[]" if name == "computed" else "i64[]") in str(found.value)


def ones_of(n: Any) -> Any:
    return np.ones(n)


def test_the_hint_for_a_shape_runs() -> None:
    with pytest.raises(TracerIntegerConversionError) as found:
        tj.jit(ones_of)(3)
    (hint,) = re.findall(r"`(.*?)`", str(found.value))
    np.testing.assert_array_equal(eval(hint, {"tinyjax": tj, "ones_of": ones_of})(n=3), np.ones(3))  # noqa: S307


def test_other_errors_stay() -> None:
    three: Any = "three"

    def wrong(x: Any) -> Any:
        return np.ones(three) * x

    def unrelated(x: Any) -> Any:
        raise TypeError("expected a sequence of integers or a single integer, got 'nothing'")

    for f in (wrong, unrelated):
        with pytest.raises(TypeError, match=r"single integer|interpreted as an integer") as found:
            tj.jit(f)(1.0)
        assert type(found.value) is TypeError


#: Slices that aren't known, and what they are where they are.
SLICES: dict[str, Callable[..., Any]] = {
    "window": lambda x, y, i, n: x[i : i + 2],
    "window turned": lambda x, y, i, n: x[i : 2 + i],
    "row": lambda x, y, i, n: y[i : i + 2],
    "column": lambda x, y, i, n: y[:, i : i + 2],
    "of a row": lambda x, y, i, n: y[0, i : i + 2],
    "of a column": lambda x, y, i, n: y[i : i + 2, -1],
    "of a part": lambda x, y, i, n: y[1:3, i : i + 2],
    "computed": lambda x, y, i, n: (x * 2)[i + 1 : i + 1 + 2],
    "update": lambda x, y, i, n: x.at[i : i + 2].set(7.0 * x[:2]),
    "update of columns": lambda x, y, i, n: y.at[:, i : i + 2].set(0.0 * y[:, :2]),
}
#: Those whose size isn't known: the others are zero instead.
MASKED: dict[str, Callable[..., Any]] = {
    "first": lambda x, y, i, n: x[:n],
    "last": lambda x, y, i, n: x[i:],
    "between": lambda x, y, i, n: x[i:n],
    "rows": lambda x, y, i, n: y[i:n],
    "columns": lambda x, y, i, n: y[:, i:n],
    "row": lambda x, y, i, n: y[0, i:n],
}


def hint_of(f: Callable[..., Any]) -> Any:
    """What the error suggests, as a function of the same arguments."""
    with pytest.raises(IndexingError, match="the bounds of a slice must be known") as found:
        tj.jit(f)(X, Y, 1, 3)
    hint = re.findall(r"`(.*?)`", str(found.value))[0]
    return eval(f"lambda x, y, i, n: {hint}", {"tinyjax": tj})  # noqa: S307


@pytest.mark.parametrize("name", SLICES)
def test_hints_for_slices_run(name: str) -> None:
    f = SLICES[name]
    expected = f(tnp.asarray(X), tnp.asarray(Y), 1, 3)
    np.testing.assert_array_equal(tj.jit(hint_of(f))(X, Y, 1, 3), expected)


@pytest.mark.parametrize("name", MASKED)
def test_hints_for_slices_of_unknown_size_run(name: str) -> None:
    f = MASKED[name]
    taken = tnp.zeros_like(X if name in ("first", "last", "between") else Y[0] if name == "row" else Y)
    found = np.asarray(tj.jit(hint_of(f))(X, Y, 1, 3))
    assert found.shape == taken.shape
    np.testing.assert_allclose(found.sum(), np.sum(f(X, Y, 1, 3)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y, i, n: y[i, i : i + 2],
        lambda x, y, i, n: y[i : i + 2, i : i + 2],
        lambda x, y, i, n: x[i::2],
        lambda x, y, i, n: x.at[i:n].set(0.0),
        lambda x, y, i, n: x[slice(i, n)],
        lambda x, y, i, n: x.at[i:n].add(1.0),
    ],
)
def test_every_unknown_slice_has_advice(f: Any) -> None:
    with pytest.raises(IndexingError, match=r"must be known.*traced by jit of <lambda>"):
        tj.jit(f)(X, Y, 1, 3)


#: Keys that aren't known, and what is found in the end.
KEYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dict": (lambda x: {x: 1}, "A key must be known"),
    "set": (lambda x: {x}, "A key must be known"),
    "hash": (hash, "A key must be known"),
    "look-up": (lambda x: {0: 1.0, 1: 2.0}[x], "tinyjax.lax.switch"),
    "in": (lambda x: x in {1.0, 2.0}, "tinyjax.numpy.any"),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("transformed", [tj.jit, lambda f: lambda x: tj.vmap(f)(np.full(2, x))])
def test_keys(name: str, transformed: Any) -> None:
    f, advice = KEYS[name]
    with pytest.raises(
        ConcretizationError, match="can't be hashed, so it can't be a key or a static argument"
    ) as found:
        transformed(f)(1.0)
    assert isinstance(found.value, TypeError)
    assert advice in str(found.value)
    for hint in re.findall(r"`(.*?)`", str(found.value)):
        if "static" not in hint:
            value = tj.jit(eval(f"lambda x: {hint}", {"tinyjax": tj}))(1.0)  # noqa: S307
            assert value == (f(1.0) if name in ("look-up", "in") else value)


def test_known_values_are_no_keys_either() -> None:
    with pytest.raises(InputError, match="arrays can't be hashed"):
        tj.grad(lambda x: hash(x) * x)(1.0)


def endless(transformation: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def again(x: Any) -> Any:
        return transformation(again)(x)

    return again


ENDLESS: dict[str, Callable[[Any], Any]] = {
    "grad": tj.grad,
    "value_and_grad": lambda f: lambda x: tj.value_and_grad(f)(x)[0],
    "jvp": lambda f: lambda x: tj.jvp(f, (x,), (x,))[0],
    "vjp": lambda f: lambda x: tj.vjp(f, x)[0],
    "vmap": lambda f: lambda x: tj.vmap(f, in_axes=None, axis_size=2)(x)[0],
    "linearize": lambda f: lambda x: tj.linearize(f, x)[0],
    "jacfwd": tj.jacfwd,
    "hessian": tj.hessian,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_recursion_names_the_function(name: str) -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(
        RecursiveTracingError, match=r"of again \(.*test_failing.py:\d+\) is being transformed inside itself"
    ):
        endless(ENDLESS[name])(2.0)
    assert sys.getrecursionlimit() == limit
    assert tj.grad(lambda x: x * x)(3.0) == 6.0  # and all is as it was


def test_recursion_of_python_is_pythons() -> None:
    def down(x: Any) -> Any:
        return down(x * 2)

    for transformed in (tj.jit, tj.grad):
        with pytest.raises(RecursionError, match="maximum recursion depth") as found:
            transformed(down)(1.0)
        assert not isinstance(found.value, RecursiveTracingError)
