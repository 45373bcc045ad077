"""`tinyjax.scipy.stats` against SciPy in values, also at their ends and outside, and JAX's derivatives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import jax
import jax.scipy.stats as theirs
import numpy as np
import pytest
from scipy import stats as oracle

import tinyjax.scipy.stats as ours
from tests.numpy.oracle import words
from tinyjax import grad, jit, jvp, vmap
from tinyjax.errors import ChoiceError, ShapeError, TypingError, UnsupportedError
from tinyjax.ir.dtypes import HostArray

INF, NAN = np.inf, np.nan
#: Parameters of each distribution before loc and scale.
SHAPES: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(["norm", "expon", "cauchy", "laplace", "logistic", "gumbel_r", "gumbel_l", "uniform"], ()),
    "gamma": (2.5,), "chi2": (3.0,), "beta": (2.0, 0.5), "t": (3.0,), "pareto": (2.5,), "gennorm": (1.5,),
    "vonmises": (2.0,), "wrapcauchy": (0.4,), "truncnorm": (-1.5, 2.0), "bernoulli": (0.3,), "poisson": (2.5,),
    "geom": (0.3,), "binom": (6.0, 0.3), "nbinom": (4.0, 0.3), "betabinom": (6.0, 2.0, 0.5),
}  # fmt: skip
X = np.array([-30.0, -1.7, -1, -0.3, 0.0, 0.2, 0.5, 0.9, 1, 1.3, 2, 3, 5, 8, 40, INF, -INF, NAN])
K = np.array([-2.0, 0, 1, 2, 3, 4, 5, 6, 7, 12, 40])
Q = np.array([-0.1, 0.0, 0.01, 0.3, 0.5, 0.9, 1.0, 1.1, NAN])


def functions() -> list[tuple[str, str]]:
    modules = {name: getattr(ours, name) for name in SHAPES}
    return [
        (name, function)
        for name, module in modules.items()
        for function in dir(module)
        if inspect.isfunction(getattr(module, function))
        and getattr(module, function).__module__ == module.__name__
        and not function.startswith("_")
    ]


FUNCTIONS = functions()


def arguments(name: str, function: str, *, inner: bool = False) -> tuple[HostArray, ...]:
    """A point and parameters, loc and scale among them."""
    f = getattr(getattr(ours, name), function)
    parameters = inspect.signature(f).parameters
    quantile = function in ("ppf", "isf")
    if function == "entropy":
        return np.array([0.5, 2.5, 9, 50, 99, 101, 1e4]), np.zeros(7)
    points = Q if quantile else K if "k" in parameters else X
    if inner:
        if quantile or name in {"uniform", "beta"}:
            points = points[(points > 0) & (points < 1)]
        else:
            points = points[1:5] if "k" in parameters else np.array([1.2, 1.9])
    moved = [v for v in ("loc", "scale") if v in parameters]
    place = {"loc": 0.3 if not inner and "k" not in parameters else 0.0, "scale": 1.7}
    if name in {"wrapcauchy", "vonmises"}:
        points = points[np.isfinite(points)]
    return tuple(map(np.array, np.broadcast_arrays(points, *SHAPES[name], *(place[v] for v in moved))))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "function"), FUNCTIONS)
def test_values(name: str, function: str) -> None:
    args = arguments(name, function)
    found = np.asarray(getattr(getattr(ours, name), function)(*args))
    assert found.dtype == np.float64
    if name in ("vonmises", "wrapcauchy"):
        at = args[0] if name == "vonmises" else np.where(args[0] < 0, NAN, args[0])
        expected = np.asarray(getattr(getattr(theirs, name), function)(*args))
        inside = np.abs(at) <= np.pi
        np.testing.assert_allclose(found[inside], getattr(getattr(oracle, name), function)(*args)[inside], 1e-10)
    else:
        expected = getattr(getattr(oracle, name), function)(*args)
    finite = np.isfinite(args[0])
    if function == "entropy":
        finite[-1] = False  # where SciPy's isn't exact
    if (name, function) == ("bernoulli", "ppf"):
        finite[1] = False  # SciPy says -1 at 0
    np.testing.assert_allclose(found[finite], expected[finite], 1e-9, 1e-14)
    if function in ("cdf", "sf", "logpdf", "ppf"):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))


@pytest.mark.parametrize(("name", "function"), FUNCTIONS)
def test_every_argument_is_broadcast_and_promoted(name: str, function: str) -> None:
    args = arguments(name, function, inner=True)
    f = getattr(getattr(ours, name), function)
    for i in range(len(args)):
        for other in (x[:1] for x in args), (x[0] for x in args):
            given = [x[:2, None] if i == j else y for j, (x, y) in enumerate(zip(args, other, strict=True))]
            assert f(*given).shape == (2, 1), i
        mixed = [x[:1].astype("int64" if i == j else "float32") for j, x in enumerate(args)]
        assert f(*mixed).dtype == np.float32, i


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "function"), FUNCTIONS)
def test_derivatives(name: str, function: str) -> None:
    args = arguments(name, function, inner=True)
    if function == "entropy" or "gumbel" in name:  # which JAX can't differentiate
        return
    f, g = getattr(getattr(ours, name), function), getattr(getattr(theirs, name), function)
    for i in range(len(args)):
        if name == "beta" and i in (1, 2) and "pdf" not in function:
            continue  # betainc has no derivative in its shapes
        found = np.asarray(vmap(grad(f, i))(*args))
        np.testing.assert_allclose(found, np.asarray(jax.vmap(jax.grad(g, i))(*args)), 1e-7, 1e-10, err_msg=str(i))


@pytest.mark.sweep
def test_derivatives_are_finite_outside() -> None:
    """Where a density is zero, no nan comes from what isn't taken."""
    for name in ("gamma", "chi2", "beta", "pareto", "expon", "truncnorm", "binom", "nbinom"):
        module: ModuleType = getattr(ours, name)
        f: Callable[..., Any] = getattr(module, "logpdf", None) or module.logpmf
        for x in (-3.0, 3.0) if name == "truncnorm" else (-1.0, 0.0):
            for i in range(len(SHAPES[name])):
                assert not np.isnan(grad(f, i + 1)(x, *SHAPES[name]).item()), (name, x, i)


#: Distributions whose support ends, with parameters for which the density is infinite at an end, too.
BOUNDED: Mapping[str, tuple[tuple[float, ...], ...]] = {
    "gamma": ((2.5,), (0.4,)), "chi2": ((3.0,), (1.0,)), "truncnorm": ((-1.5, 2.0), (0.5, 4.0)), "pareto": ((2.5,),),
    "expon": ((),), "uniform": ((),), "beta": ((2.0, 0.5), (0.3, 3.0)), "poisson": ((2.5,),), "binom": ((6.0, 0.3),),
    "nbinom": ((4.0, 0.3),), "geom": ((0.3,),), "bernoulli": ((0.3,),), "betabinom": ((6.0, 2.0, 0.5),),
}  # fmt: skip
OUTSIDE = [(name, function) for name, function in FUNCTIONS if name in BOUNDED and function in words("pdf pmf cdf sf")]


@pytest.mark.parametrize(("name", "function"), OUTSIDE)
def test_derivatives_outside_are_zero(name: str, function: str) -> None:
    """Of a density or probability where nothing is, in forward and in reverse mode."""
    f = getattr(getattr(ours, name), function)
    point = np.array([-31.0, -4.0, *([9.0, 60.0] if name in ("beta", "truncnorm") else [])])
    for shapes in BOUNDED[name]:
        # As in JAX, betainc has no derivative in its shapes.
        args = (point,) if name == "beta" and function != "pdf" else (point, *shapes)

        def varying(*xs: Any) -> Any:
            return f(*xs, *shapes[len(xs) - 1 :])  # noqa: B023

        slopes = vmap(grad(varying, tuple(range(len(args)))), (0, *[None] * (len(args) - 1)))(
            *[np.asarray(x, "float64") for x in args]
        )
        for slope in slopes:
            np.testing.assert_array_equal(np.asarray(slope), 0 * point, str(shapes))
        ones = tuple(np.ones_like(np.asarray(x)) for x in args)
        for run in (lambda g: g, jit):
            _, slope = run(lambda *t: jvp(varying, args, t))(*ones)  # noqa: B023
            np.testing.assert_array_equal(np.asarray(slope), 0 * point, str(shapes))


def test_slope_of_a_distribution_at_its_centre() -> None:
    """It is the density, though abs has no slope there."""
    for power in (0.7, 1.0, 1.5, 2.0, 4.0):
        np.testing.assert_allclose(grad(ours.gennorm.cdf)(0.0, power).item(), ours.gennorm.pdf(0.0, power).item())
        assert grad(ours.gennorm.cdf, 1)(0.0, power).item() == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_entropy_of_poisson(dtype: str) -> None:
    """Finite derivatives of both orders, though probabilities that are added up are as small as zero."""
    mean = np.array([0.0, 1e-3, 0.3, 2.1, 50, 99.9, 100, 1000]).astype(dtype)
    entropy = ours.poisson.entropy
    tolerance = 1e-4 if dtype == "float32" else 1e-6
    np.testing.assert_allclose(
        np.asarray(entropy(mean)), oracle.poisson.entropy(mean.astype("float64")), tolerance, tolerance
    )
    slope, curvature = vmap(grad(entropy)), vmap(grad(grad(entropy)))
    wide = mean[1:].astype("float64")
    step = 1e-4 * wide
    numeric = [np.asarray(f(wide + step) - f(wide - step)) / (2 * step) for f in (entropy, slope)]
    np.testing.assert_allclose(np.asarray(slope(mean))[1:], numeric[0], 1e-2)
    np.testing.assert_allclose(np.asarray(curvature(mean))[1:], numeric[1], 1e-2)
    assert slope(mean)[0] == np.inf
    assert not np.isnan(np.asarray(curvature(mean))).any()


def test_vectors() -> None:
    rng = np.random.default_rng(0)
    x, alpha = rng.dirichlet([1.0, 2, 3], 5), np.array([1.0, 2, 3])
    expected = [oracle.dirichlet.logpdf(row, alpha) for row in x]
    np.testing.assert_allclose(np.asarray(ours.dirichlet.logpdf(x.T, alpha)), expected, 1e-10)
    np.testing.assert_allclose(np.asarray(ours.dirichlet.pdf(x.T[:2], alpha)), np.exp(expected), 1e-10)
    assert ours.dirichlet.logpdf(np.array([0.5, 0.9]), alpha[:2]).item() == -INF
    counts, p = np.array([[1, 2, 3], [0, 0, 6], [1, 1, 1]]), np.array([0.2, 0.3, 0.5])
    found = np.asarray(ours.multinomial.logpmf(counts, 6, p))
    np.testing.assert_allclose(found, oracle.multinomial.logpmf(counts, 6, p), 1e-10)


@pytest.mark.sweep
def test_normal_vectors() -> None:
    rng = np.random.default_rng(1)
    x, mean, root = rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=(3, 3))
    cov = root @ root.T + np.eye(3)
    found = ours.multivariate_normal.logpdf(x, mean, cov)
    np.testing.assert_allclose(np.asarray(found), oracle.multivariate_normal.logpdf(x, mean, cov), 1e-10)
    several = np.stack([cov, 2 * cov, 3 * cov, np.eye(3)])
    found = ours.multivariate_normal.pdf(x, mean, several)
    expected = [oracle.multivariate_normal.pdf(row, mean, c) for row, c in zip(x, several, strict=True)]
    np.testing.assert_allclose(np.asarray(found), expected, 1e-10)
    for middle, spread in ((mean, np.float64(2.0)), (np.float64(0.5), np.float64(2.0))):
        found = ours.multivariate_normal.logpdf(x, middle, spread)
        wanted = theirs.multivariate_normal.logpdf(x, middle, spread)
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), 1e-10)


@pytest.mark.sweep
def test_derivatives_of_normal_vectors() -> None:
    rng = np.random.default_rng(1)
    x, mean = rng.normal(size=3), rng.normal(size=3)
    cov = np.eye(3) + 0.1
    slope = jit(grad(lambda c: ours.multivariate_normal.logpdf(x, mean, c)))(cov)
    expected = jax.grad(lambda c: theirs.multivariate_normal.logpdf(x, mean, c))(cov)
    np.testing.assert_allclose(np.asarray(slope), np.asarray(expected), 1e-9)


SAMPLES = [
    np.array([[3.0, 1, 3, 2], [1, 1, 2, 2], [5, 4, 5, 4]]), np.array([[NAN, 1, NAN], [1, 2, 2]]),
    np.array([[1, 2, 2, 1, 0]]), np.array([4.0]),
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("x", SAMPLES, ids=["floats", "nans", "integers", "one"])
@pytest.mark.parametrize("axis", [0, -1, None])
def test_descriptions(x: HostArray, axis: int | None) -> None:
    for keep in (False, True):
        found, expected = ours.mode(x, axis, keepdims=keep), theirs.mode(x, axis, keepdims=keep)
        np.testing.assert_array_equal(np.asarray(found.mode), np.asarray(expected.mode))
        np.testing.assert_array_equal(np.asarray(found.count), np.asarray(expected.count))
        assert found.mode.shape == expected.mode.shape
    for method in ("average", "min", "max", "dense", "ordinal"):
        ranks = np.asarray(ours.rankdata(x, method, axis=axis))
        np.testing.assert_array_equal(ranks.ravel(), np.ravel(oracle.rankdata(x, method, axis=axis)))
    for policy in ("propagate", "omit"):
        if x.size > 1 and (axis is None or x.shape[axis] > 1):
            error = np.asarray(ours.sem(x, axis, nan_policy=policy))
            with np.errstate(all="ignore"):
                wanted = np.asarray(oracle.sem(x, axis, nan_policy=policy))
            at = np.isfinite(wanted)
            np.testing.assert_allclose(error[at], wanted[at], 1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ours.mode(np.ones(2), nan_policy="skip"), ChoiceError, "nan_policy is 'propagate'"),
        (lambda: ours.mode(np.ones(2), nan_policy="omit"), UnsupportedError, "take 'propagate'"),
        (lambda: ours.rankdata(np.ones(2), "best"), ChoiceError, "method is one of average"),  # type: ignore[arg-type]
        (lambda: ours.dirichlet.logpdf(np.ones(4), np.ones(2)), ShapeError, "as many rows, or one fewer"),
        (lambda: ours.multinomial.logpmf(np.ones(2), 2, np.ones(2)), TypingError, "x and n are integers"),
        (lambda: ours.multivariate_normal.logpdf(np.ones(2), np.ones(2), np.eye(3)), ShapeError, "as many rows and"),
        (lambda: ours.norm.logpdf(1j), TypingError, "norm.logpdf takes real numbers"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
