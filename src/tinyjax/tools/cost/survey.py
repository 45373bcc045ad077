"""How costs are added up: program by program, inner ones first; then how often each runs, outer ones first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, TypeAlias, final
from typing import Literal as OneOf

from attrs import evolve, frozen

from tinyjax.control.callbacks import Callback
from tinyjax.control.cond import Cond
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.control.loops import While
from tinyjax.control.recursion import Enclosing
from tinyjax.control.scan import Scan
from tinyjax.interpreters.base import Expansions
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn, Jaxpr, Literal
from tinyjax.ir.source import SourceInfo
from tinyjax.primitives.collectives import Collective
from tinyjax.tools.cost.memory import live_memory, total_bytes
from tinyjax.tools.cost.records import (
    FREE,
    Choice,
    Cost,
    EquationCost,
    Expense,
    LineCost,
    Loop,
    ProgramCost,
    Times,
    Unknown,
)
from tinyjax.tools.cost.report import CostReport
from tinyjax.tools.cost.rules import CostRules

#: Which branch of a conditional costs are counted for, where the predicate isn't known.
Branches: TypeAlias = OneOf["costliest", "cheapest"]

#: Why the cost of a primitive isn't known, where there is more to say than that it has no rule.
_REASONS: Final[dict[type[Primitive], str]] = {
    Callback: "it calls a Python function on the host",
    Collective: "it combines the elements of a batch that an enclosing vmap maps over",
    CustomLin: "it is the derivative of a custom_vjp function, of which only the transpose is known",
    CallExported: "it calls a function of which only the StableHLO is known",
    FfiCall: "it calls a compiled function that the program doesn't hold",
    Enclosing: "it stands for a function whose derivative rule the program is a part of",
}


#: Equal programs from different lines of user code are kept apart.
_Key: TypeAlias = tuple[Jaxpr, int]


def _key(jaxpr: Jaxpr) -> _Key:
    return jaxpr, jaxpr.lines


@final
@frozen
class _Inner:
    """A program that an equation applies: `repeats` times each time it runs, and once in each iteration of `loop`."""

    jaxpr: Jaxpr
    repeats: int
    loop: str | None = None


@final
@frozen
class _Entry:
    """An equation's own cost, each time it runs, and the programs that it applies. Cost None: it isn't known."""

    eqn: Eqn
    own: Cost | None
    inner: tuple[_Inner, ...]
    choice: Choice | None = None


@final
@frozen
class _Summary:
    """A program's equations; what it costs each time it runs, with what is within it, but for loops; its loops."""

    entries: tuple[_Entry, ...]
    fixed: Cost
    once: Cost  # with one iteration of each loop, to compare branches by
    loops: frozenset[str]
    unknown: bool


def _line(source: SourceInfo | None) -> SourceInfo | None:
    """The line alone, without the transformations that an equation went through."""
    return source if source is None or not source.transformations else evolve(source, transformations=())


@final
class Survey:
    """The summaries of a program and of all within it: each distinct program is looked at once, inner ones first."""

    def __init__(self, branches: Branches, rules: CostRules) -> None:
        self._costliest = branches == "costliest"
        self._rules = rules
        self._summaries: dict[_Key, _Summary] = {}
        self._names = (f"n{i}" for i in count(1))
        self._expansions = Expansions()
        self._loops: dict[str, Loop] = {}
        self._rank: dict[str, int] = {}
        self._ruled: dict[type[Primitive], bool] = {}

    def visit(self, jaxpr: Jaxpr) -> None:
        """Summarizes the programs within, then this one, without recursion."""
        pending = [jaxpr]
        while pending:
            program = pending[-1]
            if _key(program) in self._summaries:
                pending.pop()
                continue
            inner = [child for eqn in program.eqns if not self._counted(eqn) for child in self._within(eqn)]
            missing = [child for child in inner if _key(child) not in self._summaries]
            if missing:
                pending += missing
            else:
                self._summaries[_key(pending.pop())] = self._summarize(program)

    def _counted(self, eqn: Eqn) -> bool:
        """Whether there is a rule for the equation's primitive."""
        cls = type(eqn.primitive)
        found = self._ruled.get(cls)
        if found is None:
            found = self._ruled[cls] = cls in self._rules
        return found

    def _within(self, eqn: Eqn) -> Sequence[Jaxpr]:
        """The programs that an equation applies; if it has no rule and is defined by others, its decomposition."""
        primitive = eqn.primitive
        if self._counted(eqn) or isinstance(primitive, CustomLin):
            return ()
        if type(primitive).expand is Primitive.expand:
            return primitive.applied_programs
        expanded = self._expansions.of(eqn)
        return primitive.applied_programs if expanded is None else (expanded,)

    def summary(self, jaxpr: Jaxpr) -> _Summary:
        return self._summaries[_key(jaxpr)]

    def _summarize(self, jaxpr: Jaxpr) -> _Summary:
        entries = tuple(map(self._entry, jaxpr.eqns))
        costs = [entry.own for entry in entries if entry.own is not None]
        fixed = once = Cost(*map(sum, zip(*[(c.flops, c.transcendentals, c.bytes) for c in costs], strict=True)))
        loops: set[str] = set()
        unknown = any(map(self.lacks, entries))
        for entry in entries:
            for inner in entry.inner:
                summary = self.summary(inner.jaxpr)
                fixed += inner.repeats * summary.fixed
                once += (inner.repeats + (inner.loop is not None)) * summary.once
                loops |= summary.loops
                if inner.loop is not None:
                    loops.add(inner.loop)
        return _Summary(entries, fixed, once, frozenset(loops), unknown)

    def lacks(self, entry: _Entry) -> bool:
        """Whether some of the cost of an equation isn't known."""
        return entry.own is None or any(self.summary(inner.jaxpr).unknown for inner in entry.inner)

    def _entry(self, eqn: Eqn) -> _Entry:
        primitive = eqn.primitive
        if self._counted(eqn):
            return _Entry(eqn, self._rules.apply(primitive, eqn), ())
        programs = self._within(eqn)
        if isinstance(primitive, Cond):
            branch, choice = self._branch(eqn, primitive)
            # Branches of unknown cost aren't counted, but named.
            others = [i for i, other in enumerate(programs) if self.summary(other).unknown and i != branch]
            inner = (_Inner(programs[branch], 1), *(_Inner(programs[i], 0) for i in others if choice is not None))
            return _Entry(eqn, FREE, inner, choice)
        if isinstance(primitive, While):
            test, body = programs
            name = next(self._names)
            iteration = self.summary(test).fixed + self.summary(body).fixed
            self._loops[name], self._rank[name] = Loop(name, eqn, iteration), len(self._rank)
            return _Entry(eqn, FREE, (_Inner(test, 1, name), _Inner(body, 0, name)))
        if isinstance(primitive, Scan):
            xs, ys = primitive.operands(primitive.jaxpr.in_avals)[2], primitive.results(primitive.jaxpr.out_avals)[1]
            # Each slice is copied: from an array, or to a stack.
            moved = Cost(bytes=2 * primitive.length * (total_bytes(xs) + total_bytes(ys)))
            return _Entry(eqn, moved, (_Inner(primitive.jaxpr, primitive.length),))
        if len(programs) == 1:  # a call, or a decomposition
            summary = self.summary(programs[0])
            if type(primitive).expand is not Primitive.expand and not summary.loops and not summary.unknown:
                return _Entry(eqn, summary.fixed, ())
            return _Entry(eqn, FREE, (_Inner(programs[0], 1),))
        # Of programs in a primitive that nothing is known about, nobody can say how often they run.
        return _Entry(eqn, None, ())

    def _branch(self, eqn: Eqn, primitive: Cond) -> tuple[int, Choice | None]:
        """The branch whose cost is counted; and that this was a choice, unless the index is known."""
        index, last = eqn.invars[0], len(primitive.branches) - 1
        if isinstance(index, Literal):
            return min(max(int(index.value.real), 0), last), None
        costs = [self.summary(branch).once.weight for branch in primitive.branches]
        branch = costs.index(max(costs) if self._costliest else min(costs))
        return branch, Choice(eqn, branch, last + 1) if last > 0 else None

    def _order(self, jaxpr: Jaxpr) -> list[Jaxpr]:
        """The program and those that run within it, each before those that it applies."""
        order: list[Jaxpr] = []
        done: set[_Key] = set()
        pending = [(jaxpr, False)]
        while pending:
            program, left = pending.pop()
            if left:
                order.append(program)
            elif _key(program) not in done:
                done.add(_key(program))
                pending.append((program, True))
                entries = self.summary(program).entries
                pending += [(inner.jaxpr, False) for entry in entries for inner in entry.inner]
        order.reverse()
        return order

    def report(self, jaxpr: Jaxpr) -> CostReport:
        times = {_key(jaxpr): Times(1)}
        lines: dict[SourceInfo | None, Expense] = {}
        unknown: dict[type[Primitive], Unknown] = {}
        programs: list[ProgramCost] = []
        choices: list[Choice] = []
        for program in self._order(jaxpr):
            runs, entries = times[_key(program)], self.summary(program).entries
            own: dict[SourceInfo | None, Cost] = {}
            for entry in entries:
                if entry.own is None:
                    self._note(unknown, entry.eqn, runs)
                elif entry.own is not FREE:
                    source = entry.eqn.source and entry.eqn.source.untransformed
                    own[source] = own[source] + entry.own if source in own else entry.own
                if entry.choice is not None and runs != Times():
                    choices.append(entry.choice)
                for inner in entry.inner:
                    more = runs * inner.repeats
                    if inner.loop is not None:
                        more += Times(0, ((inner.loop, 1),))
                    key = _key(inner.jaxpr)
                    times[key] = times[key] + more if key in times else more
            if runs == Times():
                continue
            for source, cost in own.items():
                line = _line(source)
                lines[line] = lines.get(line, Expense()) + runs.expense(cost)
            if program is not jaxpr:
                equations = [EquationCost(e.eqn, runs.expense(e.own or FREE), e.own is None) for e in entries]
                programs.append(ProgramCost(program, runs, tuple(equations)))
        summary = self.summary(jaxpr)
        return CostReport(
            jaxpr,
            tuple(map(self._inclusive, summary.entries)),
            tuple(programs),
            tuple(sorted(
                (LineCost(source, expense) for source, expense in lines.items()),
                key=lambda line: line.cost.once.weight,
                reverse=True,
            )),
            Expense(summary.fixed, self._iterations(summary.loops)),
            tuple(self._loops[name] for name in self._sorted(summary.loops)),
            tuple(unknown.values()),
            tuple(choices),
            live_memory(jaxpr),
        )  # fmt: skip

    def _sorted(self, names: frozenset[str]) -> list[str]:
        return sorted(names, key=self._rank.__getitem__)

    def _iterations(self, names: frozenset[str]) -> tuple[tuple[str, Cost], ...]:
        return tuple((name, self._loops[name].iteration) for name in self._sorted(names))

    def _inclusive(self, entry: _Entry) -> EquationCost:
        """The cost of an equation with what is within it."""
        fixed, loops = entry.own or FREE, frozenset[str]()
        if not entry.inner:
            return EquationCost(entry.eqn, Expense(fixed), entry.own is None)
        for inner in entry.inner:
            summary = self.summary(inner.jaxpr)
            fixed += inner.repeats * summary.fixed
            loops |= summary.loops | ({inner.loop} if inner.loop is not None else set())
        expense = Expense(fixed, self._iterations(loops))
        return EquationCost(entry.eqn, expense, self.lacks(entry))

    def _note(self, unknown: dict[type[Primitive], Unknown], eqn: Eqn, runs: Times) -> None:
        cls = type(eqn.primitive)
        before = unknown.get(cls)
        if before is None:
            why = [reason for base, reason in _REASONS.items() if issubclass(cls, base)]
            missing = str(self._rules.missing_rule(cls))
            unknown[cls] = Unknown(cls.name, why[0] if why else missing, 1, runs, eqn.source)
        else:
            unknown[cls] = Unknown(cls.name, before.reason, before.count + 1, before.times + runs, before.source)
