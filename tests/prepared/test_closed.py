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
from tinyjax.prepared.runners import Kernel
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


def test_divisors_that_are_arrays() -> None:
    x, y = np.array([0.5, -1.5, 2.25, 0.0]), np.array([0.5, 0.4, -0.75, 0.0])
    found = [(tj.numpy.asarray(x) // y, tj.numpy.asarray(x) % y) for _ in range(3)]
    quotients, rest = found[-1]
    np.testing.assert_array_equal(quotients[:3], np.floor_divide(x[:3], y[:3]))
    np.testing.assert_array_equal(rest[:3], np.remainder(x[:3], y[:3]))
    assert np.isnan(quotients[3])
    assert np.isnan(rest[3])
