"""take, put and their relatives, against jax.numpy's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.numpy.oracle import agree, check, numbers
from tinyjax import grad, jit, transforms, vmap
from tinyjax.errors import ConcretizationError, IndexingError, InputError, ShapeError, UnsupportedError

X = np.arange(12.0).reshape(3, 4)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", [None, "fill", "clip", "wrap"])
def test_take(mode: str | None) -> None:
    for indices in (np.array([[0, 2], [-1, 3]]), np.array(1), np.array([9, -9, 2]), np.zeros(0, int), np.uint8(2)):
        for axis in (None, 0, 1, -1):
            check("take", X, indices, axis=axis, mode=mode)
            agree(tnp.asarray(X).take(indices, axis, mode=mode), jnp.take(X, indices, axis, mode=mode))


def test_take_of_all_dtypes() -> None:
    for dtype in ("bool", "int8", "uint64", "bfloat16", "complex64"):
        check("take", numbers(dtype, 3), np.array([0, 5]))
    check("take", X, np.array([0, 5]), 0, fill_value=-1.0)
    agree(tnp.take(X, np.array([0, 2]), 1), jnp.take(X, jnp.array([0, 2]), 1))


@pytest.mark.parametrize(
    ("shape", "index", "axis"),
    [((3, 4), (3, 2), 1), ((3, 4), (5, 4), 0), ((3, 4), (1, 4), 0), ((3, 4), (3, 1), -1), ((1, 4), (3, 2), 1),
     ((2, 1, 4), (1, 3, 2), 2), ((3, 4), (5,), None), ((2, 3, 4), (2, 2, 4), 1), ((2, 0), (2, 0), 0)],
    ids=str,
)  # fmt: skip
def test_take_along_axis(shape: tuple[int, ...], index: tuple[int, ...], axis: int | None) -> None:
    rng = np.random.default_rng(0)
    x, i = rng.normal(size=shape), rng.integers(-5, 6, index)
    for mode in (None, "clip", "promise_in_bounds"):
        # jax 0.10 has another default, which depends on the mode.
        check("take_along_axis", x, i, axis, mode, wrap_negative_indices=True)
    got = vmap(grad(lambda x, i: tnp.take_along_axis(x, i, axis, "clip").sum()))(np.stack([x, x]), np.stack([i, -i]))
    want = jax.vmap(jax.grad(lambda x, i: jnp.take_along_axis(x, i, axis, "clip").sum()))(
        np.stack([x, x]), np.stack([i, -i])
    )
    agree(got, want)


@pytest.mark.sweep
def test_put() -> None:
    for mode in (None, "wrap"):
        check("put", X, np.array([0, 5, 40]), np.array([-1.0, -2.0]), mode, inplace=False)
        check("put", X, np.array([2, -2, -1]), np.array([2.0, 0.0, 7.0]), mode, inplace=False)
    check("put", X, np.array([[1], [2]]), 7.0, inplace=False)
    check("put", X, np.zeros(0, int), 7.0, inplace=False)
    check("put_along_axis", X, np.array([[0], [3], [-1]]), 9.0, 1, inplace=False)
    check("put_along_axis", X, np.array([[2, 1, 0, 2]]), np.arange(4.0), 0, inplace=False)
    check("put_along_axis", X, np.array([2, 5]), np.array([-1.0, -2.0]), None, inplace=False)


def test_nonzero() -> None:
    for x in (X > 5, np.array([0, 3, 0, -1]), np.zeros((2, 0))):
        for ours, theirs in zip(tnp.nonzero(x), np.nonzero(x), strict=True):
            np.testing.assert_array_equal(np.asarray(ours), theirs)
        np.testing.assert_array_equal(np.asarray(tnp.flatnonzero(x)), np.flatnonzero(x))
        np.testing.assert_array_equal(np.asarray(tnp.argwhere(x)), np.argwhere(x))
    check("nonzero", X > 5)
    assert tnp.argwhere(3.0).shape == (1, 0)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_searchsorted(data: st.DataObject) -> None:
    some = st.lists(st.sampled_from([-1.0, 0.0, 1.0, 1.5, np.inf, np.nan]), max_size=9)
    x, v = np.sort(data.draw(some)), np.asarray(data.draw(some), float)
    for side in ("left", "right"):
        np.testing.assert_array_equal(np.asarray(tnp.searchsorted(x, v, side)), np.searchsorted(x, v, side))


def test_bins_are_found_by_one_search() -> None:
    """In either order. Each step of it is one gather, and the first none."""
    bounds, x = np.arange(12.0), np.array([[-1.0, 3.0, np.nan], [3.5, 11.0, 12.0]])
    for given_bounds in (bounds, bounds[::-1].copy()):
        np.testing.assert_array_equal(jit(tnp.digitize)(x, given_bounds), np.digitize(x, given_bounds))
    assert dict(transforms.count_primitives(tj.make_jaxpr(tnp.digitize)(x, bounds)))["gather"] == 3


def test_searchsorted_types() -> None:
    def agree(ours: tj.Array, theirs: jax.Array) -> None:  # whose positions have 32 bits
        assert (ours.shape, ours.dtype) == (theirs.shape, np.dtype("int64"))
        np.testing.assert_array_equal(ours, theirs)

    x = np.array([3.0, 1.0, 2.0])
    agree(tnp.searchsorted(np.sort(x), np.array([[1.0, 2.5]])), jnp.searchsorted(np.sort(x), np.array([[1.0, 2.5]])))
    agree(tnp.searchsorted(x, 2, "right", np.argsort(x)), jnp.searchsorted(x, 2, "right", sorter=np.argsort(x)))
    agree(jit(tnp.searchsorted)(np.sort(x), x), jnp.searchsorted(np.sort(x), x))


def test_errors() -> None:
    with pytest.raises(InputError, match="take: positions must be integers, got f64"):
        tnp.take(X, 1.0)
    with pytest.raises(IndexingError, match=r"nothing to take along axis 0 of f64\[0,2\]"):
        tnp.take(np.zeros((0, 2)), 0, 0)
    with pytest.raises(UnsupportedError, match="mode='raise' is not supported"):
        tnp.take(X, 0, mode="raise")
    with pytest.raises(InputError, match="take: Invalid mode 'drop'"):
        tnp.take(X, 0, mode="drop")
    with pytest.raises(ShapeError, match="as many axes"):
        tnp.take_along_axis(X, np.array([0]), 0)
    with pytest.raises(ShapeError, match="can't be broadcast"):
        tnp.take_along_axis(X, np.zeros((2, 2), int), 0)
    with pytest.raises(ShapeError, match="must be a vector"):
        tnp.take_along_axis(X, np.zeros((2, 2), int), None)
    with pytest.raises(InputError, match="Pass inplace=False"):
        tnp.put(X, 0, 1.0)
    np.testing.assert_array_equal(tnp.put(X, 0, np.zeros(0), inplace=False), X)
    with pytest.raises(ConcretizationError, match="the shape of the result depends on the elements"):
        jit(tnp.nonzero)(X)
    with pytest.raises(ShapeError, match="atleast_1d"):
        tnp.nonzero(1.0)
    with pytest.raises(InputError, match="side is 'left' or 'right'"):
        tnp.searchsorted(X[0], 1.0, "middle")
    with pytest.raises(ShapeError, match="must be a vector"):
        tnp.searchsorted(X, 1.0)


@pytest.mark.parametrize("size", [0, 3, *(pytest.param(size, marks=pytest.mark.sweep) for size in (1, 20))])
def test_positions_of_a_known_number(size: int) -> None:
    for x in (X > 5, np.array([0, 3, 0, -1]), np.zeros((0, 2)), np.array([[0.0, np.nan], [2.0, 0.0]])):
        for f, g in ((tnp.nonzero, jnp.nonzero), (tnp.argwhere, jnp.argwhere), (tnp.where, jnp.where)):
            for got, want in zip(jit(lambda x, f=f: f(x, size=size))(x), g(x, size=size), strict=True):
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
                assert np.asarray(got).dtype == np.asarray(want).dtype
        if x.size:
            fill = tuple(range(7, 7 + x.ndim))
            for got, want in zip(
                tnp.nonzero(x, size=size, fill_value=fill), jnp.nonzero(x, size=size, fill_value=fill), strict=True
            ):
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        got = vmap(lambda x: tnp.flatnonzero(x, size=size, fill_value=-1))(np.stack([x, x]))[0]
        np.testing.assert_array_equal(np.asarray(got), np.asarray(jnp.flatnonzero(x, size=size, fill_value=-1)))
    assert tnp.argwhere(3.0, size=2).shape == (2, 0)


def test_errors_of_positions() -> None:
    with pytest.raises(ConcretizationError, match="Pass `size`, for a result of that size"):
        jit(tnp.argwhere)(X)
    with pytest.raises(InputError, match="a scalar or a tuple of 2 of them"):
        tnp.nonzero(X, size=1, fill_value=(1,))
    with pytest.raises(InputError, match="size is at least 0"):
        tnp.nonzero(X, size=-1)
    call: Any = tnp.where
    with pytest.raises(InputError, match="for a condition alone"):
        call(X, 1.0, 2.0, size=3)
    with pytest.raises(InputError, match="one of these two is None"):
        call(X, 1.0)


def test_derivatives_of_extremes_where_an_index_is_clipped() -> None:
    """They are those of the place that it is clipped to."""
    x = np.array([0.25, 3.0])
    for name, value in (("min", 0.1), ("max", 0.5), ("min", 0.9), ("max", 0.1)):

        def updated(x: Any, v: Any, at: int, name: str = name) -> Any:
            return getattr(tnp.asarray(x).at[np.array([at])], name)(v, mode="clip").sum()

        for clipped, place in ((-7, 0), (9, 1)):
            found, expected = (tj.grad(updated, (0, 1))(x, value, at) for at in (clipped, place))
            np.testing.assert_array_equal(found[0], expected[0])
            assert found[1] == expected[1]
