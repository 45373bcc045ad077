"""Each primitive's function, against jax.lax."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.numpy.oracle import DTYPES, Function, agree, compare, numbers, sample, words
from tinyjax import Array, grad, lax, make_jaxpr, vmap
from tinyjax.errors import AxisNameError, InputError, IntegerSizeError, ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.shapes import Shape

UNARY = words(
    """
    abs acos acosh asin asinh atan atanh bitwise_not cbrt ceil clz conj cos cosh digamma erf erf_inv erfc exp exp2
    expm1 floor imag is_finite lgamma log log1p logistic neg population_count real reciprocal round rsqrt sign sin
    sinh sqrt square tan tanh stop_gradient
    """
)
BINARY = words(
    """
    add atan2 bitwise_and bitwise_or bitwise_xor complex div eq ge gt le lt max min mul ne nextafter pow rem shift_left
    shift_right_arithmetic shift_right_logical sub
    """
)
#: jax computes the reciprocal of an integer, and conj of all real numbers.
UNLIKE_JAX: dict[str, tuple[str, ...]] = {
    "conj": ("float16", "bfloat16", "bool", "int8", "int32", "int64", "uint8", "uint64")
}
SHAPED: dict[str, tuple[object, ...]] = {
    "broadcast": ((2,),),
    "broadcast_in_dim": ((3, 4, 5), (0, 1)),
    "broadcast_to_rank": (4,),
    "collapse": (0, 2),
    "convert_element_type": ("int32",),
    "cumsum": (1,),
    "cumprod": (0, True),
    "cummax": (),
    "cummin": (1,),
    "cumlogsumexp": (1, True),
    "argmax": (1, "int32"),
    "argmin": (0, "int64"),
    "expand_dims": ((0, -1),),
    "index_in_dim": (-1, 1, False),
    "integer_pow": (3,),
    "pad": (np.float32(7), ((1, -1, 0), (0, 2, 1))),
    "reduce_precision": (5, 4),
    "reduce_sum": ((0,),),
    "reduce_prod": ((1,),),
    "reduce_max": ((0, 1),),
    "reduce_min": ((1,),),
    "reshape": ((2, 6),),
    "reshape ": ((6, 2), (1, 0)),
    "rev": ((0,),),
    "slice": ((0, 1), (3, 4), (2, 1)),
    "slice_in_dim": (-2, None, 1, 1),
    "sort": (),
    "sort ": (0,),
    "split": ((1, 3), 1),
    "squeeze": ((),),
    "transpose": ((1, 0),),
    "full_like": (2,),
    "full_like ": (2.5, "int8", (2,)),
    "top_k": (2,),
    "bitcast_convert_type": ("int32",),
}


def _functions(names: list[str]) -> dict[str, tuple[Function, Function]]:
    return {name: (getattr(lax, name), getattr(jax.lax, name)) for name in names}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(dtype: str) -> None:
    functions = _functions(UNARY)
    x = numbers(dtype, 7)
    compare(functions, [x], [x])


@pytest.mark.parametrize("dtype", DTYPES)
def test_binary(dtype: str) -> None:
    x, y = numbers(dtype, 9), numbers(dtype, 9, seed=1)
    functions = _functions(BINARY)
    compare(functions, [x, y], [x, y])
    if dtype in ("bool", "int32", "float64"):
        compare(functions, [x, y[0]], [x, np.full(9, y[0])])


@pytest.mark.parametrize("dtype", ["int32", "float64"])
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 1), (1, 4)), ((2, 3, 4), (2, 1, 4)), ((1,), (3,)), ((0,), (1,)), ((), (1, 2)), ((3,), (2, 3)), ((2,), (3,))],
)
def test_operands_are_repeated_along_axes_of_size_1(dtype: str, left: Shape, right: Shape) -> None:
    x, y = numbers(dtype, *left, seed=1), numbers(dtype, *right, seed=2)
    compare(_functions(BINARY), [x, y], [x, y])
    compare(_functions(BINARY), [y, x], [y, x])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min", "atan2"])
def test_derivatives_of_repeated_operands(name: str) -> None:
    x, y = numbers("float64", 3, 1, seed=1), numbers("float64", 1, 4, seed=2)
    ours, theirs = getattr(lax, name), getattr(jax.lax, name)
    found = grad(lambda *args: ours(*args).sum(), (0, 1))(x, y)
    agree(found, jax.grad(lambda *args: theirs(*args).sum(), (0, 1))(x, y))


def _check(name: str, *args: object, scale: float = 1.0) -> None:
    """Fails unless our function of this name gives what jax's does."""
    agree(getattr(lax, name)(*args), getattr(jax.lax, name)(*map(_of_jax, args)), name, scale)


def _of_jax(x: object) -> object:
    return jnp.asarray(x) if isinstance(x, np.ndarray) else tuple(map(_of_jax, x)) if isinstance(x, tuple) else x


def _call(function: Function, arguments: tuple[object, ...]) -> Function:
    return lambda x: function(x, *arguments)


def test_shapes_and_reductions() -> None:
    calls: dict[str, tuple[Function, Function]] = {}
    for key, arguments in SHAPED.items():
        name = key.strip()
        calls[key] = _call(getattr(lax, name), arguments), _call(getattr(jax.lax, name), arguments)
    low, high = np.float32(0.0), np.float32(1.0)
    calls["clamp"] = lambda x: lax.clamp(low, x, high), lambda x: jax.lax.clamp(low, x, high)
    x = numbers("float32", 3, 4)
    compare(calls, [x], [x])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32"])
def test_bitwise_reductions(dtype: str) -> None:
    x = numbers(dtype, 3, 4)
    functions = _functions(["reduce_and", "reduce_or", "reduce_xor"])
    calls = {name: (_call(f, ((0,),)), _call(g, ((0,),))) for name, (f, g) in functions.items()}
    compare(calls, [x], [x])


def test_products() -> None:
    x, y = numbers("float32", 2, 3, 4), numbers("float32", 2, 4, 3)
    dims = ((2,), (1,)), ((0,), (0,))
    _check("dot_general", x, y, dims)
    _check("dot_general", x, y, dims, "highest", "float64", scale=1e7)
    _check("batch_matmul", x, y)
    _check("dot", x[0], y[0])
    _check("dot", x[0, 0], y[0])


def test_polygamma() -> None:
    _check("polygamma", np.arange(3.0), np.array([0.5, 1.5, 4.0]))


def test_sorting_and_joining() -> None:
    keys, values = numbers("int32", 6), numbers("float32", 6)
    _check("sort_key_val", keys, values)
    _check("sort", (keys, values), -1, True, 2)
    _check("concatenate", (keys, keys), 0)
    _check("top_k", sample("float64"), 4)
    for axis in (0, 1, 2, -1, -2, -3):
        x = np.round(numbers("float32", 2, 3, 4)) + 0.0  # some elements are equal, none is -0.0
        agree(lax.top_k(x, 2, axis=axis), jax.lax.top_k(jnp.asarray(x), 2, axis=axis))


def test_choices() -> None:
    which, x, y = np.array([0, 2, 1], np.int32), np.arange(3.0), np.ones(3)
    _check("select_n", which, x, y, y * 5)
    _check("select", which > 0, x, y)
    _check("select", True, x, y)


def test_creation() -> None:
    _check("iota", "int32", 4)
    _check("broadcasted_iota", "float32", (2, 3), 1)
    _check("full", (2, 3), 1.5)
    _check("full", (2, 3), 1.5, "int8")


def test_python_scalars_take_the_other_dtype() -> None:
    for dtype in ("float32", "int8", "complex64"):
        x, two = numbers(dtype, 2), {"f": 2.0, "i": 2, "c": 2 + 0j}[np.dtype(dtype).kind]
        agree(lax.add(x, two), jnp.asarray(x) + 2)
        agree(lax.mul(two, x), 2 * jnp.asarray(x))
    agree(lax.add(1.0, np.float32(2)), jnp.asarray(np.float32(3)))
    assert lax.clamp(0.0, np.float32(1.5), 1.0).item() == 1.0
    assert str(make_jaxpr(lambda x: lax.mul(x, 2.0))(1.5)) == "{ lambda ; a:~f64[]. let b:~f64[] = mul a 2.0 in (b,) }"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: lax.add(np.ones(2), np.ones(2, np.float32)),
            TypingError,
            r"add requires arguments to have the same dtypes; got f64",
        ),
        (lambda: lax.add(np.ones(2, int), 1.5), TypingError, "the same dtypes; got i64"),
        (lambda: lax.add(np.ones(2), np.ones(3)), ShapeError, r"add needs operands of equal shapes, or scalars; got"),
        (lambda: lax.add(np.ones(3), np.ones((2, 3))), ShapeError, "equal shapes"),
        (lambda: lax.sin(np.arange(3)), TypingError, "sin does not accept i64 operands; it accepts floats"),
        (lambda: lax.reshape(np.ones(3), (2,)), ShapeError, "reshape: can't give"),
        (lambda: lax.reduce_sum(np.ones(3), (1,)), ShapeError, r"reduce_sum: axes \(1,\)"),
        (lambda: lax.transpose(np.ones((2, 3)), (0,)), ShapeError, "is not a permutation"),
        (lambda: lax.concatenate([], 0), ShapeError, "at least one operand"),
        (lambda: lax.dot(np.ones(()), np.ones(3)), ShapeError, "dot takes vectors and matrices"),
        (lambda: lax.batch_matmul(np.ones(3), np.ones(3)), ShapeError, "at least 2"),
        (lambda: lax.dot_general(np.ones(3), np.ones(2), (((0,), (0,)), ((), ()))), ShapeError, "contracting axes"),
        (lambda: lax.full((2,), np.ones(2)), ShapeError, "the fill value must be a scalar"),
        (lambda: lax.top_k(np.ones(2), 3), ShapeError, "k must be between 0 and"),
        (lambda: lax.top_k(np.ones(2), 1, axis=1), ShapeError, r"top_k: f64\[2\] has no axis 1"),
        (
            lambda: make_jaxpr(lambda x: lax.top_k(x, 1))(ShapedArray((2**31 + 1,), "bool")),
            ShapeError,
            "returns int32 indices",
        ),
        (lambda: lax.expand_dims(np.ones(2), (0, 0)), ShapeError, "not distinct axes"),
        (lambda: lax.sort(()), ShapeError, "at least one operand"),
        (lambda: lax.iota("bool", 3), TypingError, "iota can't count in bool"),
        (lambda: lax.psum(1.0, "i"), AxisNameError, "unbound axis name: 'i'"),
    ],
)
def test_errors(call: object, error: type[Exception], message: str) -> None:
    assert callable(call)
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("x", "message"), [([1.0], r"\[1.0\] of type list"), ("x", "'x' of type str"), (None, "None of")]
)
def test_what_is_not_an_array(x: float, message: str) -> None:
    for call in (lax.sin, lax.neg, lambda x: lax.add(x, 1.0), lambda x: lax.reduce_sum(x, (0,))):
        with pytest.raises(InputError, match=message):
            call(x)


@pytest.mark.parametrize("name", ["psum", "pmean", "pmax", "pmin"])
def test_collectives(name: str) -> None:
    x = numbers("float32", 3, 2)
    nested: dict[str, object] = {"a": x, "b": (x[:, 0],)}
    out = vmap(_call(getattr(lax, name), ("i",)), axis_name="i")(nested)
    expected = jax.vmap(_call(getattr(jax.lax, name), ("i",)), axis_name="i")(nested)
    assert isinstance(out, dict)
    assert isinstance(expected, dict)
    agree(out["a"], expected["a"])
    agree(out["b"], expected["b"])


def test_several_named_axes() -> None:
    x = np.arange(6.0).reshape(3, 2)

    def f(x: Array) -> list[Array]:
        return [lax.psum(x, ("i", "j")), lax.axis_index("i") * lax.axis_size("j"), lax.axis_index(("i", "j"))]

    total, scaled, both = vmap(vmap(f, axis_name="j"), axis_name="i")(tnp.asarray(x))
    assert total.tolist() == [[15.0, 15.0]] * 3
    assert scaled.tolist() == [[0, 0], [2, 2], [4, 4]]
    assert both.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert both.dtype == np.int32


@pytest.mark.parametrize("name", ["psum", "pmean"])
def test_reductions_count_booleans(name: str) -> None:
    ours, theirs = getattr(lax, name), getattr(jax.lax, name)
    x, constant = np.array([True, False, True]), np.array([True, False])
    agree(vmap(lambda x: ours(x, "i"), axis_name="i")(x), jax.vmap(lambda x: theirs(x, "i"), axis_name="i")(x))
    agree(
        vmap(lambda _: ours(constant, "i"), axis_name="i")(x),
        jax.vmap(lambda _: theirs(constant, "i"), axis_name="i")(x),
    )


def test_psum_of_a_constant_is_the_size() -> None:
    out = vmap(lambda x: x + lax.psum(1, "i"), axis_name="i")(np.arange(3))
    assert out.tolist() == [3, 4, 5]


def test_stop_gradient_takes_trees() -> None:
    def f(x: Array) -> Array:
        kept, _ = lax.stop_gradient((x, [x, x]))
        return x * kept

    assert grad(f)(tnp.asarray(3.0)).item() == 3.0


#: Arguments of jax's that choose devices, say what varies over devices, or are of the past.
_OMITTED = {"out_sharding", "sharding", "out_dtype", "_split_transpose", "to"}
_UNLIKE = {"reciprocal", "dot", "top_k", "cond", "switch", "random_gamma_grad", "mul", "linalg"}
_UNLIKE |= {"DotDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "PrecisionLike"}  # no functions


@pytest.mark.parametrize("name", sorted(name for name in dir(lax) if hasattr(jax.lax, name) and name not in _UNLIKE))
def test_signatures_are_those_of_jax(name: str) -> None:
    ours, theirs = getattr(lax, name), getattr(jax.lax, name)
    if not isinstance(ours, type):
        expected = [p for p in inspect.signature(theirs).parameters if p not in _OMITTED]
        assert expected == [p for p in inspect.signature(ours).parameters if p not in _OMITTED]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_collapse_takes_bounds_as_those_of_a_slice(shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    for start in range(-len(shape), len(shape) + 1):
        for stop in (None, *range(-len(shape), len(shape) + 1)):
            if stop is not None and stop + len(shape) * (stop < 0) < start + len(shape) * (start < 0):
                with pytest.raises(ShapeError, match=rf"collapse: f64.* has no dimensions from {start} to {stop}"):
                    lax.collapse(x, start, stop)
            else:
                agree(lax.collapse(x, start, stop), jax.lax.collapse(jnp.asarray(x), start, stop), f"{start} {stop}")


def test_round_takes_the_number_of_a_method() -> None:
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.5])
    for method in jax.lax.RoundingMethod:
        agree(lax.round(x, method.value), jax.lax.round(x, method))
    with pytest.raises(InputError, match=r"one of RoundingMethod.AWAY_FROM_ZERO, .*, got 2"):
        lax.round(x, 2)


@pytest.mark.parametrize("value", [300, -1, 2**32 + 5, 2**63, -(2**63), 7])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64", "float16", "float32", "bool"])
def test_python_integers_that_do_not_fit_keep_their_lowest_bits(dtype: str, value: int) -> None:
    with np.errstate(over="ignore"):  # jax converts some of them by NumPy, which warns
        expected = jax.lax.convert_element_type(value, dtype)
    agree(lax.convert_element_type(value, dtype), expected)
    agree(tj.jit(lambda: lax.convert_element_type(value, dtype))(), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("value", [2**100, -(2**100), 2**64, -(2**63) - 1])
def test_python_integers_of_more_than_64_bits_become_floats(dtype: str, value: int) -> None:
    agree(lax.convert_element_type(value, dtype), jax.lax.convert_element_type(float(value), dtype))
    for wrong, to in ((value, "int64"), (10**400, dtype)):
        with pytest.raises(IntegerSizeError, match="doesn't fit in 64 bits"):
            lax.convert_element_type(wrong, to)


def test_one_minus_square_is_exact_where_it_cancels() -> None:
    near = np.array([1.0 - 1e-16, 1e-20, -3.0])
    exact = np.array([2 * (1.0 - near[0]), 1.0, -8.0])
    np.testing.assert_allclose(np.asarray(lax.one_minus_square(near)), exact, rtol=1e-14)
    derivative = grad(lambda x: lax.one_minus_square(x).sum())(near)
    np.testing.assert_array_equal(np.asarray(derivative), -2 * near)
    with pytest.raises(TypingError, match="one_minus_square: the operand must be numbers, got bool"):
        lax.one_minus_square(True)
