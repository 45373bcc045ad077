"""What primitives that hold programs come to when their operands are known: a branch, or a loop that never runs.

`simplify` and `fold_constants` share this table; the primitives' own package fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.ir.rules import RuleTable

ShortcutRule: TypeAlias = Callable[[Primitive, Sequence[Literal | None]], Jaxpr | None]
#: A rule takes the primitive, and for each operand the scalar that it is known to be, or None. It returns a program
#: that computes the same from the same operands; or None: the equation stays.
SHORTCUTS: Final[RuleTable[[Sequence[Literal | None]], Jaxpr | None]] = RuleTable(
    "Shortcut", name="tinyjax.transforms.SHORTCUTS"
)
