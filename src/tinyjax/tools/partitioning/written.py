"""What a program says itself, within `shard_map`, that devices tell each other. Exact, before XLA sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

import numpy as np
from attrs import evolve, frozen

from tinyjax.caching import bounded
from tinyjax.control.cond import Cond
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.control.shard_map import ShardMap
from tinyjax.hlo.manual import ManualMesh
from tinyjax.interpreters.base import Expansions
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.ir.effects import axis_names
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn, Jaxpr
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.traverse import nested_programs
from tinyjax.primitives.collectives import Collective as NamedCollective
from tinyjax.primitives.collectives import PMax, PMin, PSum
from tinyjax.primitives.exchanges import AllGather, AllToAll, PPermute, ReduceScatter
from tinyjax.primitives.grouping import IndexGroups
from tinyjax.primitives.unreduced import AllGatherReduced, UnreducedPSum, UnreducedReduceScatter
from tinyjax.tools.cost.records import Times
from tinyjax.tools.partitioning.groups import Along, along_groups, along_pairs
from tinyjax.tools.partitioning.records import Collective, Kind, OpenLoop

_KINDS: Final[dict[type[Primitive], Kind]] = {
    PSum: "all-reduce",
    PMax: "all-reduce",
    PMin: "all-reduce",
    AllGather: "all-gather",
    ReduceScatter: "reduce-scatter",
    UnreducedPSum: "all-reduce",
    AllGatherReduced: "all-gather",
    UnreducedReduceScatter: "reduce-scatter",
    AllToAll: "all-to-all",
    PPermute: "collective-permute",
}


@final
class Loops:
    """Names for loops whose iterations aren't known: the same for the same line."""

    def __init__(self) -> None:
        self._names: dict[tuple[SourceInfo | None, str], str] = {}

    def name(self, source: SourceInfo | None, otherwise: str = "") -> str:
        """The name of the loop from a line; of one without a line, by what else tells it apart."""
        key = source, "" if source is not None else otherwise
        return self._names.setdefault(key, f"n{len(self._names) + 1}")

    @property
    def found(self) -> tuple[OpenLoop, ...]:
        return tuple([OpenLoop(name, source) for (source, _), name in self._names.items()])


@final
@frozen(eq=False)
class _Run:
    """A program that runs so often, on a mesh of which these axes are manual; `conditional`: so often at most."""

    jaxpr: Jaxpr
    times: Times
    manual: ManualMesh | None
    conditional: bool


@final
class Written:
    """Collects the collectives of a program, in order."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._expansions = Expansions()
        #: Whether there are any in a program, by its identity.
        self._talks: dict[int, bool] = {}

    def collectives(self, jaxpr: Jaxpr) -> Iterator[Collective]:
        """Those of a program and of all within it."""
        programs = nested_programs(jaxpr, id)  # alive while their identities are asked for
        for program in programs:
            self._talks[id(program)] = any(map(self._communicates, program.eqns))
        pending = [self._of_program(_Run(jaxpr, Times(1), None, False))]
        while pending:
            for found in pending[-1]:
                if isinstance(found, Collective):
                    yield found
                else:
                    pending.append(self._of_program(found))
                    break
            else:
                pending.pop()

    def _communicates(self, eqn: Eqn) -> bool:
        return bool(axis_names(eqn.primitive.effects)) or any(
            self._talks.get(id(program), True) for program in eqn.primitive.applied_programs
        )

    def _of_program(self, run: _Run) -> Iterator[Collective | _Run]:
        """The collectives of a program itself, and the programs within it to look at."""
        for eqn in run.jaxpr.eqns:
            kind = _KINDS.get(type(eqn.primitive))
            if kind is None or not isinstance(eqn.primitive, NamedCollective):
                if self._communicates(eqn):
                    yield from self._within(eqn, run)
            elif run.manual is not None:
                yield from _collective(eqn, eqn.primitive, kind, run.times, run.manual, run.conditional)

    def _within(self, eqn: Eqn, run: _Run) -> Iterator[_Run]:
        """The programs that an equation applies."""
        primitive = eqn.primitive
        if isinstance(primitive, ShardMap):
            outer = () if run.manual is None else run.manual.axes
            axes = tuple([n for n in primitive.mesh.axis_names if n in (*outer, *primitive.manual_axes)])
            yield evolve(run, jaxpr=primitive.jaxpr, manual=ManualMesh(primitive.mesh.abstract_mesh, axes))
        elif isinstance(primitive, Scan):
            yield evolve(run, jaxpr=primitive.jaxpr, times=run.times * primitive.length)
        elif isinstance(primitive, Cond):
            for branch in primitive.branches:
                yield evolve(run, jaxpr=branch, conditional=run.conditional or len(primitive.branches) > 1)
        elif isinstance(primitive, While):
            test, body = primitive.applied_programs
            each = Times(0, ((self._loops.name(eqn.source and eqn.source.untransformed), 1),))
            yield evolve(run, jaxpr=test, times=run.times + each)
            yield evolve(run, jaxpr=body, times=each)
        elif primitive.applied_programs:
            for program in primitive.applied_programs:
                yield evolve(run, jaxpr=program)
        else:
            expanded = self._expansions.of(eqn)
            if expanded is not None:
                yield evolve(run, jaxpr=expanded)


@bounded(1024)
def _along(
    manual: ManualMesh,
    names: tuple[str, ...],
    index_groups: IndexGroups | None,
    perm: tuple[tuple[int, int], ...] | None,
) -> Along:
    """The axes that a collective is along, which may be fewer than it names; of a permutation, those in which something
    moves."""
    groups = manual.groups(names, index_groups)
    if perm is None:
        return along_groups(manual.mesh, groups)
    pairs = groups[:, np.array(perm, np.int64).reshape(-1, 2)]
    return along_pairs(manual.mesh, pairs.reshape(-1, 2))


def _collective(
    eqn: Eqn, primitive: NamedCollective, kind: Kind, times: Times, manual: ManualMesh, conditional: bool
) -> Iterator[Collective]:
    (operand,), (result,) = [x.aval for x in eqn.invars], [x.aval for x in eqn.outvars]
    perm = primitive.perm if isinstance(primitive, PPermute) else None
    along = _along(manual, primitive.names, primitive.index_groups, perm)
    count, nbytes = along.size, result.nbytes
    if count == 1 or not along.axes:
        return  # nobody is there to be told anything
    if nbytes == 0 and kind in ("all-gather", "reduce-scatter"):
        return  # nothing is there to be told, which XLA refuses
    types: Sequence[str] = [str(result.varying_over(()))]
    if operand.dtype in COMPLEXES and isinstance(primitive, PMax | PMin):  # which lowering gathers
        kind, nbytes = "all-gather", nbytes * count
        types = [str(result.of_shape((count, *result.shape)).varying_over(()))]
    yield Collective(
        kind, along.axes, nbytes, operand.nbytes, tuple(types), times, conditional, along.size, along.whole,
        eqn.source, primitive.name, True,
    )  # fmt: skip
