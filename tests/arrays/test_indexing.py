"""Basic indexing, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinyjax.numpy as tnp
from tinyjax import grad, jit, make_jaxpr, vmap
from tinyjax.arrays.basic_indexing import Index
from tinyjax.errors import IndexingError


@pytest.mark.sweep
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_it_takes_what_numpy_takes(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=4))
    key = data.draw(hnp.basic_indices(shape, max_dims=6, allow_newaxis=True))
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    taken = np.asarray(x[key])
    ours = tnp.asarray(x)[key]
    assert ours.shape == taken.shape
    np.testing.assert_array_equal(np.asarray(ours), taken)
    np.testing.assert_array_equal(np.asarray(jit(lambda x: x[key])(x)), taken)


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_its_derivative_is_where_it_takes(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4))
    key = data.draw(hnp.basic_indices(shape, max_dims=5, allow_newaxis=True))
    expected = np.zeros(shape)
    expected[key] = 1.0
    np.testing.assert_array_equal(np.asarray(grad(lambda x: x[key].sum())(np.ones(shape))), expected)


def test_batches() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(np.asarray(vmap(lambda x: x[1, ::-2, None])(x)), x[:, 1, ::-2, None])


@pytest.mark.parametrize(
    ("key", "program"),
    [
        (..., []),
        (slice(None), []),
        ((slice(0, 3), slice(-4, None)), []),
        (None, ["broadcast_in_dim"]),
        (0, ["slice", "squeeze"]),
        ((slice(None), slice(None, None, -1)), ["rev"]),
        ((slice(0, 1), 0), ["slice", "squeeze"]),
        ((1, slice(3, None, -2)), ["slice", "rev", "squeeze"]),
    ],
)
def test_programs(key: Index, program: list[str]) -> None:
    jaxpr = make_jaxpr(lambda x: x[key])(np.zeros((3, 4)))
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == program


def test_integers_of_all_kinds() -> None:
    x = tnp.arange(5) * 10
    indices: list[Index] = [2, -3, np.int8(2), np.uint64(2), np.array(2), tnp.asarray(2), (np.int64(2),)]
    assert [x[i].item() for i in indices] == [20] * len(indices)
    assert x[tnp.asarray(1) : tnp.asarray(3)].tolist() == [10, 20]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (3, r"index 3 out of bounds for axis 0 with size 3, of f64\[3,4\]"),
        (-4, "index -4 out of bounds"),
        ((0, 4), r"index 4 out of bounds for axis 1 with size 4, of f64\[3,4\]"),
        ((0, 0, 0), r"Too many indices: array is 2-dimensional, but 3 were indexed, of f64\[3,4\]"),
        ((slice(None), ..., 0, 0), "Too many indices"),
        ((..., 0, ...), "single ellipsis"),
        (1.0, r"Indexer must have integer or boolean type, got indexer with type float: only .*Got 1.0 of type float"),
        ("a", r"only integers, slices \(`:`\), .* Got 'a' of type str"),
        (np.array(1.0), "Indexer must have integer or boolean type, got indexer with type float64"),
        (slice(0.5, 2), "slice indices must be integers"),
    ],
)
def test_errors(key: Index, message: str) -> None:
    with pytest.raises((IndexingError, TypeError), match=message):
        tnp.zeros((3, 4))[key]
