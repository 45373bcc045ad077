"""Tools that work on programs: analyses, costs, pictures, the command line. Not imported by `import tinyjax`."""

from tinyjax.tools.cost import CostReport, cost_of, live_memory, program_cost, residual_memory
from tinyjax.tools.dataflow import Lattice, backward, constancy, dependence, forward, liveness
from tinyjax.tools.diff_programs import Diff, diff
from tinyjax.tools.dot import to_dot
from tinyjax.tools.memory_plots import memory_plot
from tinyjax.tools.svg import to_svg
from tinyjax.tools.viewer import save_html, to_html
from tinyjax.tracebacks import filter_package

__all__ = [
    "CostReport",
    "Diff",
    "Lattice",
    "backward",
    "constancy",
    "cost_of",
    "dependence",
    "diff",
    "forward",
    "live_memory",
    "liveness",
    "memory_plot",
    "program_cost",
    "residual_memory",
    "save_html",
    "to_dot",
    "to_html",
    "to_svg",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
