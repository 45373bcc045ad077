"""BCOO: what its functions give is what the same functions give for the dense array; layouts as JAX has them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.experimental.sparse as theirs
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import errors
from tinyjax.experimental import sparse
from tinyjax.experimental.sparse import BCOO

#: Shapes, with numbers of batch and dense dimensions.
LAYOUTS = [
    ((), 0, 0), ((5,), 0, 0), ((3,), 1, 0), ((3,), 0, 1), ((3, 4), 0, 0), ((3, 4), 1, 0), ((3, 4), 0, 1),
    ((0, 3), 0, 0), ((3, 0), 1, 0), ((2, 3, 4), 1, 1), ((2, 3, 4), 1, 0), ((2, 3, 4), 2, 0), ((2, 3, 4), 0, 2),
]  # fmt: skip
DTYPES = [np.float64, np.int32, np.complex64, np.bool_, ml_dtypes.bfloat16, np.uint8]
layouts = st.sampled_from(LAYOUTS)
seeds = st.integers(0, 10**6)


def random_parts(shape: tuple[int, ...], n_batch: int, n_dense: int, seed: int, dtype: Any = np.float64) -> Any:
    """Data and indices: with duplicates and padding, whose data is zero."""
    rng = np.random.default_rng(seed)
    nse = int(rng.integers(0, 5))
    batch, inner, dense = shape[:n_batch], shape[n_batch : len(shape) - n_dense], shape[len(shape) - n_dense :]
    data = rng.integers(-4, 5, size=(*batch, nse, *dense)).astype(dtype)
    columns = [rng.integers(0, size + 1, size=(*batch, nse)) for size in inner]
    indices = np.stack(columns, -1).astype(np.int32) if inner else np.zeros((*batch, nse, 0), np.int32)
    beyond = (indices >= np.array(inner, np.int32)).any(-1)
    data[beyond] = 0
    return data, indices


def make(layout: Any, seed: int, dtype: Any = np.float64) -> tuple[BCOO, np.ndarray[Any, Any]]:
    """A sparse array, and the dense one that NumPy makes of its parts."""
    shape, n_batch, n_dense = layout
    data, indices = random_parts(shape, n_batch, n_dense, seed, dtype)
    dense = np.zeros(shape, dtype)
    for place in itertools.product(*map(range, data.shape[: n_batch + 1])):
        at = (*place[:-1], *indices[place])
        if all(i < size for i, size in zip(at, shape, strict=False)):
            dense[at] = dense[at] + data[place]
    return BCOO((data, indices), shape=shape), dense


def check(found: Any, wanted: Any) -> None:
    got = np.asarray(found.todense() if isinstance(found, sparse.JAXSparse) else found)
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.astype(np.complex128), wanted.astype(np.complex128), rtol=1e-6, atol=1e-6)


@given(layouts, seeds, st.sampled_from(DTYPES))
@settings(max_examples=25, deadline=None)
def test_conversions(layout: Any, seed: int, dtype: Any) -> None:
    mat, dense = make(layout, seed, dtype)
    check(mat, dense)
    assert mat.dtype == dense.dtype
    assert mat.shape == dense.shape
    again = BCOO.fromdense(dense, n_batch=mat.n_batch, n_dense=mat.n_dense)
    check(again, dense)
    assert again.nse <= max(mat.nse, 1)
    check(BCOO.fromdense(dense, nse=7, n_batch=mat.n_batch, n_dense=mat.n_dense), dense)
    check(sparse.bcoo_sum_duplicates(mat), dense)
    check(sparse.bcoo_sum_duplicates(mat, nse=7), dense)
    check(mat.sum_duplicates(), dense)
    check(sparse.bcoo_sort_indices(mat), dense)
    there = make(layout, seed, np.float64)[0].with_data(np.ones(mat.data.shape))
    check(sparse.bcoo_extract(there, tnp.where(there.todense() != 0, dense, 0)), dense * (there.todense() != 0))


@given(layouts, seeds)
@settings(max_examples=10, deadline=None)
def test_layouts(layout: Any, seed: int) -> None:
    mat, dense = make(layout, seed)
    for n_batch, n_dense in itertools.product(range(mat.ndim + 1), repeat=2):
        if n_batch + n_dense <= mat.ndim:
            found = sparse.bcoo_update_layout(mat, n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
            assert (found.n_batch, found.n_dense) == (n_batch, n_dense)
            check(found, dense)
    for axes in itertools.chain.from_iterable(itertools.combinations(range(mat.ndim), n) for n in range(mat.ndim + 1)):
        check(sparse.bcoo_reduce_sum(mat, axes=axes), dense.sum(axes))
        check(sparse.bcoo_rev(mat, axes), np.flip(dense, axes))
    check(mat.sum(), dense.sum())
    for order in itertools.permutations(range(mat.ndim)):
        kinds = [0 if d < mat.n_batch else 1 if d < mat.n_batch + mat.n_sparse else 2 for d in order]
        if kinds == sorted(kinds):
            check(mat.transpose(order), dense.transpose(order))


@given(layouts, seeds)
@settings(max_examples=10, deadline=None)
def test_operators(layout: Any, seed: int) -> None:
    (x, one), (y, other) = make(layout, seed), make(layout, seed + 1)
    for found, wanted in (
        (x + y, one + other), (x - y, one - other), (x * y, one * other), (x + other, one + other),
        (other - x, other - one), (x * other, one * other), (2.0 * x, 2 * one),
        (x / (other**2 + 1), one / (other**2 + 1)),
        (-x, -one), (abs(x), abs(one)), (x**2, one**2), (x.astype(np.float32), one), (x * x, one * one),
    ):  # fmt: skip
        check(found, wanted)
    for axis in range(x.ndim):
        factor = np.random.default_rng(seed).normal(size=[1 if d == axis else n for d, n in enumerate(x.shape)])
        check(x * factor, one * factor)
        if axis < x.n_batch + x.n_sparse:
            check(sparse.bcoo_concatenate([x, y], dimension=axis), np.concatenate([one, other], axis))


@pytest.mark.parametrize(
    "item",
    [
        0, -1, slice(1, None), slice(None, None, 2), slice(None, None, -1), None, ..., (..., 0), (None, ..., None),
        (slice(None), 1), (0, slice(None, None, -2)), np.array([0, 1, 0]), (slice(None), np.array([[0, 1], [1, 0]])),
        slice(2, 1), (0, 0, 0), np.int64(1), np.array([True, False, True]), (slice(None), np.array([False, True])),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("n_batch", "n_dense"), [(0, 0), (1, 0), (1, 1), (2, 0), (0, 1)])
def test_indexing(item: Any, n_batch: int, n_dense: int) -> None:
    mat, dense = make(((3, 2, 4), n_batch, n_dense), 11)
    check(mat[item], dense[item])


def test_derivatives_of_what_is_stored() -> None:
    """Without sparse dimensions every element is, those that are zero, too."""
    x = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    for n_batch, n_dense, stored in ((2, 0, np.ones_like(x)), (0, 2, np.ones_like(x)), (1, 0, x != 0)):

        def total(x: Any, n_batch: int = n_batch, n_dense: int = n_dense) -> Any:
            return BCOO.fromdense(x, nse=2, n_batch=n_batch, n_dense=n_dense).todense().sum()

        np.testing.assert_array_equal(tj.grad(total)(x), stored)


def test_indexing_by_what_is_traced() -> None:
    mat, dense = make(((3, 4), 0, 0), 4)
    check(tj.jit(lambda mat, i: mat[i])(mat, 1), dense[1])
    check(tj.jit(lambda mat, i: mat[:, i][::2])(mat, tnp.asarray([3, 0])), dense[:, [3, 0]][::2])
    with pytest.raises(errors.IndexingError, match="out of bounds"):
        mat[3]


@given(st.sampled_from([1, 2, 3]), st.integers(0, 2), seeds, st.sampled_from([np.float64, np.int32, np.complex64]))
@settings(max_examples=12, deadline=None)
def test_products(ndim: int, n_batch: int, seed: int, dtype: Any) -> None:
    shape = (2, 3, 4)[-ndim:]
    n_batch = min(n_batch, ndim - 1)
    x, one = make((shape, n_batch, 0), seed, dtype)
    rng = np.random.default_rng(seed)
    for other_shape in ((4,), (4, 2), (2, 4, 3), (1, 4, 3)):
        other = rng.integers(-3, 4, size=other_shape).astype(dtype)
        y = BCOO.fromdense(other, n_batch=max(len(other_shape) - 2, 0))
        if ndim == 3 and other_shape[0] == 2 and not n_batch:
            with pytest.raises(errors.UnsupportedError, match="update_layout"):
                x @ other
            continue
        check(x @ other, one @ other)
        check(x @ y, one @ other)
    for other_shape in ((3,), (2, 3), (2, 5, 3)):
        if ndim > 1:
            other = rng.integers(-3, 4, size=other_shape).astype(dtype)
            if len(other_shape) == ndim == 3 and not n_batch:
                continue
            check(other @ x, other @ one)


DIMENSIONS = [
    (((3, 4), 0, 0), (4, 5), (((1,), (0,)), ((), ()))),
    (((3, 4), 1, 0), (3, 5), (((0,), (0,)), ((), ()))),
    (((3, 4), 0, 1), (4, 5), (((1,), (0,)), ((), ()))),
    (((3, 4), 0, 1), (4, 3), (((1, 0), (0, 1)), ((), ()))),
    (((2, 3, 4), 1, 1), (4, 2), (((2,), (0,)), ((0,), (1,)))),
    (((2, 3, 4), 2, 0), (3, 2, 5), (((0,), (1,)), ((1,), (0,)))),
    (((2, 3, 4), 2, 0), (3,), (((1,), (0,)), ((), ()))),
    (((2, 3, 4), 0, 2), (5,), (((), ()), ((), ()))),
]


@pytest.mark.parametrize(("layout", "other", "numbers"), DIMENSIONS)
def test_dot_general(layout: Any, other: tuple[int, ...], numbers: Any) -> None:
    """Values, derivatives and batches, on both sides."""
    x, one = make(layout, 3)
    y = np.random.default_rng(0).normal(size=other)
    swapped = tuple(pair[::-1] for pair in numbers)
    wanted = np.asarray(tj.lax.dot_general(one, y, numbers))
    check(sparse.bcoo_dot_general(x, y, dimension_numbers=numbers), wanted)
    check(tj.jit(lambda x, y: sparse.bcoo_dot_general(x, y, dimension_numbers=numbers))(x, y), wanted)
    check(sparse.bcoo_dot_general(y, x, dimension_numbers=swapped), tj.lax.dot_general(y, one, swapped))

    def f(data: Any, y: Any) -> Any:
        return tnp.sum(tnp.sin(sparse.bcoo_dot_general(x.with_data(data), y, dimension_numbers=numbers)))

    def g(data: Any, y: Any) -> Any:
        return tnp.sum(tnp.sin(tj.lax.dot_general(x.with_data(data).todense(), y, numbers)))

    for found, right in zip(tj.grad(f, (0, 1))(x.data, y), tj.grad(g, (0, 1))(x.data, y), strict=True):
        check(found, right)
    several = tnp.stack([x.data, 2 * x.data])
    check(tj.vmap(f, (0, None))(several, y), [f(x.data, y), f(2 * x.data, y)])


def test_sampled_products() -> None:
    x, y = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(4, 2)
    indices = np.array([[0, 1], [2, 0], [3, 0]], np.int32)
    numbers = (((1,), (0,)), ((), ()))
    for at in (indices, indices[:, :1]):
        found = sparse.bcoo_dot_general_sampled(x, y, at, dimension_numbers=numbers)
        padded = np.concatenate([x @ y, np.zeros((1, 2))])
        check(found, padded[tuple(at.T)])


@pytest.mark.sweep
@pytest.mark.parametrize("layout", [((5,), 0, 0), ((3, 4), 1, 0), ((2, 3, 4), 1, 1)])
def test_parts_are_those_of_jax(layout: Any) -> None:
    """Also where padding is, what is repeated, and what is known of indices."""
    shape, n_batch, n_dense = layout
    parts = random_parts(shape, n_batch, n_dense, 5)
    functions: list[Callable[[Any, Any], Any]] = [
        lambda s, mat: s.bcoo_sum_duplicates(mat, nse=6),
        lambda s, mat: s.bcoo_sort_indices(mat),
        lambda s, mat: s.bcoo_update_layout(mat, n_batch=0, n_dense=0),
        lambda s, mat: s.bcoo_fromdense(mat.todense(), n_batch=n_batch, n_dense=n_dense, nse=6),
        lambda s, mat: s.bcoo_transpose(mat, permutation=range(mat.ndim)),
        lambda s, mat: mat * 2.0,
    ]
    with jax.enable_x64(True):
        for f in functions:
            found = f(sparse, BCOO(parts, shape=shape))
            wanted = f(theirs, theirs.BCOO((jax.numpy.asarray(parts[0]), jax.numpy.asarray(parts[1])), shape=shape))
            np.testing.assert_array_equal(found.indices, wanted.indices)
            np.testing.assert_allclose(found.data, wanted.data)
            assert found.data.dtype == wanted.data.dtype
            assert found.indices.dtype == wanted.indices.dtype
            assert (found.unique_indices, found.indices_sorted) == (wanted.unique_indices, wanted.indices_sorted)
            assert repr(found) == repr(wanted)


@pytest.mark.sweep
def test_random_matrices_are_those_of_jax() -> None:
    with jax.enable_x64(True):
        for options in ({}, {"n_batch": 1, "nse": 3}, {"sorted_indices": True, "nse": 0.5}):
            found = sparse.random_bcoo(tj.random.key(3), (3, 4), **options)
            wanted = theirs.random_bcoo(jax.random.key(3), (3, 4), **options)
            np.testing.assert_array_equal(found.indices, wanted.indices)
            np.testing.assert_array_equal(found.data, wanted.data)


@pytest.mark.parametrize("k", [-3, -1, 0, 1, 5])
@pytest.mark.parametrize(("n_batch", "n_dense"), [(0, 0), (1, 0), (0, 1)])
def test_eye_and_empty(k: int, n_batch: int, n_dense: int) -> None:
    check(sparse.eye(3, 4, k, n_batch=n_batch, n_dense=n_dense), np.eye(3, 4, k))
    check(sparse.empty((3, 4), n_batch=n_batch, n_dense=n_dense, nse=2), np.zeros((3, 4)))


def test_it_is_a_tree() -> None:
    """Transformations carry it; what maps it goes along a batch dimension."""
    mat, dense = make(((3, 2, 4), 1, 0), 2)
    assert len(tj.tree.leaves(mat)) == 2
    check(tj.jit(lambda mat: 2.0 * mat)(mat), 2 * dense)
    check(tj.vmap(lambda mat: mat.T)(mat), dense.transpose(0, 2, 1))
    check(tj.vmap(lambda mat, v: mat @ v, (0, None))(mat, np.ones(4)), dense @ np.ones(4))
    check(tj.vmap(lambda x: BCOO.fromdense(x, nse=8))(dense), dense)
    total, rows = tj.lax.scan(lambda c, mat: (c + mat.todense(), mat.sum()), np.zeros((2, 4)), mat)
    check(total, dense.sum(0))
    check(rows, dense.sum((1, 2)))
    carried, _ = tj.lax.scan(lambda mat, _: (mat.with_data(2 * mat.data), None), mat, None, length=3)
    check(carried, 8 * dense)
    check(tj.lax.cond(True, lambda mat: mat, lambda mat: -mat, mat), dense)
    with pytest.raises(errors.InputError, match="batch dimension"):
        tj.vmap(lambda mat: mat.todense())(mat.update_layout(n_batch=0))


def test_repeated_batches() -> None:
    data, indices = np.ones((3, 2)), np.array([[[0], [1]]], np.int32)
    mat = BCOO((data, indices), shape=(3, 4))
    dense = np.tile([1.0, 1.0, 0.0, 0.0], (3, 1))
    for found in (
        mat,
        mat.sum_duplicates(),
        mat.update_layout(n_batch=0),
        mat.sort_indices(),
        mat + mat.with_data(0 * data),
    ):
        check(found, dense)
    check(mat[1:], dense[1:])
    check(mat @ np.ones(4), dense @ np.ones(4))
    both = BCOO((data[:1], indices), shape=(3, 4))
    check(both, dense)
    check(sparse.bcoo_reduce_sum(both, axes=[0]), dense.sum(0))


def test_errors_say_what_to_do() -> None:
    mat = sparse.eye(3)
    with pytest.raises(errors.ShapeError, match=r"data must have shape \(3,\)"):
        BCOO((np.ones(2), mat.indices), shape=(3, 3))
    with pytest.raises(errors.DtypeError, match="integers"):
        BCOO((np.ones(2), np.ones((2, 1))), shape=(3,))
    with pytest.raises(errors.InputError, match="nse="):
        tj.jit(lambda x: BCOO.fromdense(x).data)(np.eye(2))
    with pytest.raises(errors.InputError, match="nse="):
        tj.jit(lambda mat: mat.sum_duplicates().data)(mat)
    with pytest.raises(sparse.SparseEfficiencyError, match="on_inefficient"):
        mat.update_layout(n_dense=1)
    with pytest.warns(sparse.SparseEfficiencyWarning):
        mat.update_layout(n_batch=1, on_inefficient="warn")
    with pytest.raises(errors.UnsupportedError, match="update_layout"):
        BCOO.fromdense(np.eye(3), n_batch=1).T  # noqa: B018
    with pytest.raises(errors.ShapeError, match="todense"):
        mat + np.ones(3)
    with pytest.raises(errors.UnsupportedError, match="todense"):
        mat / mat
    with pytest.raises(errors.InputError, match="todense"):
        np.asarray(mat)
    with pytest.raises(errors.UnsupportedError, match="=="):
        assert mat == mat  # noqa: PLR0124
    with pytest.raises(errors.UnsupportedError, match="batch axes"):
        sparse.bcoo_dot_general(mat, np.ones((3, 2)), dimension_numbers=(((), ()), ((0,), (0,))))


@pytest.mark.parametrize(
    "make",
    [
        sparse.empty,
        lambda shape: sparse.eye(*shape),
        lambda shape: BCOO((np.ones(1), np.zeros((1, 2), int)), shape=shape),
        lambda shape: sparse.BCSR((np.ones(0), np.zeros(0, int), np.zeros(3, int)), shape=shape),
        lambda shape: sparse.CSR((np.ones(0), np.zeros(0, int), np.zeros(3, int)), shape=shape),
        lambda shape: sparse.random_bcoo(tj.random.key(0), shape),
    ],
)
def test_shapes_are_checked(make: Callable[[Any], object]) -> None:
    with pytest.raises(errors.ShapeError, match=r"at least 0, got \(-2, 3\)"):
        make((-2, 3))
    with pytest.raises(errors.ShapeError, match="a shape is a sequence of integers"):
        make((2.5, 3))
