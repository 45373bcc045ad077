"""Python functions that compiled programs call. Imports jax: to be imported at first need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

from tinyjax.control.callbacks import Callback
from tinyjax.errors import CallbackError, ContractError
from tinyjax.hlo.context import HostCall
from tinyjax.ir import contracts
from tinyjax.ir.dtypes import HostArray


def parse(text: str) -> object:
    """The text of a module as an MLIR module: jaxlib attaches Python functions to nothing else."""
    return ir.Module.parse(text, mlir.make_ir_context())


def host_function(call: HostCall) -> Callable[..., tuple[HostArray, ...]]:
    """What XLA calls for a call of the host."""
    primitive, results, ordered = call.primitive, call.results, call.ordered

    def run(*operands: HostArray) -> tuple[HostArray, ...]:
        # The operands lie in XLA's memory, which is reused after the call.
        args = [np.array(operand) for operand in operands[ordered:]]
        try:
            outs = primitive.evaluate(*args) if primitive.built_in else contracts.evaluate(primitive, results, args)
        except (CallbackError, ContractError):
            raise
        except Exception as error:
            raise CallbackError(f"the callback {_called(call)} raised {type(error).__name__}: {error}") from error
        found = [
            np.ascontiguousarray(out, aval.dtype).reshape(aval.shape) for out, aval in zip(outs, results, strict=True)
        ]
        return (operands[0], *found) if ordered else tuple(found)

    return run


def _called(call: HostCall) -> str:
    return str(call.primitive.function) if isinstance(call.primitive, Callback) else call.primitive.name


def callback_failure(error: BaseException) -> str | None:
    """What a callback said that made a run fail, without XLA's account of it; None if that isn't what happened."""
    found = _message(error, CallbackError)
    return None if found is None else f" {found}"


def broken_contract(error: BaseException) -> ContractError | None:
    """The error of a primitive's rule that made a run fail; None if that isn't what happened."""
    found = _message(error, ContractError)
    return None if found is None else ContractError(found)


def _message(error: BaseException, kind: type[Exception]) -> str | None:
    """What an exception of this kind said: XLA has it as text."""
    _, found, message = str(error).rpartition(f"{kind.__name__}: ")
    return message.strip() if found else None
