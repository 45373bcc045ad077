"""Sums of scalars that layers make, whatever the order is in which they are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import F64, assert_close, numbers, program, run
from tinyjax import Array, ShapedArray, transforms
from tinyjax.ir import Jaxpr
from tinyjax.testing import check_laws
from tinyjax.transforms.scalar_sums import sums_of_stacks

M = ShapedArray((3, 3), "float64")
N = 9


def added(order: Callable[[int], int], start: float = 0.0) -> Callable[..., Array]:
    """A chain of layers, and the sum of their norms in some order."""

    def f(x: Array, *weights: Array) -> Array:
        norms = []
        for w in weights:
            x = tnp.tanh(tnp.sin(x @ w) * 2.0)
            norms.append(tnp.sum(x * x))
        total = tnp.asarray(start)
        for i in range(len(norms)):
            total = total + norms[order(i)]
        return total * tnp.sum(x)

    return f


def names(jaxpr: Jaxpr) -> list[str]:
    return [eqn.primitive.name for eqn in jaxpr.eqns]


ORDERS = {"forward": lambda i: i, "backward": lambda i: N - 1 - i, "as names are": lambda i: i * 4 % N}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("start", [0.0, 2.5])
def test_all_rows_of_a_stack_are_added_at_once(order: Callable[[int], int], start: float) -> None:
    j = program(added(order, start), M, *[M] * N)
    rolled = transforms.reroll(j, bordered=True)
    args = numbers(j.in_avals)
    assert_close(run(rolled, args), run(j, args))
    assert names(rolled).count("scan") == 1
    assert names(rolled).count("add") == (start != 0.0)
    assert names(rolled)[-3 - (start != 0.0)] == "reduce_sum"
    assert "slice" not in names(rolled)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_the_order_stays_by_default(order: Callable[[int], int]) -> None:
    j = program(added(order), M, *[M] * N)
    check_laws(j, laws=["reroll"])
    rolled = transforms.reroll(j)
    stacks = [eqn for eqn in rolled.eqns if eqn.primitive.name == "reduce_sum" and len(eqn.invars[0].aval.shape) == 1]
    assert not stacks
    args = numbers(j.in_avals)
    for found, expected in zip(run(rolled, args), run(j, args), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_derivatives_of_such_sums(order: Callable[[int], int]) -> None:
    j = program(tj.grad(added(order), argnums=tuple(range(N + 1))), M, *[M] * N)
    rolled = transforms.reroll(j, bordered=True)
    args = numbers(j.in_avals)
    assert_close(run(rolled, args), run(j, args))
    assert len(rolled.eqns) < len(j.eqns) / 2


def scalars(f: Callable[..., object], count: int, aval: ShapedArray = F64) -> Jaxpr:
    return program(lambda *xs: f(xs), *[aval] * count)


def total(xs: Sequence[Array]) -> Array:
    found = xs[0]
    for x in xs[1:]:
        found = found + x
    return found


def test_terms_are_joined() -> None:
    j = scalars(lambda xs: total([total(xs[:5]), total(xs[5:]), xs[0]]), 9)
    found = sums_of_stacks(j)
    assert names(found) == ["stack", "reduce_sum"]
    args = numbers(j.in_avals)
    assert_close(run(found, args), run(j, args))


@pytest.mark.parametrize(
    "j",
    [
        scalars(total, 7),
        scalars(total, 12, ShapedArray((), "int64")),
        scalars(total, 12, ShapedArray((2, 2), "float64")),
        scalars(total, 12, ShapedArray((5000,), "float64")),
        scalars(lambda xs: list(accumulate(xs, lambda x, y: x + y)), 12),
    ],
    ids=["few", "integers", "matrices", "long vectors", "sums that are read"],
)
def test_other_sums_stay(j: Jaxpr) -> None:
    assert sums_of_stacks(j) is j


def test_short_vectors_are_joined() -> None:
    j = scalars(total, 12, ShapedArray((2,), "float64"))
    found = sums_of_stacks(j)
    assert names(found) == ["stack", "reduce_sum"]
    args = numbers(j.in_avals)
    assert_close(run(found, args), run(j, args))


def test_a_vector_and_numbers() -> None:
    """Numbers are added as they are."""
    j = program(lambda s, *xs: total([*xs, s, *xs]) + 2.0, F64, *[ShapedArray((2,), "float64")] * 9)
    found = sums_of_stacks(j)
    assert names(found).count("reduce_sum") == 2
    args = numbers(j.in_avals)
    assert_close(run(found, args), run(j, args))


def test_a_sum_of_what_one_returns_as_well() -> None:
    """Its value is there by itself, and what comes after is another sum."""

    def f(xs: Sequence[Array]) -> list[Array]:
        first = total(xs)
        return [first, total([first, *xs])]

    j = scalars(f, 10)
    found = sums_of_stacks(j)
    assert names(found).count("reduce_sum") == 2
    args = numbers(j.in_avals)
    assert_close(run(found, args), run(j, args))


def test_weak_scalars_stay_weak() -> None:
    j = scalars(total, 10, ShapedArray((), "float64", weak_type=True))
    assert sums_of_stacks(j).out_avals == j.out_avals


def test_nan_and_infinity() -> None:
    j = scalars(total, 9)
    args = [np.float64(v) for v in (1, 2, np.inf, 3, 4, 5, np.nan, 6, 7)]
    assert np.isnan(run(sums_of_stacks(j), args)[0])
