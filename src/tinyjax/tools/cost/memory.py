"""How much memory the values of a program take while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.interpreters.base import expansion, register_all
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.holding import AnyProgram, checked_jaxpr
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.display import Block, Note, Picture, table
from tinyjax.ir.printing.printer import format_eqn, variable_names
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.primitives.annotations import Name, OptimizationBarrier
from tinyjax.primitives.casts import Cast
from tinyjax.primitives.conversion import StopGradient
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.shaping import Reshape, Squeeze
from tinyjax.stack import with_room
from tinyjax.tools.dataflow.liveness import last_uses

#: For primitives whose results are operands seen differently, and take no memory: which operand each result is.
VIEWS: Final[RuleTable[[Eqn], Sequence[int]]] = RuleTable("View", name="tinyjax.tools.cost.VIEWS")


def _views(primitive: Primitive, eqn: Eqn) -> Sequence[int]:
    return range(len(eqn.outvars))


register_all(VIEWS, _views, (Reshape, Squeeze, Name, StopGradient, OptimizationBarrier, Cast, ShardingConstraint))


@final
@frozen(repr=False)
class LiveMemory(Shown):
    """The bytes of values that are alive at once, if every equation runs in order and puts its results in new memory.

    `during` is for each equation: what is alive while it runs, its operands, its results, and what the programs within
    it need. `after` is what is left then. The inputs, `inputs` bytes, are the caller's and alive throughout; they are
    included. Constants of a ClosedJaxpr are inputs.
    """

    jaxpr: Jaxpr
    inputs: int
    during: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The most that is alive at any time."""
        return max(self.during, default=self.inputs)

    @property
    def peak_at(self) -> int | None:
        """The position of the first equation at which that is so; None for a program without equations."""
        return self.during.index(self.peak) if self.during else None

    @property
    def needed(self) -> int:
        """What the program needs besides its inputs."""
        return self.peak - self.inputs

    def within(self, position: int) -> tuple[LiveMemory, ...]:
        """The same for the programs that the equation at a position applies: what is alive in all while each of their
        equations runs, in a loop in each iteration. `inputs` is what is alive around them, their operands included."""
        eqn = self.jaxpr.eqns[position]
        programs, beside = _inside(eqn, total_bytes(eqn.outvars))
        around = beside + (self.after[position - 1] if position else self.inputs)
        needs: _Needs = {}
        return tuple(_on_top(with_room(partial(_profile, program, needs)), around) for program in programs)

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.tools.memory_plots import memory_plot

        if self.during:
            yield Picture(memory_plot(self))
        yield Note(f"peak {self.peak:,} bytes, of which inputs {self.inputs:,}")
        names = variable_names(self.jaxpr)
        rows = zip(self.jaxpr.eqns, self.during, self.after, strict=True)
        lines = ((" ".join(format_eqn(eqn, names, short=True).split()), f"{a:,}", f"{b:,}") for eqn, a, b in rows)
        if self.during:
            yield from table(("equation", "bytes during", "bytes after"), lines, numbers=1)


_Needs: TypeAlias = dict[Jaxpr, int]


def live_memory(program: AnyProgram) -> LiveMemory:
    """How much memory the values of a program take, equation by equation.

    A value is alive from the equation that makes it to the last one that reads it. What a program within needs comes
    on top of what is alive around it; a loop holds its carries and what it stacks, and a second copy of what an
    iteration makes. A compiler that fuses equations, or computes in place, needs less.

    >>> from tinyjax import ShapedArray, make_jaxpr, numpy as tnp
    >>> found = live_memory(make_jaxpr(lambda x: tnp.sum(tnp.sin(x)))(ShapedArray((100,), "float32")))
    >>> found.inputs, found.during, found.after, found.peak
    (400, (800, 804), (800, 404), 804)
    """
    jaxpr = checked_jaxpr(program, "live_memory")
    return with_room(lambda: _profile(jaxpr, {}))


def _profile(jaxpr: Jaxpr, needs: _Needs) -> LiveMemory:
    roots: dict[int, int] = {}

    def root(var: Var) -> int:
        return roots.get(var.index, var.index)

    last: dict[int, int] = {}
    frees: list[list[int]] = [[] for _ in jaxpr.eqns]
    sizes: dict[int, int] = {}
    uses = last_uses(jaxpr)
    for position, eqn in enumerate(jaxpr.eqns):
        rule = VIEWS.find(type(eqn.primitive))
        shared = dict(enumerate(rule(eqn.primitive, eqn))) if rule is not None else {}
        for i, var in enumerate(eqn.outvars):
            operand = eqn.invars[shared[i]] if i in shared else None
            if isinstance(operand, Var):
                roots[var.index] = root(operand)
            else:
                sizes[var.index] = var.aval.nbytes
            at = uses[var.index]
            last[root(var)] = max(last.get(root(var), 0), position if at is None else at)
    for index, at in last.items():
        if at < len(frees):
            frees[at].append(index)
    inputs = total_bytes(jaxpr.invars)
    during: list[int] = []
    after: list[int] = []
    live = inputs
    for position, eqn in enumerate(jaxpr.eqns):
        made = sum(sizes.get(var.index, 0) for var in eqn.outvars)
        during.append(live + max(made, _needed_by(eqn, made, needs)))
        live += made - sum(sizes.get(index, 0) for index in frees[position])
        after.append(live)
    return LiveMemory(jaxpr, inputs, tuple(during), tuple(after))


def total_bytes(values: Sequence[Atom | ShapedArray]) -> int:
    return sum((value if isinstance(value, ShapedArray) else value.aval).nbytes for value in values)


def _needed_by(eqn: Eqn, made: int, needs: _Needs) -> int:
    """What an equation needs besides its operands, for its results, of `made` bytes, and for programs within."""
    programs, beside = _inside(eqn, made)
    return max([made, *(beside + _need(program, needs) for program in programs)])


def _inside(eqn: Eqn, made: int) -> tuple[Sequence[Jaxpr], int]:
    """The programs that an equation applies, and what is alive besides their inputs: of a loop, the results, of `made`
    bytes, and the slices of one iteration."""
    primitive = eqn.primitive
    programs = primitive.applied_programs
    if isinstance(primitive, Scan):
        if primitive.length == 0:
            return (), 0
        return programs, made + total_bytes(primitive.operands(primitive.jaxpr.in_avals)[2])
    if isinstance(primitive, While):
        return programs, made
    if not programs and type(primitive).expand is not Primitive.expand:
        expanded = expansion(eqn)
        programs = () if expanded is None else (expanded,)
    return programs, 0


def _on_top(memory: LiveMemory, around: int) -> LiveMemory:
    """The memory of a program whose inputs are part of what is alive around it."""
    during, after = ([around + value - memory.inputs for value in values] for values in (memory.during, memory.after))
    return LiveMemory(memory.jaxpr, around, tuple(during), tuple(after))


def _need(jaxpr: Jaxpr, needs: _Needs) -> int:
    """What a program needs besides its inputs. `needs` remembers it."""
    found = needs.get(jaxpr)
    if found is None:
        found = needs[jaxpr] = with_room(lambda: _profile(jaxpr, needs)).needed
    return found
