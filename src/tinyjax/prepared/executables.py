"""Compiled programs that are ready to run on arrays: from the elements straight to the executable.

No context takes part, so this is for evaluation, outside of all transformations, only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar, final

import numpy as np
from attrs import frozen

from tinyjax import backend
from tinyjax.caching import IdentityCache, register
from tinyjax.contexts.devices import single_equation
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.elements import Elements

E = TypeVar("E", bound=Elements)


@final
@frozen(eq=False)
class Ready:
    """An executable, and the arrays that feed its first inputs, on its device."""

    executable: backend.Executable
    captured: list[backend.Argument]
    out_avals: tuple[ShapedArray, ...]
    name: str

    @staticmethod
    def of(
        executable: backend.Executable, captured: Iterable[Elements], out_avals: tuple[ShapedArray, ...], name: str
    ) -> Ready | None:
        """None if an array is on another device."""
        buffers: list[backend.Argument] = []
        for array in captured:
            buffer = executable.place(array.value)
            if buffer is None:
                return None
            buffers.append(buffer)
        return Ready(executable, buffers, out_avals, name)

    def launch(self, args: list[backend.Argument], on_host: bool, kind: type[E]) -> list[E] | None:
        """The results for arrays on a device; if `on_host`, some are on the host, and nobody writes to them any more.

        None if they are not all where the executable is.
        """
        executable = self.executable
        if self.captured:
            args = self.captured + args
        if not executable.alone and not executable.holds(args):
            return None
        results = executable.launch(args, self.name, on_host)
        if len(results) == 1:
            return [_made(kind, results[0], self.out_avals[0])]
        return [_made(kind, buffer, aval) for buffer, aval in zip(results, self.out_avals, strict=True)]

    def run(self, arrays: Iterable[Elements | HostArray], kind: type[E]) -> list[E] | None:
        """The results for any arrays of the program's types; None if they can't all be where the executable is."""
        executable = self.executable
        args: list[backend.Argument] = []
        on_host = False
        for array in arrays:
            if isinstance(array, np.ndarray):
                arg = executable.admit_host(array)
            elif array.buffer is not None:
                arg = array.buffer
            elif (value := array.value).on_host:
                arg = executable.admit(value)
            else:
                arg = array.buffer = executable.place(value)
            if arg is None:
                return None
            if type(arg) is np.ndarray:
                on_host = True
            args.append(arg)
        return self.launch(args, on_host, kind)


# Without `__init__`, which wants a value.
_new: Final = object.__new__


def _made(kind: type[E], buffer: backend.RawBuffer, aval: ShapedArray) -> E:
    out = _new(kind)
    out.aval = aval
    out.buffer = buffer
    out.host = None
    return out


#: Single primitives that have been applied to operands of these types on a device.
_SINGLE: Final[IdentityCache[Ready]] = IdentityCache(2048, "prepared.executables")
register(_SINGLE)


def apply_ready(primitive: Primitive, operands: Sequence[object], kind: type[E]) -> E | None:
    """The result, on a device, of a primitive that has been applied to operands of these types before.

    None: it hasn't, or one of them isn't of this kind, or all have their elements on the host, or on another device.
    """
    key = [id(primitive)]
    arrays: list[Elements] = []
    buffers: list[backend.Argument] = []
    on_device = False
    for x in operands:
        if not isinstance(x, Elements):
            return None
        key.append(id(x.aval))
        arrays.append(x)
        if x.buffer is not None:
            buffers.append(x.buffer)
        elif x.host is None:
            on_device = True
    found = _SINGLE.entries.get(tuple(key)) if on_device or buffers else None
    if found is None:
        return None
    ready = found[1]
    outs = ready.launch(buffers, False, kind) if len(buffers) == len(arrays) else ready.run(arrays, kind)
    return None if outs is None else outs[0]


def keep_ready(primitive: Primitive, args: Sequence[ConcreteValue]) -> None:
    """Makes ready what has been applied to these arguments, with one result on a device."""
    avals = tuple([arg.aval for arg in args])
    program = single_equation(primitive, avals)
    executable = backend.execute.executable(program, args, primitive.name)
    ready = Ready.of(executable, (), program.out_avals, primitive.name)
    if ready is not None:
        _SINGLE.keep((primitive, *avals), ready)
