"""Programs of kernels as functions of Python's: a value is there as long as something reads it."""

from __future__ import annotations

import itertools
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.ir import ShapedArray
from tinyjax.prepared.functions import FunctionProgram, _on_host
from tinyjax.prepared.lines import Step, may_differ, run_of

Array = np.ndarray[Any, Any]
VECTOR, NUMBER, WHOLE = ShapedArray((2,), "f64"), ShapedArray((), "f64"), ShapedArray((2,), "i64")


def both(x: Array, y: Array) -> list[Array]:
    return [x + y, x - y]


def test_values_are_overwritten_when_nothing_reads_them_any_more() -> None:
    two, x, y = np.array(2.0), np.array([1.0, 2.0]), np.array([10.0, 20.0])
    steps = [
        Step(np.multiply, [1, 0], [VECTOR]),  # 3: 2x
        Step(both, [1, 2], [VECTOR, VECTOR], several=True),  # 4, 5: x + y, which nothing reads, and x - y
        Step(np.add, [3, 3], [VECTOR]),  # 6: 4x
        Step(np.add.reduce, [5], [NUMBER]),  # 7: the sum of x - y
        Step(np.add, [6, 7], [VECTOR]),  # 8
    ]
    run = run_of([two], 2, steps, [8, 3, 8, 2, 0])
    found = run([x, y])
    sums = 4 * x + (x - y).sum()
    for one, wanted in zip(found, [sums, 2 * x, sums, y, two], strict=True):
        np.testing.assert_array_equal(one, wanted)
    assert found[3] is y
    np.testing.assert_array_equal(x, [1.0, 2.0])
    assert isinstance(run, FunctionType)
    assert len(run.__code__.co_varnames) < 1 + len(steps) + 3
    for one, wanted in zip(run([y, x]), [4 * y + (y - x).sum(), 2 * y], strict=False):
        np.testing.assert_array_equal(one, wanted)


def test_results_are_arrays_of_their_dtypes() -> None:
    numbers = run_of([], 1, [Step(np.add.reduce, [0], [NUMBER]), Step(np.negative, [1], [NUMBER])], [1, 2])
    assert [type(one) for one in numbers([np.ones(2)])] == [np.ndarray, np.ndarray]
    (narrow,) = run_of([], 1, [Step(np.negative, [0], [ShapedArray((2,), "f32")])], [1])([np.ones(2)])
    assert narrow.dtype == np.float32


def test_without_operands_and_without_steps() -> None:
    one = np.ones(2)
    assert run_of([one], 0, [], [0])([])[0] is one
    assert run_of([], 1, [], [0, 0])([one]) == [one, one]
    assert not run_of([one], 0, [Step(lambda x: [], [0], [], several=True)], [])([])


@pytest.mark.parametrize("function", [np.add, np.less, np.ldexp, np.add.reduce, np.negative])
def test_what_may_have_another_dtype(function: Any) -> None:
    assert may_differ(function, [VECTOR, VECTOR], VECTOR) == (function is not np.add)


def test_many_steps_on_many_operands() -> None:
    """As the function says that is made of them, whatever becomes of what is in between."""

    def f(*xs: Any) -> Any:
        found = list(xs)
        for i, (a, b) in enumerate(itertools.pairwise(range(40))):
            found.append(found[a] * 0.5 + found[b] if i % 3 else tnp.sum(found[a]) - found[b])
        return found[-1], found[7], found[len(xs)]

    xs = [np.arange(3.0) + i for i in range(5)]
    program = tj.make_jaxpr(f)(*xs)
    kernels = _on_host(FunctionProgram(program.jaxpr, (), tuple))
    assert kernels is not None
    for (elements, _), wanted in zip(kernels.results(xs), f(*map(tnp.asarray, xs)), strict=True):
        np.testing.assert_array_equal(elements, wanted)
