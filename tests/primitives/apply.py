"""Applying primitives to arrays in each context, as tests need it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.staging import StagingContext
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Primitive, Zero
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.value import ConcreteValue


def values(arrays: Sequence[HostArray]) -> list[ConcreteValue]:
    return [ConcreteValue.of(array) for array in arrays]


def evaluated(primitive: Primitive, arrays: Sequence[HostArray]) -> HostArray:
    """The output of a primitive that has one."""
    (out,) = EvalContext().bind(primitive, *values(arrays))
    return np.asarray(out)


def dense(value: ConcreteValue | Zero) -> HostArray:
    """A tangent's elements."""
    return np.zeros(value.aval.shape, value.aval.dtype) if isinstance(value, Zero) else np.asarray(value)


def pushed(
    primitive: Primitive, arrays: Sequence[HostArray], tangents: Sequence[HostArray | None]
) -> tuple[HostArray, HostArray]:
    """The output and its tangent; None is a tangent that is symbolically zero."""
    ctx = JvpContext(EvalContext())
    (out,) = ctx.bind(primitive, *_duals(ctx, arrays, tangents))
    return np.asarray(out.primal), dense(out.tangent)


def _duals(
    ctx: JvpContext[ConcreteValue], arrays: Sequence[HostArray], tangents: Sequence[HostArray | None]
) -> list[Dual[ConcreteValue]]:
    return [
        ctx.pure(x) if t is None else Dual(x, ConcreteValue.of(t))
        for x, t in zip(values(arrays), tangents, strict=True)
    ]


def staged_jvp(primitive: Primitive, avals: Sequence[ShapedArray], moving: Sequence[bool]) -> tuple[Jaxpr, bool]:
    """The program of a primitive's jvp, which takes the operands, then the tangents of those that move.

    It returns the output, and its tangent unless that is symbolically zero; the flag says whether it is there.
    """
    inner = StagingContext()
    ctx = JvpContext(inner)
    primals: list[Atom] = [inner.argument(aval) for aval in avals]
    duals: list[Dual[Atom]] = [
        Dual(x, inner.argument(x.aval)) if moves else ctx.pure(x) for x, moves in zip(primals, moving, strict=True)
    ]
    (out,) = ctx.bind(primitive, *duals)
    if isinstance(out.tangent, Zero):
        return inner.finish([out.primal]).jaxpr, False
    return inner.finish([out.primal, out.tangent]).jaxpr, True


def run(jaxpr: Jaxpr, arrays: Sequence[HostArray]) -> list[HostArray]:
    """The outputs of a program."""
    return [np.asarray(out) for out in interpret(EvalContext(), jaxpr, values(arrays))]


def batched(
    primitive: Primitive, arrays: Sequence[HostArray], axes: Sequence[int | None], size: int
) -> tuple[HostArray, int | None]:
    """The output of a primitive mapped over these axes of the operands, and its mapped axis."""
    ctx = BatchContext(EvalContext(), BatchAxis(size))
    (out,) = ctx.bind(primitive, *map(Batched, values(arrays), axes))
    return np.asarray(out.value), out.axis


def looped(primitive: Primitive, arrays: Sequence[HostArray], axes: Sequence[int | None], size: int) -> HostArray:
    """What mapping means: the primitive applied to each element of the mapped axes, the results stacked."""
    rows = [
        evaluated(primitive, [x if at is None else np.take(x, i, at) for x, at in zip(arrays, axes, strict=True)])
        for i in range(size)
    ]
    return np.stack(rows)
