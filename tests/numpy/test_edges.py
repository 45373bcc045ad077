"""Where functions of `tinyjax.numpy` have few elements, or are at the edge of their domain."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp


@pytest.mark.parametrize(("rowvar", "shape"), [(True, (2, 0)), (False, (0, 2)), (True, (1,)), (True, (0,))])
def test_covariances_of_too_few_observations_are_nan(rowvar: bool, shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = np.cov(x, rowvar=rowvar)
    np.testing.assert_array_equal(np.asarray(tnp.cov(x, rowvar=rowvar)), expected)


@pytest.mark.parametrize(
    ("function", "slopes"), [(tnp.i0, (0.0, 0.5)), (tj.scipy.special.i0, (0.0, 0.5)), (tj.scipy.special.i1, (0.5, 0.0))]
)
def test_derivatives_of_bessel_functions_at_zero(function: Callable[[Any], Any], slopes: tuple[float, float]) -> None:
    first, second = tj.grad(function)(0.0), tj.grad(tj.grad(function))(0.0)
    assert (first.tolist(), second.tolist()) == slopes


@pytest.mark.parametrize("function", [tnp.i0, tj.scipy.special.i0, tj.scipy.special.i1])
def test_derivatives_of_bessel_functions_that_are_infinite(function: Callable[[Any], Any]) -> None:
    """On the host and compiled, where JAX has nan at some numbers and infinity at others."""
    for x in np.array([90.0, 300.0, 3e38], "float32"):
        slope = tj.grad(function)
        assert [f(x).tolist() for f in (function, slope, tj.grad(slope), tj.jit(slope))] == [np.inf] * 4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [-120, -4, 0, 3, 100])
def test_the_fraction_of_frexp_has_a_derivative(dtype: str, n: int) -> None:
    x = np.asarray(1.3 * 2.0**n, dtype)
    fraction, exponent = np.frexp(x)
    found, slope = tj.jvp(lambda x: tnp.frexp(x)[0], (x,), (np.asarray(1, dtype),))
    assert found.tolist() == fraction
    assert slope.tolist() == 2.0**-exponent


@pytest.mark.parametrize("sides", [(None, None), (0, 1)])
@pytest.mark.parametrize("period", [None, 0.59])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_interp_has_finite_derivatives_where_points_are_near(dtype: Any, period: Any, sides: Any) -> None:
    x = dtype(np.exp(np.linspace(-90, -20, 1000)))
    left, right = sides
    flat = lambda z: tnp.interp(z, z, tnp.ones_like(z), left, right, period).sum()  # noqa: E731
    assert np.all(np.isfinite(np.asarray(tj.grad(flat)(x))))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_trapezoid_of_distances_of_any_shape(axis: int) -> None:
    y = np.random.default_rng(0).normal(size=(3, 4, 5))
    apart = np.diff(y, axis=axis) ** 2
    distances: list[Any] = [0.5, np.asarray(2.0), apart, apart.sum(axis, keepdims=True)]
    for dx in distances:
        np.testing.assert_allclose(
            np.asarray(tnp.trapezoid(y, dx=dx, axis=axis)), np.trapezoid(y, dx=dx, axis=axis), rtol=1e-10
        )
    places = np.cumsum(np.ones(y.shape[axis]))
    np.testing.assert_allclose(
        np.asarray(tnp.trapezoid(y, places, axis=axis)), np.trapezoid(y, places, axis=axis), rtol=1e-10
    )


@pytest.mark.parametrize(
    ("shape", "mask"), [((3,), (0,)), ((3, 4), (0,)), ((3, 4), (0, 4)), ((3, 4), (3, 0)), ((3, 4, 5), (3, 0))]
)
def test_masks_without_elements(shape: tuple[int, ...], mask: tuple[int, ...]) -> None:
    x, none = np.ones(shape), np.zeros(mask, bool)
    assert tnp.asarray(x)[none].shape == x[none].shape
    assert tnp.asarray(x).at[none].set(2.0).tolist() == x.tolist()


@pytest.mark.parametrize("k", [-(2**100), -7, -1, 0, 2, 9, 2**100])
def test_diagonals_anywhere(k: int) -> None:
    assert tnp.eye(3, 4, k).tolist() == np.eye(3, 4, max(-9, min(k, 9))).tolist()
    assert tnp.tri(3, 4, k).tolist() == np.tri(3, 4, max(-9, min(k, 9))).tolist()
    if abs(k) < 10:
        assert tj.jit(lambda k: tnp.eye(3, 4, k))(k).tolist() == np.eye(3, 4, k).tolist()
        assert tj.jit(lambda k: tnp.tri(3, 4, k))(k).tolist() == np.tri(3, 4, k).tolist()


def test_brackets() -> None:
    a, b = [1, 2, 3], [4, 5, 6]
    assert tnp.c_["0,2", a, b].tolist() == np.c_["0,2", a, b].tolist()
    for directive in ("r", "c"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            rows, columns = np.r_[directive, a, b], np.c_[directive, a, b]
        assert tnp.r_[directive, a, b].tolist() == rows.tolist()
        assert tnp.c_[directive, a, b].tolist() == columns.tolist()
    assert tnp.mgrid[:].shape == tnp.ogrid[:].shape == (0,)


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8"])
def test_unravelled_indices_have_their_dtype(dtype: str) -> None:
    places = np.array([0, 5, 100], dtype)
    found = tnp.unravel_index(places, (20, 30))
    assert [x.dtype for x in found] == [np.dtype(dtype)] * 2
    assert [x.tolist() for x in found] == [x.tolist() for x in np.unravel_index(places, (20, 30))]


def test_differences_of_coordinates_of_short_dtypes() -> None:
    """Of bounds and of places, which are further apart than the dtype reaches, or fall."""
    edges, x = np.array([-100, 100], "int8"), np.array([-90, 50, 60], "int8")
    assert tnp.histogram(x, edges, density=True)[0].tolist() == [np.float32(0.005)]
    near = np.array([2**30, 2**30 + 1], "int32")
    assert tnp.histogram(near, near, density=True)[0].tolist() == [1.0]
    wide = np.histogram2d(x, x, [edges.astype(int)] * 2, density=True)[0]
    np.testing.assert_allclose(np.asarray(tnp.histogram2d(x, x, [edges, edges], density=True)[0]), wide, 1e-6)
    for places in (np.array([-100, 100, 120], "int8"), np.array([5, 3, 1], "uint8"), np.array([5, 3, 1])):
        for dtype in ("float16", "float32", "float64", "complex64"):
            y = np.arange(3).astype(dtype)
            found = tnp.gradient(y, places)
            assert isinstance(found, tj.Array)
            assert found.dtype == dtype
            np.testing.assert_allclose(np.asarray(found), np.gradient(y, places.astype(float)), 2e-3)


def test_positions_of_short_dtypes_on_long_axes() -> None:
    """Negative ones count from the end, which the dtype doesn't reach."""
    x, places = np.arange(300), np.array([-1, 5], "int8")
    found = tnp.unravel_index(places, (300, 2))
    assert [i.tolist() for i in found] == [[299, 2], [1, 1]]
    assert [i.dtype for i in found] == [np.int64] * 2
    assert tnp.unravel_index(places, (128, 2))[0].dtype == np.int8
    for given in (places, places[0], places.astype("int16")):
        assert tnp.delete(x, given).tolist() == np.delete(x, given.astype(int)).tolist()
        assert tnp.insert(x, given, 7).tolist() == np.insert(x, given.astype(int), 7).tolist()
    with pytest.raises(tj.errors.IndexingError, match="out of range"):
        tnp.delete(x, np.array([2**63], "uint64"))


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_odd_reflections(size: int, mode: Literal["reflect", "symmetric"]) -> None:
    x = np.random.default_rng(0).normal(size=(size, 2))
    for widths in [(0, 1), (4, 0), (3, 11)]:
        expected = np.pad(x, (widths, (0, 0)), mode, reflect_type="odd")
        found = tnp.pad(x, (widths, (0, 0)), mode, reflect_type="odd")
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-12)


def test_padding_by_a_function() -> None:
    def ours(row: Any, widths: tuple[int, int], axis: int, options: dict[str, Any]) -> Any:
        before, after = widths
        return row.at[:before].set(options["fill"] + axis).at[row.size - after :].set(options["fill"])

    def numpys(row: Any, widths: tuple[int, int], axis: int, options: dict[str, Any]) -> None:
        before, after = widths
        row[:before], row[row.size - after :] = options["fill"] + axis, options["fill"]

    x, widths = np.arange(6.0).reshape(2, 3), [(1, 2), (2, 1)]
    expected = np.pad(x, widths, numpys, fill=9)
    assert tnp.pad(x, widths, ours, fill=9).tolist() == expected.tolist()
    assert tj.jit(lambda x: tnp.pad(x, widths, ours, fill=9))(x).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "edge", "constant_values": 1}, "mode 'edge' doesn't take constant_values"),
        ({"mode": "mean", "fill": 1}, "mode 'mean' doesn't take fill"),
        ({"mode": "reflect", "reflect_type": "both"}, "reflect_type is 'even' or 'odd', not 'both'"),
    ],
)
def test_arguments_that_a_mode_of_padding_does_not_have(options: dict[str, Any], said: str) -> None:
    with pytest.raises(tj.errors.ChoiceError, match=said):
        tnp.pad(np.ones(3), 1, **options)


def test_take_along_axis_from_the_end_unless_told_otherwise() -> None:
    x, at = np.arange(6.0).reshape(2, 3), np.array([[0, -1], [-3, 2]])
    for given in (None, True):
        found = tnp.take_along_axis(x, at, 1, wrap_negative_indices=given)
        np.testing.assert_array_equal(found, jnp.take_along_axis(x, at, 1))
        np.testing.assert_array_equal(found, np.take_along_axis(x, at, 1))


def test_take_along_axis_by_products() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = tnp.take_along_axis(x, np.array([[0, -1, 2, -3]]), 1, mode="one_hot")
    np.testing.assert_array_equal(np.asarray(found), [[1.0, 2.0, 0.0, 0.0], [3.0, 4.0, 0.0, 0.0]])


@pytest.mark.parametrize("error", [IndexError, TypeError])
@pytest.mark.parametrize("key", [0.0, "abc", (0, 0.5)])
def test_what_is_no_index_is_an_error_of_numpys_and_of_jaxs(key: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="only integers, slices"):
        tnp.ones((2, 2))[key]
    with pytest.raises(error, match="only integers, slices"):
        tnp.ones((2, 2)).at[key].add(1.0)


def test_lists_are_compared_as_arrays() -> None:
    assert tnp.array_equal([1, 2], [1, 2]).tolist() is True
    assert tnp.array_equal([1, 2], [1]).tolist() is False
    assert tnp.array_equiv([1, 1], 1).tolist() is True
