"""What functions that `as_one` marks do: each is traced, and becomes one program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import final

from attrs import evolve, frozen

from tinyjax import backend
from tinyjax.contexts.staging import Staged, StagingContext
from tinyjax.errors import TinyjaxError
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.elements import Elements
from tinyjax.prepared.executables import Ready
from tinyjax.prepared.functions import STAGING, Whole
from tinyjax.prepared.kernels import HostProgram
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import activate
from tinyjax.transforms.dce import dce


@final
@frozen
class _Marked:
    """The function, for messages that nobody sees: if it can't be traced, it is called, and says so itself."""

    label: str

    def name_input(self, position: int) -> str:
        return f"argument {position}"


def whole(
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    arrays: Sequence[Elements],
    on_device: bool,
) -> Whole | None:
    """The function for arguments like these as one program; None if it can't be one."""
    name = function.__name__
    context = StagingContext()
    try:
        with activate(context, _Marked(name)) as frame, frame:

            def traced(arg: object) -> object:
                return frame.wrap(context.argument(arg.aval)) if isinstance(arg, Elements) else arg

            result = function(*map(traced, args), **{key: traced(arg) for key, arg in kwargs.items()})
            results = result if isinstance(result, tuple) else (result,)
            staged = context.finish([frame.read(out) for out in results if isinstance(out, Array)])
            staged = evolve(staged, jaxpr=dce(staged.jaxpr))
    except TinyjaxError:
        return None
    program = _on_device(name, staged, arrays) if on_device else _on_host(staged)
    if program is None or len(staged.jaxpr.outvars) < len(results):
        return None
    kept = (function, *(array.aval for array in arrays))
    return Whole(program, not isinstance(result, tuple), kept)


def _captured(staged: Staged) -> list[ConcreteArray] | None:
    """What the function itself makes: None if some of it belongs to a transformation."""
    values = [value for value in staged.captured if isinstance(value, ConcreteValue)]
    return list(map(ConcreteArray, values)) if len(values) == len(staged.captured) else None


def _on_host(staged: Staged) -> HostProgram | None:
    captured = _captured(staged)
    elements = [array.host for array in captured or () if array.host is not None]
    if captured is None or len(elements) < len(captured):
        return None
    return HostProgram.of(staged.jaxpr, elements)


def _on_device(name: str, staged: Staged, arrays: Sequence[Elements]) -> Ready | None:
    captured = _captured(staged)
    if captured is None:
        return None
    values = [array.value for array in (*captured, *arrays)]
    executable = backend.execute.executable(staged.jaxpr, values, name)
    return Ready.of(executable, captured, staged.jaxpr.out_avals, name)


STAGING[ConcreteArray] = whole
