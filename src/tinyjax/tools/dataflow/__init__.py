"""Dataflow: forward and backward analyses of programs over a lattice of your own, and three that are built on it."""

from tinyjax.exports import publish
from tinyjax.tools.dataflow.constancy import CONSTANCY_RULES as CONSTANCY_RULES
from tinyjax.tools.dataflow.constancy import Constancy as Constancy
from tinyjax.tools.dataflow.constancy import Fixed as Fixed
from tinyjax.tools.dataflow.constancy import constancy as constancy
from tinyjax.tools.dataflow.dependence import DEPENDENCE_RULES as DEPENDENCE_RULES
from tinyjax.tools.dataflow.dependence import Dependence as Dependence
from tinyjax.tools.dataflow.dependence import dependence as dependence
from tinyjax.tools.dataflow.engine import Flow as Flow
from tinyjax.tools.dataflow.engine import Rules as Rules
from tinyjax.tools.dataflow.engine import Walk as Walk
from tinyjax.tools.dataflow.engine import backward as backward
from tinyjax.tools.dataflow.engine import forward as forward
from tinyjax.tools.dataflow.lattice import Lattice as Lattice
from tinyjax.tools.dataflow.liveness import LIVENESS_RULES as LIVENESS_RULES
from tinyjax.tools.dataflow.liveness import Liveness as Liveness
from tinyjax.tools.dataflow.liveness import liveness as liveness
from tinyjax.tools.dataflow.structure import BACKWARD as BACKWARD
from tinyjax.tools.dataflow.structure import FORWARD as FORWARD
from tinyjax.tools.dataflow.structure import backward_rules as backward_rules
from tinyjax.tools.dataflow.structure import forward_rules as forward_rules

publish(__name__)
