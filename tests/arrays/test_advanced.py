"""Advanced indexing and `x.at`, against NumPy and jax."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinyjax.numpy as tnp
from tests.arrays.index_keys import add_at, getitem, keys, setitem
from tests.numpy.oracle import agree
from tinyjax import Array, ShapedArray, grad, jit, jvp, make_jaxpr, vmap
from tinyjax.arrays.basic_indexing import Index
from tinyjax.errors import (
    ConcretizationError,
    ImmutableArrayError,
    IndexingError,
    InputError,
    ShapeError,
    UnsupportedError,
)
from tinyjax.ir.shapes import Shape

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
UPDATES = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")
X = np.arange(60.0).reshape(3, 4, 5)
I = np.array([[0, -1], [2, 1]])
KEYS: list[Index] = [
    I,
    (slice(None), I),
    (I, slice(None), I),
    (0, slice(None), I),
    (slice(None), I, 0),
    (None, I, None, 1),
    (I, ..., np.array([0, 1])),
    np.array([True, False, True]),
    (np.array([True, False, True]), slice(1, 3), np.array([0, -2])),
    X > 20,
    (True, I),
    False,
    (slice(None, None, -2), slice(1, 4, 2), np.array([1, 1, 1])),
    (np.zeros(0, np.int64),),
    (slice(1, 1), I),
    ([0, 1], slice(None), [1, 2]),
    (slice(None, None, -1), 2, slice(3, None, -2)),
    (1, slice(1, 3)),
    ...,
]


def update(name: str, x: Array, key: Index, values: object, **options: object) -> Array:
    """`x.at[key].name(values)`."""
    out: Array = getattr(x.at[key], name)(values, **options)
    return out


def jax_update(name: str, x: jax.Array, key: Index, values: object, **options: object) -> jax.Array:
    out: jax.Array = getattr(x.at[key], name)(values, **options)
    return out


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_it_takes_what_numpy_takes(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    key = data.draw(keys(shape))
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    taken = getitem(x, key)
    ours = tnp.asarray(x)[key]
    assert ours.shape == taken.shape
    np.testing.assert_array_equal(np.asarray(ours), taken)


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_compiled(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    key = data.draw(keys(shape))
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    np.testing.assert_array_equal(np.asarray(jit(lambda x: x[key])(x)), getitem(x, key))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_positions_may_be_traced(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    key = data.draw(keys(shape, masks=False))
    assert isinstance(key, tuple)
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    arrays = {i: tnp.asarray(entry) for i, entry in enumerate(key) if isinstance(entry, np.ndarray | int)}

    def taken(x: Array, traced: dict[int, Array]) -> Array:
        assert isinstance(key, tuple)
        return x[tuple(traced.get(i, entry) for i, entry in enumerate(key))]

    jaxpr = make_jaxpr(taken)(x, arrays)
    out = jit(taken)(tnp.asarray(x), arrays)
    assert jaxpr.jaxpr.out_avals[0].shape == out.shape
    np.testing.assert_array_equal(np.asarray(out), getitem(x, key))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_its_derivative_is_where_it_takes(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    key = data.draw(keys(shape))
    expected = np.zeros(shape)
    add_at(expected, key, np.ones(()))
    np.testing.assert_array_equal(np.asarray(grad(lambda x: x[key].sum())(np.ones(shape))), expected)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_it_sets_what_numpy_sets(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    key = data.draw(keys(shape))
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    values = -1 - np.arange(getitem(x, key).size).reshape(getitem(x, key).shape)
    expected = x.copy()
    setitem(expected, key, values)
    np.testing.assert_array_equal(np.asarray(tnp.asarray(x).at[key].set(values)), expected)
    added = x.copy()
    add_at(added, key, values)
    np.testing.assert_array_equal(np.asarray(tnp.asarray(x).at[key].add(values)), added)


@pytest.mark.sweep
@pytest.mark.parametrize("chosen", [slice(0, 7), slice(7, 13), slice(13, None)], ids=str)
def test_updates_are_those_of_jax(chosen: slice) -> None:
    rng = np.random.default_rng(0)
    x = X / 10 + 0.5
    values = [rng.uniform(0.5, 2, getitem(X, key).shape) for key in KEYS[chosen]]

    def oracle(x: jax.Array, values: list[jax.Array]) -> object:
        return [jax_update(name, x, key, v) for key, v in zip(KEYS[chosen], values, strict=True) for name in UPDATES]

    def ours(x: Array, values: list[Array]) -> list[Array]:
        return [update(name, x, key, v) for key, v in zip(KEYS[chosen], values, strict=True) for name in UPDATES]

    expected = jax.jit(oracle)(x, values)
    for run in (ours, jit(ours)):
        agree(run(tnp.asarray(x), [tnp.asarray(v) for v in values]), expected)


@pytest.mark.sweep
@pytest.mark.parametrize("key", [KEYS[i] for i in (0, 2, 8, 12, 17)], ids=str)
def test_derivatives_are_those_of_jax(key: Index) -> None:
    rng = np.random.default_rng(0)
    x, v, t = X / 10 + 0.5, rng.uniform(0.5, 2, getitem(X, key).shape), rng.normal(size=X.shape)
    smooth = [name for name in UPDATES if name not in ("multiply", "divide", "power")]

    def oracle(x: jax.Array, v: jax.Array, t: jax.Array) -> object:
        return (
            [jax.jvp(lambda x, name=name: jax_update(name, x, key, v), (x,), (t,))[1] for name in UPDATES],
            [jax.grad(lambda v, name=name: (jax_update(name, x, key, v) * t).sum())(v) for name in smooth],
        )

    def ours(x: Array, v: Array, t: Array) -> tuple[list[Array], list[Array]]:
        return (
            [jvp(lambda x, name=name: update(name, x, key, v), (x,), (t,))[1] for name in UPDATES],
            [grad(lambda v, name=name: (update(name, x, key, v) * t).sum())(v) for name in smooth],
        )

    agree(ours(tnp.asarray(x), tnp.asarray(v), tnp.asarray(t)), jax.jit(oracle)(x, v, t))


@pytest.mark.parametrize("mode", [None, "clip", "drop", "fill", "promise_in_bounds"])
def test_out_of_range(mode: str | None) -> None:
    wrap = mode != "fill"
    x = np.arange(12.0).reshape(3, 4)
    batch: list[Index] = [
        (np.array([0, 3, -4, -1]),),
        (slice(None), np.array([5, -9])),
        (np.array([3, 0]), np.array([0, 4])),
        7,
        (0, -7),
        (slice(0, 2), 4),
    ]
    options = {"mode": mode, "wrap_negative_indices": wrap}
    names = ("set", "add", "max")
    ours = [tnp.asarray(x).at[key].get(mode=mode, wrap_negative_indices=wrap) for key in batch]
    values = [np.arange(taken.size).reshape(taken.shape) + 100.0 for taken in ours]

    def oracle(x: jax.Array) -> object:
        return (
            [x.at[key].get(mode=mode, wrap_negative_indices=wrap) for key in batch],
            [jax_update(name, x, key, v, **options) for key, v in zip(batch, values, strict=True) for name in names],
        )

    updated = [
        update(name, tnp.asarray(x), key, v, **options) for key, v in zip(batch, values, strict=True) for name in names
    ]
    agree((ours, updated), jax.jit(oracle)(x))


def test_fill_values() -> None:
    for dtype in ("float32", "int8", "uint16", "bool", "complex64"):
        x = np.ones(3, dtype)
        for value in (None, np.ones((), dtype).item()):
            got = tnp.asarray(x).at[np.array([1, 4])].get(mode="fill", fill_value=value)
            agree(got, jnp.asarray(x).at[np.array([1, 4])].get(mode="fill", fill_value=value))
    same = [
        make_jaxpr(lambda x, v=v: x.at[np.array([9])].get(mode="fill", fill_value=v))(np.ones(3)) for v in (0.0, -0.0)
    ]
    assert same[0] != same[1]


@pytest.mark.sweep
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("kind", ["array", "scalar", "mixed"])
def test_batches(axes: tuple[int | None, int | None], kind: str) -> None:
    rng = np.random.default_rng(0)
    size = {"array": (2, 2), "scalar": (), "mixed": (2,)}[kind]
    x = np.moveaxis(rng.normal(size=(2, 3, 4)), 0, axes[0]) if axes[0] is not None else rng.normal(size=(3, 4))
    i = rng.integers(-4, 4, (2, *size) if axes[1] is not None else size)
    i = np.moveaxis(i, 0, min(axes[1], len(size))) if axes[1] is not None else i
    where = (axes[0], None if axes[1] is None else min(axes[1], len(size)))

    def key(i: object) -> tuple[object, ...]:
        return (slice(None), i) if kind != "mixed" else (np.array([[0], [1]]), i)

    expected = jax.jit(
        lambda x, i: [
            jax.vmap(lambda x, i: x[key(i)], where)(x, i),
            jax.vmap(lambda x, i: x.at[key(i)].set(7.0), where)(x, i),
            jax.vmap(lambda x, i: x.at[key(i)].add(7.0), where)(x, i),
            jax.vmap(jax.grad(lambda x, i: (x[key(i)] ** 2).sum()), where)(x, i),
            jax.vmap(jax.grad(lambda x, i: (x.at[key(i)].set(x[key(i)] * 2) ** 2).sum()), where)(x, i),
        ]
    )(x, i)
    got = [
        vmap(lambda x, i: x[key(i)], where)(x, i),
        vmap(lambda x, i: x.at[key(i)].set(7.0), where)(x, i),
        vmap(lambda x, i: x.at[key(i)].add(7.0), where)(x, i),
        vmap(grad(lambda x, i: (x[key(i)] ** 2).sum()), where)(x, i),
        vmap(grad(lambda x, i: (x.at[key(i)].set(x[key(i)] * 2) ** 2).sum()), where)(x, i),
    ]
    agree(got, expected)


def test_traced_scalars_are_dynamic_slices() -> None:
    jaxpr = make_jaxpr(lambda x, i: x[1:, i, None, 2])(np.zeros((3, 4, 5)), np.int32(1))
    names = [eqn.primitive.name for eqn in jaxpr.eqns]
    assert "dynamic_slice" in names
    assert "gather" not in names
    assert jaxpr.jaxpr.out_avals[0].shape == (2, 1)


@pytest.mark.parametrize(
    ("key", "name", "dtype", "program"),
    [
        (1, "set", "float64", ["broadcast_in_dim", "dynamic_update_slice"]),
        ((slice(None), slice(1, 3)), "add", "int64", ["slice", "broadcast_in_dim", "add", "dynamic_update_slice"]),
        ((slice(None), slice(1, 3)), "add", "float64", ["broadcast_in_dim", "scatter_add"]),
        (..., "set", "float64", ["broadcast_in_dim"]),
        (np.array([0, 2]), "add", "float64", ["broadcast_in_dim", "scatter_add"]),
    ],
)
def test_programs(key: Index, name: str, dtype: str, program: list[str]) -> None:
    jaxpr = make_jaxpr(lambda x: update(name, x, key, 2))(np.zeros((3, 4), dtype))
    assert sorted({eqn.primitive.name for eqn in jaxpr.eqns}) == sorted(program)


@pytest.mark.parametrize("name", ["set", "add", "multiply", "min", "max"])
def test_positions_may_take_64_bits(name: str) -> None:
    large = ShapedArray((2**31 + 8,), "float32")
    for key, at in ((2**31 + 1, 2**31 + 1), (-1, 2**31 + 7), (slice(2**31, None), 2**31)):
        jaxpr = make_jaxpr(lambda x, key=key: update(name, x, key, 2.0))(large).jaxpr
        assert jaxpr.out_avals == (large,)
        assert str(at) in str(jaxpr)


def test_the_type_stays() -> None:
    weak = tnp.broadcast_to(1.0, (3,))
    assert weak.at[0].set(np.float32(0.1)).weak_type
    assert weak.at[0].set(np.float32(0.1)).dtype == np.float64
    assert tnp.zeros(3, "int32").at[0].max(np.array(3)).dtype == np.int32
    assert tnp.zeros(3, "float32").at[0].add(np.float64(0.5)).dtype == np.float32
    assert tnp.zeros(3, "complex64").at[0].set(1.5).dtype == np.complex64
    agree(tnp.zeros(3, "uint8").at[1].subtract(1), jnp.zeros(3, "uint8").at[1].subtract(1))


def test_apply() -> None:
    x = tnp.arange(4.0)
    assert x.at[np.array([1, 3])].apply(lambda v: v * 10).tolist() == [0.0, 10.0, 2.0, 30.0]
    assert grad(lambda x: x.at[1:].apply(tnp.exp).sum())(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]


def test_repr() -> None:
    assert repr(tnp.zeros(1).at[0]) == "Array([0.], dtype=float64).at[0]"
    assert repr(tnp.zeros(1).at) == "Array([0.], dtype=float64).at"


def test_indices_of_all_kinds() -> None:
    x = np.arange(5) * 10
    key = np.array([3, 1])
    for index in (key, tnp.asarray(key), jnp.asarray(key), jit(lambda i: i)(key), key.astype(np.uint64)):
        assert tnp.asarray(x)[index].tolist() == [30, 10]
    mask = tnp.asarray(x) > 15
    assert tnp.asarray(x)[mask].tolist() == [20, 30, 40]
    assert jit(lambda x: x[x > 15] if x.shape == () else x[np.arange(5) > 3])(x).tolist() == [40]
    # Under differentiation elements are known, so masks may depend on them.
    assert grad(lambda x: x[x > 1.5].sum())(np.arange(4.0)).tolist() == [0.0, 0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (
            [0, 1],
            InputError,
            r"Using a non-tuple sequence for multidimensional indexing is not allowed.*arr\[array\(seq\)\]",
        ),
        (np.array([0.5]), IndexingError, "Indexer must have integer or boolean type, got indexer with type float64"),
        ((0, "a"), IndexingError, "Got 'a' of type str"),
        ((np.array([0]), 4), IndexingError, r"index 4 out of bounds for axis 1 with size 4, of f64\[3,4\]"),
        (
            np.array([True, False]),
            IndexingError,
            r"boolean index did not match shape of indexed array f64\[3,4\] from axis 0",
        ),
        ((np.array([0]), np.array([0]), np.array([0])), IndexingError, "Too many indices"),
        ((np.array([0]), ..., ...), IndexingError, "single ellipsis"),
        ((np.array([0, 1]), np.array([0, 1, 2])), ShapeError, "can't be broadcast together"),
    ],
)
def test_errors(key: Index, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tnp.zeros((3, 4))[key]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 3)])
@pytest.mark.parametrize("run", [lambda f: f, jit], ids=["eager", "jit"])
def test_where_there_is_nothing_to_index(shape: Shape, run: Callable[..., Callable[..., object]]) -> None:
    """Nothing is read where nothing is asked for, and nothing is written where there is nothing, as in jax; a single
    position that can't exist is an error."""
    i, x = np.array([0, 1]), np.zeros(shape)

    def taken(x: Any, key: object) -> Any:
        return x[key]

    def updated(x: Any, key: object) -> Any:
        return x.at[key].add(2.0, mode="drop")

    for function in taken, updated:
        for key in ((i,), (i, ...), (..., i), (i,) * len(shape), (0,), (..., -1), (slice(None), i)):
            try:
                expected = function(jnp.asarray(x), key)
            except (IndexError, TypeError, ValueError):
                with pytest.raises(IndexingError):
                    run(lambda x, key=key, function=function: function(x, key))(tnp.asarray(x))
            else:
                found = run(lambda x, key=key, function=function: function(x, key))(tnp.asarray(x))
                assert np.shape(np.asarray(found)) == expected.shape


def test_more_errors() -> None:
    with pytest.raises(ConcretizationError, match=r"can't be used as a boolean mask.*numpy.where"):
        jit(lambda x: x[x > 0])(np.ones(3))
    with pytest.raises(IndexingError, match=r"the bounds of a slice must be known.*lax.dynamic_slice"):
        jit(lambda x, i: x[:i])(np.ones(3), 1)
    with pytest.raises(IndexingError, match="index is out of bounds for axis 0 with size 0"):
        tnp.zeros((0, 2))[np.array([0])]
    with pytest.raises(IndexingError, match="index is out of bounds for axis 0 with size 0"):
        jit(lambda x, i: x[i])(np.zeros((0, 2)), 0)
    with pytest.raises(ImmutableArrayError, match=r"x = x.at\[...\].set\(y\)"):
        operator.setitem(vars(tnp)["zeros"](2), 0, 1)
    with pytest.raises(InputError, match="doesn't fit in uint8"):
        tnp.zeros(2, "uint8").at[0].set(300)
    with pytest.raises(InputError, match="unknown mode 'wrap'"):
        tnp.zeros(2).at[0].set(1.0, mode="wrap")
    with pytest.raises(ShapeError, match="can't be broadcast"):
        tnp.zeros((2, 3)).at[0].set(np.ones(2))
    with pytest.raises(UnsupportedError, match="only if unique_indices=True"):
        grad(lambda v: tnp.ones(3).at[np.array([0, 0])].multiply(v).sum())(np.ones(2))
    with pytest.raises(InputError, match="fill_value must be a scalar"):
        tnp.zeros(2).at[np.array([4])].get(mode="fill", fill_value=np.ones(2))


def test_tuples_within_a_key_are_positions() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    for key in ((..., (0, 2)), ((1, 0),), (0, (1, 2), (3, 0)), (slice(None), (2,), None)):
        np.testing.assert_array_equal(tnp.asarray(x)[key], x[key])
        np.testing.assert_array_equal(jit(lambda x, key=key: x[key])(x), x[key])
