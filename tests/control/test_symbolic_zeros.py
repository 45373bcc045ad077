"""Rules that ask which tangents are zero get the same answer in a program as from JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
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
from tinyjax.errors import InputError, MissingRuleError
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


@pytest.mark.sweep
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


def asserting(m: ModuleType, perturbed: tuple[bool, ...], zeros: tuple[bool, ...]) -> Callable[..., Any]:
    """A function with as many arguments as results, whose rules know one case only."""
    f: Any = m.custom_vjp(lambda *xs: tuple(2.0 * x for x in xs))

    def fwd(*xs: Any) -> Any:
        assert tuple(x.perturbed for x in xs) == perturbed
        return tuple(2.0 * x.value for x in xs), None

    def bwd(_: None, cts: Any) -> Any:
        assert tuple(type(ct) is zero_of(m) for ct in cts) == zeros
        return tuple(None if zero else 3.0 * ct for ct, zero in zip(cts, zeros, strict=True))

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    made: Callable[..., Any] = f
    return made


ONE_CASE: dict[str, Callable[[ModuleType, Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda m, f: f,
    "jit": lambda m, f: m.jit(f),
    "jit of jit": lambda m, f: m.jit(m.jit(f)),
    "checkpoint": lambda m, f: m.checkpoint(f),
    "vmap": lambda m, f: lambda *xs: tuple(y[0] for y in m.vmap(f)(*[x[None] for x in xs])),
    "vmap of jit": lambda m, f: lambda *xs: tuple(y[0] for y in m.vmap(m.jit(f))(*[x[None] for x in xs])),
    "jit of vmap": lambda m, f: m.jit(lambda *xs: tuple(y[0] for y in m.vmap(f)(*[x[None] for x in xs]))),
}


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("name", ONE_CASE)
@pytest.mark.sweep
def test_rules_that_know_one_case(name: str, count: int) -> None:
    """Every choice of arguments and results: it works where JAX's does, and says what is wrong where it doesn't."""
    rng = np.random.default_rng(count)
    choices = list(product((True, False), repeat=count))
    for _ in range(4):
        moving = choices[rng.integers(len(choices) - 1)]
        read = choices[rng.integers(len(choices) - 1)]
        argnums = tuple(i for i, mark in enumerate(moving) if mark)

        def derived(m: ModuleType, f: Callable[..., Any], argnums: Any = argnums, read: Any = read) -> Any:
            applied = ONE_CASE[name](m, f)

            def total(*xs: Any) -> Any:
                return sum((y.sum() for y, mark in zip(applied(*xs), read, strict=True) if mark), 0.0)

            return m.grad(total, argnums)(*[numpy_of(m).arange(3.0) + i for i in range(count)])

        zeros = tuple(not mark for mark in read)
        assert_matches(derived(tj, asserting(tj, moving, zeros)), derived(jax, asserting(jax, moving, zeros)))
        if count > 1:
            other = (False, *moving[1:]) if moving[0] and any(moving[1:]) else (True, *moving[1:])
            if other != moving:
                for perturbed, absent in ((other, zeros), (moving, tuple(not zero for zero in zeros))):
                    with pytest.raises(AssertionError):
                        derived(jax, asserting(jax, perturbed, absent))
                    with pytest.raises((AssertionError, MissingRuleError), match=r"AssertionError|^$|assert"):
                        derived(tj, asserting(tj, perturbed, absent))


def test_jvp_rules_that_know_one_case() -> None:
    def build(m: ModuleType, zeros: tuple[bool, ...]) -> Callable[..., Any]:
        f: Any = m.custom_jvp(lambda x, y: x * y)

        def rule(primals: Any, tangents: Any) -> Any:
            assert tuple(type(t) is zero_of(m) for t in tangents) == zeros
            return f(*primals), sum(t for t, zero in zip(tangents, zeros, strict=True) if not zero)

        f.defjvp(rule, symbolic_zeros=True)
        made: Callable[..., Any] = m.jit(f)
        return made

    for zeros, argnums in (((False, True), 0), ((True, False), 1), ((False, False), (0, 1))):
        assert_matches(*[m.grad(build(m, zeros), argnums)(2.0, 3.0) for m in (tj, jax)])
    with pytest.raises(AssertionError) as caught:
        tj.grad(build(tj, (False, True)), 1)(2.0, 3.0)
    assert "number 0 is a SymbolicZero among the 2 tangents" in caught.value.__notes__[-1]
    program = tj.make_jaxpr(build(tj, (False, True)))(2.0, 3.0).jaxpr
    assert ir.parse(str(program)) == program


def test_a_rule_that_knows_no_case_raises_its_own_exception() -> None:
    f = tj.custom_vjp(lambda x: x * 2.0)

    def fwd(x: Any) -> Any:
        raise OSError("no such rule")

    f.defvjp(fwd, fwd, symbolic_zeros=True)
    assert float(tj.jit(f)(1.0)) == 2.0
    with pytest.raises(OSError, match="no such rule"):
        tj.grad(tj.jit(f))(1.0)


def test_symbolic_zeros_that_rules_return_have_the_type_of_the_argument() -> None:
    f = tj.custom_vjp(lambda x, y: (x, y))
    f.defvjp(lambda x, y: ((x.value, y.value), None), lambda _, cts: cts[::-1], symbolic_zeros=True)
    for g in (tj.jit(f), f):
        loss = partial(lambda g, x, y: g(x, y)[0].sum(), g)
        with pytest.raises((InputError, MissingRuleError), match=r"argument x must have type f(64|loat64)\[2\]"):
            tj.grad(loss)(np.ones(2), np.ones(3))
