"""Loops read most rows of an array where they are: a slice of them would be a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tn

Cut: TypeAlias = Callable[[tj.Array], tj.Array]
READ_IN_PLACE: Final[list[Cut]] = [
    lambda x: x[1:],
    lambda x: x[:-1],
    lambda x: x[2:-1],
    lambda x: x[1:][:-2][1:],
    lambda x: tn.split(x, [3])[1],
]
COPIED: Final[list[Cut]] = [
    lambda x: x[::2],
    lambda x: x[1:, :2],
    lambda x: x[:4],
    lambda x: x[1:] + 1.0,
]
X: Final = np.arange(36.0).reshape(12, 3)


def looped(cut: Cut, reverse: bool, unroll: int) -> Callable[[tj.Array], object]:
    def step(carry: tj.Array, row: tj.Array) -> tuple[tj.Array, tj.Array]:
        return carry * 0.5 + row.sum(), row * carry

    return lambda x: tj.lax.scan(step, tn.asarray(1.0), cut(x), reverse=reverse, unroll=unroll)


@pytest.mark.parametrize("cut", [*READ_IN_PLACE, *COPIED])
@pytest.mark.parametrize(("reverse", "unroll"), [(False, 1), (True, 1), (False, 4), (True, 4), (False, 100)])
def test_the_same_rows(cut: Cut, reverse: bool, unroll: int) -> None:
    f = looped(cut, reverse, unroll)
    for found, expected in zip(tj.tree.leaves(tj.jit(f)(tn.asarray(X))), tj.tree.leaves(f(tn.asarray(X))), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-13)


@pytest.mark.parametrize("cut", READ_IN_PLACE)
def test_no_copies(cut: Cut) -> None:
    """XLA drops the slice, which nobody reads."""
    big = tn.zeros((4096, 3))
    lowered = tj.jit(looped(cut, False, 1)).lower(big)
    assert lowered.as_text().count("stablehlo.dynamic_slice %arg0") == 1
    assert lowered.compile().memory_analysis().temp_size_in_bytes < big.nbytes // 2


@pytest.mark.parametrize("cut", COPIED)
def test_what_isnt_rows_of_it_is_a_copy(cut: Cut) -> None:
    assert "stablehlo.dynamic_slice %arg0" not in tj.jit(looped(cut, False, 1)).lower(tn.asarray(X)).as_text()


def test_keys_of_most_rows() -> None:
    keys = tj.random.split(tj.random.key(0), 6)

    def f(keys: tj.Array) -> tj.Array:
        return tj.lax.map(lambda key: tj.random.uniform(key, (2,)), keys[1:])

    np.testing.assert_array_equal(np.asarray(tj.jit(f)(keys)), np.asarray(f(keys)))
