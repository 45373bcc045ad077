"""Arguments that are off in one place: an error of ours that says what is wrong, or what JAX makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.ndimage
import jax.scipy.signal
import jax.scipy.special
import ml_dtypes
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import TinyjaxError
from tinyjax.scipy.optimize import minimize

X = np.array([0.5, 0.25, 0.75])
M = np.linspace(0.1, 0.9, 12).reshape(3, 4)
#: Its functions, for arguments of other types than they say.
loose: Any = tnp


def least(**changed: Any) -> object:
    given: dict[str, Any] = {"fun": lambda x: (x**2).sum(), "x0": X, "method": "BFGS"}
    return minimize(**{**given, **changed})


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    ("nan_to_num of keys", lambda: tnp.nan_to_num(tj.random.split(tj.random.key(0))), "nan_to_num takes numbers, got"),
    ("nan_to_num of float0", lambda: tnp.nan_to_num(np.zeros(3, jax.dtypes.float0)), "nan_to_num takes numbers, got"),
    ("pad without widths", lambda: tnp.pad(M, ()), "pad_width is a number, a pair for all axes, or a pair for each"),
    ("pad with one axis more", lambda: tnp.pad(M, [(1, 1)] * 3), "pad_width is a number, a pair for all axes"),
    ("rot90 of one axis", lambda: loose.rot90(M, 1, (0,)), "rot90: axes are two integers, got \\(0,\\)"),
    ("rot90 of three axes", lambda: loose.rot90(M, 1, (0, 1, 1)), "rot90: axes are two integers"),
    ("rot90 of a number", lambda: loose.rot90(M, 1, 0), "rot90: axes are two integers, got 0"),
    ("select of a scalar", lambda: loose.select(np.float64(1), [X]), "select: condlist is a sequence"),
    ("minimize of a number", lambda: least(fun=3), "minimize needs a function"),
    ("minimize by a number", lambda: least(method=0), "minimize: method is 'BFGS' or"),
    ("minimize with a text", lambda: least(options="x"), "minimize: options are a dictionary, got 'x'"),
    ("minimize to two numbers", lambda: least(tol=np.ones(2)), "minimize: gtol is a number, got"),
    ("minimize to a text", lambda: least(tol="x"), "x"),
]


@pytest.mark.parametrize(("called", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_wrong_is_said(called: Callable[[], object], said: str) -> None:
    with pytest.raises(TinyjaxError, match=said):
        called()


@pytest.mark.parametrize("name", ["quantile", "nanquantile", "percentile", "nanpercentile"])
@pytest.mark.parametrize("way", [lambda f: f, tj.jit], ids=["host", "jit"])
@pytest.mark.parametrize("q", [np.nan, [0.5, np.nan]])
@pytest.mark.parametrize("x", [X, [1.0, np.nan, 3.0]])
def test_quantiles_at_nan_are_nan(name: str, way: Callable[..., Any], q: Any, x: Any) -> None:
    want = getattr(jnp, name)(jnp.asarray(x), jnp.asarray(q))
    got = way(getattr(tnp, name))(np.asarray(x), np.asarray(q))
    np.testing.assert_allclose(got, want, 1e-6)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2", "bfloat16"])
@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanargmax", "nanargmin"])
def test_extremes_without_nan_of_dtypes_without_infinity(name: str, dtype: str) -> None:
    """NumPy is the oracle: jax's positions are those of nan, which its infinity becomes in such dtypes."""
    for x in ([1.0, np.nan, 2.0], [-1.0, np.nan, -2.0], [np.nan, -0.5]):
        got = getattr(tnp, name)(np.array(x).astype(getattr(ml_dtypes, dtype)))
        np.testing.assert_array_equal(np.asarray(got, np.float32), getattr(np, name)(x))
    nothing = getattr(tnp, name)(np.array([np.nan, np.nan]).astype(getattr(ml_dtypes, dtype)))
    np.testing.assert_array_equal(np.asarray(nothing, np.float32), -1 if "arg" in name else np.nan)


def test_select_takes_arrays_as_lists_of_rows() -> None:
    conditions, choices = np.array([[True, False], [False, False]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    expected = jnp.select([*map(jnp.asarray, conditions)], [*map(jnp.asarray, choices)], 9.0)
    for given in ((conditions, choices), (tnp.asarray(conditions), tnp.asarray(choices))):
        np.testing.assert_array_equal(loose.select(*given, 9.0), expected)
    np.testing.assert_array_equal(tnp.select(X > 0.3, X), jnp.select([*jnp.asarray(X > 0.3)], [*jnp.asarray(X)]))


@pytest.mark.parametrize("seed", [True, False])
def test_python_bools_are_seeds(seed: bool) -> None:
    want = jax.random.key_data(jax.random.key(seed))
    np.testing.assert_array_equal(tj.random.key_data(tj.random.key(seed)), want)


LISTS: dict[str, Callable[[Any], Any]] = {
    "ndtr": lambda lib: lib.scipy.special.ndtr([1.0, 2.0]),
    "log_ndtr": lambda lib: lib.scipy.special.log_ndtr([1.0, -2.0]),
    "spence": lambda lib: lib.scipy.special.spence([1.0, 2.0, 3.0]),
    "expn": lambda lib: lib.scipy.special.expn([1, 2], [1.0, 2.0]),
    "detrend": lambda lib: lib.scipy.signal.detrend([1.0, 2.0, 4.0]),
    "map_coordinates": lambda lib: lib.scipy.ndimage.map_coordinates([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0]] * 2, 1),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_numbers_are_arrays_where_they_are_in_jax(name: str) -> None:
    want, got = LISTS[name](jax), LISTS[name](tj)
    np.testing.assert_allclose(got, want, 1e-12, 1e-14)
    assert got.dtype == want.dtype


BOOLS: dict[str, Callable[[Any], Any]] = {
    "multigammaln": lambda lib: (lib.scipy.special.multigammaln(True, 2), lib.scipy.special.multigammaln(X > 0, 1)),
    "unravel_index": lambda lib: lib.numpy.unravel_index(X > 0.3, (2, 3)),
}


@pytest.mark.parametrize("name", BOOLS)
def test_bools_are_integers(name: str) -> None:
    for got, want in zip(BOOLS[name](tj), BOOLS[name](jax), strict=True):
        np.testing.assert_allclose(got, want, 1e-12)
        assert got.dtype == want.dtype


NOTHING: dict[str, Callable[[Any, Any], Any]] = {
    "welch": lambda signal, x: signal.welch(x),
    "csd": lambda signal, x: signal.csd(x, np.ones((*x.shape[:-1], 3), x.dtype)) if x.ndim == 1 else (),
    "stft": lambda signal, x: signal.stft(x),
}


@pytest.mark.filterwarnings("ignore:nperseg")
@pytest.mark.parametrize("x", [np.zeros(0), np.zeros((2, 0)), np.zeros(0, np.float32), np.zeros(0, np.complex64)])
@pytest.mark.parametrize("name", NOTHING)
def test_spectra_of_nothing(name: str, x: Any) -> None:
    got, want = NOTHING[name](tj.scipy.signal, x), NOTHING[name](jax.scipy.signal, x)
    assert [(y.shape, y.dtype) for y in got] == [(y.shape, y.dtype) for y in want]


def square(x: Any) -> Any:
    return (x * x).sum()


NAMES: dict[str, Callable[[Any], object]] = {
    "static_argnames": lambda given: tj.jit(square, static_argnames=given),
    "donate_argnames": lambda given: tj.jit(square, donate_argnames=given),
    "make_jaxpr": lambda given: tj.make_jaxpr(square, static_argnames=given)(X),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("given", [3, 0, True, 1.5, [1], np.array(1), len, (None,)])
def test_names_of_arguments_are_strings(name: str, given: Any) -> None:
    with pytest.raises(TinyjaxError, match="names of arguments are strings, got"):
        NAMES[name](given)


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"])
def test_argnums_are_positions(name: str) -> None:
    with pytest.raises(TinyjaxError, match="argnums is the position of an argument, or a sequence of positions, got N"):
        getattr(tj, name)(square, argnums=None)(X)
