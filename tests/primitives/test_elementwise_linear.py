"""Transposes of the elementwise primitives that are linear, alone or in some of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.primitives.apply import dense, values
from tests.primitives.catalog import check_close, tangents
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.transposition import transpose
from tinyjax.errors import LinearityError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    DType,
    HostArray,
)
from tinyjax.ir.primitive import Primitive, UndefPrimal, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.arithmetic import div
from tinyjax.primitives.complex import complex_, conj, imag, real
from tinyjax.primitives.conversion import ConvertElementType, ReducePrecision, copy
from tinyjax.primitives.elementwise import add, mul, neg, sub
from tinyjax.primitives.selection import select_n

F2 = (FLOAT64, FLOAT64)
SELECTOR = np.asarray([True, False, True])
INDEX = np.asarray([0, 2, 1, 5], np.int32)


def cotangents(
    primitive: Primitive, operands: Sequence[HostArray | ShapedArray], ct: HostArray
) -> list[HostArray | None]:
    """The cotangents of the operands that are given by their types alone."""
    avals = [x if isinstance(x, ShapedArray) else ConcreteValue.of(x).aval for x in operands]
    args = [UndefPrimal(x) if isinstance(x, ShapedArray) else ConcreteValue.of(x) for x in operands]
    found = transpose(EvalContext(), single_equation(primitive, tuple(avals)), args, values([ct]))
    return [None if result is None else dense(result) for result in found]


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((), (3,)), ((3,), ()), ((), ())])
@pytest.mark.parametrize(
    ("primitive", "oracle", "linear", "dtypes"),
    [
        (add, lax.add, (0, 1), F2),
        (sub, lax.sub, (0, 1), F2),
        (sub, lax.sub, (1,), F2),
        (mul, lax.mul, (0,), F2),
        (mul, lax.mul, (1,), F2),
        (mul, lax.mul, (1,), (COMPLEX128, COMPLEX128)),
        (div, lax.div, (0,), F2),
        (div, lax.div, (0,), (COMPLEX128, COMPLEX128)),
        (complex_, lax.complex, (0, 1), F2),
        (complex_, lax.complex, (0,), (FLOAT32, FLOAT32)),
        (complex_, lax.complex, (1,), F2),
    ],
    ids=lambda p: p.name if isinstance(p, Primitive) else None,
)
def test_binary(
    primitive: Primitive,
    oracle: Callable[..., jax.Array],
    linear: tuple[int, ...],
    dtypes: tuple[DType, ...],
    shapes: tuple[Shape, Shape],
) -> None:
    xs = [tangents(dtype, 3, i)[: shape[0] if shape else 1].reshape(shape) for i, (dtype, shape) in
          enumerate(zip(dtypes, shapes, strict=True))]  # fmt: skip
    out = jax.eval_shape(oracle, *xs)
    ct = np.resize(tangents(np.dtype(out.dtype), 3, 7), out.shape)
    operands = [ConcreteValue.of(x).aval if i in linear else x for i, x in enumerate(xs)]

    def partially(*moving: jax.Array) -> jax.Array:
        rest = iter(moving)
        return oracle(*[next(rest) if i in linear else jnp.asarray(x) for i, x in enumerate(xs)])

    expected = jax.linear_transpose(partially, *[xs[i] for i in linear])(jnp.asarray(ct))
    found = cotangents(primitive, operands, ct)
    assert [result is not None for result in found] == [i in linear for i in range(2)]
    for result, theirs in zip([result for result in found if result is not None], expected, strict=True):
        assert result.dtype == theirs.dtype
        check_close(result, np.asarray(theirs), 4)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
@pytest.mark.parametrize(
    ("primitive", "oracle", "dtype"),
    [
        (neg, lax.neg, FLOAT64),
        (neg, lax.neg, COMPLEX64),
        (real, lax.real, COMPLEX128),
        (imag, lax.imag, COMPLEX128),
        (conj, lax.conj, COMPLEX128),
        (conj, lax.conj, FLOAT32),
        (copy, jnp.copy, BFLOAT16),
        (ConvertElementType(FLOAT32), lambda x: lax.convert_element_type(x, FLOAT32), FLOAT64),
        (ConvertElementType(FLOAT64), lambda x: lax.convert_element_type(x, FLOAT64), FLOAT16),
        (ConvertElementType(COMPLEX64), lambda x: lax.convert_element_type(x, COMPLEX64), FLOAT64),
        (ConvertElementType(FLOAT64), lambda x: lax.convert_element_type(lax.real(x), FLOAT64), COMPLEX64),
        (ReducePrecision(5, 3), lambda x: lax.reduce_precision(x, 5, 3), FLOAT32),
    ],
    ids=lambda p: p.name if isinstance(p, Primitive) else None,
)
def test_unary(primitive: Primitive, oracle: Callable[..., jax.Array], dtype: DType, shape: Shape) -> None:
    spec = jax.ShapeDtypeStruct(shape, dtype)
    out = jax.eval_shape(oracle, spec)
    ct = np.resize(tangents(np.dtype(out.dtype), 4, 0), out.shape)
    (expected,) = jax.linear_transpose(oracle, spec)(jnp.asarray(ct))
    (found,) = cotangents(primitive, [ShapedArray(shape, dtype)], ct)
    assert found is not None
    assert found.dtype == dtype
    wide = np.complex128 if dtype in COMPLEXES else np.float64
    np.testing.assert_array_equal(found.astype(wide), np.asarray(expected).astype(wide))


def test_conversion_gives_the_cotangent_the_weak_mark_of_the_operand() -> None:
    weak = ShapedArray((), FLOAT64, weak_type=True)
    jaxpr = single_equation(ConvertElementType(FLOAT32), (weak,))
    (ct,) = transpose(EvalContext(), jaxpr, [UndefPrimal(weak)], values([np.asarray(1, np.float32)]))
    assert isinstance(ct, ConcreteValue)
    assert ct.aval == weak


@pytest.mark.parametrize("linear", [(1,), (2,), (1, 2)])
def test_select(linear: tuple[int, ...]) -> None:
    aval = ShapedArray((3,), FLOAT64)
    cases = [aval if i in linear else np.ones(3) for i in (1, 2)]
    ct = np.asarray([1.0, 2.0, 3.0])
    expected = [None, np.where(SELECTOR, 0, ct), np.where(SELECTOR, ct, 0)]
    found = cotangents(select_n, [SELECTOR, *cases], ct)
    for i, result in enumerate(found):
        assert (result is not None) == (i in linear)
        if result is not None:
            np.testing.assert_array_equal(result, expected[i])


def test_select_by_index_with_scalar_cases() -> None:
    ct = np.asarray([1.0, 2.0, 4.0, 8.0])
    found = cotangents(select_n, [INDEX, ShapedArray((), FLOAT64), np.ones(4), ShapedArray((4,), FLOAT64)], ct)
    assert found[0] is None
    assert found[1] is not None
    assert found[1].tolist() == 1.0
    assert found[2] is None
    assert found[3] is not None


def test_select_by_scalar() -> None:
    aval = ShapedArray((2,), FLOAT64)
    found = cotangents(select_n, [np.asarray(True), aval, aval], np.asarray([1.0, 2.0]))
    assert found[1] is not None
    assert found[1].tolist() == [0.0, 0.0]
    assert found[2] is not None
    assert found[2].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("primitive", "operands", "message"),
    [
        (mul, (FLOAT64, FLOAT64), "mul is linear in each of its operands, but not in both together"),
        (div, (FLOAT64, FLOAT64), "div is linear in the dividend, but not in the divisor"),
        (select_n, (INT32, FLOAT64), "select_n is linear in its cases, but not in the selector"),
    ],
)
def test_what_is_not_linear_says_so(primitive: Primitive, operands: tuple[DType, ...], message: str) -> None:
    with pytest.raises(LinearityError, match=message):
        cotangents(primitive, [ShapedArray((), dtype) for dtype in operands], np.asarray(1.0))


def test_zero_cotangents_stay_symbolic() -> None:
    aval = ShapedArray((3,), FLOAT64)
    for primitive, args in (
        (add, [UndefPrimal(aval), UndefPrimal(aval)]),
        (neg, [UndefPrimal(aval)]),
        (complex_, [UndefPrimal(aval), UndefPrimal(aval)]),
    ):
        results = primitive.transpose(EvalContext(), [Zero(aval)], args)
        assert all(result is None or isinstance(result, Zero) for result in results)
