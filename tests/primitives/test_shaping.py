"""Reshape, squeeze, rev and iota."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.primitives.array_catalog import Case, aval, case, cases
from tests.primitives.array_checks import EVAL, check_all, check_batch, check_transpose, check_value, samples
from tinyjax.errors import ShapeError, TinyjaxError, TypingError
from tinyjax.ir.dtypes import BOOL, FLOAT32, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.shaping import Iota, Reshape, Rev, Squeeze, expand_dims, iota, reshape, rev, squeeze

NAMES = "reshape", "squeeze", "rev", "iota", "transpose", "broadcast_in_dim"


@pytest.mark.parametrize("example", cases(*NAMES), ids=lambda example: example.name)
def test_catalog(example: Case) -> None:
    check_all(example)


def check_linear(example: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    args = samples(example.avals, rng)
    check_value(example, args)
    check_batch(example.primitive, example.avals, rng)
    check_transpose(example, args, rng)


SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@settings(max_examples=15, deadline=None)
@given(SHAPES, st.data())
def test_reshape_of_any_shape(shape: tuple[int, ...], data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.permutations(shape)))
    sizes = (*sizes, 1) if data.draw(st.booleans()) else sizes
    types = f"float32[{','.join(map(str, shape))}]"
    check_linear(case("", Reshape(sizes), types, lambda x: lax.reshape(x, sizes), (0,)), len(shape))


@pytest.mark.sweep
@settings(max_examples=15, deadline=None)
@given(SHAPES, st.data())
def test_rev_and_squeeze_of_any_axes(shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = tuple(data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True))) if shape else ()
    types = f"float64[{','.join(map(str, shape))}]"
    check_linear(case("", Rev(axes), types, lambda x: lax.rev(x, axes), (0,)), 1)
    ones = ",".join("1" if i in axes else str(n) for i, n in enumerate(shape))
    check_linear(case("", Squeeze(axes), f"float64[{ones}]", lambda x: lax.squeeze(x, axes), (0,)), 2)


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (Reshape((4,)), "float32[2,3]", ShapeError, r"f32\[2,3\] the shape \(4,\): 6 elements, not 4"),
        (Reshape((-1, 6)), "float32[2,3]", ShapeError, "at least 0"),
        (Reshape((6,)), "float32[6] float32[6]", TypingError, "takes 1 operand, got 2"),
        (Squeeze((0,)), "float32[2,1]", ShapeError, "not all of size 1"),
        (Squeeze((2,)), "float32[1,1]", ShapeError, "not distinct axes of an array with 2"),
        (Squeeze((0, 0)), "float32[1,1]", ShapeError, "not distinct"),
        (Squeeze((-1,)), "float32[1,1]", ShapeError, "not distinct"),
        (Rev((1,)), "float32[3]", ShapeError, "not distinct axes of an array with 1"),
        (Iota(BOOL, (3,), 0), "", TypingError, "can't count in bool"),
        (Iota(INT32, (3,), 1), "", ShapeError, "not distinct"),
        (Iota(INT32, (), 0), "", ShapeError, "not distinct"),
        (Iota(INT32, (-3,), 0), "", ShapeError, "at least 0"),
        (Iota(INT32, (3,), 0), "int32[]", TypingError, "takes 0 operands, got 1"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))


def test_what_changes_nothing_binds_nothing() -> None:
    x = ConcreteValue.of(np.ones((2, 3), np.float32))
    assert reshape(EVAL, x, (2, 3)) is x
    assert squeeze(EVAL, x, ()) is x
    assert rev(EVAL, x, ()) is x
    assert expand_dims(EVAL, x, ()) is x


def test_vocabulary() -> None:
    x = ConcreteValue.of(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert expand_dims(EVAL, x, (0, 2)).shape == (1, 2, 1, 3)
    assert squeeze(EVAL, expand_dims(EVAL, x, (0, 2)), (0, 2)) == x
    assert rev(EVAL, rev(EVAL, x, (0, 1)), (1, 0)) == x
    assert iota(EVAL, FLOAT32, (2, 3), 1) == ConcreteValue.of(np.array([[0, 1, 2]] * 2, np.float32))
