"""StableHLO text: `lower` writes a program as a module, by rules in tables that anyone can add to."""

from tinyjax.hlo import arrays, calls, contractions, elementwise, functions, indexing, reductions, sorting
from tinyjax.hlo.context import SSA, LoweringContext, LoweringRules
from tinyjax.hlo.lowering import lower
from tinyjax.hlo.tables import CPU_RULES, GPU_RULES, RULES, rules_for

__all__ = [
    "CPU_RULES",
    "GPU_RULES",
    "RULES",
    "SSA",
    "LoweringContext",
    "LoweringRules",
    "arrays",
    "calls",
    "contractions",
    "elementwise",
    "functions",
    "indexing",
    "lower",
    "reductions",
    "rules_for",
    "sorting",
]
