"""Evaluation on devices: through an executor, which evaluation is handed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tinyjax.caching import bounded
from tinyjax.errors import MissingRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn, Jaxpr, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.result_types import result_types
from tinyjax.ir.value import ConcreteValue


class Executor(Protocol):
    """Runs a whole program on concrete values: what evaluation is handed to reach a compiler."""

    def __call__(self, jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]: ...


def on_device(
    executor: Executor | None, primitive: Primitive, args: Sequence[ConcreteValue]
) -> tuple[ConcreteValue, ...] | None:
    """The outputs of a compiled equation; None for a primitive that can't be compiled, which the host computes."""
    if executor is None:
        return None
    try:
        return executor(single_equation(primitive, tuple([arg.aval for arg in args])), args, primitive.name)
    except MissingRuleError:
        return None


@bounded(4096)
def single_equation(primitive: Primitive, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    """The program that applies one primitive to its inputs."""
    n = len(avals)
    ins = tuple(Var(i, aval) for i, aval in enumerate(avals))
    outs = tuple(Var(n + i, aval) for i, aval in enumerate(result_types(primitive, avals)))
    return well_typed(Jaxpr(ins, (Eqn(primitive, ins, outs),), outs))
