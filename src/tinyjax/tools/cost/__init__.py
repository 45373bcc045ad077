"""What programs cost, without compiling them: operations, bytes, memory; counted, and unknown costs named."""

from tinyjax.exports import publish
from tinyjax.tools.cost.memory import VIEWS as VIEWS
from tinyjax.tools.cost.memory import LiveMemory as LiveMemory
from tinyjax.tools.cost.memory import live_memory as live_memory
from tinyjax.tools.cost.model import cost_of as cost_of
from tinyjax.tools.cost.model import program_cost as program_cost
from tinyjax.tools.cost.records import (
    Choice as Choice,
)
from tinyjax.tools.cost.records import (
    Cost as Cost,
)
from tinyjax.tools.cost.records import (
    EquationCost as EquationCost,
)
from tinyjax.tools.cost.records import (
    Expense as Expense,
)
from tinyjax.tools.cost.records import (
    LineCost as LineCost,
)
from tinyjax.tools.cost.records import (
    Loop as Loop,
)
from tinyjax.tools.cost.records import (
    ProgramCost as ProgramCost,
)
from tinyjax.tools.cost.records import (
    Times as Times,
)
from tinyjax.tools.cost.records import (
    Unknown as Unknown,
)
from tinyjax.tools.cost.report import CostReport as CostReport
from tinyjax.tools.cost.residuals import ResidualMemory as ResidualMemory
from tinyjax.tools.cost.residuals import residual_memory as residual_memory
from tinyjax.tools.cost.rules import COSTS as COSTS
from tinyjax.tools.cost.rules import CostRules as CostRules
from tinyjax.tools.cost.rules import bytes_moved as bytes_moved
from tinyjax.tools.cost.survey import Branches as Branches

publish(__name__)
