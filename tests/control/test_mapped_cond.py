"""Reverse mode through a `cond` whose predicate is mapped: what a branch does where it isn't taken never shows."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import assert_matches
from tinyjax import Array, lax

#: A function of a scalar, written once: for `tinyjax` with its `numpy` and `lax`, or for those of jax. Each is smooth
#: at the points, and has a branch with an infinite value or derivative at some point where it isn't taken.
Make: TypeAlias = Callable[[ModuleType], Callable[[Any], Any]]
POINTS = np.array([0.0, 0.25, -1.0, 2.0])


def numpy_of(m: ModuleType) -> ModuleType:
    return jnp if m is jax else tnp


def closed_over(m: ModuleType) -> Callable[[Any], Any]:
    return lambda x: m.lax.cond(x < 1e-3, lambda: 1e-3, lambda: numpy_of(m).sqrt(x))


def operand(m: ModuleType) -> Callable[[Any], Any]:
    n = numpy_of(m)
    return lambda x: m.lax.cond(x > 0, lambda x, k: n.log(x) ** k, lambda x, k: n.exp(x) * k, x, n.int32(2))


def result_of_first(m: ModuleType) -> Callable[[Any], Any]:
    """The infinity comes from outside of the branch, where it is right."""
    n = numpy_of(m)
    return lambda x: m.lax.cond(x == 0, lambda y: 3.0 * x, lambda y: n.sin(y) * x * y, 1 / n.where(x == 0, 1e-300, x))


def switched(m: ModuleType) -> Callable[[Any], Any]:
    n = numpy_of(m)
    branches = [lambda x: x**2, lambda x: n.sqrt(x) / x, lambda x: n.arccos(x - 2), lambda x: n.log(-x)]
    return lambda x: m.lax.switch(n.where(x < 0, 3, n.where(x > 1, 2, n.where(x == 0, -5, 1))), branches, x)


def nested(m: ModuleType) -> Callable[[Any], Any]:
    n = numpy_of(m)

    def inner(x: Any) -> Any:
        return m.lax.cond(x > 1, lambda: n.log(x - 1), lambda: n.sqrt(x)) / x

    return lambda x: m.lax.cond(x > 0, inner, lambda x: n.log1p(-x), x) + m.lax.cond(x > 0, lambda: inner(x), lambda: x)


def not_mapped(m: ModuleType) -> Callable[[Any], Any]:
    """Values that are the same for all elements, of which the derivative is a sum over all."""
    n = numpy_of(m)
    points = np.array([0.0, 1.0, 4.0])

    def each(x: Any, y: Any) -> Any:
        return m.lax.cond(y > 0, lambda: x * n.log(y) + n.sqrt(x * x + y), lambda: x * y)

    return lambda x: n.sum(m.vmap(each, in_axes=(None, 0))(x, points))


def in_scan(m: ModuleType) -> Callable[[Any], Any]:
    n = numpy_of(m)

    def step(carry: Any, y: Any) -> Any:
        new = m.lax.cond(carry * y > 0, lambda: carry + n.sqrt(carry * y), lambda: carry + y)
        return new, new * 2.0

    return lambda x: m.lax.scan(step, x, np.array([1.0, 0.0, 3.0]))[1]


def in_call(m: ModuleType) -> Callable[[Any], Any]:
    n = numpy_of(m)
    f = m.checkpoint(m.jit(lambda x, y: m.lax.cond(y > 0, lambda: x / y, lambda: y)))
    return lambda x: f(n.sin(x), x)


def own_rule(m: ModuleType) -> Callable[[Any], Any]:
    n = numpy_of(m)

    root = m.custom_vjp(n.sqrt)
    root.defvjp(lambda x: (n.sqrt(x), n.sqrt(x)), lambda y, ct: (ct / y / 2,))
    return lambda x: m.lax.cond(x > 0, root, lambda x: x, x)


MAKES: list[Make] = [closed_over, operand, result_of_first, switched, nested, not_mapped, in_scan, in_call, own_rule]


def total(m: ModuleType, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: numpy_of(m).sum(m.vmap(f)(x))


ROUTES: dict[str, Callable[[ModuleType, Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "grad(vmap)": lambda m, f: m.grad(total(m, f)),
    "vmap(grad)": lambda m, f: m.vmap(m.grad(lambda x: numpy_of(m).sum(f(x)))),
    "grad(jit(vmap))": lambda m, f: m.grad(m.jit(total(m, f))),
    "grad(vmap(jit))": lambda m, f: m.grad(total(m, m.jit(f))),
    "vjp(vmap)": lambda m, f: lambda x: m.vjp(total(m, f), x)[1](numpy_of(m).float64(2.0)),
    "linearize(vmap)": lambda m, f: lambda x: m.linearize(m.vmap(f), x)[1](numpy_of(m).ones_like(x)),
    "jvp(vmap)": lambda m, f: lambda x: m.jvp(m.vmap(f), (x,), (numpy_of(m).ones_like(x),)),
    "jacrev(vmap)": lambda m, f: m.jacrev(m.vmap(f)),
    "grad(checkpoint(vmap))": lambda m, f: m.grad(m.checkpoint(total(m, f))),
    "grad(vmap(vmap))": lambda m, f: m.grad(lambda x: total(m, m.vmap(f))(x.reshape(2, 2))),
}
SECOND: dict[str, Callable[[ModuleType, Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "hessian": lambda m, f: m.hessian(total(m, f)),
    "jacrev(grad)": lambda m, f: m.jacrev(m.grad(total(m, f))),
    "grad(vmap(grad))": lambda m, f: m.grad(total(m, m.grad(lambda x: numpy_of(m).sum(f(x))))),
}


@pytest.mark.parametrize("make", [*MAKES][:2] + [pytest.param(make, marks=pytest.mark.sweep) for make in [*MAKES][2:]])
def test_derivatives_are_finite_and_as_in_jax(make: Make) -> None:
    reverse_only = make is own_rule
    for name, route in (ROUTES if reverse_only else ROUTES | SECOND).items():
        if reverse_only and name in ("linearize(vmap)", "jvp(vmap)"):
            continue
        expected = jax.jit(route(jax, make(jax)))(POINTS)
        ours = route(tj, make(tj))
        for f in (ours, tj.jit(ours)) if name in ("grad(vmap)", "hessian") else (ours,):
            found = f(POINTS)
            assert_matches(found, expected)
            assert all(np.isfinite(np.asarray(leaf)).all() for leaf in tj.tree.leaves(found)), name


def test_the_rest_of_the_program_is_left_as_it_is() -> None:
    """Only operands that are differentiable, and that a branch computes with, are guarded."""

    def f(p: Array, i: Array, x: Array, y: Array) -> tuple[Array, Array, Array]:
        return lax.cond(p, lambda i, x, y: (i + 1, x, y), lambda i, x, y: (i, y, y), i, x, y)

    axes = (0, None, None, None)
    program = tj.make_jaxpr(tj.vmap(f, in_axes=axes))(np.array([True, False]), 1, 1.0, 2.0)
    names = [eqn.primitive.name for eqn in program.eqns]
    assert "stop_gradient" not in names
    assert names.count("select_n") == 2  # y is what it is in both branches


def test_a_collective_in_a_branch_sees_all_elements() -> None:
    """So its derivative does, too."""
    x, p = tnp.asarray([1.0, 2.0, 3.0]), tnp.asarray([True, False, True])

    def one(p: Array, x: Array) -> Array:
        return lax.cond(p, lambda: lax.psum(x * x, "i"), lambda: x)

    def f(x: Array) -> Array:
        return tnp.sum(tj.vmap(one, axis_name="i")(p, x))

    np.testing.assert_allclose(f(x), 2 * 14.0 + 2.0)
    np.testing.assert_allclose(tj.grad(f)(x), [4.0, 9.0, 12.0])
