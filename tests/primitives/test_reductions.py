"""Products, maxima and minima, bitwise reductions, argmax and argmin."""

from __future__ import annotations

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.primitives.array_catalog import Case, Reference, aval, case, cases
from tests.primitives.array_checks import EVAL, check_all, check_batch, check_jvp, check_value, samples
from tests.strategies import STANDARD
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.errors import ShapeError, TinyjaxError, TypingError
from tinyjax.ir.dtypes import FLOAT32, INT8, INT32, short_name
from tinyjax.ir.primitive import Primitive, Zero
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.reductions import (
    ArgMax,
    ArgMin,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
    reduce_prod,
)

NAMES = "sum", "prod", "max", "min", "and", "or", "xor"
ALL = cases(*[f"reduce_{name}" for name in NAMES], "argmax", "argmin")


@pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)
@pytest.mark.sweep
def test_catalog(example: Case) -> None:
    check_all(example)


def _table(axes: tuple[int, ...]) -> list[tuple[Primitive, Reference, str]]:
    return [
        (ReduceProd(axes), lambda x: lax.reduce_prod(x, axes), "float32"),
        (ReduceMax(axes), lambda x: lax.reduce_max(x, axes), "float64"),
        (ReduceMin(axes), lambda x: lax.reduce_min(x, axes), "int32"),
        (ReduceAnd(axes), lambda x: lax.reduce_and(x, axes), "bool"),
        (ReduceOr(axes), lambda x: lax.reduce_or(x, axes), "uint8"),
        (ReduceXor(axes), lambda x: lax.reduce_xor(x, axes), "int8"),
    ]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=4), st.integers(0, 5), st.data())
def test_over_any_axes(shape: list[int], which: int, data: st.DataObject) -> None:
    axes = tuple(data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True))) if shape else ()
    primitive, reference, dtype = _table(axes)[which]
    example = case("", primitive, f"{dtype}[{','.join(map(str, shape))}]", reference)
    rng = np.random.default_rng(0)
    check_value(example, samples(example.avals, rng))
    check_batch(primitive, example.avals, rng)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "complex64"])
@pytest.mark.parametrize(
    "column", [[1.0, math.nan, 2.0], [-math.inf, 1.0, math.inf], [0.0, -0.0, 0.0], [-math.inf] * 3]
)
def test_special_values(dtype: str, column: list[float]) -> None:
    for primitive, reference in (
        (ReduceMax((0,)), lambda x: lax.reduce_max(x, (0,))),
        (ReduceMin((0,)), lambda x: lax.reduce_min(x, (0,))),
        (ReduceProd((0,)), lambda x: lax.reduce_prod(x, (0,))),
        (ArgMax((0,), INT32), lambda x: lax.argmax(x, 0, np.int32)),
        (ArgMin((0,), INT32), lambda x: lax.argmin(x, 0, np.int32)),
    ):
        if dtype == "complex64" and (primitive.name != "reduce_max" or any(map(math.isnan, column))):
            continue  # jax doesn't order them, or not nan
        example = case("", primitive, f"{dtype}[3]", reference)
        check_value(example, [np.array(column).astype(jnp.dtype(dtype))])


@pytest.mark.parametrize("dtype", STANDARD, ids=short_name)
def test_the_maximum_of_nothing(dtype: np.dtype[np.generic]) -> None:
    check_value(
        case("", ReduceMax((0,)), f"{dtype}[0,2]", lambda x: lax.reduce_max(x, (0,))), [np.zeros((0, 2), dtype)]
    )
    check_value(
        case("", ReduceMin((0,)), f"{dtype}[0,2]", lambda x: lax.reduce_min(x, (0,))), [np.zeros((0, 2), dtype)]
    )


@pytest.mark.parametrize("ties", [[1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [math.inf, math.inf, 1.0], [0.0, -0.0, -1.0]])
def test_ties_share_the_tangent_equally(ties: list[float]) -> None:
    example = case("", ReduceMax((0,)), "float64[3]", lambda x: lax.reduce_max(x, (0,)))
    check_jvp(example, [np.array(ties)], np.random.default_rng(0))


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_mixed_partial_derivatives_of_a_product_with_zeros(zeros: int) -> None:
    numbers = np.array([0.0] * zeros + [2.0, 3.0, 5.0, 7.0][zeros:])
    low = JvpContext(EVAL)
    middle = JvpContext(low)
    high = JvpContext(middle)
    for i, j, k in itertools.combinations(range(4), 3):
        along_i, along_j, along_k = (ConcreteValue.of(np.eye(4)[axis]) for axis in (i, j, k))
        first = Dual(ConcreteValue.of(numbers), along_i)
        second = Dual(first, low.pure(along_j))
        third = reduce_prod(high, Dual(second, middle.pure(low.pure(along_k))), (0,)).tangent
        assert not isinstance(third, Zero)
        assert not isinstance(third.tangent, Zero)
        (rest,) = set(range(4)) - {i, j, k}
        assert third.tangent.tangent == ConcreteValue.of(numbers[rest])


def test_positions() -> None:
    x = np.array([[3.0, 5.0, 5.0], [math.nan, 7.0, math.nan]])
    assert ArgMax((1,), INT8).evaluate(x)[0].tolist() == [1, 0]
    assert ArgMin((1,), INT8).evaluate(x)[0].tolist() == [0, 0]
    (index,) = JvpContext(EVAL).bind(ArgMax((1,), INT32), Dual(ConcreteValue.of(x), ConcreteValue.of(x)))
    assert index.tangent == Zero(aval("int32[2]").tangent)


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (ReduceMax((1,)), "float32[3]", ShapeError, "not distinct axes of an array with 1"),
        (ReduceProd((0, 0)), "float32[3]", ShapeError, "not distinct"),
        (ReduceMin((-1,)), "float32[3]", ShapeError, "not distinct"),
        (ReduceProd((0,)), "bool[3]", TypingError, "reduce_prod does not accept bool"),
        (ReduceAnd((0,)), "float32[3]", TypingError, "reduce_and does not accept f32"),
        (ReduceXor((0,)), "complex64[3]", TypingError, "reduce_xor does not accept c64"),
        (ArgMax((0,), INT32), "float32[0,3]", ShapeError, r"axis 0 of f32\[0,3\] has no elements"),
        (ArgMax((0, 1), INT32), "float32[2,3]", ShapeError, "over one axis"),
        (ArgMax((), INT32), "float32[2,3]", ShapeError, "over one axis"),
        (ArgMin((2,), INT32), "float32[2,3]", ShapeError, "not distinct"),
        (ArgMin((0,), FLOAT32), "float32[2,3]", TypingError, "index_dtype must be an integer dtype, got f32"),
        (ArgMin((0,), INT32), "complex64[2,3]", TypingError, "argmin does not accept c64"),
        (ArgMin((0,), INT32), "", TypingError, "takes 1 operand, got 0"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))
