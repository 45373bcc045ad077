"""Shapes and axes that products of groups refuse: those that JAX does, with a message that says what is meant."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tinyjax import lax
from tinyjax.errors import ShapeError, TinyjaxError

#: Shapes of the operands and of the sizes of groups, and the numbers.
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[Any, ...]]] = {
    "kept": ((11, 5), (3, 5, 7), (3,), ((((1,), (1,)), ((), ())), (0,), (0,))),
    "kept, batched": ((4, 6, 11, 5), (3, 4, 5, 7), (4, 6, 3), ((((3,), (2,)), ((0,), (1,))), (2,), (0,))),
    "summed": ((11, 5), (11, 7), (3,), ((((0,), (0,)), ((), ())), (0,), ())),
    "summed, batched": ((4, 6, 5, 2), (4, 5, 2, 7), (4, 5, 3), ((((2, 3), (1, 2)), ((0,), (0,))), (3,), ())),
    "of the batch": ((4, 6, 5), (4, 6, 5, 7), (4, 3), ((((2,), (2,)), ((0, 1), (0, 1))), (1,), ())),
}


def outcome(lib: Any, numpy: Any, x: Any, y: Any, sizes: Any, numbers: Any) -> tuple[int, ...] | None:
    """The shape of the result; None if it is refused."""
    try:
        made = lib.RaggedDotDimensionNumbers(*numbers)
        found: tuple[int, ...] = lib.ragged_dot_general(
            numpy.ones(x), numpy.ones(y), numpy.ones(sizes, "int32"), made
        ).shape
    except (TypeError, ValueError, TinyjaxError):
        return None
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_what_jax_refuses_is_refused(case: str) -> None:
    x, y, sizes, (dots, ragged, groups) = CASES[case]
    others = {*itertools.permutations(sizes), sizes[-1:], (2, *sizes), tuple(n + 1 for n in sizes)}
    others |= {(*sizes[:-1], sizes[-1] + 1), (sizes[-1] - 1,)}
    for given in others:
        numbers = dots, ragged, groups
        assert outcome(lax, np, x, y, given, numbers) == outcome(jax.lax, jnp, x, y, given, numbers), given
    for axes in [(), *((i,) for i in range(len(y))), (0, 1)]:
        numbers = dots, ragged, axes
        assert outcome(lax, np, x, y, sizes, numbers) == outcome(jax.lax, jnp, x, y, sizes, numbers), axes
    for axis in [(), *((i,) for i in range(len(x) + 1)), (0, 1)]:
        numbers = dots, axis, groups
        assert outcome(lax, np, x, y, sizes, numbers) == outcome(jax.lax, jnp, x, y, sizes, numbers), axis


@pytest.mark.parametrize(
    ("case", "sizes", "groups", "match"),
    [
        ("of the batch", (6, 3), (), r"group_sizes has the shape \(4, 3\), for the axes \(0,\) of the left operand"),
        ("kept", (2,), (0,), "there are 2 groups in group_sizes"),
        ("kept", (3,), (1,), "neither summed over, as \\(1,\\) are"),
        ("kept", (3,), (), "needs an axis of groups"),
    ],
)
def test_the_error_says_what_it_should_be(case: str, sizes: Any, groups: Any, match: str) -> None:
    x, y, _, (dots, ragged, _) = CASES[case]
    numbers = lax.RaggedDotDimensionNumbers(dots, ragged, groups)
    with pytest.raises(ShapeError, match=match):
        lax.ragged_dot_general(np.ones(x), np.ones(y), np.ones(sizes, "int32"), numbers)
