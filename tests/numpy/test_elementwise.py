"""Functions of each element, against jax.numpy, for every dtype that goes in."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.numpy.oracle import DTYPES, Function, agree, check, close, compare, numbers, sample, words
from tinyjax import grad, jvp
from tinyjax.errors import TypingError, UnsupportedError

UNARY = words(
    """
    abs absolute acos acosh angle arccos asin asinh atan atanh bitwise_count bitwise_invert cbrt ceil conj cos cosh
    deg2rad exp exp2 expm1 fabs floor imag isfinite isinf isnan isneginf isposinf iscomplex isreal log log10 log1p
    log2 logical_not modf nan_to_num negative positive rad2deg real reciprocal rint round sign signbit sin sinc sinh
    sqrt square tan tanh trunc
    """
)
BINARY = words(
    """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide divmod equal
    float_power floor_divide fmax fmin fmod greater greater_equal heaviside hypot isclose less less_equal logaddexp
    logaddexp2 logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal power remainder
    subtract
    """
)
PAIRS = [(dtype, dtype) for dtype in DTYPES] + [
    ("int8", "uint8"),
    ("bool", "int32"),
    ("uint32", "int8"),
    ("int32", "float32"),
    ("float32", "int64"),
    ("bfloat16", "float16"),
    ("float64", "complex64"),
]


def _functions(names: list[str]) -> dict[str, tuple[Function, Function]]:
    return {name: (getattr(tnp, name), getattr(jnp, name)) for name in names}


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(dtype: str) -> None:
    x = sample(dtype)
    functions = _functions(UNARY)
    # At infinity NumPy and jax 0.10 say nan, jax 0.11 the limit, 0.
    finite = x[np.isfinite(x)]
    compare({"sinc": functions.pop("sinc")}, [finite], [finite])
    compare(functions, [x], [x])


@pytest.mark.sweep
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_binary(left: str, right: str) -> None:
    functions = _functions(BINARY)
    if "complex" in right:
        x, y = numbers(left, 9), numbers(right, 9, seed=1)
    else:
        x, y = np.meshgrid(sample(left), sample(right))
    if left == right == "bool":
        del functions["fmod"]  # jax divides by False
    if np.isinf(x).any() or np.isinf(y).any():
        # jax has nan and -1 where the array API has the quotient.
        finite = np.isfinite(x) & np.isfinite(y)
        quotients = {name: functions.pop(name) for name in ("floor_divide", "divmod")}
        compare(quotients, [x[finite], y[finite]], [x[finite], y[finite]])
    compare(functions, [x, y], [x, y])


def test_fmod_of_bools_has_no_remainder() -> None:
    assert tnp.fmod(np.array([True, False]), np.array([False, True])).tolist() == [0, 0]


@pytest.mark.parametrize("decimals", [-2, 0, 1, 3, 400])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
def test_round(decimals: int, dtype: str) -> None:
    x = numbers(dtype, 20) * np.asarray(300, dtype)
    check("round", x, decimals)


def test_round_of_integers() -> None:
    x = np.array([14, 15, 25])
    assert tnp.round(x, 1).tolist() == [14, 15, 25]
    with pytest.raises(TypingError, match=r"integers \(i64\) can't be rounded to -1 decimals"):
        tnp.round(x, -1)
    with pytest.raises(TypingError, match="round does not accept bool"):
        tnp.round(True)
    with pytest.raises(UnsupportedError, match="out is not supported"):
        np.round(tnp.asarray(1.5), out=np.zeros(()))


@pytest.mark.parametrize("bounds", [(0, 1), (None, 0.5), (-1, None), (None, None), (np.float32(-0.5), 2)])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_clip(bounds: tuple[float | None, float | None], dtype: str) -> None:
    x = numbers(dtype, 10)
    check("clip", x, *bounds)
    agree(tnp.asarray(x).clip(*bounds), jnp.asarray(x).clip(*bounds))


def test_clip_refuses_complex_numbers() -> None:
    with pytest.raises(TypingError, match=r"clip does not accept complex operands, got c128\[2\]"):
        tnp.clip(np.array([1j, 2.0]), 0.0)


def test_nan_to_num_with_replacements() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    check("nan_to_num", x, nan=7, posinf=1e3, neginf=-5)


def test_angle_in_degrees() -> None:
    x = numbers("complex64", 5)
    check("angle", x, deg=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivatives_of_hypot(dtype: str) -> None:
    """Where both are equal, too, and where squares are out of range: jax's are 0 or nan there."""
    small, large = np.finfo(dtype).tiny, np.finfo(dtype).max / 4
    pairs = np.array([(2.0, 2.0), (3.0, -4.0), (0.0, 1.5), (-1.0, 1.0)], dtype)
    for x, y in pairs:
        r = np.hypot(x, y)
        hessian = tj.hessian(tnp.hypot, (0, 1))(x, y)
        right = np.array([[y * y, -x * y], [-x * y, x * x]]) / r**3
        np.testing.assert_allclose(np.array(hessian, dtype), right, rtol=1e-5, atol=1e-7)
    extremes = [(small, small), (large, large), (small, 0.0), (0.0, -large), (3.0, 4.0), (large, 1.0)]
    for x, y in np.array(extremes, dtype):
        unit = np.array([x, y]) / max(abs(x), abs(y))
        right = unit / np.hypot(*unit)
        np.testing.assert_allclose(tj.grad(tnp.hypot, (0, 1))(x, y), right, rtol=1e-6)
        np.testing.assert_array_equal(tnp.hypot(x, y), np.asarray(jnp.hypot(x, y)))
    np.testing.assert_array_equal(tj.grad(tnp.hypot, (0, 1))(0.0, 0.0), jax.grad(jnp.hypot, (0, 1))(0.0, 0.0))


@pytest.mark.parametrize("name", ["logaddexp", "hypot", "maximum", "minimum", "copysign", "power", "arctan2"])
def test_derivatives_of_binary_functions(name: str) -> None:
    import jax

    x, y = np.abs(numbers("float64", 6)), np.abs(numbers("float64", 6, seed=1))
    y[:2] = x[:2]  # ties
    ours = jvp(getattr(tnp, name), (x, y), (x + 1, y - 2))
    theirs = jax.jvp(getattr(jnp, name), (x, y), (x + 1, y - 2))
    agree(ours, theirs)


def test_derivatives_of_sinc_at_zero() -> None:
    second = grad(grad(tnp.sinc))
    close(np.asarray(second(0.0)), np.asarray(-(np.pi**2) / 3))


def test_sinc_of_infinities_is_its_limit() -> None:
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        x = tnp.asarray([np.inf, -np.inf, np.nan], dtype)
        for f in (tnp.sinc, tj.jit(tnp.sinc)):
            np.testing.assert_array_equal(np.asarray(f(x)).astype("float64"), [0, 0, np.nan])
        np.testing.assert_array_equal(np.asarray(tj.vmap(grad(tnp.sinc))(x[:2])).astype("float64"), [0, 0])
    z = np.array([complex(np.inf, 1.0), complex(-np.inf, 0.0), complex(np.inf, np.inf)])
    np.testing.assert_array_equal(np.isnan(tnp.sinc(z)), [False, False, True])
    np.testing.assert_array_equal(tnp.sinc(z[:2]), [0, 0])


def test_logaddexp_of_infinities() -> None:
    x, y = np.meshgrid([-np.inf, 0.0, np.inf], [-np.inf, 0.0, np.inf])
    check("logaddexp", x, y)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64"])
def test_derivatives_of_sinc_are_accurate_near_zero(dtype: str) -> None:
    """Where those of the quotient cancel: against the series, in more digits."""
    points = np.array([0.0, 1e-300, 1e-20, 1e-9, 1e-4, 0.01, 0.03, 0.1, 0.158, 0.16, 0.3]).astype(dtype)
    y = np.asarray(points, np.clongdouble) * np.pi
    terms = [(-1) ** k * y ** (2 * k - 1) * (2 * k) / float(math.factorial(2 * k + 1)) for k in range(1, 12)]
    expected = np.pi * sum(terms)
    f = tj.vmap(tj.grad(tnp.sinc, holomorphic=dtype == "complex64"))
    g = tj.vmap(lambda x: tj.jvp(tnp.sinc, (x,), (tnp.ones_like(x),))[1])
    tolerance = 1e-10 if dtype == "float64" else 1e-4
    for found in (f(tnp.asarray(points)), g(tnp.asarray(points)), tj.jit(f)(tnp.asarray(points))):
        np.testing.assert_allclose(np.asarray(found, np.clongdouble), expected, rtol=tolerance, atol=1e-300)
    np.testing.assert_allclose(tnp.sinc(tnp.asarray(points)), np.sinc(points), rtol=1e-6 if tolerance > 1e-9 else 1e-14)
