"""The tables of lowering rules: one for every platform, and one for each platform that differs."""

from __future__ import annotations

from typing import Final

from tinyjax.hlo.context import LoweringRules
from tinyjax.ir.rules import RuleTable

#: The rules that hold on every platform, unless its own table says otherwise.
RULES: Final[LoweringRules] = RuleTable("Translation", name="tinyjax.hlo.RULES")
#: The rules that hold on one platform only.
CPU_RULES: Final[LoweringRules] = RuleTable("Translation", name="tinyjax.hlo.CPU_RULES", parent=RULES)
GPU_RULES: Final[LoweringRules] = RuleTable("Translation", name="tinyjax.hlo.GPU_RULES", parent=RULES)

_PLATFORMS: Final = {"cpu": CPU_RULES, "gpu": GPU_RULES, "cuda": GPU_RULES, "rocm": GPU_RULES}


def rules_for(platform: str) -> LoweringRules:
    """The table to lower with for a platform, by the name that JAX gives it."""
    return _PLATFORMS.get(platform, RULES)
