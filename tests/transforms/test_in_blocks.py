"""Programs that are one run of blocks as they stand are left in their order; others aren't."""

from __future__ import annotations

import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array
from tinyjax.transforms.repeats import Reads, in_blocks, labels, periods
from tinyjax.transforms.rows import find_lazy

COUNT = 6


def plain(x: Array, weights: list[Array]) -> Array:
    for w in weights:
        x = tnp.sin(x @ w) + x
    return tnp.sum(x)


def converted_first(x: Array, weights: list[Array]) -> Array:
    """Something is computed for each layer ahead of all of them."""
    return plain(x, [w.astype("float32").astype("float64") for w in weights])


def of_the_layer_before(x: Array, weights: list[Array]) -> Array:
    """The same primitives in turn, but what they read isn't as far away in each layer."""
    values = [x]
    for i, w in enumerate(weights):
        values.append(tnp.sin(values[i // 2] @ w) + values[-1])
    return values[-1]


@pytest.mark.parametrize(
    ("function", "expected"), [(plain, True), (converted_first, False), (of_the_layer_before, False)]
)
def test_in_blocks(function: object, expected: bool) -> None:
    assert callable(function)
    one = tj.ShapeDtypeStruct((2, 2), "float64")
    jaxpr = tj.make_jaxpr(function)(one, [one] * COUNT).jaxpr
    homes = find_lazy(jaxpr).homes(jaxpr, jaxpr.eqns)
    numbers = labels(jaxpr.eqns)
    assert in_blocks(numbers, periods(numbers), lambda: Reads(jaxpr.eqns, homes)) is expected
    # Wherever they stand, there is a loop.
    found = tj.transforms.repeats(jaxpr).found
    assert [each.count for each in found][:1] == [COUNT] or function is of_the_layer_before
