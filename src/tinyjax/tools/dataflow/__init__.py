"""Dataflow: forward and backward analyses of programs over a lattice of your own, and three that are built on it."""

from tinyjax.tools.dataflow.constancy import RULES as CONSTANCY_RULES
from tinyjax.tools.dataflow.constancy import Constancy, Fixed, constancy
from tinyjax.tools.dataflow.dependence import RULES as DEPENDENCE_RULES
from tinyjax.tools.dataflow.dependence import Dependence, dependence
from tinyjax.tools.dataflow.engine import Flow, Rules, Walk, backward, forward
from tinyjax.tools.dataflow.lattice import Lattice
from tinyjax.tools.dataflow.liveness import RULES as LIVENESS_RULES
from tinyjax.tools.dataflow.liveness import Liveness, liveness
from tinyjax.tools.dataflow.structure import BACKWARD, FORWARD, backward_rules, forward_rules

__all__ = [
    "BACKWARD",
    "CONSTANCY_RULES",
    "DEPENDENCE_RULES",
    "FORWARD",
    "LIVENESS_RULES",
    "Constancy",
    "Dependence",
    "Fixed",
    "Flow",
    "Lattice",
    "Liveness",
    "Rules",
    "Walk",
    "backward",
    "backward_rules",
    "constancy",
    "dependence",
    "forward",
    "forward_rules",
    "liveness",
]
