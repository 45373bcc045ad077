"""Interpretation of the primitives that hold programs, for every interpreter: the parent applies the same primitive to
the transformed programs.

What the interpreter decides is how values are taken apart, and what to do where structures differ; see `RuleContext`.
Where no value has any parts, nothing is left for the parent to do, and it isn't asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

from attrs import evolve

from tinyjax.control.call import Call, Calling
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.loops import While
from tinyjax.control.recursion import Enclosing
from tinyjax.control.scan import Scan
from tinyjax.interpreters.base import CONTROL, Form, RuleContext, Transformed, Wanted
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shared_types import array_type

W = TypeVar("W")
S = TypeVar("S")


@CONTROL.register(Calling)
def _calling(primitive: Calling, ctx: RuleContext[W, S], args: Sequence[W]) -> Sequence[W]:
    return ctx.rebind(primitive.of, primitive.jaxpr, args)


def _custom(primitive: CustomCall, ctx: RuleContext[W, S], args: Sequence[W]) -> Sequence[W]:
    """The rules of the function's own are for its own results, not for what they are transformed into."""
    return ctx.rebind(lambda jaxpr: Call(primitive.function_name, jaxpr), primitive.jaxpr, args)


CONTROL[CustomJvp] = _custom
CONTROL[CustomVjp] = _custom
CONTROL[MappedCustom] = _custom


# Branches.


def interpret_cond(primitive: Cond, ctx: RuleContext[W, S], args: Sequence[W]) -> Sequence[W]:
    index, *operands = args
    branches, outs = transform_branches(ctx, primitive.branches, list(map(ctx.form, operands)))
    if not any(form.avals for form in outs):
        return ctx.assemble(outs, ())
    found = ctx.parent.bind(evolve(primitive, branches=branches), ctx.primal(index), *ctx.parts(operands))
    return ctx.assemble(outs, found)


def transform_branches(
    ctx: RuleContext[W, S], branches: Sequence[Jaxpr], ins: Sequence[Form[S]]
) -> tuple[tuple[Jaxpr, ...], Sequence[Form[S]]]:
    """The transformed branches, which return values of the same forms, and these forms."""
    transformed = [ctx.transform(branch, ins) for branch in branches]
    if any(other.outs != transformed[0].outs for other in transformed):
        results = zip(*[t.outs for t in transformed], strict=True)
        structures = [reduce(ctx.join, [form.structure for form in forms]) for forms in results]
        # The types of the parts can be seen when the results have been given that structure.
        wanted = [Wanted(structure) for structure in structures]
        found = zip(*[ctx.transform(branch, ins, wanted).outs for branch in branches], strict=True)
        wanted = [
            Wanted(structure, tuple(map(_common, *[form.avals for form in forms])))
            for structure, forms in zip(structures, found, strict=True)
        ]
        transformed = [ctx.transform(branch, ins, wanted) for branch in branches]
    return tuple(t.jaxpr for t in transformed), transformed[0].outs


def _common(first: ShapedArray, *others: ShapedArray) -> ShapedArray:
    """The type of what has one of these types: weak if all are."""
    return array_type(first.shape, first.dtype, all(aval.weak_type for aval in (first, *others)))


# Loops.


def interpret_while(primitive: While, ctx: RuleContext[W, S], args: Sequence[W]) -> Sequence[W]:
    cond_consts, body_consts, init = primitive.operands(args)
    carry, body = transform_body(ctx, primitive.body_jaxpr, body_consts, init)
    outs = body.outs
    if not any(form.avals for form in outs):
        return ctx.assemble(outs, ())
    condition = ctx.decision(primitive.cond_jaxpr, [*map(ctx.form, cond_consts), *outs])
    tested, used = ctx.parts(cond_consts), ctx.parts(body_consts)
    loop = While(condition, len(tested), body.jaxpr, len(used))
    return ctx.assemble(outs, ctx.parent.bind(loop, *tested, *used, *ctx.parts(carry)))


@CONTROL.register(Scan)
def _scan(primitive: Scan, ctx: RuleContext[W, S], args: Sequence[W]) -> Sequence[W]:
    consts, init, xs = primitive.operands(args)
    elements = [_element(ctx, x) for x in xs]
    carry, body = transform_body(ctx, primitive.jaxpr, consts, init, elements)
    n = primitive.num_carry
    outs = [*body.outs[:n], *(Form(ctx.stacked(y.structure, primitive.length), y.avals) for y in body.outs[n:])]
    if not any(form.avals for form in outs):
        return ctx.assemble(outs, ())
    used, carried = ctx.parts(consts), ctx.parts(carry)
    loop = evolve(primitive, jaxpr=body.jaxpr, num_consts=len(used), num_carry=len(carried))
    return ctx.assemble(outs, ctx.parent.bind(loop, *used, *carried, *ctx.parts(xs)))


def _element(ctx: RuleContext[W, S], x: W) -> Form[S]:
    """The form of an element of an array that a loop goes over."""
    form = ctx.form(x)
    avals = tuple(aval.of_shape(aval.shape[1:]) for aval in form.avals)
    return Form(ctx.element(form.structure), avals)


def transform_body(
    ctx: RuleContext[W, S], jaxpr: Jaxpr, consts: Sequence[W], init: Sequence[W], elements: Sequence[Form[S]] = ()
) -> tuple[Sequence[W], Transformed[S]]:
    """The body of a loop, transformed so that it returns carries of the forms that it takes, and the first carries.

    These forms are the least ones that `join` makes of what the loop starts with and of what the body returns.
    """
    before = list(map(ctx.form, consts))
    while True:
        forms = list(map(ctx.form, init))
        ins = [*before, *forms, *elements]
        body = ctx.transform(jaxpr, ins)
        found = body.outs[: len(forms)]
        joined = [ctx.join(form.structure, out.structure) for form, out in zip(forms, found, strict=True)]
        if joined == [form.structure for form in forms]:
            break
        init = [ctx.widened(value, structure) for value, structure in zip(init, joined, strict=True)]
    if forms != list(found):
        carried = [Wanted(form.structure, form.avals) for form in forms]
        body = ctx.transform(jaxpr, ins, [*carried, *[None] * (len(body.outs) - len(forms))])
    return init, body


CONTROL[Cond] = interpret_cond
CONTROL[While] = interpret_while
CONTROL.lacks(CustomLin, "it is the derivative of a custom_vjp function, of which only the transpose is known")
CONTROL.lacks(Enclosing, "it stands for the primitive whose rule it is in, and is nothing outside of it")
