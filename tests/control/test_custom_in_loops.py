"""Custom rules within control flow, and control flow within custom rules, against jax."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.control import test_custom_jvp, test_custom_vjp

# Each takes our function and jax's. jax's loops are Python's: what a loop means is what its iterations mean, while
# jax's own loses rules that are within a jit within a rule, at second order.


def scanned(ours: Callable[..., Any], theirs: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    xs = np.arange(3.0) * 0.1

    def unrolled(c: Any) -> Any:
        for x in xs:
            c = theirs(c) * 0.5 + x
        return c

    return lambda x: tj.lax.scan(lambda c, x: (ours(c) * 0.5 + x, ours(c)), x, xs)[0], unrolled


def chosen(ours: Callable[..., Any], theirs: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def in_jax(x: Any) -> Any:
        return jax.lax.cond(x > 0.5, theirs, lambda y: y * 2.0, x)

    return lambda x: tj.lax.cond(x > 0.5, ours, lambda y: y * 2.0, x), in_jax


def repeated(ours: Callable[..., Any], theirs: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return lambda x: tj.lax.fori_loop(0, 2, lambda i, c: ours(c) * 0.5, x), lambda x: theirs(theirs(x) * 0.5) * 0.5


@pytest.mark.parametrize(
    "wrap", [scanned, *(pytest.param(wrap, marks=pytest.mark.sweep) for wrap in (chosen, repeated))]
)
@pytest.mark.parametrize(
    "make",
    [test_custom_jvp.log1pexp, test_custom_jvp.calling_another, test_custom_vjp.marked, test_custom_vjp.clipping],
)
def test_rules_within_control_flow(
    make: Callable[[ModuleType, ModuleType], Callable[..., Any]],
    wrap: Callable[[Callable[..., Any], Callable[..., Any]], tuple[Callable[..., Any], Callable[..., Any]]],
) -> None:
    ours, theirs = wrap(make(tj, tnp), make(jax, jnp))
    x = 0.7
    expected = jax.grad(theirs)(x)
    for g in (tj.grad(ours), tj.jit(tj.grad(ours)), tj.grad(tj.jit(ours)), tj.grad(tj.checkpoint(ours))):
        np.testing.assert_allclose(g(x), expected, rtol=1e-9)
    np.testing.assert_allclose(tj.grad(tj.grad(ours))(x), jax.grad(jax.grad(theirs))(x), rtol=1e-9)
    xs = np.array([0.2, 0.7, 1.1])
    np.testing.assert_allclose(tj.vmap(tj.grad(ours))(xs), jax.vmap(jax.grad(theirs))(xs), rtol=1e-9)
    np.testing.assert_allclose(
        tj.grad(lambda xs: tnp.sum(tj.vmap(ours)(xs)))(xs), jax.vmap(jax.grad(theirs))(xs), rtol=1e-9
    )


@pytest.mark.parametrize("jit", [False, True])
def test_control_flow_within_rules(jit: bool) -> None:
    """The rule applies its function within the body of a scan."""

    def make(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
        def f_of(x: Any) -> Any:
            return xp.sin(x)

        f = lib.custom_jvp(f_of)

        def rule(primals: Any, tangents: Any) -> Any:
            (x,), (t,) = primals, tangents
            total = lib.lax.scan(lambda c, _: (c + f(x), None), 0.0 * x, None, length=3)[0]
            return f(x), total * t

        f.defjvp(rule)
        function: Callable[..., Any] = lib.jit(f) if jit else f
        return function

    ours, theirs = make(tj, tnp), make(jax, jnp)
    x = np.float64(0.7)
    np.testing.assert_allclose(tj.grad(ours)(x), jax.grad(theirs)(x), rtol=1e-9)
    np.testing.assert_allclose(tj.grad(tj.grad(ours))(x), jax.grad(jax.grad(theirs))(x), rtol=1e-9)
    np.testing.assert_allclose(tj.vmap(tj.grad(ours))(np.arange(3.0)), jax.vmap(jax.grad(theirs))(np.arange(3.0)))


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["plain", "jit", "vmap"])
def test_control_flow_within_rules_that_close_over_arrays(kind: str) -> None:
    """The rules apply their own function within branches, loops and jit, and close over constants and arguments."""
    weights = np.array([1.0, 2.0, 3.0])

    def make(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
        def whole(x: Any, b: Any) -> Any:
            f: Any = lib.custom_jvp(lambda x: xp.sum(weights * x * b))
            g: Any = lib.custom_vjp(lambda x: xp.sum(weights * x) * b[0])

            def rule(primals: Any, tangents: Any) -> Any:
                (x,), (t,) = primals, tangents
                y = lib.lax.cond(x > 0, f, lambda x: f(x) * 1.0, x)
                z = lib.lax.fori_loop(0, 2, lambda i, c: c + f(x) * xp.sum(weights), 0.0)
                return y, (z * xp.sum(b) + lib.jit(f)(x)) * t

            def fwd(x: Any) -> Any:
                return lib.lax.cond(x > 0, g, g, x), x

            f.defjvp(rule)
            g.defvjp(fwd, lambda x, ct: (ct * lib.jit(g)(x) * b[1],))
            return f(x) + g(x)

        gradient = lib.grad(whole)
        if kind == "vmap":
            gradient = lib.vmap(gradient, in_axes=(0, None))
        function: Callable[..., Any] = lib.jit(gradient) if kind == "jit" else gradient
        return function

    b = np.array([0.5, 2.0, 1.0])
    x = np.array([1.5, -1.0]) if kind == "vmap" else np.float64(1.5)
    np.testing.assert_allclose(make(tj, tnp)(x, b), make(jax, jnp)(x, b), rtol=1e-9)
    if kind == "plain":  # which JAX can't
        twice = tj.grad(make(tj, tnp))
        np.testing.assert_allclose(tj.jit(twice)(x, b), twice(x, b), rtol=1e-6)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_what_nothing_maps_stays_unmapped(kind: str) -> None:
    """Of a function that is mapped because of its collectives, those results are that depend on where an element is."""

    def make(lib: ModuleType, xp: ModuleType) -> Any:
        def f_of(x: Any) -> Any:
            return lib.lax.psum(xp.sin(x), "i"), x * 2.0, x + lib.lax.axis_index("i")

        f = getattr(lib, kind)(f_of)
        if kind == "custom_jvp":
            f.defjvp(lambda p, t: (f(*p), (lib.lax.psum(xp.cos(p[0]) * t[0], "i"), t[0] * 2.0, t[0])))
        else:
            f.defvjp(lambda x: (f(x), x), lambda x, ct: (lib.lax.psum(xp.cos(x) * ct[0], "i") + 2.0 * ct[1] + ct[2],))
        return f

    def results(lib: ModuleType, xp: ModuleType, wrap: Callable[..., Any]) -> list[Any]:
        f = make(lib, xp)
        options: dict[str, Any] = {"in_axes": None, "axis_name": "i", "axis_size": 4}
        values = wrap(lib.vmap(f, out_axes=(None, None, 0), **options))(0.3)
        return [*values, wrap(lib.vmap(lib.grad(lambda x: f(x)[0] + f(x)[1]), **options))(0.3)]

    wraps: list[tuple[Callable[..., Any], Callable[..., Any]]] = [(lambda f: f, lambda f: f), (tj.jit, jax.jit)]
    for ours, theirs in wraps:
        for found, wanted in zip(results(tj, tnp, ours), results(jax, jnp, theirs), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2**-40)
