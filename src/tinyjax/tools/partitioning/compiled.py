"""What XLA's partitioned module has devices tell each other, and where in the program that is from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, final

from attrs import evolve, frozen

from tinyjax.control.scan import Scan
from tinyjax.hlo.called import Place
from tinyjax.ir.source import SourceInfo
from tinyjax.meshes import Mesh
from tinyjax.primitives.collectives import Collective as NamedCollective
from tinyjax.tools.cost.records import Times
from tinyjax.tools.partitioning.groups import Along, along_groups, along_pairs
from tinyjax.tools.partitioning.hlo import ArrayShape, Computation, HloModule, Instruction
from tinyjax.tools.partitioning.records import KINDS, Collective, Kind
from tinyjax.tools.partitioning.written import Loops

_KINDS: Final[Mapping[str, Kind]] = {
    **{kind: kind for kind in KINDS},
    **{f"{kind}-start": kind for kind in KINDS},
}
_ENDS: Final = frozenset({"async-update", "async-done"})


@final
@frozen(eq=False)
class Run:
    """How often a computation runs; `conditional`: so often at most."""

    times: Times
    conditional: bool


@final
@frozen(eq=False)
class Communication:
    """An instruction by which devices communicate, and how often."""

    instruction: Instruction
    run: Run
    collective: Collective


def communications(module: HloModule, mesh: Mesh, places: Sequence[Place], loops: Loops) -> Iterator[Communication]:
    """All that devices tell each other, in order. Groups of one device are left out."""
    runs = _runs(module, places, loops)
    for number, run in runs:
        for instruction in module.computations[number].instructions:
            kind = _KINDS.get(instruction.opcode)
            if kind is None:
                continue
            along = _along(mesh, kind, instruction)
            if along.size > 1 and (along.axes or not along.whole):
                found = _collective(module.computations[number], instruction, kind, along, run, places)
                yield Communication(instruction, run, found)


def _along(mesh: Mesh, kind: Kind, instruction: Instruction) -> Along:
    if kind == "collective-permute" and instruction.pairs is not None:
        return along_pairs(mesh, instruction.pairs)
    if instruction.groups is None:
        return Along((), False, mesh.size)
    return along_groups(mesh, instruction.groups)


def _collective(
    computation: Computation,
    instruction: Instruction,
    kind: Kind,
    along: Along,
    run: Run,
    places: Sequence[Place],
) -> Collective:
    by_id = {found.id: found for found in computation.instructions}
    operands = [shape for i in instruction.operands for shape in by_id[i].shapes]
    results = _results(instruction, len(operands))
    primitive = None if instruction.place is None else places[instruction.place][0]
    place = _place(by_id, instruction)
    lines = [] if kind == "all-to-all" else [_line(places, _place(by_id, by_id[i])) for i in instruction.operands]
    source, written = _line(places, place), isinstance(primitive, NamedCollective)
    return Collective(
        kind,
        along.axes,
        sum(shape.nbytes for shape in results),
        sum(shape.nbytes for shape in operands),
        tuple(map(str, results)),
        run.times,
        run.conditional,
        along.size,
        along.whole,
        source,
        instruction.name,
        written,
        () if written or len(lines) < 2 else tuple(dict.fromkeys(line for line in lines if line != source)),
    )


def _line(places: Sequence[Place], place: int | None) -> SourceInfo | None:
    return None if place is None else places[place][1]


def with_joined(found: Sequence[Collective], written: Sequence[Collective]) -> tuple[Collective, ...]:
    """The collectives of a module. XLA keeps the line of one of those that it joins: the others are those of the
    program of which no other trace is left, of the same kind and types."""
    kept = {(c.kind, c.axes, c.source) for c in found if c.written}
    left = [c for c in written if (c.kind, c.axes, c.source) not in kept]
    return tuple([_with_joined(c, left) for c in found])


def _with_joined(collective: Collective, left: list[Collective]) -> Collective:
    if not collective.written or len(collective.types) < 2 or collective.kind == "all-to-all":
        return collective
    room = Counter(collective.types)
    joined: list[SourceInfo | None] = []
    for other in list(left):
        same = (other.kind, other.axes, other.times) == (collective.kind, collective.axes, collective.times)
        if same and all(room[type_] > 0 for type_ in other.types):
            room.subtract(other.types)
            joined.append(other.source)
            left.remove(other)
    return evolve(collective, joined=tuple(joined))


def _place(by_id: Mapping[int, Instruction], instruction: Instruction) -> int | None:
    """Where an instruction is from: if nobody has said it, where what it reads is from, or else what reads it."""
    maker: Instruction | None = instruction
    while maker is not None and maker.place is None:
        maker = by_id[maker.operands[0]] if maker.operands else None
    if maker is not None:
        return maker.place
    reached = {instruction.id}
    for reader in by_id.values():  # each after those that it reads
        if not reached.isdisjoint(reader.operands):
            if reader.place is not None:
                return reader.place
            reached.add(reader.id)
    return None


def _results(instruction: Instruction, operands: int) -> Sequence[ArrayShape]:
    """The arrays that a collective gives. Where it only starts, operands stand before them, and maybe flags after."""
    if instruction.opcode in ("all-gather-start", "collective-permute-start"):
        return instruction.shapes[operands : 2 * operands]
    return instruction.shapes


def _runs(module: HloModule, places: Sequence[Place], loops: Loops) -> list[tuple[int, Run]]:
    """The computations that run, with how often, each time that one is called: callers first."""
    silent = _silent(module)
    found: list[tuple[int, Run]] = []
    pending = [(module.entry, Run(Times(1), False))]
    while pending:
        number, run = pending.pop()
        found.append((number, run))
        inner: list[tuple[int, Run]] = []
        for instruction in module.computations[number].instructions:
            # What ends something that has been started calls the same once more.
            if instruction.opcode in _ENDS or all(called in silent for called in instruction.called):
                continue
            if instruction.opcode == "while":
                times, again = _iterations(instruction, run, places, loops)
                body, test = instruction.called[:2]
                inner += [(body, evolve(run, times=times)), (test, evolve(run, times=again))]
                continue
            conditional = run.conditional or instruction.opcode == "conditional"
            inner += [(called, evolve(run, conditional=conditional)) for called in instruction.called]
        pending += [(called, runs) for called, runs in reversed(inner) if called not in silent]
    return found


def _silent(module: HloModule) -> set[int]:
    """The computations in which nothing is told, at any depth. A module has them after those that they call."""
    silent: set[int] = set()
    for number, computation in module.computations.items():
        if all(
            instruction.opcode not in _KINDS and all(called in silent for called in instruction.called)
            for instruction in computation.instructions
        ):
            silent.add(number)
    return silent


def _iterations(instruction: Instruction, run: Run, places: Sequence[Place], loops: Loops) -> tuple[Times, Times]:
    """How often the body of a loop runs, and how often its test."""
    primitive, source = (None, None) if instruction.place is None else places[instruction.place]
    count = instruction.trip_count
    if count is None and isinstance(primitive, Scan):
        count = primitive.length
    if count is not None:
        return run.times * count, run.times * (count + 1)
    each = Times(0, ((loops.name(source and source.untransformed, instruction.name), 1),))
    return each, run.times + each
