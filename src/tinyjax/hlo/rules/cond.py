"""The lowering rule of `cond`."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.control.cond import Cond
from tinyjax.hlo.called import ORDER
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.keys import in_words
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import regions_text, results_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Jaxpr


@RULES.register(Cond)
def _cond(primitive: Cond, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    index, *operands = args
    known = ctx.known(index)
    if known is not None:
        return ctx.run(primitive.branch(int(known.value.real)), operands, "branch")
    ordered = must_stay(primitive.effects)

    def region(branch: Jaxpr) -> str:
        def body(inner: LoweringContext, _: Sequence[SSA]) -> Sequence[SSA]:
            outs = inner.apart(inner.run(branch, operands, "branch"))
            return [inner.order(), *outs] if ordered else outs

        return ctx.region((), body)

    regions = regions_text(*map(region, primitive.branches))
    given = ([ORDER] if ordered else []) + list(in_words(types))
    outs = ctx.emit_many(f'"stablehlo.case"({index.name}) {regions} : (tensor<i32>) -> {results_text(given)}', given)
    return ctx.together(ctx.after_effects(outs) if ordered else outs, types)
