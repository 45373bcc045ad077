"""The lowering rules of `platform_index`: a constant, which `cond` knows when it sees it."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.hlo.context import SSA, LoweringContext, LoweringRules
from tinyjax.hlo.tables import PLATFORM_NAMES
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INT32
from tinyjax.primitives.platforms import PlatformIndex


def _register(table: LoweringRules, names: tuple[str, ...]) -> None:
    @table.register(PlatformIndex)
    def _platform_index(
        primitive: PlatformIndex, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        return (ctx.scalar(primitive.position(*names), INT32),)


for _table, _names in PLATFORM_NAMES.items():
    _register(_table, _names)
