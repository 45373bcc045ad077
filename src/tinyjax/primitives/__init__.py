"""First-order primitives, a file for each family."""

from typing import TYPE_CHECKING

from tinyjax.exports import modules_later

if TYPE_CHECKING:
    from tinyjax.primitives import cumulative as cumulative
    from tinyjax.primitives import gather as gather
    from tinyjax.primitives import matrices as matrices
    from tinyjax.primitives import reductions as reductions
    from tinyjax.primitives import resharding as resharding
    from tinyjax.primitives import sorting as sorting
    from tinyjax.primitives import windows as windows

modules_later(__name__)
