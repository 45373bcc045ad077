"""Calls of functions that only compiled programs can call, and of which no derivative is known."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.staging import stage
from tinyjax.errors import TinyjaxError, UnsupportedError
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.value import ConcreteValue

V = TypeVar("V")


@frozen
class CompiledOnly(Primitive):
    """A call of a function that comes from elsewhere, which is compiled as a program of one equation."""

    @property
    @abstractmethod
    def called(self) -> str:
        """The name of the function."""

    @abstractmethod
    def not_differentiable(self) -> TinyjaxError:
        """What says that it isn't, and what to do."""

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        if not evaluator.compiles:
            raise UnsupportedError(
                f"the function {self.called!r} can be called by compiled programs only; run this under `jit`"
            )
        program = stage([arg.aval for arg in args], lambda ctx, ins: ctx.bind(self, *ins))
        return evaluator.execute(program, args, self.called)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        raise self.not_differentiable()

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        raise self.not_differentiable()
