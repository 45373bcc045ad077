"""Layers that take arrays of their own, or of all, apart: each row stays the row that it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import assert_close, numbers, program, run
from tinyjax import Array, ShapedArray, lax, transforms

V: Final = ShapedArray((4,), "float64")
P: Final = ShapedArray((3, 4), "float64")


def unstacked(i: int, p: Array, shared: Array, x: Array) -> Array:
    a, b, c = tnp.unstack(p)
    return x + tnp.tanh(x * b + c) * a


def other_rows(i: int, p: Array, shared: Array, x: Array) -> Array:
    return x + tnp.sin(x * tnp.unstack(p)[i % 3])


def only_the_last(i: int, p: Array, shared: Array, x: Array) -> Array:
    return x + tnp.sin(x * tnp.unstack(p)[2])


def computed(i: int, p: Array, shared: Array, x: Array) -> Array:
    a, b, c = tnp.unstack(p * tnp.mean(x))
    return x + tnp.tanh(x * b + c) * a


def computed_other_rows(i: int, p: Array, shared: Array, x: Array) -> Array:
    return x + tnp.sin(x * tnp.unstack(tnp.sin(p) * tnp.mean(x))[i % 3])


def the_same_in_all(i: int, p: Array, shared: Array, x: Array) -> Array:
    a, b, c = tnp.unstack(tnp.sin(shared))
    return x + tnp.tanh(x * b + c) * a * p[1]


def columns(i: int, p: Array, shared: Array, x: Array) -> Array:
    first, second, *_ = tnp.unstack(p, axis=1)
    return x + tnp.sin(x) * tnp.sum(second) + tnp.mean(first)


def within(i: int, p: Array, shared: Array, x: Array) -> Array:
    rows = tnp.unstack(tnp.stack([tnp.cos(x), p[2], x * 0.5, p[0]]))
    return x + rows[1] * rows[2] - rows[3] * rows[0]


def of_rows(i: int, p: Array, shared: Array, x: Array) -> Array:
    square = tnp.reshape(tnp.unstack(p)[1], (2, 2))
    a, b = tnp.unstack(square)
    return x + tnp.concatenate([b, a]) * tnp.sin(x)


def parts(i: int, p: Array, shared: Array, x: Array) -> Array:
    a, b = tnp.split(x * p[0], [1])
    return x + tnp.sin(tnp.concatenate([b, a])) * tnp.split(p, 3)[2][0]


def best(i: int, p: Array, shared: Array, x: Array) -> Array:
    values, _ = lax.top_k(x * p[1], 4)
    return x + tnp.sin(values) * p[0]


LAYERS: Final = (
    unstacked,
    other_rows,
    only_the_last,
    computed,
    computed_other_rows,
    the_same_in_all,
    columns,
    within,
    of_rows,
    parts,
    best,
)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
@pytest.mark.parametrize("depth", [7, 12])
def test_each_row_stays_what_it_is(layer: Callable[[int, Array, Array, Array], Array], depth: int) -> None:
    def f(*args: Array) -> Array:
        *ps, shared, x = args
        for i, p in enumerate(ps):
            x = layer(i, p, shared, x)
        return x

    gradient = tj.grad(lambda *args: tnp.sum(tnp.cos(f(*args))), argnums=tuple(range(depth + 2)))
    functions: list[Callable[..., object]] = [f, gradient]
    for function in functions:
        j = program(function, *[P] * depth, P, V)
        args = numbers(j.in_avals, seed=depth)
        args[:-1] = [0.3 * arg for arg in args[:-1]]  # of which the last layers still tell the first ones
        rolled = transforms.reroll(j)
        assert_close(run(rolled, args), run(j, args))
        assert_close(run(transforms.unroll(rolled), args), run(j, args))
        assert_close(tj.tree.leaves(tj.jit(function, reroll=True)(*args)), run(j, args))
