"""Interpreters of programs: the base for writing one, and five that are made with it.

`inverse` solves a function for its arguments, `bounds` gives lower and upper bounds of its results, `jacobian_sparsity`
and `sparse_jacobian` find which derivatives can be other than zero and compute those, `jet` gives derivatives of any
order, `harvest` and `plant` take named values out of a function and put others in. The tutorial is
docs/interpreters.md.
"""

from tinyjax.api.partial_evaluation import PartlyEvaluated, partial_eval
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import Known, PartialEvalContext, Unknown
from tinyjax.contexts.staging import StagingContext, stage

# Imported for the rules that they add to the tables.
from tinyjax.interpreters import (  # noqa: F401
    control,
    interval_arrays,
    interval_integers,
    interval_scatters,
    interval_special,
    inverse_rules,
    jet_rules,
    sparsity_custom,
    sparsity_rules,
)
from tinyjax.interpreters.base import CONTROL, Form, RuleContext, Rules, Transformed, Wanted, rule_table
from tinyjax.interpreters.harvest import RULES as HARVEST_RULES
from tinyjax.interpreters.harvest import harvest, plant
from tinyjax.interpreters.hidden import Hidden, open_frame, staged
from tinyjax.interpreters.intervals import RULES as INTERVAL_RULES
from tinyjax.interpreters.intervals import bounds
from tinyjax.interpreters.inverse import RULES as INVERSE_RULES
from tinyjax.interpreters.inverse import inverse
from tinyjax.interpreters.jet import RULES as JET_RULES
from tinyjax.interpreters.jet import jet
from tinyjax.interpreters.live import Inside, Interpretation, interpreting
from tinyjax.interpreters.running import StagedCall, stage_call
from tinyjax.interpreters.sparse_jacobian import SparseJacobian, color_columns, sparse_jacobian
from tinyjax.interpreters.sparsity import RULES as SPARSITY_RULES
from tinyjax.interpreters.sparsity import jacobian_sparsity
from tinyjax.tracebacks import filter_package

__all__ = [
    "CONTROL",
    "HARVEST_RULES",
    "INTERVAL_RULES",
    "INVERSE_RULES",
    "JET_RULES",
    "SPARSITY_RULES",
    "BatchContext",
    "Batched",
    "Dual",
    "EvalContext",
    "Form",
    "Hidden",
    "Inside",
    "Interpretation",
    "JvpContext",
    "Known",
    "PartialEvalContext",
    "PartlyEvaluated",
    "RuleContext",
    "Rules",
    "SparseJacobian",
    "StagedCall",
    "StagingContext",
    "Transformed",
    "Unknown",
    "Wanted",
    "bounds",
    "color_columns",
    "harvest",
    "interpreting",
    "inverse",
    "jacobian_sparsity",
    "jet",
    "open_frame",
    "partial_eval",
    "plant",
    "rule_table",
    "sparse_jacobian",
    "stage",
    "stage_call",
    "staged",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
