"""What XLA can't do with narrow numbers, over which its CPU backend even ends the process: done with wider ones."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import WIDE, bits
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import result_types
from tinyjax.ir.shared_types import array_type


def _wider(aval: ShapedArray, width: int) -> ShapedArray:
    """The type with a dtype that is wider than so many bits."""
    dtype = aval.dtype
    return array_type(aval.shape, WIDE[dtype], aval.weak_type) if dtype in WIDE and bits(dtype) <= width else aval


def of_wider(rule: Rule, width: int) -> Rule:
    """The rule of numbers of at most so many bits by that of wider ones."""

    def lower(
        primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        avals = [_wider(arg.aval, width) for arg in args]
        if all(aval is arg.aval for aval, arg in zip(avals, args, strict=True)):
            return rule(primitive, ctx, args, types)
        wide = [convert(ctx, arg, aval) for arg, aval in zip(args, avals, strict=True)]
        outs = rule(primitive, ctx, wide, result_types(primitive, avals))
        return [convert(ctx, out, aval) for out, aval in zip(outs, types, strict=True)]

    return lower
