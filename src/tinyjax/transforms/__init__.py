"""Transformations of programs: pure functions from jaxprs to jaxprs, or to frozen records of jaxprs."""

from tinyjax.tracebacks import filter_package
from tinyjax.transforms.batch import BatchedProgram, batch
from tinyjax.transforms.cse import COMMUTATIVE, MERGING, cse
from tinyjax.transforms.dce import PRUNING, PrunedPrimitive, PrunedProgram, dce, prune
from tinyjax.transforms.decided import SHORTCUTS
from tinyjax.transforms.fold_constants import FOLDING, fold_constants
from tinyjax.transforms.hoist_constants import HOISTING, Before, Hoisted, hoist_constants
from tinyjax.transforms.inline import INLINING, Inlinable, inline, once_or_small
from tinyjax.transforms.jvp import JvpProgram, jvp
from tinyjax.transforms.linearity import LINEARITY, Kind, Nonlinear
from tinyjax.transforms.linearize import Linearization, linearize
from tinyjax.transforms.partial_eval import PartialEvaluation, partial_eval
from tinyjax.transforms.patterns import AnyLiteral, Apply, Match, Number, Several, Variable, pattern, variables
from tinyjax.transforms.pipeline import OPTIMIZATION, Pass, PassReport, Pipeline, count_primitives, optimize
from tinyjax.transforms.residuals import Residual
from tinyjax.transforms.rewrite import Rewrite, rewrite
from tinyjax.transforms.simplify import simplify
from tinyjax.transforms.simplify_arrays import ARRAY_RULES
from tinyjax.transforms.simplify_numbers import EXACT_RULES, FAST_RULES
from tinyjax.transforms.transpose import TransposedProgram, transpose

__all__ = [
    "ARRAY_RULES",
    "COMMUTATIVE",
    "EXACT_RULES",
    "FAST_RULES",
    "FOLDING",
    "HOISTING",
    "INLINING",
    "LINEARITY",
    "MERGING",
    "OPTIMIZATION",
    "PRUNING",
    "SHORTCUTS",
    "AnyLiteral",
    "Apply",
    "BatchedProgram",
    "Before",
    "Hoisted",
    "Inlinable",
    "JvpProgram",
    "Kind",
    "Linearization",
    "Match",
    "Nonlinear",
    "Number",
    "PartialEvaluation",
    "Pass",
    "PassReport",
    "Pipeline",
    "PrunedPrimitive",
    "PrunedProgram",
    "Residual",
    "Rewrite",
    "Several",
    "TransposedProgram",
    "Variable",
    "batch",
    "count_primitives",
    "cse",
    "dce",
    "fold_constants",
    "hoist_constants",
    "inline",
    "jvp",
    "linearize",
    "once_or_small",
    "optimize",
    "partial_eval",
    "pattern",
    "prune",
    "rewrite",
    "simplify",
    "transpose",
    "variables",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
