"""Functions that NumPy has as one: to the bit what their primitives make of the same numbers."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax.interpreters import EvalContext
from tinyjax.ir import ConcreteValue, interpret
from tinyjax.prepared.runners import Kernel, Kernels
from tinyjax.prepared.table import TABLE

Array = np.ndarray[Any, Any]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 3.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30, 2.0**21 + 0.5, 2.0**22 + 1]
INTEGERS: list[float] = [0, 1, 2, 7, 100, 127]


def numbers(dtype: str) -> list[float]:
    if dtype.startswith("float"):
        return FLOATS
    return INTEGERS if dtype.startswith("u") else [*INTEGERS, -1, -3, -128]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint8"])
@pytest.mark.parametrize("function", [operator.mod, operator.floordiv])
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("on_device", [True, False])
def test_the_same_as_their_primitives(
    function: Callable[[Any, Any], Any], dtype: str, together: bool, on_device: bool
) -> None:
    values = np.array(numbers(dtype), dtype)
    xs = [values] if together else [np.array([x, values[1]]) for x in values]
    program = tj.make_jaxpr(function)(xs[0], values[0])
    assert not program.consts
    for x, y in itertools.product(xs, values):
        # An array of no dimensions, and of one.
        a, b = tj.numpy.asarray(x), tj.numpy.asarray(y)
        if on_device:
            a, b = tj.jit(lambda x, y: (x, y))(a, b)
        found = [np.asarray(function(a, b)) for _ in range(3)][-1]
        (wanted,) = (
            np.asarray(z) for z in interpret(EvalContext(), program.jaxpr, list(map(ConcreteValue.of, (x, y))))
        )
        np.testing.assert_array_equal(found, wanted, err_msg=f"{x} and {y}")
        if dtype.startswith("float"):
            seen = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found[seen]), np.signbit(wanted[seen]), err_msg=f"{x} and {y}")


def test_they_are_one_step() -> None:
    x, y = tj.numpy.asarray(np.array([0.5, -1.5, 2.25])), tj.numpy.asarray(np.float64(0.75))
    for _ in range(3):
        assert (x % y).shape == (x // y).shape == (3,)
    kinds = {
        getattr(entry.kept[0], "__name__", ""): type(entry.host)
        for entry in TABLE.entries.values()
        if x.aval in entry.kept
    }
    assert kinds["_remainder"] is Kernel
    assert kinds["_floor_divide"] is Kernel


WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
BOUNDS = {
    "ascending": np.array([-1.0, -0.0, 0.3, 0.3, 3.0, 1e30]),
    "with infinities and nan": np.array([-np.inf, 0.0, 1.0, np.inf, np.nan]),
    "descending": np.array([3.0, 0.3, 0.3, 0.0, -1.0]),
    "one": np.array([0.3]),
}


def whole(dtype: str) -> Array:
    limits = np.iinfo(dtype)
    return np.array([0, 1, 2, 6, 9, 12, 100, 127, limits.max - 1, limits.max, limits.min, limits.min + 1], dtype)


def assert_as_primitives(function: Callable[..., Any], *args: Array) -> None:
    """The third call, which is one step if any is, gives what the primitives give, to the bit."""
    program = tj.make_jaxpr(function)(*args)
    wanted = interpret(EvalContext(), program.jaxpr, [*program.consts, *map(ConcreteValue.of, args)])
    for arrays in (list(map(tj.numpy.asarray, args)), tj.jit(lambda *xs: xs)(*args)):
        found = [tj.tree.leaves(function(*arrays)) for _ in range(3)][-1]
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            x, y = np.asarray(one), np.asarray(other)
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)
            if x.dtype.kind == "f":
                seen = ~np.isnan(y)
                np.testing.assert_array_equal(np.signbit(x[seen]), np.signbit(y[seen]))


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("function", [tj.numpy.gcd, tj.numpy.lcm])
def test_whole_numbers(function: Callable[..., Any], dtype: str) -> None:
    x = whole(dtype)
    pairs = list(itertools.product(x, x))
    assert_as_primitives(function, *(np.array(side, dtype) for side in zip(*pairs, strict=True)))
    assert_as_primitives(function, x, x[4])
    assert_as_primitives(function, x[3], x[5])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_results(dtype: str) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    odd = np.array([*FLOATS, tiny, -3 * tiny], dtype)
    assert_as_primitives(tj.numpy.frexp, odd)
    assert_as_primitives(tj.numpy.frexp, odd[4])
    plain = np.array([0.5, -1.5, 2.25, 7.0], dtype)
    for x, y in itertools.product((odd, plain), (odd, plain)):
        assert_as_primitives(tj.numpy.divmod, x[:, None], y)
        assert_as_primitives(operator.floordiv, x[:, None], y)
    assert_as_primitives(tj.numpy.divmod, plain, plain[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_that_numpy_has_too(dtype: str) -> None:
    limits = np.finfo(dtype)
    edges = [limits.smallest_subnormal, -3 * limits.smallest_subnormal, limits.tiny, limits.max, limits.min]
    odd = np.array([*FLOATS, *edges, 1 - limits.eps / 2, 1 + limits.eps], dtype)
    assert_as_primitives(tj.numpy.spacing, odd)
    for function in (tj.numpy.fmax, tj.numpy.fmin, tj.numpy.heaviside, tj.numpy.copysign):
        assert_as_primitives(function, odd[:, None], odd)
        assert_as_primitives(function, odd, odd[3])


@pytest.mark.parametrize("dtype", [*WHOLE, "bool"])
def test_bits_of_bytes(dtype: str) -> None:
    x = np.array([0, 1, 2, 0, 7, 0, 0, 1, 1, 0, 100, 0], dtype)
    assert_as_primitives(tj.numpy.packbits, x)
    assert_as_primitives(tj.numpy.packbits, x.reshape(3, 4))
    assert_as_primitives(tj.numpy.packbits, x[1])


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_places_among_bounds(bounds: str, dtype: str) -> None:
    values, ordered = np.array([[*FLOATS]], dtype), BOUNDS[bounds].astype(dtype)
    for right in (False, True):
        assert_as_primitives(lambda x, y, right=right: tj.numpy.digitize(x, y, right), values, ordered)
        if bounds != "descending":
            side = "right" if right else "left"
            assert_as_primitives(lambda x, y, side=side: tj.numpy.searchsorted(x, y, side), ordered, values)
    assert_as_primitives(tj.numpy.isin, values, ordered)


@pytest.mark.parametrize("dtype", WHOLE)
def test_whole_numbers_among_others(dtype: str) -> None:
    x = whole(dtype)
    assert_as_primitives(tj.numpy.isin, x.reshape(3, 4), x[::3])
    assert_as_primitives(tj.numpy.searchsorted, np.sort(x), x.reshape(3, 4))
    assert_as_primitives(tj.numpy.digitize, x, np.sort(x)[::-1])


@pytest.mark.parametrize(
    ("name", "inner", "args"),
    [
        ("gcd", "_gcd", (np.array([4, 6]), np.array([6, 9]))),
        ("lcm", "_lcm", (np.array([4, 6]), np.array([6, 9]))),
        ("frexp", "frexp", (np.array([0.5, 3.0]),)),
        ("divmod", "_float_divmod", (np.array([0.5, 3.0]), np.array([0.25, 2.0]))),
    ],
)
def test_they_need_no_loop(name: str, inner: str, args: tuple[Array, ...]) -> None:
    function = getattr(tj.numpy, name)
    arrays = list(map(tj.numpy.asarray, args))
    for _ in range(3):
        function(*arrays)
        function(arrays[0], *[2] * (len(args) - 1))  # what isn't an array is one, or has no such form
    kept = {entry.kept[0]: entry for entry in TABLE.entries.values() if arrays[0].aval in entry.kept}
    (entry,) = [entry for of, entry in kept.items() if getattr(of, "__name__", "") in (name, inner)]
    assert isinstance(entry.host, Kernel) or (isinstance(entry.host, Kernels) and len(entry.host.steps) == 1)


def test_divisors_that_are_arrays() -> None:
    x, y = np.array([0.5, -1.5, 2.25, 0.0]), np.array([0.5, 0.4, -0.75, 0.0])
    found = [(tj.numpy.asarray(x) // y, tj.numpy.asarray(x) % y) for _ in range(3)]
    quotients, rest = found[-1]
    np.testing.assert_array_equal(quotients[:3], np.floor_divide(x[:3], y[:3]))
    np.testing.assert_array_equal(rest[:3], np.remainder(x[:3], y[:3]))
    assert np.isnan(quotients[3])
    assert np.isnan(rest[3])
