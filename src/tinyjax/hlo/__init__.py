"""StableHLO text: `lower` writes a program as a module, by rules in tables that anyone can add to."""

from tinyjax.hlo import rules
from tinyjax.hlo.context import SSA, LoweringContext, LoweringRules
from tinyjax.hlo.lowering import lower
from tinyjax.hlo.rules.callbacks import on_host, on_host_of_gpu
from tinyjax.hlo.tables import CPU_RULES, GPU_RULES, RULES, rules_for
from tinyjax.tracebacks import filter_package

__all__ = [
    "CPU_RULES",
    "GPU_RULES",
    "RULES",
    "SSA",
    "LoweringContext",
    "LoweringRules",
    "lower",
    "on_host",
    "on_host_of_gpu",
    "rules",
    "rules_for",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
