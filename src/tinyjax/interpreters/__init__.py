"""Interpreters of programs: the base for writing one, and five that are made with it.

`inverse` solves a function for its arguments, `bounds` gives lower and upper bounds of its results, `jacobian_sparsity`
and `sparse_jacobian` find which derivatives can be other than zero and compute those, `jet` gives derivatives of any
order, `harvest` and `plant` take named values out of a function and put others in. The tutorial is
docs/interpreters.md.
"""

from tinyjax.api.partial_evaluation import PartlyEvaluated as PartlyEvaluated
from tinyjax.api.partial_evaluation import partial_eval as partial_eval
from tinyjax.contexts.batching import BatchContext as BatchContext
from tinyjax.contexts.batching import Batched as Batched
from tinyjax.contexts.evaluation import EvalContext as EvalContext
from tinyjax.contexts.jvp import Dual as Dual
from tinyjax.contexts.jvp import JvpContext as JvpContext
from tinyjax.contexts.partial_eval import PartialEvalContext as PartialEvalContext
from tinyjax.contexts.partial_eval import Unknown as Unknown
from tinyjax.contexts.rebuilding import Known as Known
from tinyjax.contexts.staging import StagingContext as StagingContext
from tinyjax.contexts.staging import stage as stage
from tinyjax.exports import publish

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
from tinyjax.interpreters.base import CONTROL as CONTROL
from tinyjax.interpreters.base import Form as Form
from tinyjax.interpreters.base import RuleContext as RuleContext
from tinyjax.interpreters.base import Rules as Rules
from tinyjax.interpreters.base import Transformed as Transformed
from tinyjax.interpreters.base import Wanted as Wanted
from tinyjax.interpreters.base import rule_table as rule_table
from tinyjax.interpreters.harvest import HARVEST_RULES as HARVEST_RULES
from tinyjax.interpreters.harvest import harvest as harvest
from tinyjax.interpreters.harvest import plant as plant
from tinyjax.interpreters.hidden import Hidden as Hidden
from tinyjax.interpreters.hidden import open_frame as open_frame
from tinyjax.interpreters.hidden import staged as staged
from tinyjax.interpreters.intervals import INTERVAL_RULES as INTERVAL_RULES
from tinyjax.interpreters.intervals import bounds as bounds
from tinyjax.interpreters.inverse import INVERSE_RULES as INVERSE_RULES
from tinyjax.interpreters.inverse import inverse as inverse
from tinyjax.interpreters.jet import JET_RULES as JET_RULES
from tinyjax.interpreters.jet import jet as jet
from tinyjax.interpreters.live import Inside as Inside
from tinyjax.interpreters.live import Interpretation as Interpretation
from tinyjax.interpreters.live import interpreting as interpreting
from tinyjax.interpreters.running import StagedCall as StagedCall
from tinyjax.interpreters.running import stage_call as stage_call
from tinyjax.interpreters.sparse_jacobian import SparseJacobian as SparseJacobian
from tinyjax.interpreters.sparse_jacobian import color_columns as color_columns
from tinyjax.interpreters.sparse_jacobian import sparse_jacobian as sparse_jacobian
from tinyjax.interpreters.sparsity import SPARSITY_RULES as SPARSITY_RULES
from tinyjax.interpreters.sparsity import jacobian_sparsity as jacobian_sparsity

publish(__name__)
