"""Calls of compiled functions that have been met, in one step: a function made for each, which knows all that a launch
would have to find out again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from attrs import frozen

from tinyjax import backend
from tinyjax.backend.process import PROCESS
from tinyjax.backend.trees import flattener
from tinyjax.caching import PlainCache, register
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray, Scalar
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.runners import Launch
from tinyjax.prepared.stacked import AnyLaunch
from tinyjax.prepared.stored_array import StoredArray, new

if TYPE_CHECKING:
    from tinyjax.backend.executable import Direct

#: From an array of the host to the same.
OfHost: TypeAlias = Callable[[HostArray], Any]
#: From the arguments, flat, to what the function returns: the user's own tree.
Call: TypeAlias = "Callable[[list[backend.Argument]], Any]"
Assemble: TypeAlias = Callable[[Sequence[Any]], Any]
#: What a call returns that hasn't been prepared.
MISS: Final = object()


@final
@frozen(eq=False)
class Straight:
    """The calls of an executable that nothing else has to be seen to."""

    #: With arrays of its device.
    placed: Call
    #: Where some are arrays of the host that nobody writes to any more; None if these have to be put there first.
    mixed: Call | None


def straight(launch: AnyLaunch, assemble: Assemble | None, kind: type[StoredArray]) -> Straight | None:
    """The calls of a launch; None if a call has to look at what becomes of its arguments, or to wait."""
    executable = launch.executable
    if type(launch) is not Launch or executable.direct is None:
        return None
    mixed = _any_number(launch, assemble, kind, True) if executable.copied else None
    if executable.alone and not launch.captured:
        if assemble is None:
            return Straight(_one(executable.direct, launch.out_avals[0], launch.name, kind), mixed)
        return Straight(_tree(executable.direct, launch.out_avals, launch.name, assemble, kind), mixed)
    return Straight(_any_number(launch, assemble, kind, False), mixed)


def _one(direct: Direct, aval: ShapedArray, name: str, kind: type[StoredArray]) -> Call:
    """The calls of what returns one array and closes over none, where there is only one device."""
    execute, handlers, fail = direct.execute, direct.handlers, direct.fail

    def one(given: list[backend.Argument]) -> StoredArray:
        if PROCESS.forked:
            PROCESS.check(f"To run {name!r}")
        try:
            results = execute(given).consume_with_handlers(handlers)
        except (RuntimeError, ValueError) as error:
            fail(error, given, name)
        out = new(kind)
        out.buffer = results[0]
        out.aval = aval
        out.host = None
        return out

    return one


def _tree(direct: Direct, avals: Sequence[ShapedArray], name: str, assemble: Assemble, kind: type[StoredArray]) -> Call:
    """The same for what returns arrays in a tree; written out, as a function more would cost a hundredth of a call."""
    execute, handlers, fail = direct.execute, direct.handlers, direct.fail
    finish = _without_structure(assemble, len(avals))

    def several(given: list[backend.Argument]) -> Any:
        if PROCESS.forked:
            PROCESS.check(f"To run {name!r}")
        try:
            results = execute(given).consume_with_handlers(handlers)
        except (RuntimeError, ValueError) as error:
            fail(error, given, name)
        outs: list[StoredArray] = []
        for buffer, aval in zip(results, avals, strict=False):  # there are as many
            out = new(kind)
            out.buffer = buffer
            out.aval = aval
            out.host = None
            outs.append(out)
        return outs if finish is None else finish(outs)

    return several


def _without_structure(assemble: Assemble, n: int) -> Assemble | None:
    """The same as `assemble` for n leaves, but `tuple` for a tuple of them, and None for a list."""
    structure, items, flatten = getattr(assemble, "__self__", None), [0] * n, flattener()
    if structure == flatten(items, None)[1]:
        return None
    return tuple if structure == flatten(tuple(items), None)[1] else assemble


def of_host(known: Straight, launch: AnyLaunch, assemble: Assemble | None, kind: type[StoredArray]) -> OfHost | None:
    """The calls with one array of the host and nothing else, which may be written to afterwards."""
    mixed, direct = known.mixed, launch.executable.direct
    if mixed is None or direct is None:
        return None
    if direct.dispatch is None or assemble is not None or (isinstance(launch, Launch) and launch.captured):
        return lambda array: mixed([array.copy()])
    dispatch, fail, aval, name = direct.dispatch, direct.fail, launch.out_avals[0], launch.name

    def one(array: HostArray) -> StoredArray:
        if PROCESS.forked:
            PROCESS.check(f"To run {name!r}")
        try:
            results = dispatch(array.copy())  # as a program that still runs may read it
        except (RuntimeError, ValueError) as error:
            fail(error, [array], name)
        out = new(kind)  # written out, as above
        out.buffer = results[0]
        out.aval = aval
        out.host = None
        return out

    return one


def _any_number(launch: Launch, assemble: Assemble | None, kind: type[StoredArray], on_host: bool) -> Call:
    captured, out_avals, name, executable = launch.captured, launch.out_avals, launch.name, launch.executable
    run, elsewhere, kinds = executable.launch, not executable.alone, (kind,) * len(out_avals)

    def several(given: list[backend.Argument]) -> Any:
        if captured:
            given = captured + given
        if elsewhere and not executable.holds(given):
            return MISS
        outs = list(map(new, kinds))
        for out, buffer, aval in zip(outs, run(given, name, on_host), out_avals, strict=True):
            out.buffer = buffer
            out.aval = aval
            out.host = None
        return outs[0] if assemble is None else assemble(outs)

    return several


#: How many numbers are kept on the device.
_NUMBERS: Final = 1024


@final
class Numbers(PlainCache[tuple[type, object], "tuple[backend.RawBuffer, ShapedArray] | None"]):
    """Python's numbers that functions have been called with, by their classes: on the device, with their types, from
    the second time on. They are put there only where there is no other device."""

    __slots__ = ()

    def meet(self, number: Scalar, value: ConcreteValue, executable: backend.AnyExecutable) -> None:
        """A number, and the value that it became for an executable."""
        key = type(number), number
        if executable.direct is None or not executable.alone or isinstance(number, complex):
            return
        if type(number) is float and not number:  # or -0.0 would be taken for it
            return
        buffer = executable.place(value) if key in self.entries else None
        self.put(key, None if buffer is None else (buffer, value.aval))


NUMBERS: Final = Numbers(_NUMBERS, "numbers on the device")
register(NUMBERS)
