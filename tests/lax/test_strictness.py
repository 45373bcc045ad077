"""What `lax` refuses, as jax.lax does, and with what errors; and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tests.numpy.oracle import agree
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.errors import ChoiceError, PaddingError, ParameterError, TreeError, TypingError

#: Python numbers, and what the dtypes of their kind are.
NUMBERS: Final[dict[Any, Any]] = {2: jnp.integer, 1.5: jnp.floating, 2j: jnp.complexfloating}
DTYPES: Final = ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
PAIRS: Final = (
    "add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "atan2", "nextafter",
    "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right_logical", "complex", "igamma",
)  # fmt: skip


def outcome(call: Callable[[], Any]) -> str:
    """The dtype of the result, or that there is a TypeError."""
    try:
        return str(call().dtype)
    except TypeError:
        return "TypeError"


@pytest.mark.parametrize("name", PAIRS)
def test_python_numbers_are_beside_arrays_of_their_kind(name: str) -> None:
    ours, theirs = getattr(lax, name), getattr(jax.lax, name)
    for dtype in DTYPES:
        x = np.ones(2, jnp.dtype(dtype))
        for number, kind in NUMBERS.items():
            expected = "TypeError"
            if jnp.issubdtype(x.dtype, kind):
                scalar = jnp.asarray(number, x.dtype)
                expected = outcome(lambda: theirs(jnp.asarray(x), scalar))  # noqa: B023
            assert outcome(lambda: ours(x, number)) == expected, (dtype, number)  # noqa: B023
            assert outcome(lambda: ours(number, x)) == expected, (dtype, number)  # noqa: B023
            assert outcome(lambda: tj.jit(ours)(x, number)) == expected, (dtype, number)  # noqa: B023
    assert outcome(lambda: ours(0, 1.0)) == outcome(lambda: theirs(0, 1.0)) == "TypeError"


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.clamp(0, x, 1),
        lambda m, x: m.clamp(0.0, x, 1),
        lambda m, x: m.select(np.ones(3, bool), x, 2),
        lambda m, x: m.select_n(1, 2, 1.5),
        lambda m, x: m.pad(x, 0, [(1, 1, 0)]),
        lambda m, x: m.betainc(1, x, x),
        lambda m, x: m.while_loop(lambda c: m.lt(c, 3), lambda c: m.add(c, 1.0), 0.0),
        lambda m, x: m.fori_loop(0, 3, lambda i, c: m.add(c, 1.0), 0),
        lambda m, x: m.dynamic_slice(np.ones((3, 4)), (np.int32(1), np.int16(2)), (2, 2)),
        lambda m, x: m.dynamic_slice(np.ones((3, 4)), (np.uint8(1), np.int8(2)), (2, 2)),
        lambda m, x: m.dynamic_update_slice(np.ones((3, 4)), np.ones((2, 2)), (np.int32(1), np.int64(2))),
        lambda m, x: m.dynamic_slice(np.ones((3, 4)), (1.0, 0.0), (2, 2)),
    ],
)
def test_what_jax_refuses_as_a_type_error(call: Callable[[Any, Any], Any]) -> None:
    x = np.ones(3, "float64")
    for m in (jax.lax, lax):
        with pytest.raises(TypeError):
            call(m, x)
    traced = (jax.jit(lambda x: call(jax.lax, x)), tj.jit(lambda x: call(lax, x)))
    for f in traced:
        with pytest.raises(TypeError):
            f(x)


def test_starts_of_one_type_with_python_integers() -> None:
    x = np.arange(12.0).reshape(3, 4)
    for start in (np.uint8(1), np.int8(-2), np.int32(1), np.int64(1)):
        agree(lax.dynamic_slice(x, (start, 1), (2, 2)), jax.lax.dynamic_slice(x, (start, type(start)(1)), (2, 2)))
    with pytest.raises(TypingError, match=r"dynamic_slice: the index arguments must be integers of the same type, got"):
        tj.jit(lambda i, j: lax.dynamic_slice(np.ones((3, 4)), (i, j), (2, 2)))(np.int32(1), np.int64(0))


def test_the_words_that_stand_for_a_choice() -> None:
    x, numbers = np.ones(3), lax.GatherDimensionNumbers((1,), (), (0,))
    calls: list[tuple[Callable[[Any], Any], type[Exception], type[Exception]]] = [
        (lambda m: m.round(2.5, 7), ValueError, ChoiceError),
        (lambda m: m.gather(x, np.array([[0]]), numbers, (2,), mode="foo"), ValueError, ChoiceError),
        (lambda m: m.reduce_precision(1.5, 0, 3), ValueError, ParameterError),
        (lambda m: m.reduce_window(x, 0.0, m.add, (2,), (1,), "FOO"), RuntimeError, PaddingError),
        (lambda m: m.conv(np.ones((1, 1, 3)), np.ones((1, 1, 2)), (1,), "FOO"), RuntimeError, PaddingError),
        (lambda m: m.padtype_to_pads((3,), (2,), (1,), "FOO"), RuntimeError, PaddingError),
    ]
    for call, theirs, ours in calls:
        assert issubclass(ours, theirs)
        with pytest.raises(ours):
            call(lax)
        if "numbers" not in call.__code__.co_freevars:
            with pytest.raises(theirs):
                call(jax.lax)


def test_the_form_of_what_a_reduction_returns() -> None:
    x = np.arange(4.0)
    for m in (jax.lax, lax):
        (total,) = m.reduce(x, 0.0, lambda x, y: [x + y], (0,))
        assert total == 6.0
        pair = m.reduce((x, x), (0.0, 1.0), lambda x, y: [x[0] + y[0], x[1] * y[1]], (0,))
        assert isinstance(pair, list)
        assert pair == [6.0, 0.0]
        with pytest.raises(ValueError, match="structure"):
            m.reduce_window(x, 0.0, lambda x, y: [x + y], (2,), (1,), "VALID")
    with pytest.raises(TreeError, match=r"reduce_window: .* structure"):
        lax.reduce_window((x, x), (0.0, 1.0), lambda x, y: [x[0] + y[0], x[1] * y[1]], (2,))
    agree(
        lax.reduce(np.ones(3, "float32"), 0, lax.add, (0,)), jax.lax.reduce(np.ones(3, "float32"), 0, jax.lax.add, (0,))
    )


def test_full_like_weak_values() -> None:
    for x in (2, 2.0, 2j, np.float32(2), np.ones(3)):
        for options in ({}, {"shape": (2,)}, {"dtype": "float32"}):
            ours, theirs = lax.full_like(x, 1, **options), jax.lax.full_like(x, 1, **options)
            agree(ours, theirs)
            assert ours.aval.weak_type == theirs.aval.weak_type
    traced = tj.jit(lambda x: lax.full_like(x, 1))(2.0)
    assert traced.aval.weak_type
    assert (tnp.ones(3, "float32") * traced).dtype == np.float32
