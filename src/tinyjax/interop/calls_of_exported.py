"""Calls of functions that JAX has exported: as ours, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
from jax.extend.core import JaxprEqn
from jax.typing import ArrayLike

from tinyjax.backend import foreign_modules
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.exported import CallExported, ForeignModule
from tinyjax.interop.jax_context import TO_JAX, Args, Function, JaxContext
from tinyjax.interop.rules import no_bits
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0, KEYS
from tinyjax.ir.program import Atom
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.keys import RandomUnwrap, RandomWrap, impl_of


def called(ctx: StagingContext, eqn: JaxprEqn, args: Sequence[Atom], expected: Sequence[ShapedArray]) -> Sequence[Atom]:
    """The results of a `call_exported` of JAX. What has no bits isn't passed or returned; for keys, integers are."""
    name, modules = foreign_modules.called(eqn)
    operands = [
        ctx.bind(RandomUnwrap(), arg)[0] if arg.aval.dtype in KEYS else arg for arg in args if arg.aval.dtype != FLOAT0
    ]
    types = tuple([array_type(arg.aval.shape, arg.aval.dtype) for arg in operands])
    results = tuple([_in_integers(aval) for aval in expected if aval.dtype != FLOAT0])
    primitive = CallExported(name, tuple([ForeignModule(*each) for each in modules]), types, results)
    outs = iter(ctx.bind(primitive, *operands))
    return [no_bits(ctx, aval) if aval.dtype == FLOAT0 else _as_expected(ctx, next(outs), aval) for aval in expected]


def _in_integers(aval: ShapedArray) -> ShapedArray:
    """The type; for typed keys, that of the integers that they consist of."""
    if aval.dtype in KEYS:
        return RandomUnwrap().type_of(aval)[0]
    return array_type(aval.shape, aval.dtype)


def _as_expected(ctx: StagingContext, out: Atom, aval: ShapedArray) -> Atom:
    if aval.dtype in KEYS:
        return ctx.bind(RandomWrap(impl_of(aval.dtype)), out)[0]
    return convert(ctx, out, aval.dtype, aval.weak_type)


@TO_JAX.register(CallExported)
def _call_exported(primitive: CallExported, ctx: JaxContext, args: Args) -> Args:
    functions = {
        platform: ctx.function(primitive, platform, partial(_function, primitive, module, platform))
        for module in primitive.modules
        for platform in module.platforms
    }
    if len(functions) == 1:
        return next(iter(functions.values()))(*args)
    found: Sequence[ArrayLike] = jax.lax.platform_dependent(*args, **functions)
    return found


def _function(primitive: CallExported, module: ForeignModule, platform: str) -> Function:
    return foreign_modules.call_in_jax(
        primitive.function_name, platform, module.function, module.text, primitive.operand_avals, primitive.result_avals
    )
