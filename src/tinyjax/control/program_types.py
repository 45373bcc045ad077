"""Checks of the types of operands, and of programs that are parameters."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.errors import ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.program_type import JaxprType
from tinyjax.ir.type_lists import all_match


def check_program(
    primitive: Primitive, field: str, jaxpr: Jaxpr, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]
) -> None:
    """A ParameterError unless a program that is a parameter has this type."""
    if not all_match(jaxpr.in_avals, ins) or not all_match(jaxpr.out_avals, outs):
        wanted = JaxprType(tuple(ins), tuple(outs))
        raise ParameterError(f"{field} of {primitive.name} must have type {wanted}, got {jaxpr.type}")
