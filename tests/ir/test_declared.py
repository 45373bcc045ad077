"""Parameters that aren't of the types that their class declares: whatever meets them first, the error says which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import hlo, ir
from tinyjax.errors import ParameterError, TinyjaxError, VerificationError
from tinyjax.extend import bind
from tinyjax.ir import Eqn, Jaxpr, Primitive, ShapedArray, Var
from tinyjax.ir.declared import fits
from tinyjax.primitives.arithmetic import IntegerPow
from tinyjax.primitives.conversion import ConvertElementType, ReducePrecision
from tinyjax.primitives.convolution import ConvDimensionNumbers
from tinyjax.primitives.reduce_window import ReduceWindowSum
from tinyjax.primitives.rounding import Round
from tinyjax.primitives.sorting import Sort

WRONG: Any = None
X = ShapedArray((3,), np.dtype("float64"))


class Sized(Protocol):
    size: int


@pytest.mark.parametrize("hint", [Sized, Sized | None, tuple[Sized, ...], Iterable[int]])
def test_protocols_are_for_type_checkers(hint: object) -> None:
    """Python can't ask whether something is an instance of one."""
    assert fits((X,), hint)


def program(primitive: Primitive, *types: ShapedArray) -> Jaxpr:
    """One equation, whose result is declared to be of the type of its first operand."""
    inputs = tuple(Var(i, aval) for i, aval in enumerate(types))
    out = Var(len(inputs), types[0])
    return Jaxpr(inputs, (Eqn(primitive, inputs, (out,), None),), (out,))


def sum_with(**changed: Any) -> ReduceWindowSum:
    fields: dict[str, Any] = {
        "window_dimensions": (1,),
        "window_strides": (1,),
        "padding": ((0, 0),),
        "base_dilation": (1,),
        "window_dilation": (1,),
    }
    return ReduceWindowSum(**{**fields, **changed})


one_and_a_half: Any = 1.5
a_number: Any = 1
#: Primitives, and what is said of them.
MADE: list[tuple[Primitive, str]] = [
    (Round(WRONG), "parameter 'rounding_method' of primitive 'round' must be RoundingMethod, got None"),
    (IntegerPow(one_and_a_half), "parameter 'y' of primitive 'integer_pow' must be int, got 1.5"),
    (sum_with(padding=(1,)), "parameter 'padding' of primitive 'reduce_window_sum' must be tuple"),
    (sum_with(window_strides=None), "parameter 'window_strides' of primitive 'reduce_window_sum' must be tuple"),
    (sum_with(window_strides=(True,)), r"parameter 'window_strides' .* got \(True,\)"),
    (Sort(dimension=one_and_a_half), "parameter 'dimension' of primitive 'sort' must be int, got 1.5"),
    (
        ConvertElementType(np.dtype("float64"), a_number),
        "parameter 'weak_type' of primitive 'convert_element_type' must be bool, got 1",
    ),
]


@pytest.mark.parametrize(("primitive", "said"), MADE, ids=lambda case: str(case)[:40])
def test_the_verifier_says_which_parameter_is_wrong(primitive: Primitive, said: str) -> None:
    with pytest.raises(VerificationError, match=said):
        ir.typecheck(program(primitive, X))


FIRST = [case for case in MADE if case[0].name in ("round", "integer_pow")] + MADE[2:4]


@pytest.mark.parametrize(("primitive", "said"), FIRST, ids=lambda case: str(case)[:40])
@pytest.mark.parametrize("way", [lambda f: f, tj.jit], ids=["host", "jit"])
def test_so_does_what_computes(way: Callable[..., Any], primitive: Primitive, said: str) -> None:
    x = np.ones(3)
    for _ in range(2):  # the second time, too
        with pytest.raises(ParameterError, match=said):
            way(lambda x: bind(primitive, x))(x)


@pytest.mark.parametrize(("primitive", "said"), MADE, ids=lambda case: str(case)[:40])
@pytest.mark.parametrize(
    "way",
    [tj.vmap, lambda f: lambda x: tj.jvp(f, (x[0],), (x[1],)), lambda f: tj.vmap(tj.grad(lambda x: f(x).sum()))],
    ids=["vmap", "jvp", "vmap of grad"],
)
def test_so_do_rules(way: Callable[..., Any], primitive: Primitive, said: str) -> None:
    """Before they have applied the primitive, or instead."""
    try:
        way(lambda x: bind(primitive, x)[0])(np.ones((2, 3)))
    except ParameterError as error:
        assert re.search(said, str(error))  # noqa: PT017 (some do without the parameter)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"window_strides": (1, 1)}, "reduce_window_sum"),
        ({"padding": ((0, 0), (0, 0))}, "reduce_window_sum"),
        ({"window_dimensions": ()}, "reduce_window_sum"),
    ],
)
@pytest.mark.parametrize("way", [lambda f: f, tj.vmap, lambda f: lambda x: tj.jvp(f, (x,), (x,))])
def test_parameters_of_another_length(way: Callable[..., Any], changed: Any, said: str) -> None:
    with pytest.raises(TinyjaxError, match=said):
        way(lambda x: bind(sum_with(**changed), x)[0])(np.ones((2, 3)) if way is tj.vmap else np.ones(3))


def test_so_does_lowering() -> None:
    with pytest.raises(ParameterError, match="'rounding_method' of primitive 'round' must be RoundingMethod"):
        hlo.lower(program(Round(WRONG), X))
    with pytest.raises(ParameterError, match=r"'window_strides' .* got \(True,\)"):
        tj.jit(lambda x: bind(sum_with(window_strides=(True,)), x))(np.ones(3))


def test_a_record_in_a_parameter_is_named() -> None:
    with pytest.raises(ParameterError, match="the axes of an operand are a tuple of integers, got None"):
        ConvDimensionNumbers(WRONG, (0, 1), (0, 1))


@pytest.mark.parametrize("bits", [(None, 1), (1, 1j), (True, 1), (1.5, 2), (0, 1)])
def test_bits_are_integers(bits: tuple[Any, Any]) -> None:
    with pytest.raises(ParameterError, match="at least 1 bit for the exponent"):
        ReducePrecision(*bits)
