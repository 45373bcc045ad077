"""Evaluation: values are concrete arrays, and applying a primitive computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from typing_extensions import override

from tinyjax.caching import bounded, with_room
from tinyjax.errors import MissingRuleError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context, Customised
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.result_types import result_types
from tinyjax.ir.value import ConcreteValue, owned


class Executor(Protocol):
    """Runs a whole program on concrete values: what evaluation is handed to reach a compiler."""

    def __call__(self, jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]: ...


class EvalContext(Context[ConcreteValue]):
    """The outermost context. Host arrays are computed with NumPy; if any argument is on a device, so is the result.

    Without an executor, calls are interpreted and everything happens on the host.
    """

    __slots__ = ("_executor",)

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor

    @override
    def bind(self, primitive: Primitive, *args: ConcreteValue) -> tuple[ConcreteValue, ...]:
        avals: Sequence[ShapedArray] | None
        try:
            avals = result_types(primitive, [arg.aval for arg in args])
        except MissingRuleError:  # it can be evaluated without
            avals = None
        outs = contracts.evaluate_with(primitive, self, args, avals)
        if outs is not None:
            return tuple(outs)
        host: list[HostArray] = []
        for arg in args:
            data = arg.data
            if type(data) is not np.ndarray and not isinstance(data, np.ndarray):
                found = None if avals is None else self._on_device(primitive, args)
                if found is not None:
                    return found
                data = np.asarray(data)
            host.append(data)
        with np.errstate(all="ignore"):
            results = primitive.evaluate(*host) if primitive.built_in else contracts.evaluate(primitive, avals, host)
        if avals is None:
            return tuple(map(ConcreteValue.of, results))
        if len(avals) == 1 == len(results):
            aval = avals[0]
            return (ConcreteValue(owned(np.asarray(results[0], aval.dtype), host), aval),)
        return tuple(
            ConcreteValue(owned(np.asarray(result, aval.dtype), host), aval)
            for result, aval in zip(results, avals, strict=True)
        )

    def _on_device(self, primitive: Primitive, args: Sequence[ConcreteValue]) -> tuple[ConcreteValue, ...] | None:
        """The outputs of a compiled equation; None for a primitive that can't be compiled, which the host computes."""
        if self._executor is None:
            return None
        try:
            program = single_equation(primitive, tuple([arg.aval for arg in args]))
            return self._executor(program, args, primitive.name)
        except MissingRuleError:
            return None

    @override
    def constant(self, value: ConcreteValue | Literal) -> ConcreteValue:
        return _literal_value(value) if isinstance(value, Literal) else value

    @override
    def aval(self, value: ConcreteValue) -> ShapedArray:
        return value.aval

    @override
    def holds(self, value: object) -> bool:
        return isinstance(value, ConcreteValue)

    @override
    def concrete(self, value: ConcreteValue) -> ConcreteValue:
        return value

    @override
    def call_custom(self, function: Customised, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return function.call(self, args)

    @property
    @override
    def label(self) -> str:
        return "evaluation"

    @override
    def rule_of(self, primitive: Primitive, args: Sequence[ConcreteValue]) -> str:
        overridden = type(primitive).evaluate_with is not Primitive.evaluate_with
        return "evaluate_with" if overridden else "evaluate"

    @property
    def compiles(self) -> bool:
        return self._executor is not None

    def interpret(self, jaxpr: Jaxpr, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        """Runs a program equation by equation, however deep programs nest in it."""
        return with_room(lambda: interpret(self, jaxpr, args))

    def execute(self, jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]:
        """Runs a whole program: through the executor if there is one."""
        if self._executor is not None:
            return self._executor(jaxpr, args, name)
        return tuple(self.interpret(jaxpr, args))


@bounded(4096)
def _literal_value(literal: Literal) -> ConcreteValue:
    elements = np.asarray(literal.value, literal.aval.dtype)
    elements.flags.writeable = False
    return ConcreteValue(elements, literal.aval)


@bounded(4096)
def single_equation(primitive: Primitive, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    """The program that applies one primitive to its inputs."""
    n = len(avals)
    ins = tuple(Var(i, aval) for i, aval in enumerate(avals))
    outs = tuple(Var(n + i, aval) for i, aval in enumerate(result_types(primitive, avals)))
    return well_typed(Jaxpr(ins, (Eqn(primitive, ins, outs),), outs))
