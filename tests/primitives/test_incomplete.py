"""Incomplete gamma and beta functions, Bessel functions, zeta: at the ends of their domains, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from scipy import special

import tinyjax as tj
from tinyjax import Array, grad, jit, lax, make_jaxpr, vmap
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.errors import MissingRuleError, ParameterError, TypingError
from tinyjax.interop.jax import to_jax
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.incomplete import RandomGammaGradA

INF, NAN = np.inf, np.nan
#: Shapes and points of distributions: within, at the ends, outside.
A = np.array([0.5, 3, 50, 100, 1e-6, 1e-300, 0, 1, 1, INF, NAN, -1, 2, 20, 0.01])
X = np.array([0.2, 5, 49, 90, 1e-3, 1, 1, 0, INF, 1, 1, 1, -1, 19.5, 30])
B = np.array([0.5, 2, 60, 3, 1, 2, 0, 3, INF, 2, 1, 1, 2, 3, 4])
U = np.array([0.2, 0.9, 0.4, 0.99, 0.5, 0.5, 0.5, 0, 0.5, 0.5, 0.5, 0.5, 1, 1.5, -0.5])

CASES: dict[str, tuple[HostArray, ...]] = {
    "igamma": (A, X),
    "igammac": (A, X),
    "igamma_grad_a": (A, X),
    "random_gamma_grad": (A, X),
    "betainc": (A, B, U),
    "bessel_i0e": (np.array([0.0, -0.0, 8, -8, 8.0001, 1e-9, 700, 1e30, INF, -INF, NAN]),),
    "bessel_i1e": (np.array([0.0, -0.0, 8, -8, 8.0001, 1e-9, 700, 1e30, INF, -INF, NAN]),),
    "zeta": (np.array([1.1, 2, 3, 30, 2, 2]), np.array([1, 0.1, 1e3, 2, INF, NAN])),
}
SCIPY: dict[str, Callable[..., HostArray]] = {
    "igamma": special.gammainc, "igammac": special.gammaincc, "bessel_i0e": special.i0e, "bessel_i1e": special.i1e,
    "zeta": special.zeta,
}  # fmt: skip


#: At (0.3, 0.2), (1, 2) and (2.5, 2), by differences with 60 digits.
CURVED = (0.95899114329201894, -0.14856186245701779, 0.067077171809110783)
MIXED = (-9.2510336236305963, -0.14601993749586649, -0.042224137471591444)
SLOW = {"igammac", "igamma_grad_a", "random_gamma_grad", "betainc"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.sweep] if n in SLOW else []) for n in CASES])
def test_values(name: str) -> None:
    """The host, compiled code and JAX agree; JAX has nan for an infinite shape or q, where the limit is known."""
    f, args = getattr(lax, name), CASES[name]
    program = make_jaxpr(f)(*args)
    host = np.asarray(interpret(EvalContext(), program.jaxpr, list(map(ConcreteValue.of, args)))[0].data)
    for compiled in (f(*args), jit(f)(*args)):
        np.testing.assert_allclose(np.asarray(compiled), host, 1e-11, 1e-13)
    expected = np.asarray(jax.jit(getattr(jax.lax, name))(*args))
    known = ~((A == INF) & (X == 1)) if args[0] is A and name != "betainc" else np.ones(host.shape, bool)
    if name == "zeta":
        known = args[1] != INF
    np.testing.assert_allclose(host[known], expected[known], 1e-11, 1e-13)
    if name in SCIPY:
        finite = np.all([np.isfinite(arg) for arg in args], 0)
        np.testing.assert_allclose(host[finite], np.asarray(SCIPY[name](*args))[finite], 1e-12)


@pytest.mark.sweep
def test_many_parameters() -> None:
    """Over the whole range, against SciPy and its differences."""
    rng = np.random.default_rng(0)
    a, b = rng.lognormal(0, 2.5, 300), rng.lognormal(0, 2.5, 300)
    x, u = a * rng.lognormal(0, 0.7, 300), rng.uniform(0, 1, 300)
    np.testing.assert_allclose(np.asarray(jit(lax.igamma)(a, x)), special.gammainc(a, x), 1e-9, 1e-14)
    np.testing.assert_allclose(np.asarray(jit(lax.igammac)(a, x)), special.gammaincc(a, x), 1e-9, 1e-14)
    np.testing.assert_allclose(np.asarray(jit(lax.betainc)(a, b, u)), special.betainc(a, b, u), 1e-9, 1e-14)
    step = 1e-5 * a
    slope = (special.gammainc(a + step, x) - special.gammainc(a - step, x)) / (2 * step)
    np.testing.assert_allclose(np.asarray(lax.igamma_grad_a(a, x)), slope, 1e-4, 1e-8)


def test_a_sample_moves_so_that_its_part_stays() -> None:
    a, x = np.array([0.3, 1.0, 2.5, 8.0]), np.array([0.2, 2.0, 2.0, 11.0])
    part, h = special.gammainc(a, x), 1e-5
    moved = (special.gammaincinv(a + h, part) - special.gammaincinv(a - h, part)) / (2 * h)
    np.testing.assert_allclose(np.asarray(lax.random_gamma_grad(a, x)), moved, 1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_derivatives(name: str) -> None:
    """To second order in x, first in a; mapped."""
    ours, theirs = getattr(lax, name), getattr(jax.lax, name)
    for argnum in (0, 1):
        found = vmap(grad(ours, argnum))(A[:4], X[:4])
        expected = jax.jit(jax.vmap(jax.grad(theirs, argnum)))(A[:4], X[:4])
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-9)
    found = vmap(grad(grad(ours, 1), 1))(A[:4], X[:4])
    expected = jax.jit(jax.vmap(jax.grad(jax.grad(theirs, 1), 1)))(A[:4], X[:4])
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-9)


@pytest.mark.parametrize("large", [1.0, 300.0])
def test_mixed_second_derivatives(large: float) -> None:
    """In a and x, in either order."""
    a, x = large * A[:4], large * X[:4]
    shape_first = vmap(grad(grad(lax.igamma, 0), 1))(a, x)
    point_first = vmap(grad(grad(lax.igamma, 1), 0))(a, x)
    np.testing.assert_allclose(np.asarray(shape_first), np.asarray(point_first), 1e-11)


@pytest.mark.sweep
@pytest.mark.parametrize("compiled", [False, True])
def test_second_derivatives_in_the_shape(compiled: bool) -> None:
    """Those of P and of how a sample moves, by differences with 60 digits."""
    a = np.array([0.05, 0.3, 1.0, 2.5, 8.0, 30.0, 200.0, 1500.0, 20000.0])
    x = np.array([1e-5, 0.2, 2.0, 2.0, 3.0, 60.0, 190.0, 1600.0, 20000.0])
    bent = [
        -0.043754326850608373, -3.4302693029532704, -0.97510827316924319, -0.22340216845007186, -0.045167327528206684,
        -0.020812832867818489, -0.0024633870926220534, -0.00034061727916489964, -2.5000625006249825e-05,
    ]  # fmt: skip
    apply: Callable[[Callable[..., Array]], Callable[..., Array]] = jit if compiled else lambda f: f
    found = apply(vmap(grad(lax.random_gamma_grad)))(a, x)
    np.testing.assert_allclose(np.asarray(found), bent, 1e-12)
    curved = apply(vmap(grad(grad(lax.igamma))))(a[1:4], x[1:4])
    np.testing.assert_allclose(np.asarray(curved), CURVED, 1e-13)
    opposite = apply(vmap(grad(grad(lax.igammac))))(a[1:4], x[1:4])
    np.testing.assert_allclose(np.asarray(opposite), -np.array(CURVED), 1e-13)
    for order in ((0, 1), (1, 0)):
        mixed = apply(vmap(grad(grad(lax.random_gamma_grad, order[0]), order[1])))(a[1:4], x[1:4])
        np.testing.assert_allclose(np.asarray(mixed), MIXED, 1e-12)


#: Derivatives of igamma in its shape, of the orders 3 and 4: with 40 digits.
HIGHER = {
    (2.5, 1.7): (0.06061154352110069, -0.15481957084551629),
    (0.4, 0.3): (1.043490454448093, -4.669137544208312),
    (8.0, 6.0): (0.004890298235596617, -0.012256391140520106),
    (3.0, 11.0): (-0.0026878289401484055, -0.002036483392322228),
}


@pytest.mark.sweep
@pytest.mark.parametrize("at", HIGHER, ids=str)
def test_higher_derivatives_in_the_shape(at: tuple[float, float]) -> None:
    a, x = at
    third, fourth = HIGHER[at]
    thrice = grad(grad(grad(lax.igamma)))
    np.testing.assert_allclose(thrice(a, x), third, 1e-12)
    np.testing.assert_allclose(grad(grad(grad(lax.igammac)))(a, x), -third, 1e-12)
    np.testing.assert_allclose(tj.jvp(lambda a: thrice(a, x), (a,), (1.0,))[1], fourth, 1e-12)
    # In x: it is the density, which can be differentiated in a.
    mixed = grad(grad(grad(grad(lax.igamma, 1))))(a, x)
    np.testing.assert_allclose(grad(thrice, 1)(a, x), mixed, 1e-10)


@pytest.mark.sweep
def test_third_derivatives_of_samples() -> None:
    """Forwards as in JAX; backwards too; and as JAX computes it from our program."""

    def derivative(lib: Any, order: int, a: Any) -> Any:
        if not order:
            return lib.random.gamma(lib.random.key(3), a)
        return lib.jvp(lambda a: derivative(lib, order - 1, a), (a,), (1.0,))[1]

    a = 2.5
    expected = derivative(jax, 3, a)
    np.testing.assert_allclose(derivative(tj, 3, a), expected, 1e-10)
    backwards = grad(grad(grad(lambda a: tj.random.gamma(tj.random.key(3), a))))
    np.testing.assert_allclose(jit(backwards)(a), expected, 1e-10)
    thrice = grad(grad(grad(lax.igamma)))
    np.testing.assert_allclose(to_jax(thrice)(a, 1.7), HIGHER[a, 1.7][0], 1e-10)


@pytest.mark.sweep
@pytest.mark.parametrize("a", [1001.0, 2e4, 1e6, 1e38, 1e300])
def test_large_shapes(a: float) -> None:
    """The values are those of the normal distribution and what it neglects, and derivatives fit; in few steps."""
    x = a * (1 + np.array([-3, -1, -1e-3, 0, 0.5, 2, 3]) / np.sqrt(a))
    shape = np.full_like(x, a)
    for function, oracle in ((lax.igamma, special.gammainc), (lax.igammac, special.gammaincc)):
        np.testing.assert_allclose(np.asarray(jit(function)(shape, x)), oracle(shape, x), 1e-10)
        np.testing.assert_allclose(np.asarray(function(shape, x)), oracle(shape, x), 1e-10)
    density = vmap(grad(lax.igamma, 1))(shape, x) if a < 1e10 else None
    slope, moved = jit(lax.igamma_grad_a)(shape, x), jit(lax.random_gamma_grad)(shape, x)
    np.testing.assert_allclose(np.asarray(lax.igamma_grad_a(shape, x)), np.asarray(slope), 1e-10)
    if density is not None:
        np.testing.assert_allclose(np.asarray(-slope / density), np.asarray(moved), a * 1e-14)
    for far in (0.4, 2.0):  # where samples hardly are
        found = lax.random_gamma_grad(a, far * a)
        np.testing.assert_allclose(np.asarray(found), far * np.log(far) / (far - 1), 1 / a + 1e-12)


def test_large_shapes_to_many_digits() -> None:
    """P(1500, x) by sums of 50 digits, and differences of them."""
    a, x = np.full(4, 1500.0), np.array([800.0, 1400, 1500, 1600])
    slope = [-4.4308877867611811e-108, -0.00032538472429372911, -0.010301217673951669, -0.00040967176822233239]
    np.testing.assert_allclose(np.asarray(lax.igamma_grad_a(a, x)), slope, 1e-12)
    moved = [0.71848868648790335, 0.96600751293745062, 1.0001111185156959, 1.0327310653114316]
    np.testing.assert_allclose(np.asarray(lax.random_gamma_grad(a, x)), moved, 1e-14)


def test_derivative_of_zeta() -> None:
    """JAX has none."""
    h, q = 1e-5, 1.5
    slope = (special.zeta(3.0, q + h) - special.zeta(3.0, q - h)) / (2 * h)
    np.testing.assert_allclose(grad(lax.zeta, 1)(3.0, q).item(), slope, 1e-6)
    second = grad(grad(lax.zeta, 1), 1)(3.0, q).item()
    np.testing.assert_allclose(second, 12 * special.zeta(5.0, q), 1e-10)


@pytest.mark.sweep
def test_derivative_of_zeta_in_its_exponent() -> None:
    slopes = [grad(lax.zeta), grad(grad(lax.zeta)), grad(grad(lax.zeta, 1)), grad(grad(lax.zeta), 1)]
    # Of Riemann's function at 2; and of the derivative in q, which is -x zeta(x + 1, q).
    first, second, third = -0.93754825431584375, 1.98928023429890102, -0.19812624288563685
    mixed = -special.zeta(3.0, 1.0) - 2 * third
    for slope, expected in zip(slopes, (first, second, mixed, mixed), strict=True):
        np.testing.assert_allclose(slope(2.0, 1.0), expected, 1e-12)
        np.testing.assert_allclose(jit(slope)(2.0, 1.0), expected, 1e-12)
    # Where the sum converges soon, and next to its pole.
    n = np.arange(200)
    for x, q in ((12.0, 0.5), (30.0, 2.5), (200.0, 1e3), (12.0, 1e-3)):
        direct = -np.sum(np.log(q + n) * (q + n) ** -x)
        np.testing.assert_allclose(grad(lax.zeta)(x, q), direct, 1e-10)
    np.testing.assert_allclose(grad(lax.zeta)(1 + 1e-4, 1.0), -1e8, 1e-8)
    np.testing.assert_allclose(grad(lax.zeta)(np.float32(2), np.float32(1)), first, 1e-5)


def test_shapes() -> None:
    """Scalars go with arrays, and axes of size 1 are repeated."""
    a, x = np.array([[1.0], [2.0]]), np.array([[0.5, 1.0, 2.0]])
    assert lax.igamma(a, x).shape == (2, 3)
    assert lax.betainc(a, 2.0, x / 4).shape == (2, 3)
    f: Callable[[HostArray], Array] = jit(lambda x: lax.betainc(np.float64(2), np.float64(3), x))
    np.testing.assert_allclose(np.asarray(f(x / 4)), np.asarray(special.betainc(2, 3, x / 4)))
    assert jit(lax.igamma)(np.ones((0, 2)), np.ones((0, 2))).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: grad(lax.betainc)(1.0, 2.0, 0.5), MissingRuleError, "no derivative with respect to its parameters"),
        (lambda: RandomGammaGradA(0), ParameterError, "random_gamma_grad_a: order is at least 1, got 0"),
        (lambda: lax.igamma(1, 2), TypingError, "igamma does not accept i64 operands"),
        (
            lambda: lax.igamma(np.ones(2), np.ones(2, "float32")),
            TypingError,
            "igamma requires arguments to have the same dtypes",
        ),
    ],
)
def test_errors(call: Callable[[], object], error: type[tj.TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
