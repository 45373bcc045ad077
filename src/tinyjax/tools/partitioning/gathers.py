"""Arrays that XLA gathers though nothing in the program says so, and those which it divides again afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

from tinyjax.hlo.called import Place
from tinyjax.ir.program import Eqn, Jaxpr, Var
from tinyjax.ir.traverse import nested_programs
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.tools.partitioning.compiled import Communication
from tinyjax.tools.partitioning.hlo import HloModule, Instruction
from tinyjax.tools.partitioning.records import Gather

#: What moves elements and computes nothing.
_MOVES: Final = frozenset(
    {"copy", "bitcast", "reshape", "transpose", "convert", "bitcast-convert", "copy-start", "copy-done",
     "all-gather-done", "optimization-barrier"}
)  # fmt: skip
#: Integers of which places are computed.
_INTEGERS: Final = frozenset({"s32", "u32", "s64", "u64"})


def gathers(
    program: Jaxpr, module: HloModule, found: Sequence[Communication], places: Sequence[Place]
) -> Iterator[Gather]:
    """The all-gathers that XLA has added, in order. One that a `with_sharding_constraint` asks for, or how a result is
    to lie, counts only if the array is divided again."""
    graph, constrained = Graph(module), _constrained(program)
    for communication in found:
        collective, instruction = communication.collective, communication.instruction
        if collective.kind != "all-gather":
            continue
        place = None if instruction.place is None else places[instruction.place]
        if collective.written:
            continue
        ends = graph.ends(instruction)
        again = "slice" in ends
        open_axes = constrained.get(place, ()) if place is not None else ()
        asked = (
            ends == {"result"}
            or (place is not None and isinstance(place[0], ShardingConstraint))
            or any({*collective.axes} & axes for axes in open_axes)
        )
        if again or not asked:
            yield Gather(
                again,
                collective.axes,
                ", ".join(collective.types),
                collective.bytes,
                collective.times,
                collective.source,
                collective.name,
            )


def _constrained(program: Jaxpr) -> dict[Place, list[frozenset[str]]]:
    """For equations whose results are to lie in some way, the axes of the mesh that these aren't divided along."""
    found: dict[Place, list[frozenset[str]]] = {}
    for jaxpr in nested_programs(program):
        makers: dict[int, Eqn] = {}
        for eqn in jaxpr.eqns:
            primitive = eqn.primitive
            if isinstance(primitive, ShardingConstraint):
                (operand,) = eqn.invars
                maker = makers.get(operand.index) if isinstance(operand, Var) else None
                if maker is not None:
                    place = maker.primitive, maker.source
                    found.setdefault(place, []).append(primitive.sharding.replicated_axes)
            makers |= {var.index: eqn for var in eqn.outvars}
    return found


@final
class Graph:
    """Where values of a module come from and go to, across its computations."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._users: dict[int, list[Instruction]] = {}
        self._computation: dict[int, int] = {}
        self._parameters: dict[int, dict[int, Instruction]] = {}
        self._callers: dict[int, list[Instruction]] = {}
        for number, computation in module.computations.items():
            parameters = self._parameters.setdefault(number, {})
            for instruction in computation.instructions:
                self._computation[instruction.id] = number
                if instruction.opcode == "parameter":
                    parameters[instruction.index] = instruction
                for operand in instruction.operands:
                    self._users.setdefault(operand, []).append(instruction)
                for called in instruction.called:
                    self._callers.setdefault(called, []).append(instruction)
        self._places = self._numbered_places()

    def ends(self, start: Instruction) -> set[str]:
        """What becomes of a value, when it has been moved about: "slice" if each device takes a part of it that depends
        on its number, "result" if the program returns it, "use" for everything else."""
        ends: set[str] = set()
        seen: set[int] = set()
        pending = [start]
        while pending:
            value = pending.pop()
            if value.id in seen:
                continue
            seen.add(value.id)
            number = self._computation[value.id]
            if value.id == self._module.computations[number].root:
                if number == self._module.entry:
                    ends.add("result")
                pending += [caller for caller in self._callers.get(number, ()) if caller.opcode in ("fusion", "call")]
            for user in self._users.get(value.id, ()):
                at = user.operands.index(value.id)
                if user.opcode in _MOVES:
                    pending.append(user)
                elif user.opcode in ("fusion", "call"):
                    pending += [
                        self._parameters[called][at] for called in user.called if at in self._parameters[called]
                    ]
                elif user.opcode == "dynamic-slice" and at == 0:
                    numbered = any((index, 0) in self._places for index in user.operands[1:])
                    ends.add("slice" if numbered else "use")
                elif user.opcode == "tuple" and self._is_result(user):
                    ends.add("result")
                else:
                    ends.add("use")
        return ends

    def _is_result(self, instruction: Instruction) -> bool:
        return instruction.id == self._module.computations[self._module.entry].root

    def _numbered_places(self) -> set[tuple[int, int]]:
        """The integers that depend on which device computes them: instructions, and which of their results."""
        found: set[tuple[int, int]] = set()
        pending = [
            (instruction.id, 0)
            for computation in self._module.computations.values()
            for instruction in computation.instructions
            if instruction.opcode in ("partition-id", "replica-id")
        ]
        while pending:
            value = pending.pop()
            if value in found:
                continue
            found.add(value)
            pending += self._next(*value)
        return found

    def _next(self, value: int, part: int) -> Iterator[tuple[int, int]]:
        number = self._computation[value]
        if value == self._module.computations[number].root:
            for caller in self._callers.get(number, ()):
                yield caller.id, part
                if caller.opcode == "while" and number == caller.called[0]:
                    yield from ((self._parameters[called][0].id, part) for called in caller.called)
        for user in self._users.get(value, ()):
            for at in [i for i, operand in enumerate(user.operands) if operand == value]:
                if user.opcode in ("fusion", "call"):
                    yield from ((self._parameters[called][at].id, part) for called in user.called)
                elif user.opcode == "while":
                    yield user.id, part
                    yield from ((self._parameters[called][0].id, part) for called in user.called)
                elif user.opcode == "conditional":
                    if at > 0:
                        yield self._parameters[user.called[at - 1]][0].id, part
                elif user.opcode == "tuple":
                    yield user.id, at
                elif user.opcode == "get-tuple-element":
                    if user.index == part:
                        yield user.id, 0
                elif len(user.shapes) == 1 and user.shapes[0].element in _INTEGERS and _is_number(user):
                    yield user.id, 0


def _is_number(instruction: Instruction) -> bool:
    return all(size == 1 for size in instruction.shapes[0].dims)
