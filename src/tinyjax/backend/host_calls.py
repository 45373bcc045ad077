"""Python functions that compiled programs call. Needs no jax at import."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from threading import get_ident
from typing import Final, final

import numpy as np
from attrs import frozen

from tinyjax.backend.process import PROCESS
from tinyjax.caching import PlainCache
from tinyjax.errors import CallbackError, ContractError
from tinyjax.hlo.called import HostCall
from tinyjax.ir import contracts
from tinyjax.ir.dtypes import KEYS, HostArray


@final
@frozen(eq=False)
class HostFailure:
    """What a call of the host raised. `called` is the name of what was called."""

    called: str
    error: BaseException

    @property
    def reason(self) -> str:
        """The error as part of a message."""
        if isinstance(self.error, CallbackError):
            return str(self.error)
        return f"the callback {self.called} raised {type(self.error).__name__}: {self.error}"

    @property
    def passes(self) -> bool:
        """Whether the error reaches the caller as it is: what isn't about the run, such as an interrupt or the end of
        the program, and a broken contract, which says all."""
        return not isinstance(self.error, Exception) or isinstance(self.error, ContractError)


#: Errors on their way through XLA, by their numbers.
_FAILURES: Final[PlainCache[int, HostFailure]] = PlainCache(1024, "failed calls of the host")
_MARK: Final = "tinyjax call of the host #"
_numbers: Final = count()


def parse(text: str) -> object:
    """The text of a module as an MLIR module: jaxlib attaches Python functions to nothing else."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    return ir.Module.parse(text, mlir.make_ir_context())


def waited_for() -> str | None:
    """What is called in this thread by a program on several devices, which all wait for it; None if nothing is."""
    return PROCESS.called.get(get_ident()) if PROCESS.called else None


def host_function(call: HostCall, several: bool = False) -> Callable[..., tuple[HostArray, ...]]:
    """What XLA calls for a call of the host, from a program on one device or on several."""
    function = _host_function(call)
    if not several:
        return function

    def run(*operands: HostArray) -> tuple[HostArray, ...]:
        thread = get_ident()
        PROCESS.called[thread] = _called(call)
        try:
            return function(*operands)
        finally:
            PROCESS.called.pop(thread, None)

    return run


def _host_function(call: HostCall) -> Callable[..., tuple[HostArray, ...]]:
    primitive, results, ordered = call.primitive, call.results, call.ordered
    keys = [(i, aval.dtype) for i, aval in enumerate(call.operands) if aval.dtype in KEYS]

    def run(*operands: HostArray) -> tuple[HostArray, ...]:
        # The operands lie in XLA's memory, which is reused after the call.
        args = [np.array(operand) for operand in operands[ordered:]]
        for i, dtype in keys:  # which XLA knows as numbers
            args[i] = args[i].view(dtype)
        try:
            outs = primitive.evaluate(*args) if primitive.built_in else contracts.evaluate(primitive, results, args)
            found = [
                np.ascontiguousarray(out, aval.dtype).reshape(aval.shape)
                for out, aval in zip(outs, results, strict=True)
            ]
        except BaseException as error:  # noqa: BLE001 (raised again by whoever waits for the run)
            # To XLA errors are text. It gets a number, by which `host_failure` finds the error itself.
            number = next(_numbers)
            _FAILURES.put(number, HostFailure(_called(call), error))
            raise RuntimeError(f"{_MARK}{number}#") from None
        return (operands[0], *found) if ordered else tuple(found)

    return run


def _called(call: HostCall) -> str:
    from tinyjax.control.callbacks import Callback  # whoever called one has loaded it

    return str(call.primitive.function) if isinstance(call.primitive, Callback) else call.primitive.name


def host_failure(error: BaseException) -> HostFailure | None:
    """What went wrong in a call of the host that made a run fail; None if that isn't what happened."""
    _, _, rest = str(error).partition(_MARK)
    number, _, _ = rest.partition("#")
    return _FAILURES.entries.pop(int(number), None) if number.isdecimal() else None
