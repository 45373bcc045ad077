"""What XLA can't do with narrow numbers, over which its CPU backend even ends the process: done with wider ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.rules import reductions as _reductions
from tinyjax.hlo.rules import shapes as _shapes
from tinyjax.hlo.rules import sorting as _sorting
from tinyjax.hlo.rules import special as _special
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.tables import CPU_RULES, RULES
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import WIDE, bits
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import result_types
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.bessel import BesselI1e
from tinyjax.primitives.reductions import ArgMax, ArgMin
from tinyjax.primitives.slicing import Concatenate, Pad, Split
from tinyjax.primitives.sorting import Sort
from tinyjax.primitives.special import Erfc

#: The modules whose rules are wrapped here, so that they have been imported.
_WRAPPED: Final = (_reductions, _shapes, _sorting, _special)


def _wider(aval: ShapedArray, width: int) -> ShapedArray:
    """The type with a dtype that is wider than so many bits."""
    dtype = aval.dtype
    return array_type(aval.shape, WIDE[dtype], aval.weak_type) if dtype in WIDE and bits(dtype) <= width else aval


def _of_wider(rule: Rule, width: int) -> Rule:
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


for _cls in (Concatenate, Split, Pad, ArgMax, ArgMin, Sort):
    CPU_RULES[_cls] = _of_wider(CPU_RULES[_cls], 7)
for _function in (Erfc, BesselI1e):
    RULES[_function] = _of_wider(RULES[_function], 8)
