"""Hypergeometric functions against SciPy, and derivatives against finite differences; what else was wrong far out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import tinyjax as tj
from tinyjax.errors import ChoiceError, TypingError
from tinyjax.scipy import special as ours

_RNG = np.random.default_rng(5)
RANGES = [(0.1, 0.9, -1, 1), (0.5, 8, -40, 0.99), (-3, 3, 0.9, 1), (-3, 3, -3, 0.5)]


@pytest.mark.parametrize("bounds", [pytest.param(b, marks=() if b is RANGES[0] else pytest.mark.sweep) for b in RANGES])
def test_gauss_function(bounds: tuple[float, float, float, float]) -> None:
    low, high, left, right = bounds
    a, b, c = _RNG.uniform(low, high, (3, 100))
    x = _RNG.uniform(left, right, 100)
    expected = special.hyp2f1(a, b, c, x)
    np.testing.assert_allclose(ours.hyp2f1(a, b, c, x), expected, 1e-7, 1e-9 * np.median(np.abs(expected)))
    single = [v.astype(np.float32) for v in (a, b, c, x)]
    found = ours.hyp2f1(*single)
    assert found.dtype == np.float32
    if low > 0 and left > -2:
        np.testing.assert_allclose(found, special.hyp2f1(*single), 2e-3)


@pytest.mark.parametrize("bounds", [(0.5, 8, -8, 60), pytest.param((-3, 3, -400, 400), marks=pytest.mark.sweep)])
def test_kummers_function(bounds: tuple[float, float, float, float]) -> None:
    low, high, left, right = bounds
    a, b = _RNG.uniform(low, high, (2, 100))
    x = _RNG.uniform(left, right, 100)
    np.testing.assert_allclose(ours.hyp1f1(a, b, x), special.hyp1f1(a, b, x), 1e-8, 1e-12)


@pytest.mark.sweep
def test_edges() -> None:
    """Sums that end, poles, the end of the domain, and numbers near and far from it."""
    inf = np.inf
    cases = [
        (0, 1, 1, 1, 1), (1, 1, 0, 1, inf), (1, 1, -1, 1, inf), (5, 1, 3, 1, inf), (2, 1, 5, 1, 2), (1, 1, 1, 0, 1),
        (0.45, 0.7, 0.45, 1.5, inf), (-3, 2, 1.5, 3, special.hyp2f1(-3, 2, 1.5, 3)), (-2, -3, -4, 2, 0),
        (1, 1, 2, -1e10, np.log1p(1e10) / 1e10), (1, 1, 2, 1 - 2.0**-50, 50 * np.log(2)), (1, 1, 2, np.nan, np.nan),
    ]  # fmt: skip
    a, b, c, x, expected = np.array(cases, dtype=float).T
    np.testing.assert_allclose(ours.hyp2f1(a, b, c, x), expected, 1e-9, 1e-12)
    a, b, x, expected = np.array(
        [(0, 0, 1, 1), (1, 0, 1, inf), (1, -1, 1, inf), (2, 2, 3, np.exp(3)), (0, 5, 2, 1), (3, 3, -2, np.exp(-2))],
        dtype=float,
    ).T
    np.testing.assert_allclose(ours.hyp1f1(a, b, x), expected, 1e-12)


SMOOTH: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "near": (ours.hyp1f1, (1.3, 2.4, 3.1)),
    "left": (ours.hyp1f1, (1.3, 1.3, -4.0)),
    "far": (ours.hyp1f1, (1.3, 2.4, -300.0)),
    "gauss": (ours.hyp2f1, (0.7, 0.7, 2.2, 0.3)),
    "steep": (ours.hyp2f1, (2.4, 1.3, 1.2, 0.75)),
    "turned": (ours.hyp2f1, (0.4, 1.3, 2.2, -3.0)),
    "betaln": (ours.betaln, (9.0, 9.0)),
    "betaln small": (ours.betaln, (0.3, 20.0)),
    "harmonics": (lambda t: ours.sph_harm_y(3, -2, t, 0.2).real, (-1.0,)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    """First ones forward and backward, and second ones backward; where parts meet and operands are equal too."""
    f, args = SMOOTH[name]
    step = 1e-4
    for i in range(len(args)):

        def along(x: Any, i: int = i) -> Any:
            return f(*args[:i], x, *args[i + 1 :])

        values = [float(along(args[i] + k * step)) for k in (-2, -1, 0, 1, 2)]
        first = np.dot([1, -8, 0, 8, -1], values) / (12 * step)
        second = np.dot([-1, 16, -30, 16, -1], values) / (12 * step**2)
        scale = abs(values[2])
        np.testing.assert_allclose(tj.grad(along)(args[i]), first, 1e-6, 1e-8 * scale)
        np.testing.assert_allclose(tj.jvp(along, (args[i],), (1.0,))[1], first, 1e-6, 1e-8 * scale)
        np.testing.assert_allclose(tj.grad(tj.grad(along))(args[i]), second, 1e-4, 1e-4 * scale)
    np.testing.assert_allclose(tj.jit(f)(*args), f(*args), 1e-10)


def test_logarithms_of_large_numbers_do_not_cancel() -> None:
    x = np.geomspace(1, 1e30, 50)
    np.testing.assert_allclose(ours.betaln(x, 1.0), -np.log(x), 1e-12, 1e-13)
    np.testing.assert_allclose(tj.grad(lambda x: ours.betaln(x, 1.0).sum())(x), -1 / x, 1e-5)


def test_colatitudes_below_zero() -> None:
    """As SciPy has them: what is taken is the size of the sine."""
    theta = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(ours.sph_harm_y(3, 1, theta, 0.4), special.sph_harm_y(3, 1, theta, 0.4), 1e-10)


def test_wrong_arguments() -> None:
    with pytest.raises(TypingError, match="real numbers"):
        ours.hyp2f1(1.0, 1.0, 2.0, 1j)
    with pytest.raises(ChoiceError, match="series_order"):
        ours.log_ndtr(1.0, -1)


def test_what_is_unknown_has_no_value() -> None:
    """Also where the function is infinite for all other numbers."""
    nan, b = np.nan, np.array([-1.0, 0.0, 1.5])
    for first, x in ((nan, 0.5), (0.5, nan), (0.0, nan)):
        assert np.all(np.isnan(np.asarray(ours.hyp1f1(first, b, x))))
        assert np.all(np.isnan(np.asarray(ours.hyp2f1(first, 0.5, b, x))))
        assert np.all(np.isnan(np.asarray(ours.hyp2f1(0.5, first, b, x))))


def test_any_argument_may_have_rows() -> None:
    b = np.array([1.5, 2.0, 2.5])
    np.testing.assert_allclose(ours.hyp1f1(0.5, b, 0.3), special.hyp1f1(0.5, b, 0.3))
    np.testing.assert_allclose(ours.hyp2f1(0.5, 1.0, b, 0.3), special.hyp2f1(0.5, 1.0, b, 0.3))
