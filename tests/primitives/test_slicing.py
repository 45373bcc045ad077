"""Slice, pad, concatenate and split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.primitives.array_catalog import Case, aval, case, cases
from tests.primitives.array_checks import EVAL, check_all, check_batch, check_transpose, check_value, samples
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.transposition import transpose
from tinyjax.errors import ShapeError, TinyjaxError, TypingError
from tinyjax.ir.primitive import Primitive, UndefPrimal, Zero
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.slicing import Concatenate, Pad, Slice, Split, concatenate, pad, slice_
from tinyjax.primitives.stacking import Stack, Unstack


@pytest.mark.sweep
@pytest.mark.parametrize(
    "example", cases("slice", "pad", "concatenate", "split", "stack", "unstack"), ids=lambda example: example.name
)
def test_catalog(example: Case) -> None:
    check_all(example)


def check_linear(example: Case) -> None:
    rng = np.random.default_rng(0)
    args = samples(example.avals, rng)
    check_value(example, args)
    check_batch(example.primitive, example.avals, rng)
    check_transpose(example, args, rng)


@pytest.mark.sweep
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=3), st.data())
def test_slice_of_any_box(shape: list[int], data: st.DataObject) -> None:
    starts = tuple(data.draw(st.integers(0, size)) for size in shape)
    limits = tuple(data.draw(st.integers(start, size)) for start, size in zip(starts, shape, strict=True))
    strides = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    types = f"float64[{','.join(map(str, shape))}]"
    check_linear(case("", Slice(starts, limits, strides), types, lambda x: lax.slice(x, starts, limits, strides), (0,)))


@pytest.mark.sweep
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=2), st.data())
def test_pad_by_any_amount(shape: list[int], data: st.DataObject) -> None:
    config = []
    for size in shape:
        interior = data.draw(st.integers(0, 2))
        spread = (size - 1) * (interior + 1) + 1 if size else 0
        low = data.draw(st.integers(-spread, 3))
        config.append((low, data.draw(st.integers(-spread - low, 3)), interior))
    full = tuple(config)
    types = f"float32[{','.join(map(str, shape))}] float32[]"
    check_linear(case("", Pad(full), types, lambda x, v: lax.pad(x, v, full), (0, 1)))


@pytest.mark.sweep
@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.integers(0, 1), st.integers(0, 2))
def test_concatenate_and_split_along_any_axis(sizes: list[int], axis: int, other: int) -> None:
    shapes = [(size, other) if axis == 0 else (other, size) for size in sizes]
    types = " ".join(f"float32[{n},{m}]" for n, m in shapes)
    operands = tuple(range(len(sizes)))
    check_linear(case("", Concatenate(axis), types, lambda *xs: lax.concatenate(xs, axis), operands))
    total = (sum(sizes), other) if axis == 0 else (other, sum(sizes))
    parts = tuple(sizes)
    check_linear(
        case("", Split(parts, axis), f"float32[{total[0]},{total[1]}]", lambda x: lax.split(x, parts, axis), (0,))
    )


@pytest.mark.parametrize("wanted", [(1,), (0, 2), (0, 1, 2), ()])
def test_rows_that_nothing_depends_on_have_no_cotangents(wanted: tuple[int, ...]) -> None:
    jaxpr = single_equation(Unstack(1), (aval("float64[2,3]"),))
    rows = [
        ConcreteValue.of(np.array([i + 1.0, np.inf])) if i in wanted else Zero(aval("float64[2]")) for i in range(3)
    ]
    (found,) = transpose(EVAL, jaxpr, [UndefPrimal(aval("float64[2,3]"))], rows)
    if not wanted:
        assert isinstance(found, Zero)
        return
    expected = np.zeros((2, 3))
    expected[:, wanted] = [[i + 1.0 for i in wanted], [np.inf] * len(wanted)]
    assert found == ConcreteValue.of(expected)


def test_the_cotangent_of_padding_ignores_infinite_cotangents_elsewhere() -> None:
    jaxpr = single_equation(Pad(((1, 1, 0),)), (aval("float64[2]"), aval("float64[]")))
    ct = ConcreteValue.of(np.array([1.0, np.inf, -np.inf, 2.0]))
    x, value = transpose(EVAL, jaxpr, [UndefPrimal(aval("float64[2]")), UndefPrimal(aval("float64[]"))], [ct])
    assert x == ConcreteValue.of(np.array([np.inf, -np.inf]))
    assert value == ConcreteValue.of(np.float64(3.0))


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (Slice((0,), (4,)), "float32[3]", ShapeError, r"limits \(4,\) must lie within f32\[3\]"),
        (Slice((-1,), (3,)), "float32[3]", ShapeError, "must lie within"),
        (Slice((2,), (1,)), "float32[3]", ShapeError, "each start at most its limit"),
        (Slice((0,), (3,), (0,)), "float32[3]", ShapeError, "strides must be at least 1"),
        (Slice((0,), (3,)), "float32[3,3]", ShapeError, "one start, limit and stride for each axis"),
        (Slice((0,), (3,), (1, 1)), "float32[3]", ShapeError, "one start, limit and stride"),
        (Pad(((0, 0, 0),)), "float32[3] float64[]", TypingError, "the same dtypes"),
        (Pad(((0, 0, 0),)), "float32[3] float32[1]", ShapeError, "must be a scalar"),
        (Pad(((0, 0, 0),)), "float32[3]", TypingError, "takes 2 operands, got 1"),
        (Pad(()), "float32[3] float32[]", ShapeError, "for each axis"),
        (Pad(((0, 0, -1),)), "float32[3] float32[]", ShapeError, "interior padding must be at least 0"),
        (Pad(((-2, -2, 0),)), "float32[3] float32[]", ShapeError, r"would be \(-1,\)"),
        (Concatenate(0), "", ShapeError, "at least one"),
        (Concatenate(0), "float32[2] float64[2]", TypingError, "the same dtypes"),
        (Concatenate(0), "float32[2] float32[2,1]", ShapeError, "different numbers of axes"),
        (Concatenate(1), "float32[2]", ShapeError, "no axis 1"),
        (Concatenate(0), "float32[]", ShapeError, "no axis 0"),
        (Concatenate(0), "float32[2,1] float32[2,2]", ShapeError, "differ in other axes than axis 0"),
        (Split((1, 1), 0), "float32[3]", ShapeError, "add up to axis 0"),
        (Split((4, -1), 0), "float32[3]", ShapeError, "at least 0"),
        (Split((3,), 1), "float32[3]", ShapeError, "not distinct"),
        (Stack(0), "", ShapeError, "at least one"),
        (Stack(0), "float32[2] float64[2]", TypingError, "the same dtypes"),
        (Stack(0), "float32[2] float32[3]", ShapeError, r"one shape are needed, got f32\[2\] and f32\[3\]"),
        (Stack(2), "float32[2] float32[2]", ShapeError, r"arrays like f32\[2\] has no axis 2"),
        (Unstack(0), "float32[]", ShapeError, "not distinct"),
        (Unstack(0), "float32[2] float32[2]", TypingError, "takes 1 operand"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))


def test_what_changes_nothing_binds_nothing() -> None:
    x = ConcreteValue.of(np.ones((2, 3), np.float32))
    assert slice_(EVAL, x, strides=(1, 1)) is x
    assert pad(EVAL, x, ((0, 0, 0), (0, 0, 0))) is x
    assert concatenate(EVAL, [x], 0) is x
