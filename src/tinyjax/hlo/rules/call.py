"""Lowering rules of the primitives whose parameters are programs."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.control.call import Call
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.tables import RULES
from tinyjax.ir.aval import ShapedArray


@RULES.register(Call)
def _call(primitive: Call, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    return ctx.call(primitive.jaxpr, primitive.function_name, args)
