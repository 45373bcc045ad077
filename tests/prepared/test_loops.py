"""Functions with loops in them: compiled whole at the first call, wherever the arrays are, and traced no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.special
import numpy as np
import pytest
import scipy.special

import tinyjax as tj
import tinyjax.numpy as tnp
import tinyjax.random
import tinyjax.scipy.linalg
import tinyjax.scipy.special
from tinyjax import lax
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.errors import ShapeError
from tinyjax.ir.interpret import interpret
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.functions import prepared_with_loops

RNG = np.random.default_rng(3)
A, B, C = RNG.normal(size=(3, 3, 3))
FORM, VECTORS = (np.asarray(x) for x in tj.scipy.linalg.schur(A))
P, Q, U = RNG.uniform(0.5, 6, 7), RNG.uniform(0.5, 6, 7), RNG.uniform(-0.9, 0.9, 7)
ODD = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, -1.5, 3.5])

#: Each of a module of scipy's functions, and arrays.
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "sqrtm": (lambda s, x: s.linalg.sqrtm(x), [A]),
    "sqrtm of nan": (lambda s, x: s.linalg.sqrtm(x), [np.full((3, 3), np.nan)]),
    "sqrtm of one number": (lambda s, x: s.linalg.sqrtm(x), [A[:1, :1]]),
    "sqrtm of float32": (lambda s, x: s.linalg.sqrtm(x), [A.astype(np.float32)]),
    "sqrtm of complex numbers": (lambda s, x: s.linalg.sqrtm(x), [A + 1j * B]),
    "rsf2csf": (lambda s, t, z: s.linalg.rsf2csf(t, z), [FORM, VECTORS]),
    "rsf2csf of float32": (lambda s, t, z: s.linalg.rsf2csf(t, z), [FORM.astype(np.float32), VECTORS]),
    "solve_sylvester": (lambda s, a, b, c: s.linalg.solve_sylvester(a, b, c), [A, B, C]),
    "solve_sylvester, singular": (lambda s, a, b, c: s.linalg.solve_sylvester(a, b, c), [A, -A, C]),
    "solve_sylvester, tol": (lambda s, a, b, c: s.linalg.solve_sylvester(a, b, c, tol=1e3), [A, B, C]),
    "solve_sylvester, eigen": (lambda s, a, b, c: s.linalg.solve_sylvester(a, b, c, method="eigen"), [A, B, C]),
    "expi": (lambda s, x: s.special.expi(x), [ODD]),
    "exp1": (lambda s, x: s.special.exp1(x), [ODD]),
    "expn": (lambda s, x: s.special.expn(np.arange(7.0), x), [ODD]),
    "sici": (lambda s, x: s.special.sici(x), [ODD]),
    "expm": (lambda s, x: s.linalg.expm(x), [7 * A]),
    "expm of several": (lambda s, x: s.linalg.expm(x), [np.stack([0.1 * A, 40 * A, np.full((3, 3), np.nan)])]),
    "expm of complex numbers": (lambda s, x: s.linalg.expm(x, max_squarings=3), [A + 1j * B]),
    "expm_frechet": (lambda s, x, y: s.linalg.expm_frechet(x, y), [A, B]),
    "bessel_jn": (lambda s, x: s.special.bessel_jn(x, v=3), [np.abs(U)]),
    "hyp1f1": (lambda s, a, b, x: s.special.hyp1f1(a, b, x), [P, Q, U]),
    "hyp2f1": (lambda s, a, b, c, x: s.special.hyp2f1(a, b, c, x), [P, Q, P + Q, U]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_jaxs_at_every_call_and_nothing_is_traced_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arrays = FUNCTIONS[name]
    operands = [tnp.asarray(x) for x in arrays]
    first = jax.tree.leaves(function(tj.scipy, *operands))

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a loop was traced again")

    monkeypatch.setattr("tinyjax.lax.loops.stage_body", refuse)
    second = jax.tree.leaves(function(tj.scipy, *operands))
    again = jax.tree.leaves(function(tj.scipy, *[tj.device_put(x) for x in arrays]))
    with jax.enable_x64(True):
        # Where numbers are infinite, JAX's exponential integrals are nan.
        right = function(scipy, *arrays) if arrays[-1] is ODD else function(jax.scipy, *map(jnp.asarray, arrays))
        expected = jax.tree.leaves(right)
    for x, y, z, theirs in zip(first, second, again, expected, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(x, z)
        assert x.aval == y.aval == z.aval
        assert x.value.on_host is y.value.on_host
        assert x.dtype == theirs.dtype
        exact = x.dtype.name in ("float64", "complex128")
        np.testing.assert_allclose(x, theirs, rtol=1e-9 if exact else 2e-4, atol=1e-10 if exact else 1e-4)


#: Each of a module of samplers, a key of its own, and arrays.
SAMPLERS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "gamma": (lambda r, key, a: r.gamma(key, a), [P]),
    "loggamma": (lambda r, key, a: r.loggamma(key, a, (2, 7), "float32"), [P]),
    "beta": (lambda r, key, a, b: r.beta(key, a, b), [P, Q]),
    "dirichlet": (lambda r, key, a: r.dirichlet(key, a), [P]),
    "chisquare": (lambda r, key, a: r.chisquare(key, a, dtype="float32"), [P.astype(np.float32)]),
    "f": (lambda r, key, a, b: r.f(key, a, b), [P, Q]),
    "t": (lambda r, key, a: r.t(key, a, (2, 7)), [P]),
    "generalized_normal": (lambda r, key, a: r.generalized_normal(key, a, (7,)), [P]),
    "ball": (lambda r, key, a: r.ball(key, 3, a, (2,)), [np.array(1.5)]),
    "poisson": (lambda r, key, a: r.poisson(key, a), [np.array([0.0, 3.0, 30.0, np.nan])]),
    "binomial": (lambda r, key, n, p: r.binomial(key, n, p), [np.array([20.0, 5.0, 300.0, -1.0]), np.full(4, 0.3)]),
    "multinomial": (lambda r, key, n, p: r.multinomial(key, n, p), [np.array(20.0), np.array([0.2, 0.5, 0.3])]),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", SAMPLERS)
def test_samples_are_jaxs_at_every_call_and_nothing_is_traced_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, arrays = SAMPLERS[name]
    operands = [tnp.asarray(x) for x in arrays]
    first = sampler(tj.random, tj.random.key(5), *operands)

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a loop was traced again")

    with monkeypatch.context() as patch:
        for loop in ("stage_body", "stage"):
            patch.setattr(f"tinyjax.lax.loops.{loop}", refuse)
        second = sampler(tj.random, tj.random.key(5), *operands)
        other = sampler(tj.random, tj.random.key(6), *operands)
    assert first.aval == second.aval == other.aval
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other, equal_nan=True)
    with jax.enable_x64(True):
        for seed, found in ((5, first), (6, other)):
            theirs = sampler(jax.random, jax.random.key(seed), *map(jnp.asarray, arrays))
            assert found.dtype == theirs.dtype
            np.testing.assert_allclose(found, theirs, rtol=1e-5)
    compiled = tj.jit(lambda *xs: sampler(tj.random, tj.random.key(5), *xs))(*operands)
    np.testing.assert_allclose(compiled, first, rtol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUNCTIONS)
def test_transformations_apply_to_what_is_called(name: str) -> None:
    function, arrays = FUNCTIONS[name]

    def first(*xs: Any) -> Any:
        return jax.tree.leaves(function(tj.scipy, *xs))[0]

    own = first(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(tj.jit(first)(*arrays), own, rtol=1e-9, atol=1e-5)
    rows = tj.vmap(first)(*[np.stack([x, x]) for x in arrays])
    np.testing.assert_allclose(rows[1], own, rtol=1e-5, atol=1e-5)


@pytest.mark.sweep
def test_derivatives_are_those_of_what_is_called() -> None:
    x = tnp.asarray(A @ A.T + np.eye(3))
    tj.scipy.linalg.sqrtm(x)
    tangent = tnp.asarray(B)
    root, change = tj.jvp(tj.scipy.linalg.sqrtm, (x,), (tangent,))
    np.testing.assert_allclose(change @ root + root @ change, B, atol=1e-10)
    slopes = tj.grad(lambda u: tj.scipy.special.hyp1f1(P, Q, u).sum())(tnp.asarray(U))
    with jax.enable_x64(True):
        np.testing.assert_allclose(slopes, P / Q * np.asarray(jax.scipy.special.hyp1f1(P + 1, Q + 1, U)), rtol=1e-9)


def test_a_stack_of_matrices_has_the_roots_of_each() -> None:
    several = tnp.asarray(np.stack([A, B, C]))
    for _ in range(2):
        roots = tj.scipy.linalg.sqrtm(several)
        np.testing.assert_allclose(roots, np.stack([tj.scipy.linalg.sqrtm(tnp.asarray(x)) for x in (A, B, C)]), 1e-9)


@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2), (2, 0, 0)])
def test_nothing_is_nothing(shape: tuple[int, ...]) -> None:
    empty = tnp.zeros(shape)
    assert tj.scipy.linalg.sqrtm(empty).shape == shape
    assert [x.shape for x in tj.scipy.linalg.rsf2csf(empty, empty)] == [shape, shape]
    assert tj.scipy.linalg.solve_sylvester(empty, empty, empty).shape == shape
    assert tj.scipy.special.expi(empty).shape == shape


def test_a_function_is_called_once_for_arrays_of_a_type() -> None:
    calls: list[object] = []

    @prepared_with_loops
    def powers(x: tj.Array, base: tj.Array) -> tuple[tj.Array, tj.Array]:
        calls.append(x.aval)
        if x.shape != base.shape:
            raise ShapeError("other shapes")
        return lax.fori_loop(0, 3, lambda i, y: y * base + i, x), x

    x, base = tnp.asarray([1.0, 2.0]), tnp.asarray([2.0, 3.0])
    for _ in range(3):
        grown, same = powers(x, base)
        np.testing.assert_array_equal(grown, [((1 * 2.0 + 0) * 2 + 1) * 2 + 2, ((2 * 3.0 + 0) * 3 + 1) * 3 + 2])
        np.testing.assert_array_equal(same, x)
    assert len(calls) == 1
    for _ in range(2):
        with pytest.raises(ShapeError, match="other shapes"):
            powers(x, tnp.asarray([1.0]))
    del calls[1:]
    with tj.disable_jit():  # Python runs loops then
        powers(x, base)
    assert len(calls) == 2


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["igamma_grad_a", "random_gamma_grad"])
def test_primitives_of_loops_are_compiled_wherever_the_arrays_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for operands of a type; as functions, and where derivatives apply them."""
    function = getattr(lax, name)
    a, x = tnp.asarray(P[:5]), tnp.asarray(Q[:5])
    program = tj.make_jaxpr(function)(a, x)
    assert not program.jaxpr.eqns[0].primitive.plain
    (host,) = interpret(EvalContext(), program.jaxpr, [ConcreteValue.of(P[:5]), ConcreteValue.of(Q[:5])])
    assert host.on_host
    first = function(a, x)

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("it was computed by NumPy, or compiled again")

    monkeypatch.setattr(type(program.jaxpr.eqns[0].primitive), "evaluate", refuse)
    monkeypatch.setattr(type(tj.backend.execute), "executable", refuse)
    for second in (function(a, x), function(tj.device_put(a), x)):
        np.testing.assert_array_equal(first, second)
        assert first.aval == second.aval
        assert not second.value.on_host
    np.testing.assert_allclose(first, host.data, 1e-11)
    monkeypatch.undo()
    monkeypatch.setattr(type(program.jaxpr.eqns[0].primitive), "evaluate", refuse)
    if name == "igamma_grad_a":
        np.testing.assert_array_equal(tj.grad(lambda a: lax.igamma(a, x).sum())(a), first)
    with jax.enable_x64(True):
        theirs = jax.jit(getattr(jax.lax, name))(P[:5], Q[:5])
    np.testing.assert_allclose(first, theirs, 1e-11)
