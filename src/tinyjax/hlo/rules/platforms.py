"""The lowering rules of `platform_index`: a constant, which `cond` knows when it sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tinyjax.hlo.context import SSA, LoweringContext, LoweringRules
from tinyjax.hlo.tables import CPU_RULES, GPU_RULES, RULES
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INT32
from tinyjax.primitives.platforms import PlatformIndex

#: The names of a table's platforms, the first one for messages.
_NAMES: Final[Mapping[LoweringRules, tuple[str, ...]]] = {
    RULES: ("tpu",), CPU_RULES: ("cpu",), GPU_RULES: ("cuda", "rocm", "gpu"),
}  # fmt: skip


def _register(table: LoweringRules, names: tuple[str, ...]) -> None:
    @table.register(PlatformIndex)
    def _platform_index(
        primitive: PlatformIndex, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        return (ctx.scalar(primitive.position(*names), INT32),)


for _table, _names in _NAMES.items():
    _register(_table, _names)
