"""Rules that ask which tangents are zero get the same answer in a program as from JAX."""

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
from tests.api.matching import assert_matches
from tinyjax import ir, transforms
from tinyjax.ir.traverse import nested_programs


def numpy_of(m: ModuleType) -> ModuleType:
    return jnp if m is jax else tnp


def zero_of(m: ModuleType) -> type:
    return jax.custom_derivatives.SymbolicZero if m is jax else tj.SymbolicZero


def telling(m: ModuleType) -> Callable[..., Any]:
    """A function of two numbers and an integer, whose rule encodes in its tangents what it was told. The second result
    has a tangent only if the second argument has."""
    f: Any = m.custom_jvp(lambda x, y, i: (x * y * i, y * 2.0))

    def rule(primals: Any, tangents: Any) -> Any:
        x, y, i = primals
        _, ty, ti = tangents
        zeros = [type(t) is zero_of(m) for t in tangents]
        told = 1.0 * zeros[0] + 10.0 * zeros[1] + 100.0 * zeros[2]
        assert ti.shape == x.shape
        assert not all(zeros)
        for t, p in zip(tangents, primals, strict=True):
            assert (t.shape, t.ndim, t.size) == (np.shape(p), np.ndim(p), np.size(p))
        return f(x, y, i), (x * 0.0 + told, ty)

    f.defjvp(rule, symbolic_zeros=True)
    made: Callable[..., Any] = f
    return made


X = np.array([0.5, -1.0])


def jvp(m: ModuleType, f: Callable[[Any], Any], x: Any = 0.5) -> Any:
    return m.jvp(f, (numpy_of(m).asarray(x),), (numpy_of(m).ones_like(numpy_of(m).asarray(x)),))


ROUTES: dict[str, Callable[[ModuleType, Callable[..., Any]], Any]] = {
    "eager": lambda m, f: jvp(m, lambda x: f(x, 2.0, 3)),
    "jit, first": lambda m, f: jvp(m, m.jit(lambda x: f(x, 2.0, 3))),
    "jit, second": lambda m, f: jvp(m, m.jit(lambda x: f(2.0, x, 3))),
    "jit, both": lambda m, f: jvp(m, m.jit(lambda x: f(x, x, 3))),
    "jit of arguments": lambda m, f: m.jacfwd(m.jit(f), argnums=1)(0.5, 2.0, 3),
    "jit in jit": lambda m, f: jvp(m, m.jit(lambda x: m.jit(f)(2.0, x, 3))),
    "vmap": lambda m, f: jvp(m, m.vmap(lambda x: f(x, 2.0, 3)), X),
    "vmap of jit": lambda m, f: jvp(
        m, lambda x: m.vmap(m.jit(f), in_axes=(None, 0, None))(np.float64(2.0), x, 3), X),
    "scan": lambda m, f: jvp(m, lambda x: m.lax.scan(lambda c, y: (c + f(2.0, y, 3)[0], f(y, 2.0, 3)), 0.0, x), X),
    "scan, carry": lambda m, f: jvp(m, lambda x: m.lax.scan(lambda c, y: (f(c, y, 3)[1], c), x, X)),
    "cond": lambda m, f: jvp(m, lambda x: m.lax.cond(x > 0, lambda: f(x, 2.0, 3), lambda: f(2.0, x, 3))),
    "fori": lambda m, f: jvp(m, lambda x: m.lax.fori_loop(0, 2, lambda i, c: f(c, 2.0, i)[0], x)),
    "checkpoint": lambda m, f: jvp(m, m.checkpoint(lambda x: f(2.0, x, 3))),
    "after each other": lambda m, f: jvp(m, m.jit(lambda x: f(f(x, 2.0, 3)[1], x, 3))),
    "grad of jit": lambda m, f: m.grad(m.jit(lambda x: f(2.0, x, 3)[1]))(0.5),
    "jit of vmap of jit": lambda m, f: m.jit(lambda x: jvp(m, m.vmap(m.jit(lambda x: f(x, 2.0, 3))), x))(X),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUTES)
def test_as_in_jax(name: str) -> None:
    assert_matches(ROUTES[name](tj, telling(tj)), ROUTES[name](jax, telling(jax)))


def second_order(m: ModuleType) -> Any:
    """The rule applies its function, and the derivative of that is of another case."""
    f = m.custom_jvp(lambda x, y: x**2 * y)

    def rule(primals: Any, tangents: Any) -> Any:
        x, y = primals
        tx, ty = tangents
        if type(tx) is zero_of(m):
            return f(x, y), f(x, 1.0) * ty
        if type(ty) is zero_of(m):
            return f(x, y), 2.0 * x * y * tx
        return f(x, y), 2.0 * x * y * tx + f(x, 1.0) * ty

    f.defjvp(rule, symbolic_zeros=True)
    return m.jacfwd(m.jacrev(m.jit(lambda x: f(x[0], x[1])))), m.grad(m.grad(m.jit(f), argnums=1))


def test_a_rule_that_applies_its_function() -> None:
    for ours, theirs, args in zip(second_order(tj), second_order(jax), ((X,), (0.5, 2.0)), strict=True):
        assert_matches(ours(*args), theirs(*args))


def test_programs_with_cases_are_programs() -> None:
    program = tj.make_jaxpr(lambda x, y: telling(tj)(x, y, 3))(0.5, 2.0).jaxpr
    derived = transforms.jvp(program, (False, True)).jaxpr
    for each in (*nested_programs(program), *nested_programs(derived)):
        ir.typecheck(each)
    assert ir.parse(str(program)) == program
    pruned = transforms.dce(program)
    assert str(transforms.jvp(pruned, (False, True)).jaxpr) == str(derived)


def test_a_symbolic_zero_has_what_an_aval_has() -> None:
    zero = tj.SymbolicZero(tj.ShapedArray((2, 3), "float32"))
    theirs = jax.custom_derivatives.SymbolicZero(jax.core.ShapedArray((2, 3), np.dtype("float32")))
    for name in ("shape", "dtype", "ndim", "size", "weak_type"):
        assert getattr(zero, name) == getattr(theirs, name)
    assert len(zero) == 2
    with pytest.raises(TypeError):
        len(tj.SymbolicZero(tj.ShapedArray((), "float32")))


def telling_backwards(m: ModuleType) -> Callable[..., Any]:
    """A custom_vjp function whose rules encode what they were told."""
    f: Any = m.custom_vjp(lambda x, y, i: (x * y * i, y * 2.0))

    def fwd(x: Any, y: Any, i: Any) -> Any:
        told = 1.0 * x.perturbed + 10.0 * y.perturbed + 100.0 * i.perturbed
        return (x.value * y.value * i.value, y.value * 2.0), (x.value * 0.0 + told, y.value)

    def bwd(residuals: Any, cts: Any) -> Any:
        told, y = residuals
        zeros = [type(ct) is zero_of(m) for ct in cts]
        code = told + 1000.0 * zeros[0] + 10000.0 * zeros[1]
        total = sum(ct for ct, zero in zip(cts, zeros, strict=True) if not zero)
        return code * total, None if zeros[1] else (y * 0.0 + code + 0.5) * total, None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    made: Callable[..., Any] = f
    return made


BACKWARDS: dict[str, Callable[[ModuleType, Callable[..., Any]], Any]] = {
    "eager": lambda m, f: m.grad(lambda x: f(x, 2.0, 3)[0])(0.5),
    "jit, first": lambda m, f: m.grad(m.jit(lambda x: f(x, 2.0, 3)[0]))(0.5),
    "jit, second": lambda m, f: m.grad(m.jit(lambda x: f(2.0, x, 3)[1]))(0.5),
    "jit, both": lambda m, f: m.grad(m.jit(lambda x: sum(f(x, x, 3))))(0.5),
    "jit, of two": lambda m, f: m.grad(lambda x, y: m.jit(f)(x, y, 3)[0], (0, 1))(0.5, 2.0),
    "jacrev of jit": lambda m, f: m.jacrev(lambda x: m.jit(f)(x, 2.0, 3))(0.5),
    "vmap": lambda m, f: m.grad(lambda x: m.vmap(lambda x: f(x, 2.0, 3)[0])(x).sum())(X),
    "vmap, other": lambda m, f: m.grad(lambda x: m.vmap(lambda y: f(x, y, 3)[0])(X).sum())(np.float64(0.5)),
    "scan": lambda m, f: m.grad(lambda x: m.lax.scan(lambda c, y: (c + f(2.0, y, 3)[0], None), 0.0, x)[0])(X),
    "cond": lambda m, f: m.grad(lambda x: m.lax.cond(x > 0, lambda: f(x, 2.0, 3)[0], lambda: f(2.0, x, 3)[1]))(0.5),
    "checkpoint": lambda m, f: m.grad(m.checkpoint(lambda x: f(2.0, x, 3)[0]))(0.5),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_backwards_as_in_jax(name: str) -> None:
    assert_matches(BACKWARDS[name](tj, telling_backwards(tj)), BACKWARDS[name](jax, telling_backwards(jax)))
