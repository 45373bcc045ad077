"""Elementwise primitives take and give the types that they do in jax, and say what is wrong with others."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.primitives.catalog import ALL, ELEMENTWISE, Entry, case_name
from tinyjax.errors import ParameterError, ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEX64,
    FLOAT0,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    UINT8,
    UINT32,
    DType,
)
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Shape
from tinyjax.primitives import arithmetic, bitwise, exponential, rounding, selection, trigonometric
from tinyjax.primitives.complex import complex_
from tinyjax.primitives.conversion import BitcastConvertType, ConvertElementType, ReducePrecision
from tinyjax.primitives.elementwise import add, neg

#: Where jax wants the shapes of all operands equal, and a scalar operand is fine here.
NO_SCALARS_IN_JAX = {"select_n", "clamp"}
#: What is no primitive in jax, where its result isn't always weak.
FUNCTIONS_IN_JAX = {"random_gamma_grad", "random_gamma_grad_a"}


def jax_type(entry: Entry, avals: list[ShapedArray]) -> ShapedArray | None:
    """The type of jax's result, or None if it refuses these operands."""
    specs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in avals]
    try:
        out = jax.eval_shape(entry.oracle, *specs)
    except (TypeError, ValueError):
        return None
    # In jax a comparison of weak operands is weak; nothing depends on it, as bool is promoted to everything anyway.
    return ShapedArray(out.shape, out.dtype, out.weak_type and out.dtype != BOOL)


def own_type(primitive: Primitive, avals: list[ShapedArray]) -> ShapedArray | None:
    """The type of our result, or None if we refuse these operands."""
    try:
        (out,) = primitive.type_of(*avals)
    except TypingError:
        return None
    return out


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=case_name)
def test_accepts_the_dtypes_that_jax_accepts(entry: Entry) -> None:
    for dtype in ALL:
        avals = [ShapedArray((3,), dt) for dt in entry.operands(dtype)]
        if entry.known_to_jax:
            assert own_type(entry.primitive, avals) == jax_type(entry, avals)
        else:
            assert (own_type(entry.primitive, avals) is not None) == (dtype in entry.dtypes)


@st.composite
def typed_operands(draw: st.DrawFn) -> tuple[Entry, list[ShapedArray]]:
    entry = draw(st.sampled_from(ELEMENTWISE))
    dtype = draw(st.sampled_from(entry.dtypes))
    shape = draw(st.sampled_from([(), (0,), (3,), (2, 3), (1, 1, 4)]))
    mixes = entry.primitive.name not in NO_SCALARS_IN_JAX
    avals = []
    for dt in entry.operands(dtype):
        own_shape = draw(st.sampled_from([(), shape])) if mixes else shape
        avals.append(ShapedArray(own_shape, dt, dt != BOOL and draw(st.booleans())))
    return entry, avals


@given(typed_operands())
@settings(max_examples=120, deadline=None)
def test_gives_the_types_that_jax_gives(case: tuple[Entry, list[ShapedArray]]) -> None:
    entry, avals = case
    found = own_type(entry.primitive, avals)
    expected = jax_type(entry, avals)
    assert found is not None
    assert expected is not None
    weak = found.weak_type if entry.primitive.name in FUNCTIONS_IN_JAX else expected.weak_type
    assert found == ShapedArray(expected.shape, expected.dtype, weak)


@given(st.sampled_from([entry for entry in ELEMENTWISE if entry.arity > 1 and entry.known_to_jax]), st.data())
@settings(max_examples=60, deadline=None)
def test_refuses_operands_of_different_dtypes_as_jax_does(entry: Entry, data: st.DataObject) -> None:
    dtypes = data.draw(st.lists(st.sampled_from(ALL), min_size=entry.arity, max_size=entry.arity))
    avals = [ShapedArray((2,), dtype) for dtype in dtypes]
    assert own_type(entry.primitive, avals) == jax_type(entry, avals)


@pytest.mark.parametrize("entry", [entry for entry in ELEMENTWISE if entry.arity > 1], ids=case_name)
@pytest.mark.parametrize("shapes", [((2,), (3,)), ((2, 3), (3,)), ((0,), (2,)), ((2, 1), (2, 2))])
def test_refuses_operands_of_different_shapes(entry: Entry, shapes: tuple[Shape, Shape]) -> None:
    first, *others = entry.operands(entry.dtypes[0])
    avals = [ShapedArray(shapes[0], first), *[ShapedArray(shapes[1], dt) for dt in others]]
    with pytest.raises(ShapeError, match=entry.primitive.name):
        entry.primitive.type_of(*avals)


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=case_name)
def test_refuses_too_few_and_too_many_operands(entry: Entry) -> None:
    aval = ShapedArray((), entry.dtypes[0])
    with pytest.raises(TypingError, match=entry.primitive.name):
        entry.primitive.type_of()
    if entry.primitive.name != "select_n":
        with pytest.raises(TypingError, match=f"{entry.primitive.name} takes {entry.arity} operand"):
            entry.primitive.type_of(*[aval] * (entry.arity + 1))


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=case_name)
def test_refuses_tangents_of_integers(entry: Entry) -> None:
    with pytest.raises(TypingError):
        entry.primitive.type_of(*[ShapedArray((2,), FLOAT0)] * entry.arity)


def aval(dtype: DType, *shape: int) -> ShapedArray:
    return ShapedArray(shape, dtype)


@pytest.mark.parametrize(
    ("primitive", "avals", "message"),
    [
        (trigonometric.sin, [aval(INT32, 3)], r"sin does not accept i32 operands; it accepts floats, complex numbers"),
        (neg, [aval(BOOL)], r"neg does not accept bool operands; it accepts signed integers, unsigned"),
        (arithmetic.abs_, [aval(UINT8)], r"abs does not accept u8 operands; it accepts signed integers, floats"),
        (rounding.floor, [aval(COMPLEX64)], r"floor does not accept c64 operands; it accepts floats"),
        (bitwise.logical_and, [aval(FLOAT32), aval(FLOAT32)], r"and does not accept f32 operands; it accepts bool"),
        (add, [aval(FLOAT32, 2), aval(FLOAT64, 2)], r"add requires arguments to have the same dtypes; got f32\[2\]"),
        (add, [aval(FLOAT32, 2), aval(FLOAT32, 3)], r"add needs operands of equal shapes, or scalars; got \(2,\)"),
        (add, [aval(FLOAT32, 2)], r"add takes 2 operands, got 1"),
        (arithmetic.IntegerPow(-1), [aval(INT8)], r"integers \(i8\) to the negative power -1; convert them to floats"),
        (exponential.pow_, [aval(INT32), aval(INT32)], r"pow does not accept i32 operands"),
        (exponential.pow_, [aval(FLOAT32), aval(FLOAT64)], r"an integer or have the dtype of f32\[\], got f64\[\]"),
        (complex_, [aval(FLOAT16), aval(FLOAT16)], r"complex does not accept f16 operands"),
        (selection.select_n, [aval(FLOAT32), aval(INT8)], r"the selector of select_n does not accept f32"),
        (selection.select_n, [aval(BOOL)], r"at least one case, got 1 operand"),
        (selection.select_n, [aval(BOOL), *[aval(INT8)] * 3], r"at most 2 cases, got 3"),
        (selection.select_n, [aval(BOOL), aval(INT8), aval(INT32)], r"the same dtypes; got i8\[\], i32\[\]"),
        (BitcastConvertType(FLOAT32), [aval(COMPLEX64)], r"bitcast_convert_type does not accept c64"),
        (BitcastConvertType(BOOL), [aval(UINT8)], r"does not read bits as bool"),
        (BitcastConvertType(UINT32), [aval(UINT8, 3)], r"to read u8\[3\] as u32, its last axis must have size 4"),
        (BitcastConvertType(UINT32), [aval(UINT8)], r"to read u8\[\] as u32, its last axis must have size 4"),
    ],
)  # fmt: skip
def test_messages(primitive: Primitive, avals: list[ShapedArray], message: str) -> None:
    with pytest.raises(TypingError, match=message):
        primitive.type_of(*avals)


def test_parameters_are_checked() -> None:
    with pytest.raises(TypingError, match="arrays of dtype float0 are not supported"):
        ConvertElementType(FLOAT0)
    with pytest.raises(TypingError, match="arrays of dtype datetime64"):
        BitcastConvertType("datetime64[s]")
    with pytest.raises(TypeError, match="is not a dtype"):
        ConvertElementType("no such dtype")
    with pytest.raises(ParameterError, match="at least 1 bit for the exponent"):
        ReducePrecision(0, 3)


def test_dtype_parameters_may_be_spelled_in_any_way() -> None:
    assert ConvertElementType("float32") == ConvertElementType(np.float32) == ConvertElementType(FLOAT32)
    assert hash(BitcastConvertType("int8")) == hash(BitcastConvertType(INT8))


@pytest.mark.parametrize(
    ("old", "new", "shape", "result"),
    [
        (FLOAT64, FLOAT16, (3,), (3, 4)),
        (UINT8, UINT32, (2, 4), (2,)),
        (INT32, UINT8, (), (4,)),
        (INT8, INT32, (4,), ()),
    ],
)
def test_bitcasting_to_another_width_changes_the_last_axis(old: DType, new: DType, shape: Shape, result: Shape) -> None:
    assert BitcastConvertType(new).type_of(ShapedArray(shape, old, weak_type=True)) == (ShapedArray(result, new),)
