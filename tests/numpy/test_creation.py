"""Arrays from nothing, from scalars, lists and NumPy's arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax.numpy as tnp
from tests.numpy.oracle import agree, numbers
from tinyjax import Array, ShapedArray, jit, make_jaxpr
from tinyjax.errors import InputError, ShapeError, TypingError, UnsupportedError
from tinyjax.ir.dtypes import HostArray

NESTED: list[object] = [
    2.0,
    2,
    True,
    1j,
    np.float32(2),
    [1.0, 2.0],
    [1, 2.5],
    [True, 2],
    [],
    [[1, 2], [3, 4]],
    (1, np.float32(2)),
    [np.int8(1), np.uint8(2)],
    np.arange(3, dtype=np.int16),
    [np.arange(2), [2, 3]],
]


@pytest.mark.parametrize("value", NESTED, ids=repr)
@pytest.mark.parametrize("dtype", [None, "float32", "int64", "complex64", "bool"])
def test_array_and_asarray(value: float, dtype: str | None) -> None:
    if isinstance(value, complex) and dtype in ("float32", "int64", "bool"):
        return  # jax refuses, or warns
    agree(tnp.array(value, dtype), jnp.array(value, dtype))
    agree(tnp.asarray(value, dtype), jnp.asarray(value, dtype))


def test_array_of_arrays_within_lists() -> None:
    x, y = np.float32(2), np.arange(2.0, dtype=np.float32)
    agree(tnp.array([tnp.asarray(x), 3]), jnp.array([jnp.asarray(x), 3]))
    agree(tnp.array([tnp.asarray(y), [1, 2]]), jnp.array([jnp.asarray(y), [1, 2]]))
    agree(tnp.array([jnp.asarray(y)]), jnp.array([jnp.asarray(y)]))
    jaxpr = make_jaxpr(lambda x: tnp.array([x, 2.0, 3.0 * x]))(1.0)
    assert "concatenate" in str(jaxpr)


def test_array_with_more_axes() -> None:
    agree(tnp.array(3.0, ndmin=2), jnp.array(3.0, ndmin=2))
    agree(tnp.array([3.0], ndmin=1), jnp.array([3.0], ndmin=1))


def test_arrays_are_copies_of_writeable_ones() -> None:
    source = np.arange(3)
    copies = [tnp.array(source), tnp.asarray(source), tnp.asarray(source[:]), tnp.copy(source)]
    view = source[:]
    view.flags.writeable = False
    copies.append(tnp.asarray(view))
    source[:] = 7
    assert all(x.tolist() == [0, 1, 2] for x in copies)


def test_results_share_no_memory_with_their_arguments() -> None:
    source = np.arange(4.0)
    x = tnp.asarray(source)
    for y in (x, x[1:], x.reshape(2, 2), x.T):
        elements = np.asarray(y)
        assert not np.shares_memory(elements, source)
        with pytest.raises(ValueError, match="read-only"):
            elements[...] = 1


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([[1, 2], [3]], ShapeError, "inhomogeneous"),
        ("text", InputError, "not an array|not supported"),
        (["a", "b"], InputError, "not an array|not supported"),
        ([None], InputError, "None of type NoneType is not an array"),
        (2**70, InputError, "doesn't fit in 64 bits"),
        ([2**70], InputError, "doesn't fit in 64 bits"),
    ],
)
def test_what_arrays_are_not_made_of(value: float, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tnp.array(value)


def test_arguments_that_are_not_supported() -> None:
    with pytest.raises(UnsupportedError, match="order"):
        tnp.array([1], order="F")
    with pytest.raises(UnsupportedError, match="always copied"):
        tnp.asarray([1], copy=False)
    with pytest.raises(TypingError, match="not supported"):
        tnp.zeros(2, np.dtype("U3"))
    with pytest.raises(ShapeError, match="at least 0"):
        tnp.zeros((2, -1))


def test_items_of_different_shapes() -> None:
    with pytest.raises(ShapeError, match=r"the items differ in shape: f64\[2\], f64\[3\]"):
        tnp.array([tnp.zeros(2), tnp.zeros(3)])


@pytest.mark.parametrize("dtype", [None, "float32", "int8", "bool", "bfloat16", "complex64"])
@pytest.mark.parametrize("shape", [(), 3, (2, 0), [2, 3]])
def test_constants(shape: int, dtype: str | None) -> None:
    agree(tnp.zeros(shape, dtype), jnp.zeros(shape, dtype))
    agree(tnp.ones(shape, dtype), jnp.ones(shape, dtype))
    agree(tnp.empty(shape, dtype), jnp.empty(shape, dtype))
    agree(tnp.full(shape, 2, dtype), jnp.full(shape, 2, dtype))


@pytest.mark.parametrize("value", [2.0, np.float32(2), np.arange(3)], ids=repr)
def test_full(value: float) -> None:
    agree(tnp.full((2, 3), value), jnp.full((2, 3), value))
    agree(tnp.full((2, 3), value, "int32"), jnp.full((2, 3), value, "int32"))


@pytest.mark.parametrize("x", [2.0, 3, np.ones((2, 3), np.float32), np.ones(2, bool)], ids=repr)
@pytest.mark.parametrize("options", [(), ("int8",), (None, (4,)), ("float64", 2)])
def test_constants_like(x: float, options: tuple[str, ...]) -> None:
    agree(tnp.zeros_like(x, *options), jnp.zeros_like(x, *options))
    agree(tnp.ones_like(x, *options), jnp.ones_like(x, *options))
    agree(tnp.empty_like(x, *options), jnp.empty_like(x, *options))
    agree(tnp.full_like(x, 2.5, *options), jnp.full_like(x, 2.5, *options))


def test_constants_like_a_type() -> None:
    assert tnp.zeros_like(ShapedArray((2,), "int8")).aval == ShapedArray((2,), "int8")


@pytest.mark.parametrize(
    "bounds",
    [(5,), (2.5,), (1, 7), (1, 7, 2), (7, 1, -2), (0, 1, 0.25), (0.0, -1.0, -0.3), (5, 1), (np.float32(3),),
     (np.int8(1), np.int8(5)), (1, 2.5), (0,), (1, np.float32(3), 0.5)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [None, "float32", "int32"])
def test_arange(bounds: tuple[float, ...], dtype: str | None) -> None:
    if dtype == "int32" and not all(float(bound).is_integer() for bound in bounds):
        return  # NumPy's own rule is accidental
    agree(tnp.arange(*bounds, dtype=dtype), jnp.arange(*bounds, dtype=dtype))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((0, 1, 0), "step can't be 0"), ((1j,), "not complex"), ((np.arange(2),), r"scalars, got i64\[2\]")],
)
def test_arange_errors(bounds: tuple[float, ...], message: str) -> None:
    with pytest.raises((InputError, ShapeError), match=message):
        tnp.arange(*bounds)


@pytest.mark.parametrize("num", [0, 1, 2, 5])
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize(
    "bounds",
    [(0, 1), (2.0, -3.0), (np.float32(1), 4), (np.arange(2), 5.0), (1 + 1j, 0), (np.zeros((2, 1)), np.ones(3))],
)
def test_linspace(num: int, endpoint: bool, bounds: tuple[float, float]) -> None:
    agree(tnp.linspace(*bounds, num, endpoint), jnp.linspace(*bounds, num, endpoint))


def test_linspace_options() -> None:
    x = np.arange(3.0)
    agree(tnp.linspace(x, 9, 4, axis=-1), jnp.linspace(x, 9, 4, axis=-1))
    agree(tnp.linspace(0, 9, 4, dtype="int32"), jnp.linspace(0, 9, 4, dtype="int32"))
    agree(tnp.linspace(0, 9, 4, retstep=True), jnp.linspace(0, 9, 4, retstep=True))
    agree(tnp.linspace(0, 9, 1, retstep=True), jnp.linspace(0, 9, 1, retstep=True))
    agree(tnp.logspace(0, 2, 5), jnp.logspace(0, 2, 5))
    agree(tnp.logspace(0, 2, 5, base=2, dtype="float32"), jnp.logspace(0, 2, 5, base=2, dtype="float32"))
    with pytest.raises(ShapeError, match="num is at least 0"):
        tnp.linspace(0, 1, -1)


@pytest.mark.parametrize("k", [-4, -1, 0, 2, 5])
@pytest.mark.parametrize(("rows", "columns"), [(3, None), (2, 4), (4, 2), (0, 2)])
def test_matrices(rows: int, columns: int | None, k: int) -> None:
    agree(tnp.eye(rows, columns, k), jnp.eye(rows, columns, k))
    agree(tnp.eye(rows, columns, k, dtype="int8"), jnp.eye(rows, columns, k, dtype="int8"))
    agree(tnp.tri(rows, columns, k, dtype=float), jnp.tri(rows, columns, k, dtype=float))
    x = numbers("float32", 2, rows, columns or rows)
    agree(tnp.tril(x, k), jnp.tril(x, k))
    agree(tnp.triu(x, k), jnp.triu(x, k))


def test_identity_and_the_dtype_of_tri() -> None:
    agree(tnp.identity(3), jnp.identity(3))
    assert tnp.tri(2).dtype == np.tri(2).dtype  # jax has float32


@pytest.mark.parametrize("k", [-2, 0, 1])
@pytest.mark.parametrize("shape", [(3,), (0,), (3, 4), (4, 2)])
def test_diag(shape: tuple[int, ...], k: int) -> None:
    x = numbers("float64", *shape)
    agree(tnp.diag(x, k), jnp.diag(x, k))


@pytest.mark.parametrize("call", [lambda: tnp.tril(np.zeros(3)), lambda: tnp.diag(np.zeros((1, 1, 1)))])
def test_matrices_of_the_wrong_rank(call: object) -> None:
    assert callable(call)
    with pytest.raises(ShapeError, match="two axes|a vector or a matrix"):
        call()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid(count: int, indexing: str, sparse: bool) -> None:
    vectors = [np.arange(n + 2) for n in range(count)]
    ours = tnp.meshgrid(*vectors, sparse=sparse, indexing="xy" if indexing == "xy" else "ij")
    agree(ours, jnp.meshgrid(*vectors, sparse=sparse, indexing=indexing))


def _everything(x: Array | HostArray) -> list[Array]:
    return [tnp.zeros((2, 3)), tnp.arange(4), tnp.eye(2), tnp.full((2,), x), tnp.linspace(x, 2.0, 3), tnp.ones_like(x)]


def test_constants_are_staged() -> None:
    jaxpr = make_jaxpr(_everything)(1.0)
    assert not jaxpr.consts
    assert str(jaxpr).count("iota") == 4
    for staged, eager in zip(jit(_everything)(1.0), _everything(np.asarray(1.0)), strict=True):
        np.testing.assert_allclose(np.asarray(staged), np.asarray(eager))


def test_arrays_of_jax_are_taken_as_they_are() -> None:
    x = jax.device_put(np.arange(3.0))
    assert tnp.asarray(x).tolist() == [0.0, 1.0, 2.0]
    assert tnp.asarray(x, "float32").dtype == np.float32
