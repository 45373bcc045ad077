"""How large equations are: by how many of them there are once the programs within them are counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from tinyjax.ir.program import Eqn, Jaxpr
from tinyjax.ir.traverse import inner_programs, nested_programs
from tinyjax.primitives.stacking import Stack, Unstack


@final
class Sizes:
    """Counts equations, with those of what they call, loop over or choose among; remembers what it has counted."""

    def __init__(self) -> None:
        self._known: dict[Jaxpr, int] = {}

    def of(self, eqns: Iterable[Eqn]) -> int:
        """How many these are."""
        eqns = list(eqns)
        return len(eqns) + sum(map(self._program, inner_programs(eqns)))

    def of_all(self, jaxpr: Jaxpr) -> int:
        """How many a program has."""
        return len(jaxpr.eqns) + sum(map(self._program, jaxpr.inner))

    def _program(self, jaxpr: Jaxpr) -> int:
        if jaxpr not in self._known:
            for nested in nested_programs(jaxpr):  # those within come first, so that nothing recurses
                if nested not in self._known:
                    self._known[nested] = self.of_all(nested)
        return self._known[jaxpr]


def of_rows(eqns: Iterable[Eqn]) -> int:
    """How many more of them there would be if each made or took one row where these make stacks, and take them apart:
    what compiling costs."""
    return sum(map(_of_rows, eqns))


def _of_rows(eqn: Eqn) -> int:
    if type(eqn.primitive) is Stack:
        return len(eqn.invars)
    return 2 * len(eqn.outvars) - 1 if type(eqn.primitive) is Unstack else 0
