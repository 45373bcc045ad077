"""Arguments that programs of JAX pass and few tests do: 1 and 0 for flags, rows out of range, what isn't finite."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import (
    ChoiceError,
    InputError,
    LoweringError,
    ParameterError,
    ShapeError,
    TypingError,
    UnforeseenError,
)
from tinyjax.scipy import linalg

LOWER = np.array([[2.0, 0.0], [1.0, 3.0]])
B = np.array([[1.0, 2.0], [3.0, 4.0]])
flags: Any = (True, np.True_, 1, np.int32(1))


@pytest.mark.parametrize("flag", flags)
def test_flags_are_numbers_elsewhere(flag: bool) -> None:
    expected = np.linalg.solve(LOWER, B)
    np.testing.assert_allclose(linalg.solve_triangular(LOWER, B, lower=flag), expected)
    no = type(flag)(0)
    np.testing.assert_allclose(linalg.solve_triangular(LOWER.T, B, lower=no), np.linalg.solve(LOWER.T, B))
    scanned = lax.scan(lambda c, x: (c + x, c), 0.0, np.arange(3.0), reverse=flag)[1]
    np.testing.assert_array_equal(scanned, [3.0, 2.0, 0.0])


@pytest.mark.parametrize("flag", [2, -1, 1.0, "yes", None, np.ones(2, bool)])
def test_flags_are_nothing_else(flag: Any) -> None:
    calls: list[tuple[str, Callable[[], object]]] = [
        ("lower", lambda: linalg.solve_triangular(LOWER, B, lower=flag)),
        ("symmetrize_input", lambda: lax.linalg.cholesky(LOWER, symmetrize_input=flag)),
        ("symmetrize_input", lambda: lax.linalg.eigh(LOWER, symmetrize_input=flag)),
        ("aggregate_to_topk", lambda: lax.approx_max_k(LOWER, 1, aggregate_to_topk=flag)),
        ("aggregate_to_topk", lambda: lax.approx_min_k(LOWER, 1, aggregate_to_topk=flag)),
    ]
    for name, call in calls:
        with pytest.raises((InputError, TypeError), match=f"{name} is True or False"):
            call()


@pytest.mark.parametrize("pivots", [[1, 3], [-1, -3], [7, 0], [0, 9, 1], [-9, 2, 2], [5, 5, 5]])
@pytest.mark.parametrize("size", [3, 4])
def test_pivots_out_of_range(pivots: list[int], size: int) -> None:
    rows = np.array(pivots, np.int32)
    expected = jax.lax.linalg.lu_pivots_to_permutation(rows, size)
    np.testing.assert_array_equal(lax.linalg.lu_pivots_to_permutation(rows, size), expected)
    compiled = tj.jit(lambda rows: lax.linalg.lu_pivots_to_permutation(rows, size))
    np.testing.assert_array_equal(compiled(rows), expected)
    both = np.stack([rows, np.zeros_like(rows)])
    batched = jax.lax.linalg.lu_pivots_to_permutation(both, size)
    np.testing.assert_array_equal(lax.linalg.lu_pivots_to_permutation(both, size), batched)
    np.testing.assert_array_equal(compiled(both), batched)


@pytest.mark.parametrize("most", [1, 2, 4, 5, 6, 7, 10])
def test_an_iteration_that_ended_early_did_not_converge(most: int) -> None:
    x = np.array([[2.0, 1.0], [0.0, 1.0]])
    with jax.enable_x64(True):
        expected = jax.lax.linalg.qdwh(x, max_iterations=most)
    for found, wanted in zip(lax.linalg.qdwh(x, max_iterations=most), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("eps", [0, 0.0, -1.0, float("nan")])
def test_precisions_that_are_none(eps: float) -> None:
    with pytest.raises(InputError, match="qdwh: eps is a number greater than 0"):
        lax.linalg.qdwh(LOWER, eps=eps)


def test_functions_that_are_none() -> None:
    number: Any = 3
    for name, call in (("func1d", tnp.apply_along_axis), ("func", tnp.apply_over_axes)):
        args: Any = (number, 1, B) if name == "func1d" else (number, B, 1)
        with pytest.raises(InputError, match=f"{call.__name__}: {name} is a function"):
            call(*args)
    nothing: Any = lambda x, axis: None  # noqa: E731
    with pytest.raises(InputError, match="None of type NoneType is not an array"):
        tnp.apply_over_axes(nothing, B, (0, 1))


def test_ranges_without_an_end() -> None:
    for args in ((float("inf"),), (1.0, float("inf"), 0.25), (float("-inf"), 2.0)):
        with pytest.raises(ChoiceError, match="arange: start and stop must be finite"):
            tnp.arange(*args)


def test_more_axes_than_arrays_have() -> None:
    assert tnp.array(1.0, ndmin=64).ndim == 64
    with pytest.raises(ShapeError, match="array: ndmin is at most 64"):
        tnp.array([1.0], ndmin=65)


def test_patches_of_what_holds_no_numbers() -> None:
    keys: Any = tj.random.split(tj.random.key(0), 4)[None, None]
    for x in (np.zeros((1, 1, 4), jax.dtypes.float0), keys):
        with pytest.raises((TypingError, ShapeError), match="conv_general_dilated_patches: lhs holds numbers"):
            lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")


WRONG_NUMBERS: list[Any] = [
    (),
    ((), (), ()),
    (((0,), (0,)),),
    (((0,), ()), ((), ())),
    ((0, 0), ((), ())),
    "ab",
    3,
    ((("a",), (0,)), ((), ())),
]


@pytest.mark.parametrize("numbers", WRONG_NUMBERS, ids=str)
def test_dimension_numbers_of_products_of_groups(numbers: Any) -> None:
    with pytest.raises(ParameterError, match="RaggedDotDimensionNumbers"):
        lax.RaggedDotDimensionNumbers(numbers, (0,), ())
    with pytest.raises(ParameterError, match="RaggedDotDimensionNumbers: axes are a tuple of integers"):
        lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), numbers or 1, ())


def test_operands_of_products_of_groups() -> None:
    numbers = lax.RaggedDotDimensionNumbers([[[0], [0]], [[], []]], np.array([0]), [])
    x, y, sizes = np.ones((3, 1)), np.arange(3.0)[:, None], np.array([1, 2])
    np.testing.assert_array_equal(np.ravel(lax.ragged_dot_general(x, y, sizes, numbers)), [0.0, 3.0])
    outside = lax.RaggedDotDimensionNumbers((((0,), (4,)), ((), ())), (0,), ())
    with pytest.raises(ShapeError, match=r"rhs f64\[3,1\] doesn't have the axes"):
        lax.ragged_dot_general(x, y, sizes, outside)
    with pytest.raises(
        ShapeError, match=r"axes \(1,\) of lhs f64\[3,1\] and \(1,\) of rhs f64\[2,4,1\] are summed over"
    ):
        lax.ragged_dot(x, np.ones((2, 4, 1)), sizes)
    nothing = np.zeros((3, 1), jax.dtypes.float0)
    for operand, left, right in (("lhs", nothing, y), ("rhs", x, nothing)):
        with pytest.raises(TypingError, match=f"ragged_dot_general: {operand} holds numbers"):
            lax.ragged_dot_general(left, right, sizes, numbers)


def test_scales_of_operands_without_elements() -> None:
    found = lax.scaled_dot(np.ones((1, 4)), np.ones((4, 0)), lhs_scale=np.ones((1, 2)), rhs_scale=np.ones((2, 0)))
    assert found.shape == (1, 0)


def test_shapes_as_values() -> None:
    with jax.enable_x64(True):
        assert lax.shape_as_value((2, 3)).dtype == jax.lax.shape_as_value((2, 3)).dtype == np.int32


def test_one_order_and_one_function() -> None:
    orders: Any = np.ones(3)
    for name, norm in (("vector_norm", tnp.linalg.vector_norm), ("matrix_norm", tnp.linalg.matrix_norm)):
        with pytest.raises(InputError, match=f"{name}: ord is one number"):
            norm(B, ord=orders)
    one: Any = np.array(1.0)
    assert tnp.linalg.vector_norm(B, ord=one) == 10.0
    number: Any = 3
    with pytest.raises(InputError, match="funm: func is a function"):
        linalg.funm(B, number)
    with pytest.raises(InputError, match="fromfunction: function is a function"):
        tnp.fromfunction(number, (2, 2))
    nothing: Any = lambda x: None  # noqa: E731
    with pytest.raises(InputError, match="None of type NoneType is not an array"):
        linalg.funm(B, nothing)


@pytest.mark.parametrize("optimize", [0, 1, True, None, [(0, 1)], "greedy"])
def test_orders_of_products(optimize: Any) -> None:
    np.testing.assert_array_equal(tnp.einsum("ij,jk", B, B, optimize=optimize), B @ B)
    with pytest.raises(InputError, match="einsum: optimize is True or False"):
        tnp.einsum("ij,jk", B, B, optimize=2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["lapack", 7, jax.lax.linalg.SvdAlgorithm.QR])
def test_ways_to_compute_are_those_there_are(given: Any) -> None:
    ours: Any = lax.linalg
    other = given if isinstance(given, int) else ours.EigImplementation.MAGMA
    for function, wrong in (
        (ours.eig, {"implementation": given}),
        (ours.eigh, {"implementation": given}),
        (ours.svd, {"algorithm": other}),
    ):
        with pytest.raises(ChoiceError, match="is None or one of"):
            function(B, **wrong)


def test_ways_to_compute_may_be_those_of_jax() -> None:
    ours: Any = lax.linalg
    theirs: Any = jax.lax.linalg
    for call in (
        lambda way: ours.eig(B, implementation=way.EigImplementation.LAPACK)[0],
        lambda way: ours.eigh(B, implementation=way.EighImplementation.QR)[1],
        lambda way: ours.svd(B, algorithm=way.SvdAlgorithm.QR)[1],
    ):
        assert tj.make_jaxpr(partial(call, theirs))() == tj.make_jaxpr(partial(call, ours))()
    with pytest.raises(LoweringError, match="MAGMA is not for CPUs"):
        tj.jit(lambda: lax.linalg.eig(B, implementation=lax.linalg.EigImplementation.MAGMA))()


def test_eig_takes_the_older_name_of_its_implementation() -> None:
    ways = {True: lax.linalg.EigImplementation.MAGMA, False: lax.linalg.EigImplementation.LAPACK, None: None}
    for given, way in ways.items():
        older = tj.make_jaxpr(lambda given=given: lax.linalg.eig(B, use_magma=given))()
        assert older == tj.make_jaxpr(lambda way=way: lax.linalg.eig(B, implementation=way))()
    found = tj.jit(lambda: lax.linalg.eig(B, compute_left_eigenvectors=False, use_magma=False))()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs = jax.lax.linalg.eig(B, compute_left_eigenvectors=False, use_magma=False)
    for one, other in zip(found, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6)


def test_whether_a_factor_is_lower() -> None:
    factor: Any = np.linalg.cholesky(B @ B.T + np.eye(2))
    odd: Any = (True, factor)
    with pytest.raises(InputError, match="cho_solve: lower is True or False"):
        linalg.cho_solve(odd, np.ones(2))
    expected = np.linalg.solve(factor @ factor.T, np.ones(2))
    lower: Any
    for lower in (True, 1, np.bool_(True), tnp.asarray(True)):
        np.testing.assert_allclose(linalg.cho_solve((factor, lower), np.ones(2)), expected)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_factors_of_infinite_matrices_are_those_of_lapack(dtype: str) -> None:
    """nan is where JAX has it, on the host and compiled: some of the vectors have none."""
    x = (B @ B.T + np.eye(2)).astype(dtype)
    x[1, 1] = np.inf
    with jax.enable_x64(True):
        expected = [*jax.numpy.linalg.svd(x), *jax.numpy.linalg.lstsq(x, B.astype(dtype))]
    for found in (
        [*tnp.linalg.svd(x), *tnp.linalg.lstsq(x, B.astype(dtype))],
        tj.jit(lambda: [*tnp.linalg.svd(x), *tnp.linalg.lstsq(x, B.astype(dtype))])(),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.isnan(one), np.isnan(other))


IMAGE = np.arange(32.0).reshape(1, 2, 4, 4)
KERNEL = np.ones((3, 2, 1, 2))
many: Any = lax
zero: Any = np.array(1)
NOT_SEVERAL: list[tuple[Callable[[], object], str]] = [
    (lambda: many.concatenate(1, 0), "concatenate: operands is a sequence, such as a tuple, not 1"),
    (lambda: many.concatenate(zero, 0), "concatenate: operands is a sequence"),
    (lambda: many.gather(B, zero, lax.GatherDimensionNumbers((), (), ()), (1, 1), mode=[1]), "unknown mode"),
    (lambda: many.pad(B, 0.0, 1), "pad: padding_config is a sequence, such as a tuple, not 1"),
    (lambda: many.pad(B, 0.0, (1, 2)), "pad: an entry of padding_config is a sequence, such as a tuple, not 1"),
    (lambda: many.pad(B, 0.0, ((1, 2), (3, 4))), "pad: an entry of padding_config has 3 parts, got 2"),
    (lambda: many.cumsum(B, (0, 1)), r"the axis is an integer, got \(0, 1\)"),
    (lambda: many.cumlogsumexp(B, ()), r"the axis is an integer, got \(\)"),
    (lambda: many.sort(B, (0, 1)), "the axis is an integer"),
    (lambda: many.sort((B, B), [0]), "the axis is an integer"),
    (lambda: many.conv(IMAGE, KERNEL, (1, 1), zero), "the padding argument is a string, or a pair of numbers"),
    (
        lambda: many.conv_general_dilated_patches(IMAGE, (2, 2), (1, 1), "SAME", dimension_numbers=(1, 2, 3)),
        "has the 4",
    ),
    (lambda: many.conv_general_dilated(IMAGE, KERNEL, (1, 1), "SAME", dimension_numbers=((0,) * 4,) * 3), "has the 4"),
]


@pytest.mark.parametrize(("call", "said"), NOT_SEVERAL)
def test_what_is_to_be_several(call: Callable[[], object], said: str) -> None:
    with pytest.raises((InputError, ShapeError), match=said) as caught:
        call()
    assert not isinstance(caught.value, UnforeseenError)


def test_arrays_are_sequences_of_operands() -> None:
    rows = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(many.concatenate(rows, 0), jax.lax.concatenate(list(rows), 0))
