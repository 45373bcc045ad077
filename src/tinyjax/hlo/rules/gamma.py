"""Lowering rules of the error function, the logarithm of the gamma function, and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.elementwise import operands, typed
from tinyjax.hlo.rules.narrow import of_wider
from tinyjax.hlo.tables import RULES
from tinyjax.ir.aval import ShapedArray
from tinyjax.primitives import special
from tinyjax.primitives.arithmetic import abs_, reciprocal, rem
from tinyjax.primitives.bitwise import logical_and, logical_or
from tinyjax.primitives.comparison import eq, ge, gt
from tinyjax.primitives.elementwise import neg
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import constant_like

_DIGAMMA: Final = typed("chlo.digamma")
_POLYGAMMA: Final = typed("chlo.polygamma")


@RULES.register(special.Digamma)
def _digamma(
    primitive: special.Digamma, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """Infinite at zeros, as its limits from either side are."""
    (x,), (y,) = args, _DIGAMMA(primitive, ctx, args, types)
    return (select(ctx, eq(ctx, x, constant_like(ctx, x, 0)), neg(ctx, reciprocal(ctx, x)), y),)


@RULES.register(special.Polygamma)
def _polygamma(
    primitive: special.Polygamma, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """Infinite at zeros, zero at infinity."""
    n, x = (SSA(name, types[0]) for name in operands(ctx, args, types[0]))
    (y,) = _POLYGAMMA(primitive, ctx, (n, x), types)
    zero, one, two, infinity = (constant_like(ctx, x, value) for value in (0, 1, 2, math.inf))
    inverse, parity = reciprocal(ctx, x), rem(ctx, n, two)
    odd, even = eq(ctx, parity, one), logical_and(ctx, eq(ctx, parity, zero), ge(ctx, n, zero))
    end = logical_or(ctx, eq(ctx, x, zero), logical_and(ctx, eq(ctx, x, infinity), gt(ctx, n, zero)))
    y = select(ctx, logical_and(ctx, end, odd), abs_(ctx, inverse), y)
    return (select(ctx, logical_and(ctx, end, even), neg(ctx, inverse), y),)


RULES[special.Erf] = typed("chlo.erf")
RULES[special.Erfc] = of_wider(typed("chlo.erfc"), 8)
RULES[special.ErfInv] = typed("chlo.erf_inv")
RULES[special.Lgamma] = typed("chlo.lgamma")
