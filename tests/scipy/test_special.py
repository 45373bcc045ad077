"""`tinyjax.scipy.special` against SciPy in values, also at the ends of domains, and against JAX in derivatives."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.scipy.special as theirs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.numpy.oracle import words
from tinyjax import grad, jit, vmap
from tinyjax.errors import ShapeError, TypingError, UnsupportedError
from tinyjax.ir.dtypes import BFLOAT16, HostArray
from tinyjax.scipy import special as ours

INF, NAN = np.inf, np.nan
EVERYWHERE = np.array([0.0, -0.0, 0.5, 1, 2, 3.7, -0.5, -1.5, -2.5, 10, 50, -10.3, -30, -100, 1e-5, 1e-300, INF, NAN])
PARTS = np.array([0, 1, 0.5, 0.1, 0.0999, 0.9001, 1e-20, 1e-300, 1 - 1e-12, -0.1, 1.2, NAN, 0.3])
POSITIVE = np.array([0.1, 0.5, 1, 2.5, 7, 30])
SOME = np.array([0.0, 1, 2.5, 0.3, -1, INF, NAN, 7])
PAIRS = tuple(grid.ravel() for grid in np.meshgrid(SOME, SOME))
POSITIVE_PAIRS = tuple(grid.ravel() for grid in np.meshgrid(POSITIVE, POSITIVE))

EVERYWHERE_DEFINED = words("gammaln gammasgn gamma factorial digamma i0 i0e i1 i1e erf erfc ndtr log_ndtr expit entr")
CASES: dict[str, tuple[HostArray, ...]] = {
    **dict.fromkeys(EVERYWHERE_DEFINED, (EVERYWHERE,)),
    **dict.fromkeys(["logit", "ndtri"], (PARTS,)),
    "erfinv": (2 * PARTS - 1,),
    **dict.fromkeys(["xlogy", "xlog1py", "rel_entr", "kl_div", "boxcox1p", "gammainc", "gammaincc"], PAIRS),
    **dict.fromkeys(["beta", "betaln", "poch", "boxcox"], POSITIVE_PAIRS),
    "zeta": (1 + POSITIVE, POSITIVE[::-1]),
    "betainc": (POSITIVE, POSITIVE[::-1], np.linspace(0, 1, 6)),
}
#: Those that JAX lacks, and arguments in which it has no derivative.
WITHOUT_DERIVATIVE = {"betainc": (0, 1), "gammasgn": (0,)}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    args = CASES[name]
    found = np.asarray(getattr(ours, name)(*args))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, getattr(special, name)(*args), 1e-10, 1e-14)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sweep
def test_derivatives(name: str) -> None:
    """Where JAX's are finite."""
    args = CASES[name]
    for argnum in range(len(args)):
        if argnum in WITHOUT_DERIVATIVE.get(name, ()):
            continue
        found = np.asarray(vmap(grad(getattr(ours, name), argnum))(*args))
        expected = np.asarray(jax.jit(jax.vmap(jax.grad(getattr(theirs, name), argnum)))(*args))
        sure = np.isfinite(expected) & (np.abs(expected) < 1e15)
        if name in ("ndtri", "factorial"):  # JAX has 0 at the ends, and for zeros
            sure &= expected != 0
        if name == "i0":  # JAX has 1 at 0
            sure &= args[0] != 0
        if name == "kl_div":  # JAX differentiates what it adds to infinity
            sure &= np.isfinite(np.asarray(getattr(ours, name)(*args)))
        # JAX's logarithm of the beta function is an approximation of its own.
        tolerance = 1e-6 if name.startswith("beta") else 1e-8
        np.testing.assert_allclose(found[sure], expected[sure], tolerance, 1e-12)


@pytest.mark.parametrize("name", words("expit logit xlogy xlog1py boxcox boxcox1p"))
def test_complex_numbers(name: str) -> None:
    args = (np.array([0.3 + 0.2j, 2 - 1j, -1 + 3j]), np.array([1.5 - 0.5j, -0.3j, 2 + 2j]))[
        : 1 if name in ("expit", "logit") else 2
    ]
    mine, theirs_ = getattr(ours, name), getattr(theirs, name)
    found, expected = (transform(mine)(*args) for transform in (lambda f: f, jit)), theirs_(*args)
    for value in found:
        np.testing.assert_allclose(np.asarray(value), np.asarray(expected), 1e-12)
    every = tuple(range(len(args)))
    slopes = vmap(grad(mine, every, holomorphic=True))(*args)
    for slope, wanted in zip(slopes, jax.vmap(jax.grad(theirs_, every, holomorphic=True))(*args), strict=True):
        np.testing.assert_allclose(np.asarray(slope), np.asarray(wanted), 1e-12)


def test_entropy_is_constant_below_zero() -> None:
    """There it is -inf, and its derivatives are zeros in both modes, as they are of a constant."""
    x = np.array([-2.0, -0.5, 0.25])
    for transform in (lambda f: f, jit):
        (back,) = transform(lambda x: tj.vjp(ours.entr, x)[1](np.ones(3)))(x)
        forward = transform(lambda x: tj.jvp(ours.entr, (x,), (np.ones(3),))[1])(x)
        np.testing.assert_allclose(np.asarray([back, forward]), 2 * [[0, 0, -np.log(0.25) - 1]])
        second = transform(vmap(grad(grad(ours.entr))))(x)
        np.testing.assert_allclose(np.asarray(second), [0, 0, -4])


@pytest.mark.sweep
def test_compiled() -> None:
    """All of them at once, and in half precision."""
    names = [name for name, args in CASES.items() if args is PAIRS or args[0] is EVERYWHERE]

    def every(x: tj.ArrayLike, *pair: tj.ArrayLike) -> list[tj.Array]:
        return [getattr(ours, name)(*(pair if CASES[name] is PAIRS else [x])) for name in names]

    for got, want in zip(jit(every)(EVERYWHERE, *PAIRS), every(EVERYWHERE, *PAIRS), strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), 1e-10, 1e-14)


def test_log_ndtr_is_as_exact_compiled() -> None:
    x = np.linspace(-3, 3, 301)  # XLA's log1p for CPUs has 14 digits somewhere
    np.testing.assert_allclose(np.asarray(jit(ours.log_ndtr)(x)), special.log_ndtr(x), 5e-15)


@settings(max_examples=30, deadline=None)
@given(st.floats(-40, 40), st.floats(1e-300, 1 - 1e-16))
def test_the_normal_distribution(x: float, p: float) -> None:
    np.testing.assert_allclose(ours.log_ndtr(x).item(), special.log_ndtr(x), 1e-12)
    np.testing.assert_allclose(ours.ndtr(x).item(), special.ndtr(x), 1e-12)
    np.testing.assert_allclose(ours.ndtri(p).item(), special.ndtri(p), 1e-10, 1e-12)
    single = ours.log_ndtr(np.float32(x))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.item(), special.log_ndtr(np.float64(np.float32(x))), 1e-4, 1e-37)


ROWS = np.array([[1.0, 2.0, -INF], [1000.0, 999.0, -1000.0]])
WEIGHTS = np.array([[1.0, -2.0, 0.0], [1.0, -1.0, 2.0]])


def test_sums_of_exponentials() -> None:
    for axis, keepdims in ((None, False), (1, False), ((0,), True), ((0, 1), True)):
        found = np.asarray(ours.logsumexp(ROWS, axis, keepdims=keepdims))
        np.testing.assert_allclose(found, special.logsumexp(ROWS, axis, keepdims=keepdims))
        np.testing.assert_allclose(np.asarray(ours.softmax(ROWS, axis)), special.softmax(ROWS, axis))
        np.testing.assert_allclose(np.asarray(ours.log_softmax(ROWS, axis)), special.log_softmax(ROWS, axis))
    np.testing.assert_allclose(np.asarray(ours.logsumexp(ROWS, 1, WEIGHTS)), special.logsumexp(ROWS, 1, WEIGHTS))
    for got, want in zip(
        ours.logsumexp(ROWS, 1, WEIGHTS, return_sign=True),
        special.logsumexp(ROWS, 1, WEIGHTS, return_sign=True),
        strict=True,
    ):
        np.testing.assert_allclose(np.asarray(got), want)
    some = ours.logsumexp(ROWS, 1, where=np.array([True, False, True]))
    np.testing.assert_allclose(np.asarray(some), [1.0, 1000.0])
    assert ours.logsumexp(np.array([-INF, -INF])).item() == -INF
    assert ours.logsumexp(np.array([INF, 1.0])).item() == INF
    slope = grad(ours.logsumexp)(ROWS[1])
    np.testing.assert_allclose(np.asarray(slope), special.softmax(ROWS[1]), atol=1e-300)


def test_the_rest() -> None:
    np.testing.assert_allclose(np.asarray(ours.multigammaln(POSITIVE + 1, 3)), special.multigammaln(POSITIVE + 1, 3))
    np.testing.assert_allclose(np.asarray(ours.zeta(1 + POSITIVE)), special.zeta(1 + POSITIVE))
    for n in (0, 1, 2, 7):
        np.testing.assert_allclose(np.asarray(ours.bernoulli(n)), special.bernoulli(max(n, 2))[: n + 1])
    for order in (0, 1, 3):
        np.testing.assert_allclose(np.asarray(ours.polygamma(order, POSITIVE)), special.polygamma(order, POSITIVE))


@pytest.mark.sweep
def test_exponential_integrals() -> None:
    """On both sides of where one way of computing them ends and another begins."""
    x = np.array([0.0, 1e-300, 0.3, 1, 1.0001, 5, 39.9, 40, 100, 700, 800, INF, NAN, -0.5, -1, -30, -INF])
    for name in ("exp1", "expi"):
        found = np.asarray(getattr(ours, name)(x))
        np.testing.assert_allclose(found, getattr(special, name)(x), 1e-12)
        np.testing.assert_allclose(np.asarray(jit(getattr(ours, name))(x)), found, 1e-12)
    for n in (0, 1, 2, 5, 40):
        np.testing.assert_allclose(np.asarray(ours.expn(n, x)), special.expn(n, x), 1e-12)
    inside = x[(x > 0) & (x < 700)]
    slope = np.asarray(vmap(grad(ours.expi))(inside))
    np.testing.assert_allclose(slope, np.exp(inside) / inside, 1e-12)
    slope = np.asarray(vmap(grad(grad(ours.expn, 1), 1), (None, 0))(2.0, inside))
    np.testing.assert_allclose(slope, np.exp(-inside) / inside, 1e-12)
    single = np.asarray(ours.expi(np.array([0.5, 20, 60], "float32")))
    np.testing.assert_allclose(single, special.expi([0.5, 20, 60]), 1e-5)


def test_integrals_of_several_orders_at_one_place() -> None:
    orders = np.arange(3)
    for x in (0.5, 1.5):
        np.testing.assert_allclose(np.asarray(ours.expn(orders, x)), special.expn(orders, x), 1e-12)
    slope = grad(lambda x: ours.expn(orders, x).sum())(1.5)
    np.testing.assert_allclose(
        slope, -np.exp(-1.5) * (1 + 1 / 1.5) / 1.5 - special.expn(orders[1:] - 1, 1.5).sum(), 1e-12
    )


def test_combinations() -> None:
    n, k = (grid.ravel() for grid in np.meshgrid([-1.0, 0, 1, 5, 30.5], [-1.0, 0, 1, 4, 31]))
    np.testing.assert_allclose(np.asarray(ours.comb(n, k)), special.comb(n, k), 1e-12)
    n, k = np.array([3.0, 1, 6]), np.array([2.0, 4, 0])
    np.testing.assert_allclose(np.asarray(ours.comb(n, k, repetition=True)), special.comb(n, k, repetition=True), 1e-12)


def test_promotion() -> None:
    """Integers become floats, and operands are broadcast."""
    assert ours.gammaln(np.arange(1, 4)).dtype == np.float64
    assert ours.gammaln(np.arange(1, 4, dtype="int32")).dtype == np.float32
    assert ours.xlogy(np.float32(2), np.ones(3, BFLOAT16)).dtype == np.float32
    assert ours.betainc(np.ones((2, 1)), 2, np.full(3, 0.5)).shape == (2, 3)
    assert ours.gamma(tnp.asarray(5)).item() == pytest.approx(24.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ours.gammaln(1j), TypingError, r"gammaln takes real numbers, got ~c128\[\]"),
        (lambda: ours.factorial(3, exact=True), UnsupportedError, "only exact=False is supported"),
        (lambda: ours.multigammaln(3.0, 0), ShapeError, "the dimension d is at least 1, got 0"),
        (lambda: ours.bernoulli(-1), ShapeError, "bernoulli: n is at least 0, got -1"),
    ],
)
def test_errors(call: Callable[[], object], error: type[tj.TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


ANYWHERE = np.concatenate([np.linspace(-12, 12, 49), [1e-9, -1e-9, 25.3, 1e3, 1e6, -0.0, NAN, INF, -INF]])
PLANE = (np.linspace(-9.3, 9, 21)[:, None] + 1j * np.linspace(-5, 12, 18)[None]).ravel()


def test_wofz_of_large_numbers() -> None:
    """SciPy's infinities, on the imaginary axis and off it, where a product with a real number would have nan."""
    z = np.array([complex(0, -np.inf), complex(np.inf, 0), 1 - 30j, -2 - 40j, 1 - 2j])
    for f in (ours.wofz, jit(ours.wofz)):
        np.testing.assert_allclose(np.asarray(f(z)), special.wofz(z), 1e-13)
    assert float(ours.erfcx(complex(-np.inf, 0)).real) == np.inf


def test_functions_of_the_largest_numbers() -> None:
    """Whose doubles and squares are infinite."""
    x = np.array([1e8, 1.1e8, 1e150, 1.7e308, -1.7e308])
    for name in ("erfcx", "dawsn", "sici", "spence"):
        found, expected = tj.tree.leaves(getattr(ours, name)(x)), np.atleast_2d(getattr(special, name)(x))
        for mine, theirs_ in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs_, 2e-13, 1e-300)
    np.testing.assert_array_equal(tj.jvp(ours.dawsn, (x,), (x,))[1] / x > -1e-15, True)
    np.testing.assert_allclose(tj.jvp(ours.erfcx, (x,), (np.ones(5),))[1], [0, 0, 0, 0, -INF], atol=1e-14)


@pytest.mark.parametrize("name", ["erfcx", "dawsn", "spence", "fresnel", "sici", "wofz", "loggamma"])
def test_integrals(name: str) -> None:
    """Of real numbers, and those that take complex ones."""
    function, oracle = getattr(ours, name), getattr(special, name)
    args = [ANYWHERE, PLANE] if name in {"wofz", "loggamma", "erfcx"} else [ANYWHERE]
    for x in args:
        found, expected = function(x), oracle(x)
        for mine, theirs_ in zip(tj.tree.leaves(found), tj.tree.leaves(expected), strict=True):
            value = np.asarray(theirs_)
            np.testing.assert_allclose(np.asarray(mine), value, 2e-13, 1e-300)
    half = np.asarray(tj.tree.leaves(function(np.float32(0.7)))[0])
    assert half.dtype.itemsize == (8 if name == "wofz" else 4)
    exact = np.asarray(tj.tree.leaves(oracle(0.7))[0])
    np.testing.assert_allclose(half, exact, 2e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["erfcx", "dawsn", "spence", "fresnel", "sici"])
def test_derivatives_of_integrals(name: str) -> None:
    x, step = np.array([0.1, 0.6, 1.4, 3.7, 4.2, 9.0]), 1e-6
    for i in range(len(tj.tree.leaves(getattr(special, name)(x)))):

        def one(x: tj.ArrayLike, i: int = i) -> tj.Array:
            found: tj.Array = tj.tree.leaves(getattr(ours, name)(x))[i]
            return found

        up, down = (np.asarray(tj.tree.leaves(getattr(special, name)(x + h))[i]) for h in (step, -step))
        np.testing.assert_allclose(np.asarray(vmap(grad(one))(x)), (up - down) / (2 * step), 1e-6, 1e-8)
        np.testing.assert_allclose(np.asarray(jit(vmap(one))(x)), np.asarray(vmap(one)(x)), 1e-13)


def test_owens_t() -> None:
    points = np.array([0.0, 0.3, 1, 6, -2, INF, -INF, NAN])
    h, a = (grid.ravel() for grid in np.meshgrid(points, points))
    np.testing.assert_allclose(np.asarray(ours.owens_t(h, a)), special.owens_t(h, a), 1e-12, 1e-300)
    for i in (0, 1):
        slope, step = grad(ours.owens_t, i)(0.7, 1.3).item(), 1e-6
        up, down = (special.owens_t(0.7 + (1 - i) * d, 1.3 + i * d) for d in (step, -step))
        np.testing.assert_allclose(slope, (up - down) / (2 * step), 1e-7)


def test_loggamma_is_differentiable_in_the_plane() -> None:
    z = np.array([2.5 + 1j, -7.5 + 0.5j, 0.3 - 4j])
    step = 1e-6
    expected = (special.loggamma(z + step) - special.loggamma(z - step)) / (2 * step)
    np.testing.assert_allclose(np.asarray(vmap(grad(ours.loggamma, holomorphic=True))(z)), expected, 1e-8)


def test_gamma_of_complex_numbers() -> None:
    found = np.asarray(ours.gamma(PLANE))
    np.testing.assert_allclose(found, special.gamma(PLANE), 1e-11, 1e-300)


@pytest.mark.sweep
def test_bessel_functions_of_whole_orders() -> None:
    z = np.array([0.0, 1e-5, 1, 2.4, 10, 20, -3])
    np.testing.assert_allclose(np.asarray(ours.bessel_jn(z, v=4)), [special.jv(k, z) for k in range(5)], 1e-11, 1e-15)
    slope = grad(lambda z: ours.bessel_jn(z, v=1)[1])(1.5).item()
    np.testing.assert_allclose(slope, special.jvp(1, 1.5), 1e-12)


def test_spherical_harmonics() -> None:
    n, m = (grid.ravel() for grid in np.meshgrid(np.arange(7), np.arange(-7, 8)))
    for theta in (0.0, 0.7, 2.9):
        found = np.asarray(ours.sph_harm_y(n, m, theta, 1.3))
        np.testing.assert_allclose(found, special.sph_harm_y(n, m, theta, 1.3), 1e-11, 1e-13)
    jitted = jit(lambda n: ours.sph_harm_y(n, np.array([1]), 0.7, 1.3, n_max=4))(np.array([3]))
    np.testing.assert_allclose(np.asarray(jitted), special.sph_harm_y(3, [1], 0.7, 1.3), 1e-12)
    with pytest.raises(TypingError, match="n and m are integers"):
        ours.sph_harm_y(1.0, 0, 0.1, 0.2)


def test_complex_gamma_is_nan_at_its_poles() -> None:
    found = np.asarray(ours.gamma(np.array([0j, -1 + 0j, -5 + 0j, -5 + 1j])))
    np.testing.assert_array_equal(np.isnan(found.real) & np.isnan(found.imag), [True, True, True, False])
    assert found[-1] == pytest.approx(special.gamma(-5 + 1j), rel=1e-10)


WIDE: dict[str, HostArray] = {
    "ndtri": np.concatenate([np.geomspace(1e-300, 0.5, 500), 1 - np.geomspace(1e-15, 0.5, 100)]),
    "expi": np.concatenate([sign * np.geomspace(1e-10, 80, 300) for sign in (1, -1)]),
    "exp1": np.geomspace(1e-10, 80, 300),
    "dawsn": np.geomspace(0.01, 80, 300),
    "sici": np.geomspace(1e-5, 1e10, 300),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", WIDE)
def test_ranges_of_different_formulas(name: str) -> None:
    """In double and single precision, but where SciPy's own value changes as much."""
    for dtype in (np.float64, np.float32):
        x = WIDE[name].astype(dtype)
        x = x[(np.abs(x) > tnp.finfo(dtype).tiny) & (x != 1)]
        eps = float(tnp.finfo(dtype).eps)
        found = jax.tree.leaves(jit(getattr(ours, name))(x))
        moved = jax.tree.leaves(getattr(special, name)(x.astype(np.float64) * (1 - eps)))
        exact = jax.tree.leaves(getattr(special, name)(x.astype(np.float64)))
        for got, want, other in zip(found, exact, moved, strict=True):
            tolerance = 2**10 * eps * np.abs(want) + 4 * np.abs(other - want)
            assert np.all(np.abs(np.asarray(got) - want) <= tolerance), name


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_softmax_of_nothing(axis: int | None) -> None:
    x = np.ones((2, 0))
    for name in ("softmax", "log_softmax"):
        found = getattr(ours, name)(x, axis)
        assert (found.shape, found.dtype) == (x.shape, x.dtype)
