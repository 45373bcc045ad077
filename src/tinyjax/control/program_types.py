"""Checks of the types of operands, and of programs that are parameters."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.errors import ParameterError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr


def check_operands(what: str, avals: Sequence[ShapedArray], expected: Sequence[ShapedArray]) -> None:
    """A TypingError unless these are the types expected."""
    if not match(avals, expected):
        raise TypingError(f"{what} takes ({', '.join(map(str, expected))}), got ({', '.join(map(str, avals))})")


def match(avals: Sequence[ShapedArray], expected: Sequence[ShapedArray]) -> bool:
    return len(avals) == len(expected) and all(map(ShapedArray.matches, avals, expected))


def check_program(
    primitive: Primitive, field: str, jaxpr: Jaxpr, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]
) -> None:
    """A ParameterError unless a program that is a parameter has this type."""
    if not match(jaxpr.in_avals, ins) or not match(jaxpr.out_avals, outs):
        shown = f"({', '.join(map(str, ins))}) -> ({', '.join(map(str, outs))})"
        raise ParameterError(f"{field} of {primitive.name} must have type {shown}, got {jaxpr.type}")
