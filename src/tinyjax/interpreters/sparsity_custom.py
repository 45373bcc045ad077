"""Patterns of functions with derivatives of their own: what their rules compute, whatever the functions themselves do.

The rule of a `custom_jvp` function is a program that takes tangents, so the pattern is that of its results in these.
The rule of a `custom_vjp` function goes from cotangents of results to those of arguments: that pattern is transposed.
A rule may do with its tangents what it likes, so here any dependence on them counts, not only that of derivatives. So
what counts of a function that a rule applies is the function itself, not its rule: it may be the one whose rule it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import evolve

from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.custom_linear import CustomLin
from tinyjax.interpreters.base import RuleContext
from tinyjax.interpreters.sparsity import SPARSITY_RULES, Bools, Pattern, SparsityContext, anywhere
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.tangents import has_tangent


def _without(arg: Pattern) -> Pattern:
    """The same value, which depends on nothing."""
    return evolve(arg, depends=np.zeros_like(arg.depends))


def _of_a_rule(ctx: RuleContext[Pattern, Pattern]) -> bool:
    return isinstance(ctx, SparsityContext) and ctx.any_dependence


def _forward(primitive: CustomCall, ctx: RuleContext[Pattern, Pattern], args: Sequence[Pattern]) -> Sequence[Pattern]:
    """The rule of a custom_jvp function, or that of any function with a derivative of its own, over a batch."""
    outs = interpret(ctx, primitive.jaxpr, args)
    if all(arg.constant for arg in args) or _of_a_rule(ctx):
        return outs
    columns = args[0].depends.shape[1]
    inner = SparsityContext(ctx.parent, columns, any_dependence=True)
    tangents: list[Pattern | Zero] = [
        Zero(arg.aval.tangent) if arg.constant else Pattern(arg.aval.tangent, arg.depends) for arg in args
    ]
    primals: Sequence[Pattern] = list(map(_without, args))
    found: Sequence[Pattern | Zero] = primitive.jvp(inner, primals, tangents)[1]
    rows = [inner.independent(t.aval).depends if isinstance(t, Zero) else t.depends for t in found]
    return [Pattern(out.aval, depends, out.value) for out, depends in zip(outs, rows, strict=True)]


@SPARSITY_RULES.register(CustomJvp)
def _custom_jvp(primitive: CustomJvp, ctx: RuleContext[Pattern, Pattern], args: Sequence[Pattern]) -> Sequence[Pattern]:
    unknown = primitive.jvp_jaxpr is None and not _of_a_rule(ctx)
    return anywhere(primitive, ctx, args) if unknown else _forward(primitive, ctx, args)


@SPARSITY_RULES.register(CustomVjp)
def _custom_vjp(primitive: CustomVjp, ctx: RuleContext[Pattern, Pattern], args: Sequence[Pattern]) -> Sequence[Pattern]:
    outs = interpret(ctx, primitive.jaxpr, args)
    if all(arg.constant for arg in args) or _of_a_rule(ctx):
        return outs
    if primitive.fwd_jaxpr is None or primitive.bwd_jaxpr is None:
        return anywhere(primitive, ctx, args)
    tangents = [Zero(arg.aval.tangent) if arg.constant else arg for arg in args]
    primitive.check_captured(ctx, args, tangents)
    n, avals = primitive.num_captured, primitive.jaxpr.out_avals
    at = SparsityContext(ctx.parent, _count(avals), any_dependence=True)
    primals = [evolve(at.independent(arg.aval), value=arg.value) for arg in args]
    residuals = interpret(at, primitive.rule("fwd_jaxpr"), primals)[len(avals) :]
    returned = [arg for arg, mark in zip(args[n:], primitive.returned, strict=True) if mark]
    rows = _backwards(at, primitive.rule("bwd_jaxpr"), [*primals[:n], *residuals], avals, returned)
    return [Pattern(out.aval, depends, out.value) for out, depends in zip(outs, rows, strict=True)]


@SPARSITY_RULES.register(MappedCustom)
def _mapped(primitive: MappedCustom, ctx: RuleContext[Pattern, Pattern], args: Sequence[Pattern]) -> Sequence[Pattern]:
    return _forward(primitive, ctx, args)


@SPARSITY_RULES.register(CustomLin)
def _custom_lin(primitive: CustomLin, ctx: RuleContext[Pattern, Pattern], args: Sequence[Pattern]) -> Sequence[Pattern]:
    n, avals = primitive.num_residuals, primitive.bwd.in_avals[primitive.num_residuals :]
    if not all(arg.constant for arg in args[:n]):
        return anywhere(primitive, ctx, args)
    at = SparsityContext(ctx.parent, _count(avals), any_dependence=True)
    residuals = [evolve(at.independent(arg.aval), value=arg.value) for arg in args[:n]]
    rows = _backwards(at, primitive.bwd, residuals, avals, args[n:])
    return list(map(Pattern, avals, rows))


def _count(avals: Sequence[ShapedArray]) -> int:
    """The number of cotangents of values of these types."""
    return sum(aval.size for aval in avals if has_tangent(aval))


def _backwards(
    at: SparsityContext, bwd: Jaxpr, residuals: Sequence[Pattern], avals: Sequence[ShapedArray], args: Sequence[Pattern]
) -> list[Bools]:
    """What results of these types depend on, if `bwd` takes residuals, then their cotangents, and returns those of the
    arguments: on the inputs that arguments depend on whose cotangents depend on the result's."""
    columns = args[0].depends.shape[1] if args else 0
    offset = 0
    cotangents: list[Pattern] = []
    for aval in filter(has_tangent, avals):
        depends = np.eye(aval.size, at.columns, offset, dtype=np.bool_)
        cotangents.append(Pattern(aval.tangent, depends))
        offset += aval.size
    found = interpret(at, bwd, [*residuals, *cotangents])
    total = np.zeros((at.columns, columns), np.bool_)
    for arg, cotangent in zip(args, found, strict=True):
        total |= cotangent.depends.T.astype(np.float32) @ arg.depends.astype(np.float32) > 0
    rows = iter(np.split(total, np.cumsum([aval.size for aval in avals if has_tangent(aval)])))
    return [next(rows) if has_tangent(aval) else np.zeros((aval.size, columns), np.bool_) for aval in avals]
