"""What programs cost, without compiling them: operations, bytes, memory; counted, and unknown costs named."""

from tinyjax.tools.cost.memory import VIEWS, LiveMemory, live_memory
from tinyjax.tools.cost.model import cost_of, program_cost
from tinyjax.tools.cost.records import (
    Choice,
    Cost,
    EquationCost,
    Expense,
    LineCost,
    Loop,
    ProgramCost,
    Times,
    Unknown,
)
from tinyjax.tools.cost.report import CostReport
from tinyjax.tools.cost.residuals import ResidualMemory, residual_memory
from tinyjax.tools.cost.rules import COSTS, CostRules, bytes_moved
from tinyjax.tools.cost.survey import Branches

__all__ = [
    "COSTS",
    "VIEWS",
    "Branches",
    "Choice",
    "Cost",
    "CostReport",
    "CostRules",
    "EquationCost",
    "Expense",
    "LineCost",
    "LiveMemory",
    "Loop",
    "ProgramCost",
    "ResidualMemory",
    "Times",
    "Unknown",
    "bytes_moved",
    "cost_of",
    "live_memory",
    "program_cost",
    "residual_memory",
]
