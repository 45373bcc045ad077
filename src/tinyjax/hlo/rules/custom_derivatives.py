"""Lowering rules of functions with derivatives of their own, and of what guides differentiation or the compiler."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.control.checkpoint import Checkpoint
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.forward_pass import ForwardPass
from tinyjax.control.recursion import Enclosing
from tinyjax.errors import LoweringError
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.primitives.annotations import Name, OptimizationBarrier, optimization_barrier


def _custom_call(
    primitive: CustomCall | ForwardPass, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    return ctx.call(primitive.jaxpr, primitive.function_name, args)


RULES[CustomJvp] = RULES[CustomVjp] = RULES[MappedCustom] = RULES[ForwardPass] = _custom_call


@RULES.register(CustomLin)
def _custom_lin(
    primitive: CustomLin, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    primitive.refuse()


@RULES.register(Enclosing)
def _enclosing(
    primitive: Enclosing, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    raise LoweringError(
        f"the program is a part of the rule of {primitive.function_name!r} and refers to that function, so it can't be "
        "compiled on its own. Compile the program that the rule belongs to."
    )


@RULES.register(Checkpoint)
def _checkpoint(
    primitive: Checkpoint, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """A call. What is computed a second time is kept apart from the first by a barrier on the operands."""
    if primitive.differentiated and primitive.prevent_cse:
        args = ctx.bind(optimization_barrier, *args)
    return ctx.call(primitive.jaxpr, primitive.function_name, args)


@RULES.register(Name)
def _name(_: Name, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    return args


@RULES.register(OptimizationBarrier)
def _optimization_barrier(
    _: OptimizationBarrier, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    if not args:
        return ()
    names, signature = ", ".join([arg.name for arg in args]), types_text(types)[1:-1]
    return ctx.emit_many(f"stablehlo.optimization_barrier {names} : {signature}", types)
