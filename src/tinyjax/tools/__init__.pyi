"""What the package offers, and where it is."""

from tinyjax.control.key_reuse import KeyReuse as KeyReuse
from tinyjax.control.key_reuse import KeyUse as KeyUse
from tinyjax.control.key_reuse import key_reuse as key_reuse
from tinyjax.tools.cost import CostReport as CostReport
from tinyjax.tools.cost import cost_of as cost_of
from tinyjax.tools.cost import live_memory as live_memory
from tinyjax.tools.cost import program_cost as program_cost
from tinyjax.tools.cost import residual_memory as residual_memory
from tinyjax.tools.dataflow import Lattice as Lattice
from tinyjax.tools.dataflow import backward as backward
from tinyjax.tools.dataflow import constancy as constancy
from tinyjax.tools.dataflow import dependence as dependence
from tinyjax.tools.dataflow import forward as forward
from tinyjax.tools.dataflow import liveness as liveness
from tinyjax.tools.diff_programs import Diff as Diff
from tinyjax.tools.diff_programs import diff as diff
from tinyjax.tools.dot import to_dot as to_dot
from tinyjax.tools.keys import check_key_reuse as check_key_reuse
from tinyjax.tools.memory_plots import memory_plot as memory_plot
from tinyjax.tools.partitioning import PartitionReport as PartitionReport
from tinyjax.tools.partitioning import partition as partition
from tinyjax.tools.sharding_pictures import sharding_picture as sharding_picture
from tinyjax.tools.svg import to_svg as to_svg
from tinyjax.tools.viewer import save_html as save_html
from tinyjax.tools.viewer import to_html as to_html
