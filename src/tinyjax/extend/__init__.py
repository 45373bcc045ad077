"""What a package that adds primitives of its own needs, in one place: see docs/primitives.md.

The library's own primitives, for tables and rules, are in `tinyjax.extend.primitives`, lowering tables in
`tinyjax.hlo`.
"""

from tinyjax.api.partial_evaluation import PartlyEvaluated, partial_eval
from tinyjax.control.composite import Composite
from tinyjax.extend.array_rules import ArrayPrimitive, Results, run_in
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effect, Effects
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.text.registry import Registry
from tinyjax.primitives.structure import instantiate
from tinyjax.registered.jax_expansions import STANDARD
from tinyjax.tracebacks import filter_package
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

__all__ = [
    "STANDARD",
    "ArrayPrimitive",
    "BatchAxis",
    "Composite",
    "Context",
    "Effect",
    "Effects",
    "Evaluator",
    "Opaque",
    "Outputs",
    "PartlyEvaluated",
    "Primitive",
    "Registry",
    "Results",
    "RuleTable",
    "Split",
    "UndefPrimal",
    "Zero",
    "as_array",
    "bind",
    "instantiate",
    "partial_eval",
    "run_in",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
