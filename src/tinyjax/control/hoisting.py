"""What can be computed before calls, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from attrs import evolve

from tinyjax.contexts.staging import stage
from tinyjax.control.call import Calling
from tinyjax.control.carry import groups
from tinyjax.control.composite_call import CompositeCall
from tinyjax.control.cond import Cond
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Jaxpr
from tinyjax.transforms.hoist_constants import (
    HOISTING,
    Before,
    Hoisted,
    arrays_only,
    divide_before,
    harmless,
    invariant,
)


def _first(count: int, jaxpr: Jaxpr) -> tuple[bool, ...]:
    return tuple(i < count for i in range(len(jaxpr.invars)))


@HOISTING.register(Calling)
def _call(primitive: Calling) -> Hoisted | None:
    divided = divide_before(primitive.jaxpr, _first(0, primitive.jaxpr), arrays_only)
    if divided is None:
        return None
    kept = isinstance(primitive, CompositeCall)  # its arrays are the first operands, as in JAX
    inside = evolve(primitive, jaxpr=divided.inside) if kept else primitive.of(divided.inside)
    return Hoisted(inside, (Before(divided.before, (), 0),))


@HOISTING.register(Cond)
def _cond(primitive: Cond) -> Hoisted | None:
    """Each branch takes the arrays of all."""
    parts = [divide_before(branch, _first(0, branch), arrays_only) for branch in primitive.branches]
    before = tuple(Before(part.before, (), 1) for part in parts if part is not None)
    if not before:
        return None
    avals = [() if part is None else part.before.out_avals for part in parts]
    branches: list[Jaxpr] = []
    for i, (branch, part) in enumerate(zip(primitive.branches, parts, strict=True)):
        first, then = chain.from_iterable(avals[:i]), chain.from_iterable(avals[i + 1 :])
        branches.append(_with_others(branch if part is None else part.inside, [*first], [*then], len(avals[i])))
    return Hoisted(Cond(tuple(branches)), before)


def _with_others(jaxpr: Jaxpr, first: Sequence[ShapedArray], then: Sequence[ShapedArray], num_own: int) -> Jaxpr:
    """The program with more inputs that it doesn't use: before its first `num_own` ones, and after them."""
    own, rest = groups(jaxpr.in_avals, (num_own,))
    a, b, c = len(first), len(first) + num_own, len(first) + num_own + len(then)
    return stage([*first, *own, *then, *rest], lambda ctx, ins: interpret(ctx, jaxpr, [*ins[a:b], *ins[c:]]))


@HOISTING.register(Scan)
def _scan(primitive: Scan) -> Hoisted | None:
    body = primitive.jaxpr
    divided = divide_before(body, _first(primitive.num_consts, body), invariant if primitive.length else harmless)
    if divided is None:
        return None
    more = len(divided.before.outvars)
    loop = evolve(primitive, jaxpr=divided.inside, num_consts=primitive.num_consts + more)
    return Hoisted(loop, (Before(divided.before, divided.operands, 0),))


@HOISTING.register(While)
def _while(primitive: While) -> Hoisted | None:
    """The condition is computed once at least, the body maybe never."""
    c, b = primitive.cond_nconsts, primitive.body_nconsts
    cond_jaxpr, body_jaxpr = primitive.cond_jaxpr, primitive.body_jaxpr
    before: list[Before] = []
    condition = divide_before(cond_jaxpr, _first(c, cond_jaxpr), invariant)
    cond_nconsts, body_nconsts = c, b
    if condition is not None:
        before.append(Before(condition.before, condition.operands, 0))
        cond_jaxpr, cond_nconsts = condition.inside, c + len(condition.before.outvars)
    body = divide_before(body_jaxpr, _first(b, body_jaxpr), harmless)
    if body is not None:
        before.append(Before(body.before, tuple(c + i for i in body.operands), c))
        body_jaxpr, body_nconsts = body.inside, b + len(body.before.outvars)
    if not before:
        return None
    return Hoisted(While(cond_jaxpr, cond_nconsts, body_jaxpr, body_nconsts), tuple(before))
