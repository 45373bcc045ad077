"""Taking and adding elements along an axis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.primitives.array_catalog import Case, aval, cases
from tests.primitives.array_checks import EVAL, check_all
from tinyjax.contexts.evaluation import single_equation
from tinyjax.contexts.transposition import transpose
from tinyjax.errors import LinearityError, ShapeError, TinyjaxError, TypingError
from tinyjax.ir.primitive import Primitive, UndefPrimal
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.indexing import ScatterAddAlongAxis, TakeAlongAxis, scatter_add_along_axis, take_along_axis


@pytest.mark.parametrize(
    "example", cases("take_along_axis", "scatter_add_along_axis"), ids=lambda example: example.name
)
def test_catalog(example: Case) -> None:
    check_all(example)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(0, 4), st.data())
def test_adjoint(shape: list[int], count: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    rng = np.random.default_rng(0)
    taken = (*shape[:axis], count, *shape[axis + 1 :])
    x, ct = rng.integers(-9, 9, shape), rng.integers(-9, 9, taken)
    positions = ConcreteValue.of(rng.integers(-2, shape[axis] + 2, taken))
    out = take_along_axis(EVAL, ConcreteValue.of(x), positions, axis)
    back = scatter_add_along_axis(EVAL, ConcreteValue.of(ct), positions, axis, shape[axis])
    assert out.shape == taken
    assert back.shape == tuple(shape)
    assert np.sum(np.asarray(out).astype(np.int64) * ct) == np.sum(x * np.asarray(back).astype(np.int64))


def test_positions_are_clamped() -> None:
    x, positions = ConcreteValue.of(np.array([1.0, 2.0, 3.0])), ConcreteValue.of(np.array([-5, 9, 1]))
    assert take_along_axis(EVAL, x, positions, 0) == ConcreteValue.of(np.array([1.0, 3.0, 2.0]))
    assert scatter_add_along_axis(EVAL, x, positions, 0, 2) == ConcreteValue.of(np.array([1.0, 5.0]))


def test_not_linear_in_positions() -> None:
    avals = aval("float32[3]"), aval("int32[3]")
    x = ConcreteValue.of(np.ones(3, np.float32))
    args: list[ConcreteValue | UndefPrimal] = [x, UndefPrimal(avals[1])]
    with pytest.raises(LinearityError, match="not in the positions"):
        transpose(EVAL, single_equation(TakeAlongAxis(0), avals), args, [x])


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (TakeAlongAxis(0), "float32[3]", TypingError, "takes 2 operands, got 1"),
        (TakeAlongAxis(0), "float32[3] float32[3]", TypingError, "integer dtype, got f32"),
        (TakeAlongAxis(1), "float32[3] int32[3]", ShapeError, "not distinct"),
        (TakeAlongAxis(0), "float32[3,2] int32[3]", ShapeError, "differ in other axes than 0"),
        (TakeAlongAxis(0), "float32[3,2] int32[3,3]", ShapeError, "differ in other axes than 0"),
        (TakeAlongAxis(0), "float32[0] int32[1]", ShapeError, "nothing to take"),
        (ScatterAddAlongAxis(0, 3), "float32[3] int32[4]", ShapeError, "differ in shape"),
        (ScatterAddAlongAxis(0, 0), "float32[3] int32[3]", ShapeError, "axis of size 0"),
        (ScatterAddAlongAxis(0, -1), "float32[0] int32[0]", ShapeError, "axis of size -1"),
        (ScatterAddAlongAxis(0, 3), "bool[3] int32[3]", TypingError, "does not accept bool"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))
