"""Reductions, statistics, cumulative sums and sorting, against jax.numpy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax.numpy as tnp
from tests.numpy.oracle import Function, agree, check, compare, numbers, weak, words
from tinyjax.errors import ShapeError, TypingError, UnsupportedError

REDUCTIONS = words(
    "sum prod max min all any mean var std ptp count_nonzero argmax argmin cumsum cumprod median sort argsort"
)
AXES: list[object] = [None, 0, -1, (0, 2), (-1, 1), ()]
ONE_AXIS = {"argmax", "argmin", "cumsum", "cumprod", "sort", "argsort"}
#: jax has no median of complex numbers, and any(1j) is False there.
NOT_COMPLEX = {"any", "all", "median", "argmax", "argmin"}


def _calls(dtype: str) -> dict[str, tuple[Function, Function]]:
    calls: dict[str, tuple[Function, Function]] = {}
    for name in REDUCTIONS:
        if "complex" in dtype and name in NOT_COMPLEX:
            continue
        ours, theirs = getattr(tnp, name), getattr(jnp, name)
        for axis in AXES:
            if name in ONE_AXIS and isinstance(axis, tuple):
                continue
            calls[f"{name}(axis={axis})"] = _with_axis(ours, axis), _with_axis(theirs, axis)
    return calls


def _with_axis(function: Function, axis: object) -> Function:
    return lambda x: function(x, axis=axis)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "bfloat16", "float32", "float64", "complex64"])
def test_over_axes(dtype: str) -> None:
    x = numbers(dtype, 2, 3, 2)
    compare(_calls(dtype), [x], [x])


@pytest.mark.parametrize("name", words("sum prod max min all any mean var std ptp count_nonzero median argmax argmin"))
@pytest.mark.parametrize("axis", [None, 1])
def test_keepdims(name: str, axis: int | None) -> None:
    x = numbers("float32", 2, 3)
    check(name, x, axis=axis, keepdims=True)


@pytest.mark.parametrize("name", words("sum prod max min all any mean var std ptp cumsum cumprod sort"))
@pytest.mark.parametrize("value", [2.0, 3])
def test_weak_types(name: str, value: float) -> None:
    ours, theirs = weak(value, 3)
    agree(getattr(tnp, name)(ours), getattr(jnp, name)(theirs))


@pytest.mark.parametrize("name", words("sum prod mean var std cumsum cumprod"))
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int16"])
@pytest.mark.parametrize("source", ["int32", "float64", "bool"])
def test_dtype(name: str, dtype: str, source: str) -> None:
    if name in ("var", "std", "mean") and dtype == "int16":
        return
    x = numbers(source, 3, 2)
    agree(getattr(tnp, name)(x, dtype=dtype), getattr(jnp, name)(x, dtype=dtype), scale=10)


def test_sums_as_bools() -> None:
    x = np.array([[0, 0], [0, 3]])
    check("sum", x, 0, bool)
    check("prod", x, 0, bool)
    check("cumsum", x, 0, bool)
    check("sum", x, 0, bool, initial=1)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8"])
def test_integers_that_are_not_promoted(dtype: str) -> None:
    x = numbers(dtype, 4)
    check("sum", x, promote_integers=False)
    check("prod", x, promote_integers=False)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_initial_and_where(name: str) -> None:
    x, mask = numbers("float32", 2, 3), numbers("bool", 3)
    ours, theirs = getattr(tnp, name), getattr(jnp, name)
    agree(ours(x, 1, initial=0.5), theirs(x, 1, initial=0.5))
    agree(ours(x, 1, initial=0.5, where=mask), theirs(x, 1, initial=0.5, where=mask))
    with pytest.raises(TypingError, match=r"where must be None or a boolean array, got i64\[3\]"):
        ours(x, initial=0.0, where=np.arange(3))
    with pytest.raises(ShapeError, match=r"initial value must be a scalar. Got array of shape \(2,\)"):
        ours(x, initial=np.zeros(2))


@pytest.mark.parametrize("name", ["mean", "var", "std", "all", "any"])
def test_where(name: str) -> None:
    x, mask = numbers("float64", 2, 3), np.array([[True, False, True], [False, True, False]])
    check(name, x, 1, where=mask)
    check(name, x, where=mask)


@pytest.mark.parametrize("name", ["var", "std"])
def test_variances(name: str) -> None:
    x = numbers("float32", 2, 3)
    ours, theirs = getattr(tnp, name), getattr(jnp, name)
    agree(ours(x, 1, ddof=1), theirs(x, 1, ddof=1))
    agree(ours(x, 0, ddof=2), theirs(x, 0, ddof=2))
    agree(ours(x, correction=1.5), theirs(x, correction=1.5))
    agree(ours(x, 1, mean=np.zeros((2, 1))), theirs(x, 1, mean=np.zeros((2, 1))))
    with pytest.raises(ShapeError, match="ddof or correction, not both"):
        ours(x, ddof=1, correction=1)
    with pytest.raises(TypingError, match="must be complex"):
        ours(numbers("complex64", 3), dtype="float32")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32"])
@pytest.mark.parametrize("initial", [True, False])
def test_cumulative_sum_and_product(dtype: str, initial: bool) -> None:
    x = numbers(dtype, 3, 2)
    for axis in (0, -1):
        check("cumulative_sum", x, axis=axis, include_initial=initial)
        agree(
            tnp.cumulative_prod(x, axis=axis, include_initial=initial),
            jnp.cumulative_prod(x, axis=axis, include_initial=initial, dtype=tnp.prod(x).dtype),  # jax's isn't wide
        )
    with pytest.raises(ShapeError, match="The input array has rank 2, however axis was not set"):
        tnp.cumulative_sum(x)


@pytest.mark.parametrize("dtype", ["int32", "float64", "bool", "complex128"])
@pytest.mark.parametrize("descending", [True, False])
def test_sorting(dtype: str, descending: bool) -> None:
    x = numbers(dtype, 4, 5)
    for axis in (0, -1, None):
        check("sort", x, axis, descending=descending)
        check("argsort", x, axis, descending=descending)
    check("argsort", x, dtype="int32")


def test_average() -> None:
    x, w = numbers("float32", 2, 3), np.arange(1.0, 4.0)
    check("average", x)
    check("average", x, 1, w)
    check("average", x, weights=np.ones((2, 3)))
    check("average", x, 1, w, returned=True)
    check("average", x, 0, returned=True, keepdims=True)
    with pytest.raises(ShapeError, match=r"weights must have the shape of the array, or of the axes, got f64\[3\]"):
        tnp.average(x, 0, w)


def test_diff() -> None:
    x = numbers("int32", 3, 5)
    check("diff", x)
    check("diff", x, 2, 0)
    check("diff", numbers("bool", 3, 5))
    check("diff", x, 0)
    check("diff", x, prepend=7, append=x[:, :1])


def test_median_of_nan() -> None:
    x = np.array([[1.0, np.nan, 2.0], [3.0, 5.0, 4.0]])
    check("median", x, 1)


@pytest.mark.parametrize(("shape", "axis"), [((2, 0), 0), ((0, 3, 2), (1, 2)), ((0, 0, 2), -1), ((3, 0), (0,))])
def test_medians_of_no_rows(shape: tuple[int, ...], axis: int | tuple[int, ...]) -> None:
    check("median", np.zeros(shape), axis)
    check("median", np.zeros(shape), axis, keepdims=True)


def test_any_of_imaginary_numbers_is_true() -> None:
    assert bool(tnp.any(np.array([0, 1j])))
    assert not bool(tnp.all(np.array([0, 1j])))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "median"])
def test_nothing_to_choose_from(name: str) -> None:
    with pytest.raises(ShapeError, match="of no elements isn't defined"):
        getattr(tnp, name)(np.zeros((2, 0)), axis=1)


def test_empty_sums() -> None:
    x = np.zeros((2, 0))
    check("sum", x, 1)
    check("prod", x, 1)
    check("max", x, 1, initial=1.0)
    check("var", x)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_that_are_not_there(name: str) -> None:
    with pytest.raises(ShapeError, match=r"axis 2 is out of range for an array with 2 axes"):
        getattr(tnp, name)(np.ones((2, 2)), axis=2)


def test_axes_that_are_listed_twice() -> None:
    with pytest.raises(ShapeError, match="duplicate value in 'axis'"):
        tnp.sum(np.ones((2, 2)), axis=(0, -2))


def test_arguments_that_are_not_supported() -> None:
    x = np.ones(3)
    with pytest.raises(UnsupportedError, match="sum: out is not supported"):
        np.sum(tnp.asarray(x), out=np.zeros(()))
    with pytest.raises(UnsupportedError, match="kind and order"):
        np.argsort(tnp.asarray(x), kind="stable")
