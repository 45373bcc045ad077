"""Sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.hlo.programs import run
from tests.primitives.array_catalog import Case, aval, case, cases
from tests.primitives.array_checks import EVAL, check_all, check_batch, check_value, samples
from tinyjax import jvp, make_jaxpr
from tinyjax import lax as tlax
from tinyjax.contexts.devices import single_equation
from tinyjax.errors import ShapeError, TinyjaxError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.sorting import Sort, TopK, sort, top_k


@pytest.mark.sweep
@pytest.mark.parametrize("example", cases("sort", "top_k"), ids=lambda example: example.name)
def test_catalog(example: Case) -> None:
    check_all(example)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(["float32", "int8", "bool", "float16", "complex64"]), min_size=1, max_size=3),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.data(),
)
def test_any_operands(dtypes: list[str], shape: list[int], data: st.DataObject) -> None:
    dimension = data.draw(st.integers(0, len(shape) - 1))
    num_keys = data.draw(st.integers(1, len(dtypes)))

    def reference(*xs: jax.Array) -> Sequence[jax.Array]:
        return lax.sort(xs, dimension=dimension, num_keys=num_keys)

    types = " ".join(f"{dtype}[{','.join(map(str, shape))}]" for dtype in dtypes)
    example = case("", Sort(dimension, True, num_keys), types, reference)
    rng = np.random.default_rng(0)
    check_value(example, samples(example.avals, rng))
    if len(dtypes) < 3:
        check_batch(example.primitive, example.avals, rng)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_order_of_special_values(dtype: str) -> None:
    numbers = np.array([0.0, -0.0, math.nan, -1.0, math.inf, -0.0, -math.inf, -math.nan, 0.0])

    def reference(x: jax.Array, i: jax.Array) -> Sequence[jax.Array]:
        return lax.sort((x, i))

    example = case("", Sort(0), f"{dtype}[9] int32[9]", reference)
    check_value(example, [numbers.astype(example.avals[0].dtype), np.arange(9, dtype=np.int32)])


def test_order_of_complex_numbers() -> None:
    numbers = np.array([complex(1, math.nan), 2, complex(math.nan, 1), 1 + 5j, complex(math.nan, 0), 1 - 5j])
    example = case("", Sort(0), "complex128[6]", lambda x: [lax.sort(x)])
    check_value(example, [numbers])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "uint32", "int64", "bool"])
def test_the_greatest(dtype: str) -> None:
    """To the bit, with ties and in the total order of floats, on the host and compiled."""
    rng = np.random.default_rng(0)
    special = rng.choice([0.0, -0.0, math.nan, math.inf, -math.nan, -math.inf], (4, 3, 9))
    x = rng.integers(0, 4, (4, 3, 9)).astype(np.float64)
    if "float" in dtype:
        x = np.where(rng.random(x.shape) < 0.4, special, x)
    x = x.astype(aval(f"{dtype}[]").dtype)
    for axis in range(3):
        for k in (1, 2, x.shape[axis]):
            primitive = TopK(axis, k)
            expected = [np.asarray(found) for found in lax.top_k(jax.numpy.asarray(x), k, axis=axis)]
            program = single_equation(primitive, (ShapedArray(x.shape, x.dtype),))
            for found in (primitive.evaluate(x), run(program, x)):
                assert [part.tobytes() for part in found] == [part.tobytes() for part in expected]


def test_derivative_of_the_greatest() -> None:
    """One gather, which keeps k indices."""
    x, t = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 5.0]]), np.arange(6.0).reshape(2, 3)
    program = make_jaxpr(lambda x: jvp(lambda x: tuple(tlax.top_k(x, 2)), (x,), (t,)))(x)
    assert [eqn.primitive.name for eqn in program.jaxpr.eqns] == ["top_k", "reshape", "gather"]
    (_, places), (moved, _) = jvp(lambda x: tuple(tlax.top_k(x, 2)), (x,), (t,))
    np.testing.assert_array_equal(np.asarray(moved), np.take_along_axis(t, np.asarray(places), 1))


def test_vocabulary() -> None:
    keys, values = (ConcreteValue.of(np.array(x)) for x in ([2, 1, 2, 0], [1, 2, 3, 4]))
    assert [np.asarray(x).tolist() for x in sort(EVAL, keys, values, dimension=0)] == [[0, 1, 2, 2], [4, 2, 1, 3]]
    assert [np.asarray(x).tolist() for x in top_k(EVAL, keys, 2, 0)] == [[2, 2], [0, 2]]


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (Sort(0), "", ShapeError, "at least one"),
        (Sort(0), "float32[]", ShapeError, "not distinct axes of an array with 0"),
        (Sort(1), "float32[3]", ShapeError, "not distinct"),
        (Sort(-1), "float32[3]", ShapeError, "not distinct"),
        (Sort(0), "float32[3] float32[4]", ShapeError, r"differ in shape: f32\[3\], f32\[4\]"),
        (Sort(0, True, 2), "float32[3]", ShapeError, "num_keys must be between 1 and 1"),
        (Sort(0, True, 0), "float32[3]", ShapeError, "num_keys must be between"),
        (TopK(1, 1), "float32[3]", ShapeError, "not distinct axes"),
        (TopK(0, 4), "float32[3]", ShapeError, r"k must be between 0 and the size of axis 0 of f32\[3\], got 4"),
        (TopK(0, 1), f"bool[{2**31 + 1}]", ShapeError, "int32 indices, which don't reach along axis 0"),
        (TopK(0, 1), "complex64[3]", TypingError, r"top_k does not accept c64\[?3?\]? ?operands"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))
    assert issubclass(error, TypingError)
