"""Checks within calls, branches and loops, which `checkify` makes results of these.

Each program within is transformed on its own. Branches return what any of them may find. Loops carry what was found
first, and go on: what they compute stays what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.branches import of_one_type
from tinyjax.control.call import Call, Calling
from tinyjax.control.carry import groups, rearranged, with_unused
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.implicit import Solving
from tinyjax.control.linear_call import LinearCall
from tinyjax.control.loops import While
from tinyjax.control.reducing import Reduce, ReduceWindow
from tinyjax.control.scan import Scan
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import must_stay
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.meshes.spec import PartitionSpec
from tinyjax.primitives.checks import CheckEffect, Failure, Mapped
from tinyjax.primitives.comparison import ne
from tinyjax.primitives.conversion import stop_gradient
from tinyjax.primitives.reductions import reduce_or
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.structure import constant_like, full
from tinyjax.transforms.added_checks import check_nans
from tinyjax.transforms.checkify import (
    CHECKING,
    CheckContext,
    Checked,
    first_of,
    found_types,
    num_found,
    renumbered,
    results,
)
from tinyjax.transforms.dce import dce

for _cls in (Solving, LinearCall, Reduce, ReduceWindow):
    CHECKING[_cls] = check_nans


@CHECKING.register(Calling)
def _calling(primitive: Calling, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    return _apply(primitive, primitive.of, primitive.jaxpr, ctx, args)


def _apply(
    primitive: Primitive, make: Callable[[Jaxpr], Primitive], jaxpr: Jaxpr, ctx: CheckContext, args: Sequence[Atom]
) -> Sequence[Atom]:
    part = ctx.within(jaxpr)
    applied = primitive if part.jaxpr is jaxpr else make(part.jaxpr)
    return ctx.absorb(ctx.parent.bind(applied, *args), part.failures)


def _custom(primitive: CustomCall, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    """The function keeps its derivative, and what is wrong in it is found beside it; unless it has effects, which must
    not happen twice."""
    part = ctx.within(primitive.jaxpr)
    if part.jaxpr is primitive.jaxpr:
        return ctx.parent.bind(primitive, *args)
    if must_stay(part.jaxpr.effects):
        return _apply(primitive, lambda jaxpr: Call(primitive.function_name, jaxpr), primitive.jaxpr, ctx, args)
    if part.failures:
        n = len(primitive.jaxpr.outvars)
        finding = dce(rearranged(part.jaxpr, None, tuple(range(n, len(part.jaxpr.outvars)))))
        known = [stop_gradient(ctx.parent, arg) for arg in args]
        ctx.absorb(ctx.parent.bind(Call(primitive.function_name, finding), *known), part.failures)
    return ctx.parent.bind(evolve(primitive, jaxpr=_unchecked(primitive.jaxpr, part)), *args)


CHECKING[CustomJvp] = _custom
CHECKING[CustomVjp] = _custom
CHECKING[MappedCustom] = _custom


def _unchecked(jaxpr: Jaxpr, part: Checked) -> Jaxpr:
    """The program without its checks."""
    if CheckEffect() not in jaxpr.effects:
        return jaxpr
    return dce(rearranged(part.jaxpr, None, tuple(range(len(jaxpr.outvars)))))


@CHECKING.register(Cond)
def _cond(primitive: Cond, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    parts = [ctx.within(branch) for branch in primitive.branches]
    failures = tuple([failure for part in parts for failure in part.failures])
    branches: list[Jaxpr] = []
    offset = 0
    for part in parts:
        branches.append(_among(part, failures, offset))
        offset += len(part.failures)
    return ctx.absorb(ctx.parent.bind(evolve(primitive, branches=of_one_type(branches)), *args), failures)


def _among(part: Checked, failures: tuple[Failure, ...], offset: int) -> Jaxpr:
    """The program with its failures among others, of which they begin at `offset`."""
    if part.failures == failures:
        return part.jaxpr
    n = len(part.jaxpr.outvars) - num_found(part.failures)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        outs = interpret(ctx, part.jaxpr, ins)
        if not part.failures:
            return [*outs, *[full(ctx, aval, 0) for aval in found_types(failures)]]
        return [*outs[:n], *results(ctx, renumbered(ctx, part.failures, outs[n:], failures, offset), failures)]

    return stage(part.jaxpr.in_avals, run)


@CHECKING.register(Scan)
def _scan(primitive: Scan, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    part = ctx.within(primitive.jaxpr)
    if not part.failures:
        return ctx.parent.bind(evolve(primitive, jaxpr=part.jaxpr), *args)
    n, count = len(primitive.jaxpr.outvars), num_found(part.failures)
    before, carry, xs = primitive.operands(part.jaxpr.in_avals)

    def run(inner: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        at = len(before) + len(carry)
        outs = interpret(inner, part.jaxpr, [*ins[:at], *ins[at + count :]])
        found = results(inner, first_of(inner, ins[at : at + count], outs[n:]), part.failures)
        return [*outs[: len(carry)], *found, *outs[len(carry) : n]]

    body = _carrying(run, [*before, *carry], part.failures, xs, len(carry))
    loop = evolve(primitive, jaxpr=body, num_carry=len(carry) + count)
    consts, init, rows = primitive.operands(args)
    found = [full(ctx.parent, aval, 0) for aval in found_types(part.failures)]
    outs = ctx.parent.bind(loop, *consts, *init, *found, *rows)
    m = len(carry)
    return ctx.absorb([*outs[:m], *outs[m + count :], *outs[m : m + count]], part.failures)


def _carrying(
    run: Callable[[StagingContext, list[Atom]], Sequence[Atom]],
    before: Sequence[ShapedArray],
    failures: Sequence[Failure],
    after: Sequence[ShapedArray],
    at: int,
) -> Jaxpr:
    """The body of a loop that takes what was found between other inputs, and returns it at `at`: it varies along the
    axes of a mesh along which the body makes it vary."""
    found: Sequence[ShapedArray] = found_types(failures)
    while True:
        body = stage([*before, *found, *after], run)
        returned = body.out_avals[at : at + len(found)]
        if list(returned) == list(found):
            return body
        found = returned


@CHECKING.register(While)
def _while(primitive: While, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    """The condition is checked before the loop and after each iteration, and decides without its checks."""
    cond, part = ctx.within(primitive.cond_jaxpr), ctx.within(primitive.body_jaxpr)
    decision = _unchecked(primitive.cond_jaxpr, cond)
    failures = (*part.failures, *cond.failures)
    if not failures:
        return ctx.parent.bind(evolve(primitive, cond_jaxpr=decision, body_jaxpr=part.jaxpr), *args)
    tested, used, init = primitive.operands(args)
    if cond.failures:
        ctx.absorb(interpret(ctx.parent, cond.jaxpr, [*tested, *init]), cond.failures)
    n = len(init)
    repeated = primitive.cond_jaxpr.in_avals[: len(tested)] if cond.failures else ()
    sizes = (len(repeated), len(used), n)

    def run(inner: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        own, consts, carry, found = groups(ins, sizes)
        outs = interpret(inner, part.jaxpr, [*consts, *carry])
        after, first = outs[:n], list(found)
        if part.failures:
            own_found = renumbered(inner, part.failures, outs[n:], failures, 0)
            first = results(inner, first_of(inner, first, own_found), failures)
        if cond.failures:
            _, *rest = interpret(inner, cond.jaxpr, [*own, *after])
            own_found = renumbered(inner, cond.failures, rest, failures, len(part.failures))
            first = results(inner, first_of(inner, first, own_found), failures)
        return [*after, *first]

    body = _carrying(run, [*repeated, *primitive.body_jaxpr.in_avals], failures, (), n)
    condition = with_unused(decision, body.out_avals[n:])
    loop = While(condition, len(tested), body, len(repeated) + len(used))
    found = [full(ctx.parent, aval, 0) for aval in found_types(failures)]
    outs = ctx.parent.bind(loop, *tested, *tested[: len(repeated)], *used, *init, *found)
    return ctx.absorb(outs, failures)


@CHECKING.register(ShardMap)
def _shard_map(primitive: ShardMap, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    """What each device finds is a row of what all find."""
    part = ctx.within(primitive.jaxpr)
    if not part.failures:
        return ctx.parent.bind(evolve(primitive, jaxpr=part.jaxpr), *args)
    n = len(primitive.out_specs)

    def run(inner: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        outs = interpret(inner, part.jaxpr, ins)
        return [*outs[:n], *[reshape(inner, out, (1, *out.aval.shape)) for out in outs[n:]]]

    program = stage(part.jaxpr.in_avals, run)
    each = PartitionSpec(primitive.manual_axes)
    specs = (*primitive.out_specs, *[each] * num_found(part.failures))
    outs = ctx.parent.bind(evolve(primitive, jaxpr=program, out_specs=specs), *args)
    numbers = outs[n]
    wrong = ne(ctx.parent, numbers, constant_like(ctx.parent, numbers, 0))
    ctx.fail(reduce_or(ctx.parent, wrong, (0,)), Mapped(part.failures, numbers.aval.shape[0]), outs[n:])
    return outs[:n]
