"""Launches of programs that take stacks and return stacks, for callees whose operands and results are their rows.

A stack that was returned goes into the next call as it is, if its rows do: then nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar, final

from attrs import frozen

from tinyjax import backend
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.runners import Launch, LaunchOnMesh
from tinyjax.prepared.stored_array import StoredArray, become_row, is_row, of_row

if TYPE_CHECKING:
    from tinyjax.transforms.border import Bordered

E = TypeVar("E", bound=StoredArray)
#: What launches an executable on a device, or on a mesh.
AnyLaunch: TypeAlias = "Launch | LaunchOnMesh | StackedLaunch"


@final
@frozen(eq=False)
class StackedLaunch:
    """An executable of a program for stacks, and the arrays that feed its first inputs, on its device."""

    executable: backend.AnyExecutable
    captured: list[ConcreteValue]
    border: Bordered
    #: The inputs of the whole program that come before those of a call.
    first: int
    out_avals: tuple[ShapedArray, ...]
    name: str
    #: Which of its operands, after those arrays, are stacks that are donated.
    donated: tuple[int, ...] = ()

    def launch(self, args: list[backend.Argument], on_host: bool, kind: type[E]) -> list[E] | None:
        """None: `run` does it, which is given the arrays themselves."""
        return None

    def launch_one(self, args: list[backend.Argument], kind: type[E]) -> E | None:
        """The same."""
        return None

    def run(self, arrays: Iterable[StoredArray | HostArray], kind: type[E]) -> list[E] | None:
        """The results for arrays of the whole program's types; None if they can't be where the executable is."""
        operands = [each if isinstance(each, StoredArray) else ConcreteValue.of(each) for each in arrays]
        values = operands_in_stacks(self.border, self.first, operands)
        if values is None or not on(self.executable, values):
            return None
        outs = self.executable([*self.captured, *values], self.name)
        free(values, self.donated)
        return results_of_stacks(self.border, outs, self.out_avals, kind)


def on(executable: backend.AnyExecutable, values: Sequence[ConcreteValue]) -> bool:
    """Whether values are on an executable's device, or on the host."""
    return all(value.on_host or executable.place(value) is not None for value in values)


def operands_in_stacks(
    border: Bordered, first: int, operands: Sequence[StoredArray | ConcreteValue]
) -> list[ConcreteValue] | None:
    """What the program for stacks takes for operands of the whole program, the `first` of whose inputs are others.

    Arrays on devices that are copied into a stack are its rows from then on, and the memory they were in isn't needed.
    None if they are not on one CPU device or the host.
    """
    found: list[ConcreteValue] = []
    avals = border.program.in_avals
    for place, aval in zip(border.inputs, avals, strict=True):
        if isinstance(place, int):
            if place >= first:
                operand = operands[place - first]
                found.append(operand.value if isinstance(operand, StoredArray) else operand)
            continue
        members = [operands[i - first] for i in place]
        stack = backend.stacked([_part(member) for member in members], aval)
        if stack is None:
            return None
        found.append(stack)
        if isinstance(data := stack.data, backend.DeviceBuffer):
            for at, member in enumerate(members):
                if isinstance(member, StoredArray) and member.host is None and not is_row(member, data):
                    become_row(member, backend.Row(data, len(members), at))
    return found


def free(values: Sequence[ConcreteValue], donated: Iterable[int]) -> None:
    """Frees stacks that are donated, once what reads them is launched. XLA isn't told: where it may write results to
    a stack that loops read, it copies the whole of it first."""
    for i in donated:
        data = values[i].data
        if isinstance(data, backend.DeviceBuffer):
            data.delete()


def _part(operand: StoredArray | ConcreteValue) -> ConcreteValue | backend.Row:
    """An operand as a row, if it is one, and hasn't been deleted by itself."""
    if not isinstance(operand, StoredArray):
        return operand
    row, buffer = operand.row, operand.buffer
    return operand.value if row is None or (buffer is not None and buffer.is_deleted()) else row


def results_of_stacks(
    border: Bordered, values: Sequence[ConcreteValue], avals: Sequence[ShapedArray], kind: type[E]
) -> list[E]:
    """The results of the whole program."""
    found: list[E] = []
    for (number, at), aval in zip(border.results, avals, strict=True):
        value = values[number]
        if at is None:
            found.append(kind(value))
        else:
            assert isinstance(value.data, backend.DeviceBuffer)
            found.append(of_row(kind, backend.Row(value.data, value.aval.shape[0], at), aval))
    return found
