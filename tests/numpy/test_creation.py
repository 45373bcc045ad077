"""Arrays from nothing, from scalars, lists and NumPy's arrays."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax.numpy as tnp
from tests.numpy.oracle import agree, check, numbers
from tinyjax import Array, ArrayLike, ShapedArray, jit, make_jaxpr
from tinyjax.errors import ChoiceError, ConcretizationError, InputError, ShapeError, TypingError, UnsupportedError

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
@pytest.mark.parametrize("dtype", [None, "float32", "bool"])
def test_array_and_asarray(value: float, dtype: str | None) -> None:
    if isinstance(value, complex) and dtype is not None:
        return  # jax refuses, or warns
    check("array", value, dtype)
    check("asarray", value, dtype)


def test_array_of_arrays_within_lists() -> None:
    x, y = np.float32(2), np.arange(2.0, dtype=np.float32)
    agree(tnp.array([tnp.asarray(x), 3]), jnp.array([jnp.asarray(x), 3]))
    agree(tnp.array([tnp.asarray(y), [1, 2]]), jnp.array([jnp.asarray(y), [1, 2]]))
    check("array", [jnp.asarray(y)])
    jaxpr = make_jaxpr(lambda x: tnp.array([x, 2.0, 3.0 * x]))(1.0)
    assert "stack" in str(jaxpr)


def test_array_with_more_axes() -> None:
    check("array", 3.0, ndmin=2)
    check("array", [3.0], ndmin=1)


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
        ([None], InputError, "None is not a valid value for array"),
        (2**70, InputError, "doesn't fit in 64 bits"),
        ([2**70], InputError, "doesn't fit in int64"),
    ],
)
def test_what_arrays_are_not_made_of(value: float, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tnp.array(value)


def test_arguments_that_are_not_supported() -> None:
    with pytest.raises(UnsupportedError, match="order"):
        tnp.array([1], order="F")
    with pytest.raises(ChoiceError, match="always copied"):
        tnp.asarray([1], copy=False)
    with pytest.raises(TypingError, match="not supported"):
        tnp.zeros(2, np.dtype("U3"))
    with pytest.raises(ShapeError, match="at least 0"):
        tnp.zeros((2, -1))


def test_items_of_different_shapes() -> None:
    with pytest.raises(ShapeError, match=r"the items differ in shape: f64\[2\], f64\[3\]"):
        tnp.array([tnp.zeros(2), tnp.zeros(3)])


@pytest.mark.parametrize("dtype", [None, "int8", "bfloat16"])
@pytest.mark.parametrize("shape", [(), 3, (2, 0), [2, 3]])
def test_constants(shape: int, dtype: str | None) -> None:
    check("zeros", shape, dtype)
    check("ones", shape, dtype)
    check("empty", shape, dtype)
    check("full", shape, 2, dtype)


@pytest.mark.parametrize("value", [2.0, np.float32(2), np.arange(3)], ids=repr)
def test_full(value: float) -> None:
    check("full", (2, 3), value)
    check("full", (2, 3), value, "int32")


@pytest.mark.parametrize("x", [2.0, 3, np.ones((2, 3), np.float32), np.ones(2, bool)], ids=repr)
@pytest.mark.parametrize("options", [(), ("int8",), (None, (4,)), ("float64", 2)])
def test_constants_like(x: float, options: tuple[str, ...]) -> None:
    check("zeros_like", x, *options)
    check("ones_like", x, *options)
    check("empty_like", x, *options)
    check("full_like", x, 2.5, *options)


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
    check("arange", *bounds, dtype=dtype)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((1j,), "not complex"), ((np.arange(2),), r"scalars, got i64\[2\]")],
)
def test_arange_errors(bounds: tuple[ArrayLike], message: str) -> None:
    with pytest.raises((InputError, ShapeError), match=message):
        tnp.arange(*bounds)
    with pytest.raises(InputError, match="step can't be 0"):
        tnp.arange(0, 1, 0)


@pytest.mark.parametrize("num", [0, 1, 5])
@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize(
    "bounds",
    [(0, 1), (2.0, -3.0), (np.float32(1), 4), (np.arange(2), 5.0), (1 + 1j, 0), (np.zeros((2, 1)), np.ones(3))],
)
def test_linspace(num: int, endpoint: bool, bounds: tuple[float, float]) -> None:
    check("linspace", *bounds, num, endpoint)


def test_linspace_options() -> None:
    x = np.arange(3.0)
    check("linspace", x, 9, 4, axis=-1)
    check("linspace", 0, 9, 4, dtype="int32")
    check("linspace", 0, 9, 4, retstep=True)
    check("linspace", 0, 9, 1, retstep=True)
    check("logspace", 0, 2, 5)
    check("logspace", 0, 2, 5, base=2, dtype="float32")
    with pytest.raises(ShapeError, match="num is at least 0"):
        tnp.linspace(0, 1, -1)


@pytest.mark.parametrize("k", [-4, 0, 2])
@pytest.mark.parametrize(("rows", "columns"), [(3, None), (2, 4), (0, 2)])
def test_matrices(rows: int, columns: int | None, k: int) -> None:
    check("eye", rows, columns, k)
    check("eye", rows, columns, k, dtype="int8")
    check("tri", rows, columns, k, dtype=float)
    x = numbers("float32", 2, rows, columns or rows)
    check("tril", x, k)
    check("triu", x, k)


def test_identity_and_the_dtype_of_tri() -> None:
    check("identity", 3)
    assert tnp.tri(2).dtype == np.tri(2).dtype  # jax has float32


@pytest.mark.parametrize("k", [-2, 0, 1])
@pytest.mark.parametrize("shape", [(3,), (0,), (3, 4), (4, 2)])
def test_diag(shape: tuple[int, ...], k: int) -> None:
    x = numbers("float64", *shape)
    check("diag", x, k)


@pytest.mark.parametrize("call", [lambda: tnp.tril(np.zeros(3)), lambda: tnp.diag(np.zeros((1, 1, 1)))])
def test_matrices_of_the_wrong_rank(call: object) -> None:
    assert callable(call)
    with pytest.raises(ShapeError, match=r"two axes|a vector or a matrix"):
        call()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid(count: int, indexing: str, sparse: bool) -> None:
    vectors = [np.arange(n + 2) for n in range(count)]
    ours = tnp.meshgrid(*vectors, sparse=sparse, indexing="xy" if indexing == "xy" else "ij")
    agree(ours, jnp.meshgrid(*vectors, sparse=sparse, indexing=indexing))


def _everything(x: ArrayLike) -> list[Array]:
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


@pytest.mark.parametrize(
    "f", [tnp.zeros, tnp.arange, lambda n: tnp.ones((2, n)), tnp.eye, lambda n: tnp.zeros(4).reshape(n, 2)]
)
def test_traced_sizes(f: Callable[[Array], Array]) -> None:
    with pytest.raises(ConcretizationError, match="it has no elements yet"):
        make_jaxpr(f)(3)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("zeros", (2.5,), "a size is an integer, got 2.5"),
        ("eye", (2.5,), "a size is an integer, got 2.5"),
        ("linspace", (0, 1, 2.5), "linspace: num is an integer, got 2.5"),
        ("reshape", (np.zeros(4), "ab"), "reshape: a size is an integer, got 'a'"),
        ("tile", (np.zeros(4), 1.5), "tile: a number of repetitions is an integer, got 1.5"),
        ("sum", (np.zeros(4), 0.5), "sum: an axis is an integer, got 0.5"),
    ],
)
def test_sizes_of_the_wrong_kind(name: str, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        getattr(tnp, name)(*arguments)
