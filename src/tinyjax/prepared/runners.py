"""Runners: what gives the results of a callee for operands of certain types.

One kind calls NumPy on the host, one launches an executable on a device: no context takes part, they are for evaluation
only. One is an equation, for calls within transformations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax import backend
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import ConcreteValue, owned, set_writeable
from tinyjax.prepared.lines import Run, Step, StepFunction, run_of
from tinyjax.prepared.stored_array import StoredArray, of_buffer, of_host
from tinyjax.primitives.numpy_values import QUIET

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

E = TypeVar("E", bound=StoredArray)


class HostRunner(ABC):
    """Computes on the host, where NumPy warns of nothing. Nobody can write to what it returns."""

    __slots__ = ()
    #: The type of the result, or of the first one.
    aval: ShapedArray

    @abstractmethod
    def compute(self, host: Sequence[HostArray]) -> HostArray:
        """The elements of the only result."""

    def results(self, host: Sequence[HostArray]) -> list[tuple[HostArray, ShapedArray]]:
        """The elements of all results, and their types."""
        return [(self.compute(host), self.aval)]

    def run_all(self, host: Sequence[HostArray], kind: type[E]) -> list[E]:
        """All results."""
        return [of_host(kind, elements, aval) for elements, aval in self.results(host)]


_quiet: Final = QUIET.copy
# A name of this module is found in less time than an attribute of another one.
_ARRAY: Final = np.ndarray


@final
@frozen(eq=False)
class Kernel(HostRunner):
    """A primitive with one output."""

    function: StepFunction
    aval: ShapedArray
    #: Whether results never share memory with operands.
    fresh: bool
    dtype: DType = field(init=False)

    @dtype.default
    def _dtype(self) -> DType:
        return self.aval.dtype

    @override
    def compute(self, host: Sequence[HostArray]) -> HostArray:
        result = _quiet().run(self.function, *host)
        if type(result) is not _ARRAY:
            result = np.array(result, self.dtype)  # which takes a number in less time than `asarray`
        else:
            if result.dtype is not self.dtype:
                result = np.asarray(result, self.dtype)
            if not self.fresh:
                return owned(result, host)
        set_writeable(result, False)
        return result


@final
@frozen(eq=False)
class KernelOfSeveral(HostRunner):
    """A primitive with several outputs."""

    function: Callable[..., list[HostArray]]
    out_avals: tuple[ShapedArray, ...]
    aval: ShapedArray = field(init=False)

    @aval.default
    def _aval(self) -> ShapedArray:
        return self.out_avals[0]

    @override
    def compute(self, host: Sequence[HostArray]) -> HostArray:
        return self.results(host)[0][0]

    @override
    def results(self, host: Sequence[HostArray]) -> list[tuple[HostArray, ShapedArray]]:
        values = _quiet().run(self.function, *host)
        return [(owned(value, host), aval) for value, aval in zip(values, self.out_avals, strict=True)]


@final
@frozen(eq=False)
class Kernels(HostRunner):
    """A program of such primitives: what computing it takes, and no more.

    Constants are literals, arrays that feed the first inputs, and what is computed of these alone.
    """

    constants: tuple[HostArray, ...]
    #: The number of operands.
    count: int
    steps: tuple[Step, ...]
    #: Where the results are, as the operands of steps are.
    outs: tuple[int, ...]
    out_avals: tuple[ShapedArray, ...]
    aval: ShapedArray = field(init=False)
    run: Run = field(init=False)

    @aval.default
    def _aval(self) -> ShapedArray:
        return self.out_avals[0]

    @run.default
    def _run(self) -> Run:
        return run_of(self.constants, self.count, self.steps, self.outs)

    @override
    def compute(self, host: Sequence[HostArray]) -> HostArray:
        return owned(_quiet().run(self.run, host)[0], host)

    @override
    def results(self, host: Sequence[HostArray]) -> list[tuple[HostArray, ShapedArray]]:
        values = _quiet().run(self.run, host)
        return [(owned(value, host), aval) for value, aval in zip(values, self.out_avals, strict=True)]


@final
@frozen(eq=False)
class Launch:
    """An executable, and the arrays that feed its first inputs, on its device."""

    executable: backend.AnyExecutable
    captured: list[backend.Argument]
    out_avals: tuple[ShapedArray, ...]
    name: str

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
            return [of_buffer(kind, results[0], self.out_avals[0])]
        return [of_buffer(kind, buffer, aval) for buffer, aval in zip(results, self.out_avals, strict=True)]

    def launch_one(self, args: list[backend.Argument], kind: type[E]) -> E | None:
        """The only result for arrays on a device."""
        executable = self.executable
        if self.captured:
            args = self.captured + args
        if not executable.alone and not executable.holds(args):
            return None
        return of_buffer(kind, executable.launch(args, self.name)[0], self.out_avals[0])

    def run(self, arrays: Iterable[StoredArray | HostArray], kind: type[E]) -> list[E] | None:
        """The results for any arrays of the program's types; None if they can't all be where the executable is."""
        executable = self.executable
        args: list[backend.Argument] = []
        on_host = False
        for array in arrays:
            if not isinstance(array, StoredArray):
                arg = executable.admit_host(array)
            elif (buffer := array.buffer) is not None:
                arg = buffer
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


@final
@frozen(eq=False)
class LaunchOnMesh:
    """The same for a mesh of one device. Arrays on one have no `buffer`: what is compiled for that device alone would
    take it for its own, and ask no more."""

    executable: backend.AnyExecutable
    captured: list[backend.Argument]
    out_avals: tuple[ShapedArray, ...]
    name: str

    def launch_one(self, args: list[backend.Argument], kind: type[E]) -> E | None:
        """None: these arrays are on no mesh."""
        return None

    def run(self, arrays: Iterable[StoredArray | HostArray], kind: type[E]) -> list[E] | None:
        """The results for any arrays of the program's types; None if they can't all be where the executable is."""
        executable = self.executable
        args = list(self.captured)
        on_host = False
        for array in arrays:
            arg = executable.admit(array.value) if isinstance(array, StoredArray) else executable.admit_host(array)
            if arg is None:
                return None
            on_host = on_host or type(arg) is np.ndarray
            args.append(arg)
        if not executable.holds(args):
            return None
        results = executable.launch(args, self.name, on_host)
        found = zip(results, self.out_avals, strict=True)
        return [kind(backend.value_of_buffer(result, aval)) for result, aval in found]


def launch_of(
    executable: backend.AnyExecutable,
    captured: Iterable[ConcreteValue],
    out_avals: tuple[ShapedArray, ...],
    name: str,
) -> Launch | LaunchOnMesh | None:
    """The launch of an executable whose first inputs these arrays feed; None if one of them is on another device."""
    buffers: list[backend.Argument] = []
    for i, value in enumerate(captured):
        buffer = executable.capture(value, i)
        if buffer is None:
            return None
        buffers.append(buffer)
    kind = LaunchOnMesh if executable.on_mesh_of_one else Launch
    return kind(executable, buffers, out_avals, name)


def alone(
    program: backend.Compiled, captured: Iterable[ConcreteValue], out_avals: tuple[ShapedArray, ...]
) -> Launch | LaunchOnMesh | None:
    """The same for a program that was compiled ahead of time; None if that is for several devices."""
    from tinyjax.backend.executable import Executable

    executable = program.executable
    return launch_of(executable, captured, out_avals, program.name) if isinstance(executable, Executable) else None


@final
@frozen(eq=False)
class Equation:
    """What a call becomes within a transformation, and the arrays that feed its first inputs."""

    primitive: Primitive
    captured: tuple[Array, ...]
