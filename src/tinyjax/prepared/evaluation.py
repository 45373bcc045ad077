"""Evaluation, quick for primitives that have been met before with operands of the same types."""

from __future__ import annotations

from typing import final

from typing_extensions import override

from tinyjax.contexts.evaluation import EvalContext
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.kernels import by_kernel


@final
class PreparedEvaluation(EvalContext):
    """Evaluation, but quick for what it has met. What it hasn't goes the long way."""

    __slots__ = ()

    @override
    def bind(self, primitive: Primitive, *args: ConcreteValue) -> tuple[ConcreteValue, ...]:
        if primitive.plain:
            out = by_kernel(primitive, args)
            if out is not None:
                return (out,)
        return super().bind(primitive, *args)
