"""`Composite`: primitives that are defined by others. One decomposition stands for all the rules."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.caching import bounded
from tinyjax.contexts import transposition
from tinyjax.contexts.abstract import AbstractContext
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.staging import stage
from tinyjax.contexts.watching import alike
from tinyjax.errors import ParameterError, TinyjaxError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue

V = TypeVar("V")


@frozen
class Composite(Primitive):
    """A primitive that is defined by others. Subclass it as a frozen attrs class and define `decompose`.

    Applying the primitive means applying its decomposition, in every context: so that one method gives typing,
    evaluation, derivatives, batching, partial evaluation and lowering. A rule that the subclass defines as well wins
    over what the decomposition gives, and so does a lowering rule in a table. In programs it stays one equation.
    """

    @abstractmethod
    def decompose(self, ctx: Context[V], *args: Any, **_: Any) -> Sequence[V]:  # or any number of operands, by name
        """The outputs, computed by binding other primitives on `ctx`."""

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        return self._decomposed(ctx, args)

    def _decomposed(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        found = self.decompose(ctx, *args)
        return found if self.built_in else contracts.decomposed(self, ctx, args, found)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return _type_of(self, avals)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        outs = self._decomposed(EvalContext(), list(map(ConcreteValue.of, args)))
        return tuple(np.asarray(out.data) for out in outs)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        duals = [Dual(x, t) for x, t in zip(primals, tangents, strict=True)]
        try:
            outs = self._decomposed(alike(ctx, JvpContext(ctx)), duals)
        except TinyjaxError:
            self.type_of(*map(ctx.aval, primals))  # whose error says more than that of what it is made of
            raise
        return [out.primal for out in outs], [out.tangent for out in outs]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        outs = self._decomposed(alike(ctx, BatchContext(ctx, axis)), list(map(Batched, args, axes)))
        return [out.value for out in outs], [out.axis for out in outs]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        avals = tuple(arg.aval if isinstance(arg, UndefPrimal) else ctx.aval(arg) for arg in args)
        return transposition.transpose(ctx, program(self, avals), args, cotangents)


@bounded(4096)
def program(primitive: Composite, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    """The decomposition as a program, for inputs of these types."""
    return stage(avals, primitive.expand)


@bounded(4096)
def _type_of(primitive: Composite, avals: tuple[ShapedArray, ...]) -> tuple[ShapedArray, ...]:
    ctx = AbstractContext()
    outs = tuple(primitive.expand(ctx, avals))
    undeclared = ctx.effects - primitive.effects
    if undeclared:
        names = ", ".join(sorted(map(str, undeclared)))
        raise ParameterError(
            f"the decomposition of {primitive.name!r} has effects that the primitive doesn't declare: {names}. Define "
            f"the property `effects` of {type(primitive).__name__}."
        )
    return outs
