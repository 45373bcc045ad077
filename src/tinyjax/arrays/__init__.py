"""NumPy's semantics on arrays: operators, promotion, indexing, reductions, changes of shape."""

from typing import TYPE_CHECKING

from tinyjax.exports import modules_later

if TYPE_CHECKING:
    from tinyjax.arrays import at as at
    from tinyjax.arrays import indexing as indexing
    from tinyjax.arrays import taking as taking

modules_later(__name__)
