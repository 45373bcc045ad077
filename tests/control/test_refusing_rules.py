"""Derivative rules that raise exceptions: as in jax, they do so where somebody differentiates, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import assert_matches
from tinyjax import interpreters, ir, transforms
from tinyjax.errors import MissingRuleError
from tinyjax.interop.jax import to_jax

X: Final = np.array([0.5, -1.0])
Function = Callable[..., Any]


class NoDerivativeError(Exception):
    pass


def refusing(kind: str, lib: ModuleType, xp: ModuleType) -> Function:
    """sin, with a rule that raises: that of custom_jvp, or one of those of custom_vjp."""

    def raises(*args: object) -> Any:
        raise NoDerivativeError("on purpose")

    f: Any = (lib.custom_jvp if kind == "jvp" else lib.custom_vjp)(xp.sin)
    if kind == "jvp":
        f.defjvp(raises)
    else:
        f.defvjp(
            raises if kind == "fwd" else lambda x: (xp.sin(x), x), raises if kind == "bwd" else lambda x, ct: (ct,)
        )
    function: Function = f
    return function


def loop(lib: ModuleType, f: Function) -> Function:
    """One carry is differentiated, another one goes through f."""
    step = lambda c, _: ((2.0 * c[0], f(c[1])), None)  # noqa: E731
    return lambda x: lib.lax.scan(step, (x, X), None, length=2)[0][0].sum()


#: Whatever isn't differentiated works; in the last ones something is, through f or past it.
ROUTES: Final[dict[str, Callable[[ModuleType, Function], Any]]] = {
    "eager": lambda lib, f: f(X),
    "jit": lambda lib, f: lib.jit(f)(X),
    "mapped": lambda lib, f: lib.vmap(lib.jit(f))(X),
    "jitted vmap": lambda lib, f: lib.jit(lib.vmap(f))(X),
    "scan": lambda lib, f: lib.lax.scan(lambda c, _: (f(c), None), X, None, length=2)[0],
    "checkpoint": lambda lib, f: lib.checkpoint(f)(X),
    "stop_gradient": lambda lib, f: lib.grad(lambda x: (lib.jit(f)(lib.lax.stop_gradient(x)) * x).sum())(X),
    "other carry": lambda lib, f: lib.grad(loop(lib, f))(X),
    "value of vjp": lambda lib, f: lib.vjp(f, X)[0],
    "value of vjp of jit": lambda lib, f: lib.vjp(lib.jit(f), X)[0],
    "unread": lambda lib, f: lib.grad(lambda x: (f(x), x.sum())[1])(X),
    "unread result of jit": lambda lib, f: lib.grad(lambda x: (lib.jit(f)(x), x.sum())[1])(X),
    "grad": lambda lib, f: lib.grad(lambda x: f(x).sum())(X),
    "jitted grad": lambda lib, f: lib.jit(lib.grad(lambda x: f(x).sum()))(X),
    "grad of jit": lambda lib, f: lib.grad(lambda x: lib.jit(f)(x).sum())(X),
    "grad of scan": lambda lib, f: lib.grad(
        lambda x: lib.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0].sum()
    )(X),
    "mapped grad of jit": lambda lib, f: lib.vmap(lib.grad(lib.jit(f)))(X),
    "grad of checkpoint": lambda lib, f: lib.grad(lambda x: lib.checkpoint(f)(x).sum())(X),
}


@pytest.mark.parametrize("kind", ["jvp", "fwd", "bwd"])
@pytest.mark.parametrize("route", ROUTES)
def test_against_jax(route: str, kind: str) -> None:
    apply = ROUTES[route]
    try:
        expected = apply(jax, refusing(kind, jax, jnp))
    except NoDerivativeError:
        with pytest.raises(NoDerivativeError, match="on purpose"):
            apply(tj, refusing(kind, tj, tnp))
    else:
        assert_matches(apply(tj, refusing(kind, tj, tnp)), expected)


@pytest.mark.parametrize("kind", ["jvp", "fwd", "bwd"])
def test_second_derivatives_of_rules(kind: str) -> None:
    """A rule may itself use a function that has no derivative."""

    def build(lib: ModuleType, xp: ModuleType) -> Function:
        inner = refusing(kind, lib, xp)
        f: Any = lib.custom_vjp(xp.cos)
        f.defvjp(lambda x: (xp.cos(x), x), lambda x, ct: (-ct * inner(x),))
        made: Function = lib.jit(f)
        return made

    assert_matches(tj.grad(build(tj, tnp))(0.5), jax.grad(build(jax, jnp))(0.5))
    with pytest.raises(NoDerivativeError):
        tj.grad(tj.grad(build(tj, tnp)))(0.5)


@pytest.mark.parametrize("kind", ["jvp", "fwd", "bwd"])
def test_programs(kind: str) -> None:
    """Such a program is a value like others; it only has no derivative, and nothing takes another thing for it."""
    closed = tj.make_jaxpr(lambda x: (refusing(kind, tj, tnp)(x), x))(X)
    read = ir.parse(str(closed.jaxpr))
    assert read == closed.jaxpr
    for program in (read, transforms.dce(read), transforms.optimize(read)):
        f = partial(tj.eval_jaxpr, program, [])
        assert_matches(f(X)[0], jnp.sin(X))
        with pytest.raises(NoDerivativeError):
            tj.grad(lambda x, f=f: f(x)[0].sum())(X)
    pruned = transforms.prune(read, (True, False)).jaxpr
    with pytest.raises(NoDerivativeError):
        tj.grad(lambda x: tj.eval_jaxpr(pruned, [], x)[0].sum())(X)
    exported = to_jax(closed)
    np.testing.assert_allclose(exported(X)[0], np.sin(X))
    with pytest.raises((NoDerivativeError, MissingRuleError)):
        jax.grad(lambda x: exported(x)[0].sum())(X)


def test_what_a_file_says() -> None:
    """The exception itself is gone with the process that raised it."""
    text = str(tj.make_jaxpr(refusing("bwd", tj, tnp))(X).jaxpr)
    other = ir.parse(text.replace("NoDerivativeError: on purpose", "OSError: of another process"))
    with pytest.raises(MissingRuleError, match=r"of 'sin' raised OSError: of another process \(test_refusing"):
        tj.grad(lambda x: tj.eval_jaxpr(other, [], x)[0].sum())(X)


def test_patterns_of_unknown_derivatives() -> None:
    with pytest.raises(NoDerivativeError):
        interpreters.jacobian_sparsity(tj.jit(refusing("bwd", tj, tnp)), X)
