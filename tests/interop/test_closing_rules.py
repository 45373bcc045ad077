"""Rules that close over values on which the function itself doesn't depend: what JAX gives where it gives something."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import InputError
from tinyjax.interop.jax import of_jax, to_jax

F = Callable[[Any, Any], Any]


def of_jvp(lib: ModuleType, numpy: Any, w: Any, x: Any) -> Any:
    f = lib.custom_jvp(numpy.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), numpy.cos(primals[0]) * w * tangents[0] * 2))
    return f(x)


def of_fwd(lib: ModuleType, numpy: Any, w: Any, x: Any) -> Any:
    f = lib.custom_vjp(numpy.sin)
    f.defvjp(lambda x: (f(x), (x, w)), lambda res, ct: (ct * res[1] * numpy.cos(res[0]) * 2,))
    return f(x)


def of_bwd(lib: ModuleType, numpy: Any, w: Any, x: Any) -> Any:
    f = lib.custom_vjp(numpy.sin)
    f.defvjp(lambda x: (f(x), (x,)), lambda res, ct: (ct * w * numpy.cos(res[0]) * 2,))
    return f(x)


def of_value(lib: ModuleType, numpy: Any, w: Any, x: Any) -> Any:
    f = lib.custom_jvp(lambda x: numpy.sin(x) * w)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return f(x)


RULES: Final = (of_jvp, of_fwd, of_bwd)
W, X = np.float32(2.0), np.float32(0.5)
#: Of a function of w and x, with `jax` or `tinyjax`. JAX knows no tangents of both together.
KINDS: Final[dict[str, Callable[[Any, F], F]]] = {
    "by w": lambda lib, f: lib.grad(f, 0),
    "by x": lambda lib, f: lib.grad(f, 1),
    "tangent of w": lambda lib, f: lambda w, x: lib.jvp(lambda w: f(w, x), (w,), (w,)),
    "by x, by w": lambda lib, f: lib.grad(lib.grad(f, 1), 0),
    "mapped": lambda lib, f: lambda w, x: lib.vmap(lib.grad(f, 0))(np.stack([w, x]), np.stack([x, w])),
}


def function(lib: ModuleType, numpy: Any, rule: Callable[..., Any]) -> F:
    return lambda w, x: rule(lib, numpy, w, x)


def agree(found: object, expected: object) -> None:
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_jax(rule: Callable[..., Any], kind: str) -> None:
    theirs = function(jax, jnp, rule)
    expected = KINDS[kind](jax, theirs)(W, X)
    imported = of_jax(theirs)
    agree(KINDS[kind](tj, imported)(W, X), expected)
    agree(tj.jit(KINDS[kind](tj, imported))(W, X) if kind != "mapped" else expected, expected)
    agree(KINDS[kind](tj, function(tj, tj.numpy, rule))(W, X), expected)
    if kind != "mapped" and (rule is of_jvp or kind != "tangent of w"):  # an operand of a custom_vjp function there
        agree(KINDS[kind](jax, to_jax(imported))(W, X), expected)


@pytest.mark.parametrize("rule", RULES)
def test_derivatives_by_both(rule: Callable[..., Any]) -> None:
    """Which JAX refuses. The value depends on x only."""
    expected = 0.0, 2 * W * np.cos(X)
    for f in (of_jax(function(jax, jnp, rule)), function(tj, tj.numpy, rule)):
        agree(tj.grad(f, (0, 1))(W, X), expected)


#: Of w and x, by the arguments that it is differentiated with respect to, in turn.
HIGHER: Final[dict[tuple[int, ...], Callable[[Any, Any], Any]]] = {
    (1, 1): lambda w, x: -2 * w * np.sin(x),
    (1, 0): lambda w, x: 2 * np.cos(x),
    (0, 1): lambda w, x: 0.0,
    (1, 1, 0): lambda w, x: -2 * np.sin(x),
    (1, 0, 1): lambda w, x: -2 * np.sin(x),
    (0, 1, 1): lambda w, x: 0.0,
    (1, 1, 1): lambda w, x: -2 * w * np.cos(x),
    (1,) * 6: lambda w, x: -2 * w * np.sin(x),
    (*(1,) * 6, 0): lambda w, x: -2 * np.sin(x),
}


@pytest.mark.parametrize("by", HIGHER, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_higher_derivatives(rule: Callable[..., Any], by: tuple[int, ...]) -> None:
    """The rules apply the function again, whose rules close over the same, be it the forward or the backward one."""
    for f in (of_jax(function(jax, jnp, rule)), function(tj, tj.numpy, rule)):
        derived: Any = f
        for argument in by:
            derived = tj.grad(derived, argument)
        agree(derived(W, X), HIGHER[by](W, X))


@pytest.mark.sweep
def test_what_each_of_the_rules_closes_over_is_there_in_the_other() -> None:
    def rules_of_two_values(lib: ModuleType, numpy: Any, w: Any, x: Any) -> Any:
        v = w * w
        f = lib.custom_vjp(numpy.sin)

        def backward(res: Any, ct: Any) -> Any:
            return (ct * w * f(res[0]) * res[1],)

        f.defvjp(lambda x: (f(x) + 0.0, (x, v)), backward)
        return f(x)

    for by in ((1,), (1, 1), (1, 0), (1, 1, 1)):
        theirs, ours = function(jax, jnp, rules_of_two_values), function(tj, tj.numpy, rules_of_two_values)
        imported: Any = of_jax(theirs)
        for argument in by:
            theirs, ours, imported = jax.grad(theirs, argument), tj.grad(ours, argument), tj.grad(imported, argument)
        agree(imported(W, X), ours(W, X))
        agree(imported(W, X), theirs(W, X))


@pytest.mark.parametrize("closing", [True, False])
def test_rules_that_make_another_function_each_time(closing: bool) -> None:
    """Of the same place and the same value, but each rule closes over what is computed within the one before, or a
    number that is another one."""

    def of_ever_more(lib: ModuleType, numpy: Any, w: Any, x: Any) -> Any:
        def made(w: Any) -> Any:
            f = lib.custom_jvp(numpy.sin)
            f.defjvp(lambda primals, tangents: (f(*primals), made(w * 2)(*primals) * w * tangents[0]))
            return f

        return made(w if closing else 2.0)(x)

    theirs, ours = function(jax, jnp, of_ever_more), function(tj, tj.numpy, of_ever_more)
    imported: Any = of_jax(theirs)
    for _ in range(3):
        theirs, ours, imported = jax.grad(theirs, 1), tj.grad(ours, 1), tj.grad(imported, 1)
        agree(ours(W, X), theirs(W, X))
        agree(imported(W, X), theirs(W, X))


def test_a_value_that_the_function_reads_is_refused() -> None:
    for f in (of_jax(function(jax, jnp, of_value)), function(tj, tj.numpy, of_value)):
        agree(tj.grad(f, 1)(W, X), np.float32(1.0))
        with pytest.raises(InputError, match=r"closes over a value of type f32\[\] that is being differentiated"):
            tj.grad(f, 0)(W, X)
    with pytest.raises(InputError, match=r"closes over a value of type float32\[\] that is being differentiated"):
        jax.grad(to_jax(of_jax(function(jax, jnp, of_value))))(W, X)
