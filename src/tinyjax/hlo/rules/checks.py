"""Checks in programs that are compiled: only those that nobody asked for may be there."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.errors import UnhandledCheckError
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.tables import RULES
from tinyjax.ir.aval import ShapedArray
from tinyjax.primitives.checks import Check


@RULES.register(Check)
def _check(primitive: Check, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    first = next((failure for failure in primitive.failures if not failure.debug), None)
    if first is None:
        return []
    raise UnhandledCheckError(
        f"the program has a check in it, {first}, and compiled programs can't raise errors. Make it a result: "
        "`error, out = jit(checkify.checkify(f))(*args)`, then `error.throw()`, with "
        "`from tinyjax.experimental import checkify`. A `checkify.debug_check` is left out instead."
    )
