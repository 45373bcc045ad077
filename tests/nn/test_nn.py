"""`tinyjax.nn` against `jax.nn`: values, dtypes and derivatives, also at kinks, of every option."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.numpy.oracle import words
from tinyjax import Array, grad, jit, make_jaxpr, nn, vmap
from tinyjax.errors import ChoiceError, ShapeError, TypingError
from tinyjax.ir.dtypes import BFLOAT16, HostArray

X = np.array([-1000.0, -6, -3, -2.5, -1, -0.5, -0.0, 0.0, 1e-3, 0.5, 1, 2, 3, 6, 7, 1000])
NAMES = words(
    "identity relu relu6 leaky_relu elu celu selu sigmoid log_sigmoid softplus soft_sign silu swish mish gelu hard_tanh"
    " hard_sigmoid hard_silu hard_swish sparse_plus sparse_sigmoid squareplus tanh log1mexp"
)
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NAMES),
    ("leaky_relu", {"negative_slope": 0.3}), ("elu", {"alpha": 0.5}), ("celu", {"alpha": 2.0}),
    ("gelu", {"approximate": False}), ("squareplus", {"b": 1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_activations(name: str, options: Mapping[str, Any]) -> None:
    ours, theirs = getattr(nn, name), getattr(jax.nn, name)
    x = np.abs(X[X != 0]) if name == "log1mexp" else X
    for dtype in ("float64", "float32", BFLOAT16):
        value, expected = np.asarray(ours(x.astype(dtype), **options)), np.asarray(theirs(x.astype(dtype), **options))
        assert value.dtype == expected.dtype
        near = 1e-14 if dtype == "float64" else 2e-2 if dtype == BFLOAT16 else 2e-6
        np.testing.assert_allclose(value.astype(float), expected.astype(float), near, 1e-7)


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_derivatives_of_activations(name: str, options: Mapping[str, Any]) -> None:
    """Twice, also at kinks."""
    ours, theirs = getattr(nn, name), getattr(jax.nn, name)
    x = np.array([-np.inf, 0.01, 0.5, 1, 3, 30]) if name == "log1mexp" else X
    slope = np.asarray(vmap(grad(lambda x: ours(x, **options)))(x))
    expected = np.asarray(jax.vmap(jax.grad(lambda x: theirs(x, **options)))(x))
    np.testing.assert_allclose(slope, expected, 1e-12, 1e-14)
    second = np.asarray(vmap(grad(grad(lambda x: ours(x, **options))))(x))
    expected = np.asarray(jax.vmap(jax.grad(jax.grad(lambda x: theirs(x, **options))))(x))
    np.testing.assert_allclose(second, expected, 1e-10, 1e-12)


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "hard_tanh", "gelu", "softplus", "one_hot"])
def test_integers(name: str) -> None:
    x = np.arange(-2, 4)
    args = (3,) if name == "one_hot" else ()
    found, expected = getattr(nn, name)(x, *args), getattr(jax.nn, name)(x, *args)
    assert found.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint32", "int64"])
@pytest.mark.parametrize(
    "name", words("relu relu6 hard_tanh hard_sigmoid hard_silu sparse_plus sparse_sigmoid squareplus softplus mish")
)
def test_integers_of_every_size(name: str, dtype: str) -> None:
    """Values, dtypes and weak types are JAX's: numbers in them are weak, so integers become float64. But hard_tanh of
    an unsigned number isn't less than -1."""
    x = np.arange(8).astype(dtype)
    found, expected = getattr(nn, name)(x), getattr(jax.nn, name)(x)
    assert (found.dtype, tj.typeof(found).weak_type) == (expected.dtype, expected.weak_type)
    wanted = np.minimum(x, 1) if name == "hard_tanh" else np.asarray(expected)
    np.testing.assert_allclose(np.asarray(found), wanted, 1e-6)
    np.testing.assert_allclose(np.asarray(jit(getattr(nn, name))(x)), wanted, 1e-6)


ROWS = np.random.default_rng(0).normal(size=(3, 4, 6))
WHERE = np.random.default_rng(1).uniform(size=(3, 4, 6)) < 0.6
WHERE[..., 0] = True
REDUCED: list[tuple[str, dict[str, Any]]] = [
    *((name, {"axis": axis}) for name in ("softmax", "log_softmax", "standardize") for axis in (-1, 0, (0, 2), None)),
    *((name, {"where": WHERE}) for name in ("softmax", "log_softmax", "standardize", "logmeanexp", "logsumexp")),
    *((name, {"axis": 1, "keepdims": keep}) for name in ("logmeanexp", "logsumexp") for keep in (False, True)),
    ("standardize", {"algorithm": "stable", "axis": (0, 1)}),
    ("standardize", {"mean": 0.5, "variance": 2.0, "epsilon": 0.1}),
    ("glu", {"axis": 1}), ("glu", {}),
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "options"), REDUCED, ids=[f"{name}-{list(o)}" for name, o in REDUCED])
def test_sums_over_axes(name: str, options: Mapping[str, Any]) -> None:
    ours, theirs = getattr(nn, name), getattr(jax.nn, name)
    np.testing.assert_allclose(np.asarray(ours(ROWS, **options)), np.asarray(theirs(ROWS, **options)), 1e-12)

    def total(f: Callable[..., Any], where: Callable[..., Any]) -> Callable[[Any], Any]:
        weights = np.cos(np.arange(ROWS.size)).reshape(ROWS.shape)

        def of(x: Any) -> Any:
            out = f(x, **options)
            kept = where(out > -np.inf, out, 0.0)
            return (kept * weights[: out.shape[0], : out.shape[1], : out.shape[2]] if out.ndim == 3 else kept).sum()

        return of

    found = grad(total(ours, tnp.where))(ROWS)
    np.testing.assert_allclose(np.asarray(found), jax.grad(total(theirs, jax.numpy.where))(ROWS), 1e-9, 1e-12)


def test_relu_is_flat_at_zero() -> None:
    at = np.array([-1.0, 0.0, 1.0, 6.0, 7.0])
    assert vmap(grad(nn.relu))(at).tolist() == [0, 0, 1, 1, 1]
    assert vmap(grad(nn.relu6))(at).tolist() == [0, 0, 1, 0, 0]


def test_softmax_of_nothing_and_of_infinities() -> None:
    rows = np.array([[-np.inf, 0, 1], [-np.inf] * 3, [np.inf, 0, 1]])
    none = np.zeros(rows.shape, bool)
    for name in ("softmax", "log_softmax"):
        ours, theirs = getattr(nn, name), getattr(jax.nn, name)
        np.testing.assert_allclose(np.asarray(ours(rows)), np.asarray(theirs(rows)))
        np.testing.assert_allclose(np.asarray(ours(rows, where=none)), np.asarray(theirs(rows, where=none)))


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    x = np.array([[0, 2, -1], [3, 1, 7]])
    found = nn.one_hot(x, 4, dtype="float32", axis=axis)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(jax.nn.one_hot(x, 4, dtype="float32", axis=axis)))
    assert found.dtype == np.float32
    listed: Any = [0, 2]
    np.testing.assert_array_equal(nn.one_hot(listed, 4, axis=axis), jax.nn.one_hot(listed, 4, axis=axis))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool"])
def test_one_hot_of_more_classes_than_the_dtype_has_numbers(dtype: str) -> None:
    """Where JAX counts the classes in that dtype, and has two ones for a number, or refuses bools."""
    x = np.array([0, 1, 100]).astype(dtype)
    for function in (nn.one_hot, jit(nn.one_hot, static_argnums=1)):
        np.testing.assert_array_equal(np.asarray(function(x, 300)), np.eye(300)[x.astype(int)])
    mapped = vmap(lambda i: nn.one_hot(x, 300, axis="i"), axis_name="i")(np.arange(300))
    np.testing.assert_array_equal(np.asarray(mapped), np.eye(300)[x.astype(int)].T)


def test_one_hot_along_a_mapped_axis() -> None:
    places = np.arange(3)
    found = vmap(lambda _: nn.one_hot(np.array([0, 2]), 3, axis="i"), axis_name="i")(places)
    np.testing.assert_array_equal(np.asarray(found), np.eye(3)[[0, 2]].T)


def _arrays(dtype: str, groups: int = 4) -> tuple[HostArray, HostArray, HostArray]:
    rng = np.random.default_rng(2)
    shapes = [(2, 5, 4, 3), (2, 7, groups, 3), (2, 7, groups, 3)]
    q, k, v = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    return q, k, v


MASK = np.random.default_rng(3).uniform(size=(2, 4, 5, 7)) < 0.7
ATTENTION: list[dict[str, Any]] = [
    {}, {"is_causal": True}, {"scale": 0.3}, {"mask": MASK}, {"mask": MASK[:, :1]}, {"mask": MASK[0]},
    {"bias": MASK * 2.5}, {"bias": MASK[:1, :1] * 1.5, "mask": MASK}, {"local_window_size": 1},
    {"local_window_size": (2, 0), "is_causal": True}, {"query_seq_lengths": np.array([3, 5], "int32")},
    {"key_value_seq_lengths": np.array([3, 7], "int32")}, {"return_residual": True, "mask": MASK},
    {"query_seq_lengths": np.array([2, 5], "int32"), "key_value_seq_lengths": np.array([3, 1], "int32")},
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("options", ATTENTION, ids=[str(list(o)) for o in ATTENTION])
def test_attention(options: Mapping[str, Any], groups: int) -> None:
    arrays = _arrays("float32", groups)
    found = nn.dot_product_attention(*arrays, **options)
    expected = jax.nn.dot_product_attention(*arrays, **options)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), 2e-4, 1e-5)


@pytest.mark.sweep
def test_attention_without_a_batch_and_derivatives() -> None:
    q, k, v = (x[0] for x in _arrays("float32"))
    found, expected = nn.dot_product_attention(q, k, v), jax.nn.dot_product_attention(q, k, v)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-5)
    lists = nn.dot_product_attention(q.tolist(), k.tolist(), v.tolist(), mask=np.ones((1, 1, 1), bool).tolist())
    np.testing.assert_allclose(np.asarray(lists), np.asarray(expected), 1e-5)
    for i in range(3):
        ours = jit(grad(lambda *x: nn.dot_product_attention(*x, is_causal=True).sum(), i))(q, k, v)
        theirs = jax.grad(lambda *x: jax.nn.dot_product_attention(*x, is_causal=True).sum(), i)(q, k, v)
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), 1e-4, 1e-5)


def test_attention_of_half_precision_adds_in_single() -> None:
    arrays = [x.astype(BFLOAT16) for x in _arrays("float32")]
    found, expected = nn.dot_product_attention(*arrays), jax.nn.dot_product_attention(*arrays)
    assert found.dtype == BFLOAT16
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), 2e-2, 1e-2)


def test_scaled_matmul() -> None:
    rng = np.random.default_rng(4)
    lhs, rhs = rng.normal(size=(2, 3, 64)).astype("float32"), rng.normal(size=(2, 5, 64)).astype("float32")
    left, right = np.exp2(rng.integers(-2, 3, (2, 3, 2))), np.exp2(rng.integers(-2, 3, (2, 5, 2)))
    found = nn.scaled_matmul(lhs, rhs, left.astype("float32"), right.astype("float32"))
    expected = np.einsum("bmk,bnk->bmn", lhs * np.repeat(left, 32, 2), rhs * np.repeat(right, 32, 2))
    np.testing.assert_allclose(np.asarray(found), expected, 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.glu(np.ones(3)), ShapeError, "no two equal halves"),
        (lambda: nn.standardize(np.ones(3), algorithm="slow"), ChoiceError, "algorithm is 'fast' or 'stable'"),  # type: ignore[arg-type]
        (lambda: nn.dot_product_attention(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2))), ShapeError, "query is"),
        (lambda: nn.dot_product_attention(*_arrays("float32", 3)), ShapeError, "multiple of the others'"),
        (lambda: nn.dot_product_attention(*_arrays("float32"), mask=MASK * 1.0), TypingError, "the mask has bools"),
        (lambda: nn.dot_product_attention(*_arrays("float32"), mask=MASK[:, :3]), ShapeError, "mask has 1 or 4 heads"),
        (lambda: nn.scaled_matmul(np.ones((1, 2, 4)), np.ones((1, 2, 4)), np.ones((1, 2, 3)), np.ones((1, 2, 2))),
         ShapeError, r"the scales are \[batch, rows, blocks\]"),
    ],
)  # fmt: skip
def test_errors(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax, nn.logsumexp])
def test_the_greatest_element_is_not_differentiated(function: Callable[[Array], Array]) -> None:
    """It moves all elements, which changes no result: of its derivative nothing is staged."""
    names = [eqn.primitive.name for eqn in make_jaxpr(grad(lambda x: function(x).sum()))(np.ones((2, 3))).jaxpr.eqns]
    assert "reduce_max" in names
    assert "eq" not in names
