"""Layers within conditionals and loops: one conditional for each tensor, and loops that are given stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import program
from tinyjax import Array, ShapedArray, lax, transforms
from tinyjax.control.cond import Cond
from tinyjax.control.scan import Scan
from tinyjax.ir import Jaxpr, typecheck
from tinyjax.transforms.border import bordered
from tinyjax.transforms.layered import loop_bodies, parted, stacked_loops

F: Any = ShapedArray((), "float64")
V: Any = ShapedArray((3,), "float64")
M: Any = ShapedArray((4, 3), "float64")


def names(j: Jaxpr) -> list[str]:
    return [eqn.primitive.name for eqn in j.eqns]


def conds(j: Jaxpr) -> list[Cond]:
    return [eqn.primitive for eqn in j.eqns if isinstance(eqn.primitive, Cond)]


def same(one: Jaxpr, other: Jaxpr, *args: Any) -> None:
    for a, b in zip(tj.eval_jaxpr(one, (), *args), tj.eval_jaxpr(other, (), *args), strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_conditional_for_each_tensor() -> None:
    def f(count: Array, a: Array, b: Array, c: Array) -> object:
        def change(count: Array, a: Array, b: Array, c: Array) -> tuple[Array, ...]:
            rate = 1.0 / (count + 1.0)
            return a * rate + tnp.sum(a), b - tnp.sin(c), tnp.zeros(3), count + 1.0

        return lax.cond(count > 1.0, change, lambda count, a, b, c: (a, c, b, count), count, a, b, c)

    j = program(f, F, V, V, V)
    found = parted(j)
    typecheck(found)
    # Of the second result and of the third one together, as one is what the other was; and of what scalars are.
    assert [len(each.branches[0].outvars) for each in conds(found)] == [1, 2, 1]
    assert [len(each.branches[0].invars) for each in conds(found)] == [2, 2, 1]
    for count in (0.0, 5.0):
        same(found, j, np.float64(count), *np.linspace(-1.0, 1.0, 9).reshape(3, 3))
    assert parted(found) == found


def test_what_a_norm_connects_is_one() -> None:
    def change(a: Array, b: Array) -> tuple[Array, Array]:
        norm = tnp.sum(a) + tnp.sum(b)
        return a / norm, b / norm

    j = program(lambda p, a, b: lax.cond(p > 0.0, change, lambda a, b: (a, b), a, b), F, V, V)
    assert parted(j) is j


def test_branches_with_effects_stay() -> None:
    def change(a: Array, b: Array) -> tuple[Array, Array]:
        tj.debug.print("{}", a)
        return a * 2.0, b * 2.0

    j = program(lambda p, a, b: lax.cond(p > 0.0, change, lambda a, b: (a, b), a, b), F, V, V)
    assert parted(j) is j


def layers_in_a_loop(*weights: Array) -> tuple[Array, ...]:
    """All kinds of operands and results of a loop have layers: constants, carries, rows, and what is stacked."""
    *ws, xs = weights
    n = len(ws) // 2

    def step(carry: tuple[Array, ...], row: Array) -> tuple[tuple[Array, ...], list[Array]]:
        found = []
        for w, state in zip(ws[:n], carry, strict=True):
            row = tnp.sin(row * w + state) - tnp.cos(row) * w
            found.append(row)
        return tuple(found), [each * 2.0 for each in found]

    last, ys = lax.scan(step, tuple(ws[n:]), xs)
    return *last, *ys


@pytest.mark.sweep
def test_loops_are_given_stacks() -> None:
    depth = 12
    j = program(layers_in_a_loop, *[V] * (2 * depth), M)
    (body,) = loop_bodies(j)
    assert len(body.invars) == 2 * depth + 1
    found = transforms.reroll(j, at_least=1, bordered=True)
    typecheck(found)
    (loop,) = [eqn.primitive for eqn in found.eqns if isinstance(eqn.primitive, Scan)]
    assert len(loop.jaxpr.invars) + len(loop.jaxpr.outvars) < 2 * depth
    assert any(isinstance(eqn.primitive, Scan) for eqn in loop.jaxpr.eqns)
    args = [*np.linspace(-1.0, 1.0, 2 * depth * 3).reshape(-1, 3), np.ones((4, 3))]
    same(found, j, *args)


def test_what_is_compiled_of_loops_has_one_size() -> None:
    sizes = []
    for depth in (24, 36):
        border = bordered(
            transforms.reroll(program(layers_in_a_loop, *[V] * (2 * depth), M), at_least=40, bordered=True)
        )
        assert border is not None
        sizes.append((len(border.program.eqns), len(border.program.invars), len(border.program.outvars)))
    assert sizes[0] == sizes[1]


def test_loops_without_layers_stay() -> None:
    j = program(lambda xs: lax.scan(lambda c, x: (c + x, c * x), tnp.zeros(3), xs), M)
    assert stacked_loops(j) is j
    assert transforms.reroll(j, bordered=True) == j


@pytest.mark.sweep
def test_gradients_and_maps_of_loops_of_layers() -> None:
    depth = 8

    def loss(*weights: Array) -> Array:
        total = tnp.asarray(0.0)
        for each in layers_in_a_loop(*weights):
            total = total + tnp.sum(tnp.tanh(each))
        return total

    f = tj.vmap(tj.grad(loss, argnums=tuple(range(depth))), in_axes=(None,) * (2 * depth) + (0,))
    j = program(f, *[V] * (2 * depth), ShapedArray((2, 4, 3), "float64"))
    found = transforms.reroll(j, at_least=20, bordered=True)
    args = [*np.linspace(-1.0, 1.0, 2 * depth * 3).reshape(-1, 3), np.linspace(0.0, 1.0, 24).reshape(2, 4, 3)]
    assert sum(name == "scan" for name in names(found)) >= 2
    for a, b in zip(tj.eval_jaxpr(found, (), *args), tj.eval_jaxpr(j, (), *args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_stacks_that_are_handed_back() -> None:
    """Inputs that are stacked and also returned are returned as their stack."""

    def f(*ws: Array) -> tuple[Array, ...]:
        x = tnp.ones(3)
        for w in ws:
            x = tnp.sin(x * w) + tnp.cos(x)
        return x, *ws

    border = bordered(transforms.reroll(program(f, *[V] * 9), at_least=1, bordered=True))
    assert border is not None
    assert len(border.program.outvars) == 2
    assert len(border.program.eqns) <= 3
    assert border.results[1:] == tuple((1, i) for i in range(9))
    args = [tnp.full(3, float(i)) for i in range(9)]
    jitted = tj.jit(f, reroll=True)
    for a, b in zip(jitted(*args), f(*args), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
