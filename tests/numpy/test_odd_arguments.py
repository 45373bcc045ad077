"""What NumPy does of arguments that programs seldom pass, and what follows from a law of a family, against NumPy."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import tree
from tinyjax.errors import ShapeError

nan, inf = np.nan, np.inf


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_spacing_is_numpys_for_every_kind_of_float(dtype: str) -> None:
    limits = np.finfo(dtype)
    sizes = [
        0.0,
        limits.smallest_subnormal,
        3 * limits.smallest_subnormal,
        limits.tiny,
        1.5 * limits.tiny,
        0.1,
        1,
        2,
        3,
    ]
    x = np.array([*sizes, limits.max, inf, nan], dtype)
    x = np.concatenate([x, -x])
    for function in (tnp.spacing, tj.jit(tnp.spacing)):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.asarray(function(x)), np.spacing(x))


@pytest.mark.parametrize("rowvar", [True, False])
@pytest.mark.parametrize("shape", [(3,), (1, 3), (3, 1), (2, 3), (1, 1)])
@pytest.mark.parametrize("name", ["cov", "corrcoef"])
def test_one_row_is_transposed_as_any_other_matrix(name: str, shape: tuple[int, ...], rowvar: bool) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    options: dict[str, Any] = {"ddof": 0} if name == "cov" else {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected = getattr(np, name)(x, rowvar=rowvar, **options)
    found = getattr(tnp, name)(x, rowvar=rowvar, **options)
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("edges", [{"prepend": 1}, {"append": np.array([3, 4])}, {"prepend": 0, "append": 5}])
def test_no_differences_leave_the_array_as_it_is(n: int, edges: dict[str, Any]) -> None:
    x = np.array([2, 5, 11])
    np.testing.assert_array_equal(np.asarray(tnp.diff(x, n=n, **edges)), np.diff(x, n=n, **edges))


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 5])
def test_the_step_of_a_range_has_the_shape_of_numpys(num: int, endpoint: bool) -> None:
    low, high = np.zeros(2), np.ones((3, 2))
    _, step = tnp.linspace(low, high, num, endpoint, retstep=True)
    _, expected = np.linspace(low, high, num, endpoint, retstep=True)
    assert step.shape == np.shape(expected)
    np.testing.assert_allclose(np.asarray(step), expected)


def test_scalars_are_what_has_no_axes() -> None:
    for scalar in (False, 1, 1.0, 1j, np.int32(5), np.array(16), tnp.array(16), tj.jit(lambda: tnp.array(2))()):
        assert tnp.isscalar(scalar)
    for other in (None, [1], (), slice(4), np.array([0]), tnp.zeros(1)):
        assert not tnp.isscalar(other)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("value", [inf, nan])
def test_slopes_at_a_place_do_not_depend_on_the_element_there(place: int, value: float) -> None:
    x = np.array([1.0, 4.0, 9.0, 16.0, 25.0])
    x[place] = value
    with np.errstate(all="ignore"):
        expected = np.gradient(x, 0.5)
    np.testing.assert_array_equal(np.asarray(tnp.gradient(x, 0.5)), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float16", "float32"])
def test_quantiles_have_the_dtype_of_the_median(dtype: str) -> None:
    x = np.array([1, 2, 7], dtype)
    expected = tnp.median(x).dtype
    for name, q in (("quantile", 0.3), ("nanquantile", 0.3), ("percentile", 30), ("nanpercentile", 30)):
        for method in ("linear", "nearest", "hazen"):
            assert getattr(tnp, name)(x, q, method=method).dtype == expected
    assert tnp.nanmedian(x).dtype == expected


def test_quantiles_of_equal_infinite_and_largest_elements() -> None:
    """Equal elements share the derivative, as in JAX; what is between infinite or large ones is no difference."""

    def called(f: Callable[..., Any], q: Sequence[object], x: Any) -> Any:
        return f(x, *map(np.asarray, q), axis=1)

    ties, t = np.array([[-0.5, 3.0, 1.0, 1.0, 0.0, 3.0], [2.0] * 6]), np.arange(12.0).reshape(2, 6)
    for name, *q in (("quantile", 0.3), ("nanquantile", [0.5, 0.9]), ("percentile", 70.0), ("nanmedian",), ("median",)):
        ours, theirs = (j.jvp(partial(called, getattr(m, name), q), (ties,), (t,)) for j, m in ((tj, tnp), (jax, jnp)))
        np.testing.assert_allclose(ours, theirs)
    largest = np.finfo(float).max
    np.testing.assert_array_equal(tnp.quantile(np.array([np.inf, 0, np.inf]), [0.1, 0.25, 0.5, 1.0]), np.inf)
    np.testing.assert_array_equal(tnp.quantile(np.array([-np.inf, 1.0]), [0.0, 0.25, 0.75]), -np.inf)
    np.testing.assert_array_equal(tnp.quantile(np.array([-largest, largest]), [0.0, 0.5, 1.0]), [-largest, 0, largest])
    assert [tnp.median(np.full(n, largest)).item() for n in (1, 2, 3)] == [largest] * 3
    assert tnp.median(np.full(3, 5e-324)) == 5e-324


@pytest.mark.parametrize("dtype", ["int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("asked", ["float16", "float32", "float64"])
def test_quantiles_have_the_dtype_of_the_elements_whatever_that_of_q(dtype: str, asked: str) -> None:
    x, q = np.array([1, 2, 7], dtype), np.array([0.25, 0.5], asked)
    for function in (tnp.quantile, tnp.nanquantile):
        for method in ("linear", "lower", "nearest"):
            found = function(x, q, method=method)
            assert found.dtype == tnp.median(x).dtype
            np.testing.assert_allclose(found, jnp.quantile(x, q.astype(float), method=method), rtol=1e-3)
        assert tj.grad(lambda q, f=function: f(x, q)[0])(q).dtype == asked


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_quantiles_of_more_elements_than_their_dtype_counts(dtype: str) -> None:
    x = np.random.default_rng(0).permutation(np.linspace(0, 1, 100_001)).astype(tnp.dtype(dtype))
    for q in (0.3, 0.9, np.array([0.5, 0.75])):
        for function in (tnp.quantile, tnp.nanquantile):
            for found in (function(x, q), tj.jit(lambda x, f=function, q=q: f(x, q))(x)):
                np.testing.assert_allclose(np.asarray(found, float), q, atol=0.004)
    assert float(tnp.nanmedian(x)) == 0.5


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int64", "float32", "bool"])
@pytest.mark.parametrize("name", ["min", "max", "nanmin", "nanmax", "sum", "prod"])
def test_masked_reductions_of_every_dtype(name: str, dtype: str) -> None:
    x, mask = np.arange(6).reshape(2, 3).astype(dtype), np.array([[True, False, True], [False] * 3])
    for axis, initial in itertools.product((None, 1), (0, 1)):
        options: dict[str, Any] = {"axis": axis, "where": mask, "initial": initial}
        expected = getattr(np, name)(x, **options)
        for function in (getattr(tnp, name), tj.jit(getattr(tnp, name), static_argnames="axis")):
            found = function(x, **options)
            np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_derivatives_of_polynomials_do_not_overflow(dtype: str, order: int) -> None:
    p = np.array([100, 100, 1, 1], dtype)
    expected = np.polyder(p, order)
    np.testing.assert_array_equal(np.asarray(tnp.polyder(p, order)), expected)
    if dtype not in ("bool", "float16", "float32"):
        assert tnp.polyder(p, order).dtype == expected.dtype


@pytest.mark.parametrize("function", [tnp.poly, tj.jit(tnp.poly)])
@pytest.mark.parametrize("dtype", ["int32", "float64", "complex64"])
def test_the_characteristic_polynomial_of_a_matrix(function: Any, dtype: str) -> None:
    x = np.array([[2, 1, 5], [3, 4, 7], [1, 3, 5]]).astype(dtype)
    np.testing.assert_allclose(np.asarray(function(x)), np.poly(x), rtol=1e-4, atol=1e-3)
    with pytest.raises(tj.errors.ShapeError, match=r"a vector of zeros, or a square matrix, got .*\[2,3\]"):
        tnp.poly(np.ones((2, 3), dtype))


def test_nans_are_one_element_whatever_their_other_part_is() -> None:
    x = np.array([1 + 1j, complex(-5, nan), complex(nan, 1), complex(nan, nan), complex(1, nan), 1 + 1j])
    expected = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    found = tnp.unique(x, return_index=True, return_inverse=True, return_counts=True)
    for ours, numpys in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), numpys)
    assert tnp.unique(x, equal_nan=False).size == np.unique(x, equal_nan=False).size
    y = np.array([nan, 2])
    assert tnp.union1d(x, y).size == np.union1d(x, y).size
    rows = np.array([[complex(1, nan), 2], [complex(nan, 3), 2], [1, 2]])
    assert tnp.unique(rows, axis=0).shape == (2, 2)


@pytest.mark.parametrize("name", ["intersect1d", "setdiff1d", "setxor1d"])
def test_what_fills_a_set_without_elements_is_zero(name: str) -> None:
    x, y = np.array([3, 1, 5]), np.array([-7, 2, 9]) if name == "intersect1d" else np.array([1, 3, 5])
    for function in (getattr(tnp, name), tj.jit(getattr(tnp, name), static_argnames="size")):
        assert function(x, y, size=4).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("value", [nan, inf])
def test_convolutions_multiply_nothing_by_what_is_not_there(name: str, dtype: str, mode: Any, value: float) -> None:
    x, y = np.array([3.0, 2.0, 7.0], dtype), np.array([value, 4.0], dtype)
    for left, right in ((x, y), (y, x)):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(left, right, mode)
        found = np.asarray(getattr(tnp, name)(left, right, mode=mode))
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
        np.testing.assert_allclose(found[np.isfinite(found)], expected[np.isfinite(expected)], rtol=1e-6)


@pytest.mark.parametrize("name", ["isposinf", "isneginf", "modf"])
def test_out_is_taken_and_refused(name: str) -> None:
    ours, theirs = getattr(tnp, name), getattr(jnp, name)
    for given, expected in zip(tree.leaves(ours(1.5, out=None)), jax.tree.leaves(theirs(1.5, None)), strict=True):
        np.testing.assert_array_equal(np.asarray(given), np.asarray(expected))
    for function in (ours, theirs):
        with pytest.raises(NotImplementedError, match="out"):
            function(1.5, np.zeros(()))


def test_the_limits_of_integers_by_jaxs_name() -> None:
    limits: Any = vars(jnp)["iinfo"](int_type="int8")
    assert tnp.iinfo(int_type="int8").max == limits.max == 127


@pytest.mark.parametrize("given", [[1, 2, 3], [[1], [2]], 3, (1.5, 2.5)])
def test_shapes_of_lists_are_those_of_arrays(given: Any) -> None:
    array = np.asarray(given)
    assert (tnp.shape(given), tnp.ndim(given), tnp.size(given)) == (array.shape, array.ndim, array.size)


def test_masked_arrays_have_all_their_elements() -> None:
    masked = np.ma.masked_array([1, 2], [True, False])
    assert tnp.array(masked).tolist() == np.array(masked).tolist() == [1, 2]


def test_what_is_none_is_not_complex() -> None:
    assert (
        (tnp.iscomplexobj(None), tnp.isrealobj(None)) == (jnp.iscomplexobj(None), jnp.isrealobj(None)) == (False, True)
    )


def test_negative_numbers_count_as_zero() -> None:
    for numbers in ([-1], [-3, -1], [-1, 2], [0]):
        found, expected = tnp.bincount(np.array(numbers)), jnp.bincount(np.array(numbers))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


class Box:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __jax_array__(self) -> Any:
        return self.array


def test_scalars_in_other_classes() -> None:
    """What `__jax_array__` gives is asked, as jax does."""
    for module in (jnp, tnp):
        for shape in ((), (1,)):
            assert module.isscalar(Box(module.zeros(shape))) is (shape == ())


def test_rolls_by_scalars_in_other_classes() -> None:
    x = np.arange(6).reshape(2, 3)
    for shift, axis in ((1, None), (np.array([2]), None), (np.array([1, 2]), (0, 1)), (np.array(1), 1)):
        want = np.roll(x, shift, axis)
        for module in (jnp, tnp):
            box: Any = Box(module.asarray(shift))
            np.testing.assert_array_equal(np.asarray(module.roll(x, box, axis)), want)
        compiled = tj.jit(lambda s, axis=axis, box=Box: tnp.roll(x, box(s), axis))
        np.testing.assert_array_equal(np.asarray(compiled(shift)), want)
    each: Any = [Box(tnp.asarray(1)), 2]
    np.testing.assert_array_equal(np.asarray(tnp.roll(x, each, (0, 1))), np.roll(x, (1, 2), (0, 1)))


def test_types_of_arrays_of_jax() -> None:
    """They are arrays as ours are, and as weakly typed as they are there."""
    short, number = jnp.zeros(2, "int16"), jnp.asarray(1)
    assert tnp.result_type(short) == tnp.result_type(short, number) == np.int16
    assert tnp.result_type(short, jnp.zeros(1, "float32")) == np.float32
    assert tnp.isscalar(jnp.zeros(()))
    assert not tnp.isscalar(short)
    assert tnp.result_type("int8", float) == tnp.result_type(np.int8, 1.0) == np.float64


def test_functions_count_their_arguments_in_integers() -> None:
    odd: Any = (0,)
    for counts in ((odd, 1), (2, odd)):
        with pytest.raises(ShapeError, match="is an integer, got"):
            tnp.frompyfunc(lambda x, y: x + y, *counts)


@pytest.mark.parametrize("period", [-360, -1.0, 2])
def test_periods_have_no_sign(period: float) -> None:
    operands = np.array([0.5, 1.5, 5]), np.array([1.0, 2, 3]), np.array([3.0, 5, 4])
    with jax.enable_x64(True):
        for module in (np, jnp):
            np.testing.assert_allclose(tnp.interp(*operands, period=period), module.interp(*operands, period=period))


def test_one_array_of_keys() -> None:
    """Its rows are keys; those of one axis have one element each."""
    x = np.array([[1, 1, 0], [2, 0, 2]])
    for keys in (x, x[0]):
        np.testing.assert_array_equal(tnp.lexsort(keys), np.lexsort(keys))
        np.testing.assert_array_equal(tnp.lexsort(tnp.asarray(keys)), np.lexsort(keys))


_INTS = np.array([3, 1, 2], "int8")
#: Functions whose dtype is NumPy's, where JAX has another one also with 64 bits, as the page for its users says.
_OWN: dict[str, Callable[[Any], Any]] = {
    "tri": lambda m: m.tri(3),
    "argpartition": lambda m: m.argpartition(_INTS, 1),
    "digitize": lambda m: m.digitize(_INTS, np.arange(3)),
    "searchsorted": lambda m: m.searchsorted(np.arange(3), _INTS),
    "ravel_multi_index": lambda m: m.ravel_multi_index((_INTS, _INTS), (50, 5000), "clip"),
    "wrapped": lambda m: m.ravel_multi_index((_INTS, -_INTS), (50, 5000), "wrap"),
    "convolve": lambda m: m.convolve(_INTS, _INTS),
    "correlate": lambda m: m.correlate(_INTS, _INTS),
    "polymul": lambda m: m.polymul(_INTS, _INTS),
    "polyder": lambda m: m.polyder(_INTS),
    "histogram": lambda m: m.histogram(_INTS, 3)[0],
    "weights of histogram": lambda m: m.histogram(_INTS, 3, weights=_INTS)[0],
}


@pytest.mark.parametrize("name", _OWN)
def test_dtypes_of_numpy(name: str) -> None:
    found, expected = _OWN[name](tnp), _OWN[name](np)
    assert found.dtype == expected.dtype
    assert tj.jit(lambda: _OWN[name](tnp))().dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.sweep
def test_boxes_count_in_integers() -> None:
    """As bins do, and as in JAX; bools weigh 1 or 0."""
    points, kept = np.array([[0, 0], [1, 2], [1, 2]]), np.array([True, True, False])
    with jax.enable_x64(True):
        for weights in (None, kept):
            expected = np.histogramdd(points, 2, weights=weights)[0]
            for boxes in (
                tnp.histogramdd(points, 2, weights=weights)[0],
                tnp.histogram2d(points[:, 0], points[:, 1], 2, weights=weights)[0],
            ):
                assert boxes.dtype == jnp.histogramdd(points, 2)[0].dtype == np.int64
                np.testing.assert_array_equal(boxes, expected)
        np.testing.assert_array_equal(tnp.histogram(points[:, 1], 2, weights=kept)[0], [1, 1])


def test_counts_without_end() -> None:
    """Of steps that make no difference."""
    x = np.array([2.0, 4.0, 6.0])
    assert tj.eval_shape(lambda p: tnp.polyint(p, m=2**40), x).shape == (2**40 + 3,)
    for m in (1, 3, 25):
        np.testing.assert_allclose(np.asarray(tnp.polyint(x, m, np.arange(m))), np.polyint(x, m, np.arange(m)))
    assert tnp.diff(x, 2**40).shape == (0,)


def test_small_integers_are_counted_and_count() -> None:
    x = tnp.array([1, 2, -3], "int4")
    bins, expected = np.array([-3.0, 0.0, 2.0]), np.array([1, 2])
    np.testing.assert_array_equal(tnp.histogram(x, bins)[0], expected)
    np.testing.assert_array_equal(tnp.histogramdd(tnp.stack([x], 1), [bins])[0], expected)
    np.testing.assert_array_equal(tnp.polyder(x), [2, 2])
    for shift in (x[0], np.asarray(x)[0]):
        np.testing.assert_array_equal(tnp.roll(np.arange(3), shift), [2, 0, 1])
        np.testing.assert_array_equal(tj.jit(lambda s: tnp.roll(np.arange(3), s))(shift), [2, 0, 1])


def test_a_tolerance_for_each_matrix() -> None:
    x, limits = np.diag([1.0, 0.5, 0.1]), np.array([0.01, 0.2])
    with jax.enable_x64(True):
        np.testing.assert_allclose(tnp.linalg.pinv(x, limits), jnp.linalg.pinv(x, limits), atol=1e-15)
        np.testing.assert_array_equal(tnp.linalg.matrix_rank(x, limits), jnp.linalg.matrix_rank(x, limits))


def test_results_without_elements() -> None:
    x = np.array([1, 2, 1])
    for found in (tnp.unique_counts(x, size=0), tj.jit(lambda x: tnp.unique_counts(x, size=0))(x)):
        assert (found.values.shape, found.counts.shape) == ((0,), (0,))
    for coefficients in (3.0, np.ones(0), np.ones(1)):  # of polynomials that are constant
        assert tj.jit(tnp.roots)(coefficients).shape == tnp.roots(coefficients).shape == (0,)
    np.testing.assert_array_equal(tnp.trapezoid(np.arange(3.0), dx=[1, 2]), 0.5 * 1 + 1.5 * 2)


def test_what_isnt_given_has_no_axes() -> None:
    absent: Any = None
    assert (tnp.shape(absent), tnp.ndim(absent), tnp.size(absent)) == ((), 0, 1)
    assert (np.shape(absent), np.ndim(absent), np.size(absent)) == ((), 0, 1)
