"""Functions with batching rules of their own, against `jax.custom_batching`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ir
from tinyjax.custom_batching import custom_vmap, sequential_vmap
from tinyjax.errors import InputError, MissingRuleError, TinyjaxError, TreeError
from tinyjax.interop.jax import from_jax, to_jax

X: Final = np.arange(1.0, 4.0)


def made(lib: Any, numpy: Any) -> Any:
    """A function whose rule can be told from it."""

    def f(x: Any, tree: Any) -> Any:
        return {"sum": numpy.sin(x) + tree["y"], "y": tree["y"] * 2.0}

    def rule(axis_size: int, in_batched: Any, x: Any, tree: Any) -> Any:
        assert axis_size == 3
        mapped = in_batched[0] or in_batched[1]["y"]
        return {"sum": numpy.cos(x) + tree["y"], "y": tree["y"] * 2.0}, {"sum": mapped, "y": in_batched[1]["y"]}

    found = lib.custom_vmap(f)
    found.def_vmap(rule)
    return found


OURS: Final = made(tj.custom_batching, tnp)
THEIRS: Final = made(jax.custom_batching, jnp)
CALLS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "plain": lambda m, f: f(0.5, {"y": 2.0}),
    "both": lambda m, f: m.vmap(f)(X, {"y": X}),
    "first": lambda m, f: m.vmap(f, in_axes=(0, None))(X, {"y": 2.0}),
    "second": lambda m, f: m.vmap(f, in_axes=(None, {"y": 0}))(0.5, {"y": X}),
    "jit": lambda m, f: m.jit(m.vmap(m.jit(f)))(X, {"y": X}),
    "twice": lambda m, f: m.vmap(m.vmap(f, in_axes=(0, None)), in_axes=(None, 0))(X, {"y": X}),
    "jvp": lambda m, f: m.jvp(lambda x: f(x, {"y": x}), (0.5,), (2.0,)),
    "jvp of vmap": lambda m, f: m.jvp(lambda x: m.vmap(f)(x, {"y": x}), (X,), (X,)),
    "vmap of jvp": lambda m, f: m.vmap(lambda x: m.jvp(lambda x: f(x, {"y": 1.0}), (x,), (x,)))(X),
    "tangents": lambda m, f: m.vmap(lambda t: m.jvp(lambda x: f(x, {"y": x}), (0.5,), (t,))[1])(X),
    "second order": lambda m, f: m.vmap(
        lambda x: m.jvp(lambda x: m.jvp(lambda x: f(x, {"y": x}), (x,), (x,))[1], (x,), (x,))
    )(X),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_in_jax(name: str) -> None:
    expected = jax.tree.leaves(CALLS[name](jax, THEIRS))
    for out, want in zip(jax.tree.leaves(CALLS[name](tj, OURS)), expected, strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-12)


def disagreeing(lib: Any, numpy: Any) -> Any:
    """A function that isn't what its rule says, not even of elements."""

    def rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
        return (numpy.cos(x) * y + 3 * in_batched[0] + 5 * in_batched[1] * x * y, x * 7.0), (
            any(in_batched),
            in_batched[0],
        )

    found = lib.custom_vmap(lambda x, y: (numpy.sin(x) * y, x * 2.0))
    found.def_vmap(rule)
    return found


#: Also what has no name on either side: the rule is asked about operands that are mapped together with their tangents,
#: and what it gives is differentiated. Where only some of the operands are, JAX's results have too many axes.
DERIVATIVES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "jvp": lambda m, f: m.jvp(f, (0.3, 0.7), (0.3, 0.7)),
    "columns": lambda m, f: m.jacfwd(f, (0, 1))(0.3, 0.7),
    "mapped columns": lambda m, f: m.vmap(m.jacfwd(f, (0, 1)))(X, 2 * X),
    "columns of mapped": lambda m, f: m.jacfwd(m.vmap(f))(X, 2 * X),
    "second columns": lambda m, f: m.jacfwd(m.jacfwd(lambda x: f(x, 0.7)[0]))(0.3),
    "mapped second columns": lambda m, f: m.vmap(m.jacfwd(m.jacfwd(lambda x: f(x, 0.7)[0])))(X),
    "of one": lambda m, f: m.vmap(lambda t: m.jvp(lambda x: f(x, 0.7), (0.3,), (t,)))(X),
    "the other mapped": lambda m, f: m.vmap(lambda y: m.jvp(lambda x: f(x, y), (0.3,), (0.7,)))(X),
    "the other, and the tangent": lambda m, f: m.vmap(lambda y: m.jvp(lambda x: f(x, y), (0.3,), (y,)))(X),
    "crossed": lambda m, f: m.vmap(lambda x: m.jvp(f, (x, 0.7), (0.3, x)))(X),
    "both": lambda m, f: m.vmap(lambda x: m.jvp(f, (x, x), (x, x)))(X),
    "compiled": lambda m, f: m.jit(m.vmap(m.jacfwd(m.jit(f))))(X, X),
    "gradient of mapped": lambda m, f: m.grad(lambda x: m.vmap(f, (0, None))(x, 0.7)[0].sum())(X),
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_are_of_what_the_rule_says_as_in_jax(name: str) -> None:
    expected = jax.tree.leaves(DERIVATIVES[name](jax, disagreeing(jax.custom_batching, jnp)))
    found = jax.tree.leaves(DERIVATIVES[name](tj, disagreeing(tj.custom_batching, tnp)))
    for out, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-12)


def test_what_it_prints_it_prints_once() -> None:
    seen: list[float] = []

    @custom_vmap
    def f(x: tj.Array) -> tj.Array:
        tj.debug.callback(lambda x: seen.append(float(x)), x)
        return x * x

    f.def_vmap(lambda size, batched, x: (x * x, batched[0]))
    assert float(tj.grad(f)(tnp.asarray(3.0))) == 6.0
    assert seen == [3.0]


def test_reverse_mode_takes_it_apart() -> None:
    gradient = tj.vmap(tj.grad(lambda x: OURS(x, {"y": x})["sum"]))(X)
    np.testing.assert_allclose(gradient, np.cos(X) + 1.0)


def test_it_is_an_equation() -> None:
    program = tj.make_jaxpr(lambda x: OURS(x, {"y": x}))(1.0)
    (eqn,) = program.eqns
    assert (eqn.primitive.name, eqn.params["function_name"], str(eqn.params["rule"])) == ("custom_vmap", "f", "rule")
    ir.typecheck(program)
    np.testing.assert_allclose(to_jax(program)(2.0)[0], np.sin(2.0) + 2.0)
    mapped = tj.transforms.batch(program, ir.BatchAxis(3), (0,))
    np.testing.assert_allclose(tj.eval_jaxpr(mapped.jaxpr, (), X)[0], np.cos(X) + X)
    imported = from_jax(lambda x: THEIRS(x, {"y": x})["sum"], 1.0)
    np.testing.assert_allclose(tj.eval_jaxpr(imported, (), 2.0)[0], np.sin(2.0) + 2.0)


def test_values_that_are_closed_over() -> None:
    def outer(z: Any, x: Any) -> Any:
        f: Any = custom_vmap(lambda x: x * z)
        f.def_vmap(lambda size, batched, x: (x + 1.0, batched[0]))
        return f(x)

    np.testing.assert_allclose(tj.vmap(outer, in_axes=(None, 0))(2.0, X), X + 1.0)
    assert float(tj.grad(outer)(2.0, 3.0)) == 3.0
    with pytest.raises(InputError, match=r"'<lambda>' closes over a value that is mapped, but its rule only says"):
        tj.vmap(outer)(X, X)


def test_sequential() -> None:
    for m, sequential in ((tj, sequential_vmap), (jax, jax.custom_batching.sequential_vmap)):
        f: Any = sequential(lambda x, tree: (x * tree["y"], x))
        found = m.vmap(f, in_axes=(0, {"y": None}))(X, {"y": 2.0})
        np.testing.assert_array_equal(found[0], X * 2.0)
        np.testing.assert_array_equal(found[1], X)
    mapped = tj.vmap(sequential_vmap(lambda x: x * 2.0))
    assert any(eqn.primitive.name == "scan" for eqn in tj.make_jaxpr(mapped)(X).eqns)


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda size, batched, x: x, InputError, "must return a pair: results, and which of them are mapped"),
        (lambda size, batched, x: ((x, x), True), TreeError, "must have the same structure"),
        (lambda size, batched, x: (x, (True, True)), TreeError, "must have the same structure"),
        (lambda size, batched, x: (x, 1), InputError, "must say with True or False which results are mapped, got 1"),
        (lambda size, batched, x: (x.sum(), True), InputError, r"a result must have type f64[3], got f64[]"),
    ],
)
def test_rules_that_do_not_fit(rule: Callable[..., Any], error: type[TinyjaxError], message: str) -> None:
    f: Any = custom_vmap(tnp.sin)
    with pytest.raises(MissingRuleError, match="No batching rule defined for custom_vmap function sin using def_vmap"):
        f(1.0)
    f.def_vmap(rule)
    assert float(f(0.0)) == 0.0
    with pytest.raises(error) as caught:
        tj.vmap(f)(X)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("wrapping", "setting"),
    [
        ((tj.custom_jvp, custom_vmap), ("defjvp", "def_vmap")),
        ((custom_vmap, tj.custom_jvp), ("defjvp", "def_vmap", "defjvps")),
        ((tj.custom_vjp, custom_vmap), ("defvjp", "def_vmap")),
        ((custom_vmap, tj.custom_vjp), ("defvjp", "def_vmap")),
    ],
)
def test_rules_are_set_through_what_wraps_a_function(wrapping: tuple[Any, ...], setting: tuple[str, ...]) -> None:
    f: Any = lambda x: x + 1.0  # noqa: E731
    for wrap in wrapping:
        f = wrap(f)
    for name in setting:
        assert callable(getattr(f, name))
    with pytest.raises(AttributeError, match="no attribute 'defjvpp'"):
        _ = f.defjvpp


def test_both_rules_hold() -> None:
    @tj.custom_vjp
    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return tnp.sin(x) * y

    wrapped: Any = f
    wrapped.def_vmap(lambda size, mapped, xs, ys: (tnp.cos(xs) * ys, True))
    f.defvjp(lambda x, y: (f(x, y), y), lambda y, ct: (7.0 * ct * y, ct))
    xs, ys = np.linspace(0.0, 1.0, 5), np.linspace(-0.1, 0.1, 5)
    np.testing.assert_allclose(tj.vmap(f)(xs, ys), np.cos(xs) * ys)
    assert float(tj.grad(f)(0.5, 2.0)) == 14.0


def test_errors_are_those_of_python_too() -> None:
    @tj.custom_vjp
    def f(x: Any) -> tj.Array:
        return tnp.sin(x)

    with pytest.raises(AttributeError, match="No VJP defined for custom_vjp function f"):
        f(1.0)
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (tnp.stack([ct, ct]),))
    for error in (TypeError, ValueError):
        with pytest.raises(error, match="the cotangent of argument x must have type"):
            tj.grad(f)(1.0)
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct, ct))
    with pytest.raises(ValueError, match="must return a tuple of length 1"):
        tj.grad(f)(1.0)
    with pytest.raises(ValueError, match="out_axes is None"):
        tj.vmap(tnp.sin, out_axes=None)(X)


def _product(x: Any, y: Any) -> Any:
    return tnp.sin(x) * y


_OWN: Final = custom_vmap(_product)


@_OWN.def_vmap
def _(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
    wide = [
        v if mark else tnp.broadcast_to(v, (axis_size, *v.shape)) for v, mark in zip((x, y), in_batched, strict=True)
    ]
    return _OWN(*wide), True


@pytest.mark.parametrize("function", [_OWN, sequential_vmap(_product)], ids=["broadcast", "sequential"])
def test_rules_that_apply_their_own_function_where_a_tangent_is_not_mapped(function: Any) -> None:
    w = X[::-1] / 7
    for apart in (
        lambda f: tj.vmap(lambda x: tj.jvp(f, (x, w), (w, X))[1])(np.stack([X, w])),
        lambda f: tj.vmap(lambda t: tj.jvp(f, (X, w), (t, w)))(np.stack([X, w])),
        lambda f: tj.jacfwd(f)(X, w),
        lambda f: tj.jit(tj.jacfwd(f, argnums=1))(X, w),
    ):
        found, expected = tj.tree.leaves(apart(function)), tj.tree.leaves(apart(_product))
        for value, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, wanted)
