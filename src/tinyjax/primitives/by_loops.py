"""What is computed by loops that NumPy doesn't have."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from tinyjax.primitives.elementwise import Binary


@frozen
class ByLoops(Binary):
    """Functions of two operands for which SciPy has nothing. NumPy's loops take hundreds of times as long as compiled
    ones, so these are compiled wherever the operands are, if there is a compiler."""

    plain: ClassVar[bool] = False
