"""What costs are written down in: numbers of operations and bytes, some for each iteration of a loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import InputError
from tinyjax.ir.program import Eqn, Jaxpr
from tinyjax.ir.source import SourceInfo


@final
@frozen
class Cost:
    """What a computation takes.

    `flops` counts operations on elements: additions, comparisons, choices and conversions alike, of any dtype; an
    operation on complex numbers is one. `transcendentals` counts elementary functions such as exp, sin and sqrt, which
    aren't among the flops. `bytes` is what is read and written if every equation reads its operands from memory and
    writes its results there.

    >>> Cost(flops=2, bytes=8) + 3 * Cost(flops=1)
    Cost(flops=5, transcendentals=0, bytes=8)
    """

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.transcendentals + other.transcendentals, self.bytes + other.bytes)

    def __mul__(self, times: int) -> Cost:
        return Cost(times * self.flops, times * self.transcendentals, times * self.bytes)

    __rmul__ = __mul__

    @property
    def weight(self) -> tuple[int, int]:
        """What costs are compared by: operations first, then bytes."""
        return self.flops + self.transcendentals, self.bytes


FREE: Final = Cost()


@final
@frozen
class Expense:
    """A cost with an unknown in it: `fixed`, and `per_iteration` of loops, by their names.

    A loop's name stands for the number of its iterations in the whole run, also if the loop itself runs several times.
    """

    fixed: Cost = FREE
    per_iteration: tuple[tuple[str, Cost], ...] = ()

    @property
    def known(self) -> bool:
        """Whether no loop is involved whose number of iterations isn't known."""
        return not self.per_iteration

    @property
    def once(self) -> Cost:
        """The cost with one iteration of each loop."""
        return sum((cost for _, cost in self.per_iteration), self.fixed)

    def __add__(self, other: Expense) -> Expense:
        loops = dict(self.per_iteration)
        for name, cost in other.per_iteration:
            loops[name] = loops.get(name, FREE) + cost
        return Expense(self.fixed + other.fixed, tuple(loops.items()))

    def at(self, iterations: Mapping[str, int] | None = None, /, **named: int) -> Cost:
        """The cost for given numbers of iterations; an InputError if one is missing, or there is no such loop."""
        given = {**(iterations or {}), **named}
        loops = [name for name, _ in self.per_iteration]
        if given.keys() != set(loops):
            raise InputError(
                f"this cost depends on the iterations of {loops or 'no loop'}: it needs a number "
                f"for each, and was given {sorted(given)}"
            )
        total = self.fixed
        for name, cost in self.per_iteration:
            total += given[name] * cost
        return total


@final
@frozen
class Times:
    """How often a program runs: `fixed` times, and some times for each iteration of loops, by their names."""

    fixed: int = 0
    per_iteration: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Times) -> Times:
        if not self.per_iteration and not other.per_iteration:
            return Times(self.fixed + other.fixed)
        loops = dict(self.per_iteration)
        for name, times in other.per_iteration:
            loops[name] = loops.get(name, 0) + times
        return Times(self.fixed + other.fixed, tuple(loops.items()))

    def __mul__(self, times: int) -> Times:
        return Times(times * self.fixed, tuple((name, times * n) for name, n in self.per_iteration if times))

    def expense(self, cost: Cost) -> Expense:
        """The cost of running something so often that costs `cost` each time."""
        return Expense(self.fixed * cost, tuple((name, n * cost) for name, n in self.per_iteration))

    @override
    def __str__(self) -> str:
        terms = [str(self.fixed)] if self.fixed or not self.per_iteration else []
        terms += [name if n == 1 else f"{n}·{name}" for name, n in self.per_iteration]
        return " + ".join(terms)


@final
@frozen
class Loop:
    """A `while` whose number of iterations isn't known: what one iteration costs, the test included."""

    name: str
    eqn: Eqn
    iteration: Cost

    @property
    def source(self) -> SourceInfo | None:
        return self.eqn.source


@final
@frozen
class Unknown:
    """A primitive whose cost isn't known: `count` equations apply it, the first of them at `source`. `times` says how
    often they run, all together."""

    primitive: str
    reason: str
    count: int
    times: Times
    source: SourceInfo | None


@final
@frozen
class Choice:
    """A conditional whose predicate isn't known, and the branch that costs are counted for."""

    eqn: Eqn
    branch: int
    branches: int

    @property
    def source(self) -> SourceInfo | None:
        return self.eqn.source


@final
@frozen
class EquationCost:
    """What an equation costs. `unknown` is set if it applies a primitive whose cost isn't known, or a program in which
    one is applied: then the rest of it is counted."""

    eqn: Eqn
    cost: Expense
    unknown: bool


@final
@frozen
class ProgramCost:
    """How often a program within the program runs, and what its equations cost in all these runs, without what is
    within them in turn."""

    jaxpr: Jaxpr
    times: Times
    equations: tuple[EquationCost, ...]


@final
@frozen
class LineCost:
    """What the equations of a line of user code cost, in this program and all within. None: no line is known."""

    source: SourceInfo | None
    cost: Expense
