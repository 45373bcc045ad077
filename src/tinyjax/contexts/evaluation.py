"""Evaluation: values are concrete arrays, and applying a primitive computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from tinyjax.contexts.devices import Executor, on_device
from tinyjax.contexts.literals import literal_value
from tinyjax.contexts.narrow import computed
from tinyjax.errors import MissingRuleError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.ir.result_types import result_types
from tinyjax.ir.roles import Customised
from tinyjax.ir.value import ConcreteValue, owned
from tinyjax.stack import with_room


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
                found = None if avals is None else on_device(self._executor, primitive, args)
                if found is not None:
                    return found
                data = np.asarray(data)
            host.append(data)
        results = computed(primitive, avals, host)
        if avals is None:
            return tuple(map(ConcreteValue.of, results))
        return tuple(
            ConcreteValue(owned(np.asarray(result, aval.dtype), host), aval)
            for result, aval in zip(results, avals, strict=True)
        )

    @override
    def constant(self, value: ConcreteValue | Literal) -> ConcreteValue:
        return literal_value(value) if isinstance(value, Literal) else value

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
