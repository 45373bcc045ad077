"""What the package offers, and where it is."""

from tinyjax.hlo.context import SSA as SSA
from tinyjax.hlo.context import LoweringContext as LoweringContext
from tinyjax.hlo.context import LoweringRules as LoweringRules
from tinyjax.hlo.lowering import lower as lower
from tinyjax.hlo.rules.callbacks import on_host as on_host
from tinyjax.hlo.rules.callbacks import on_host_of_gpu as on_host_of_gpu
from tinyjax.hlo.tables import CPU_RULES as CPU_RULES
from tinyjax.hlo.tables import GPU_RULES as GPU_RULES
from tinyjax.hlo.tables import RULES as RULES
from tinyjax.hlo.tables import rules_for as rules_for
