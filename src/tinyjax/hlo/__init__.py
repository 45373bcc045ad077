"""StableHLO text: `lower` writes a program as a module, by rules in tables that anyone can add to."""

from tinyjax.hlo import arrays as arrays
from tinyjax.hlo import calls as calls
from tinyjax.hlo import contractions as contractions
from tinyjax.hlo import elementwise as elementwise
from tinyjax.hlo import functions as functions
from tinyjax.hlo import indexing as indexing
from tinyjax.hlo import reductions as reductions
from tinyjax.hlo import sorting as sorting
from tinyjax.hlo.context import SSA as SSA
from tinyjax.hlo.context import LoweringContext as LoweringContext
from tinyjax.hlo.context import LoweringRules as LoweringRules
from tinyjax.hlo.lowering import lower as lower
from tinyjax.hlo.tables import CPU_RULES as CPU_RULES
from tinyjax.hlo.tables import GPU_RULES as GPU_RULES
from tinyjax.hlo.tables import RULES as RULES
from tinyjax.hlo.tables import rules_for as rules_for
