"""What calls, branches and loops come to when there is less in them than meets the eye; and what may be inlined."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from tinyjax.caching import remembered
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Call, Calling
from tinyjax.control.callbacks import Callback
from tinyjax.control.carry import groups, rearranged
from tinyjax.control.checkpoint import Checkpoint
from tinyjax.control.cond import Cond
from tinyjax.control.custom_batching import CustomVmap
from tinyjax.control.custom_derivatives import CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import must_stay
from tinyjax.ir.interpret import interpret
from tinyjax.ir.merging import merged
from tinyjax.ir.program import Atom, Jaxpr, Literal, Var
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.structure import full
from tinyjax.transforms.cse import MERGING
from tinyjax.transforms.dce import prune
from tinyjax.transforms.decided import SHORTCUTS
from tinyjax.transforms.fold_constants import FOLDING
from tinyjax.transforms.inline import INLINING, Inlinable
from tinyjax.transforms.numbers_apart import APPLYING

MERGING[Checkpoint] = lambda primitive: not primitive.prevent_cse
for _elsewhere in (Callback, CallExported, FfiCall):
    FOLDING[_elsewhere] = lambda primitive: False
INLINING[Call] = lambda primitive: Inlinable(primitive.jaxpr, transparent=True)
INLINING[Calling] = lambda primitive: Inlinable(primitive.jaxpr, transparent=False)
INLINING[CustomVmap] = lambda primitive: Inlinable(primitive.jaxpr, transparent=False)
for _applied in (Call, Checkpoint):
    APPLYING[_applied] = lambda primitive, program: primitive.of(program)
for _custom in (CustomJvp, CustomVjp, MappedCustom):
    INLINING[_custom] = lambda primitive: Inlinable(primitive.jaxpr, transparent=False)


@SHORTCUTS.register(Call)
def _call(primitive: Call, operands: Sequence[Literal | None]) -> Jaxpr | None:
    """Results that the program only hands on, or returns twice, come from outside of the call."""
    outs = primitive.jaxpr.outvars
    n = len(primitive.jaxpr.invars)
    distinct = {atom for atom in outs if isinstance(atom, Var) and atom.index >= n}
    if len(distinct) == len(outs) and primitive.jaxpr.eqns:
        return None
    return _with_results_from_outside(primitive)


@remembered
def _with_results_from_outside(primitive: Call) -> Jaxpr | None:
    jaxpr = primitive.jaxpr
    first: dict[Atom, int] = {}
    for i, atom in enumerate(jaxpr.outvars):
        first.setdefault(atom, i)
    computed = tuple(
        isinstance(atom, Var) and atom.index >= len(jaxpr.invars) and first[atom] == i
        for i, atom in enumerate(jaxpr.outvars)
    )
    inner = prune(jaxpr, computed, (True,) * len(jaxpr.invars)).jaxpr

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        left = inner.outvars or must_stay(inner.effects)
        found = iter(ctx.bind(evolve(primitive, jaxpr=inner), *ins) if left else ())
        results: list[Atom] = []
        for atom, mark in zip(jaxpr.outvars, computed, strict=True):
            if mark:
                results.append(next(found))
            elif isinstance(atom, Var):
                results.append(ins[atom.index] if atom.index < len(ins) else results[first[atom]])
            else:
                results.append(atom)
        return results

    return stage(jaxpr.in_avals, run)


@SHORTCUTS.register(Cond)
def _cond(primitive: Cond, operands: Sequence[Literal | None]) -> Jaxpr | None:
    """The branch, if it is known, or if there is no choice."""
    index, branches = operands[0], primitive.branches
    if index is not None:
        return _without_index(branches[min(max(int(index.value.real), 0), len(branches) - 1)])
    return _without_index(branches[0]) if all(branch == branches[0] for branch in branches[1:]) else None


@remembered
def _without_index(branch: Jaxpr) -> Jaxpr:
    """The branch, as a program that takes the index, too."""
    index = ShapedArray((), "int32")
    return stage([index, *branch.in_avals], lambda ctx, ins: interpret(ctx, branch, ins[1:]))


@SHORTCUTS.register(Scan)
def _scan(primitive: Scan, operands: Sequence[Literal | None]) -> Jaxpr | None:
    """A loop of no or one iteration is none; and a carry that never changes is a constant."""
    if primitive.length == 0 and not must_stay(primitive.effects):
        return _no_iteration(primitive)
    if primitive.length == 1:
        return _one_iteration(primitive)
    n, k = primitive.num_consts, primitive.num_carry
    still = _still(primitive.jaxpr, n, k)
    return _without_still_carries(primitive, still) if any(still) else None


@SHORTCUTS.register(While)
def _while(primitive: While, operands: Sequence[Literal | None]) -> Jaxpr | None:
    """A loop whose condition is false is none; and a carry that never changes is a constant."""
    goes_on = primitive.cond_jaxpr.outvars[0]
    if isinstance(goes_on, Literal) and not goes_on.value and not must_stay(primitive.effects):
        return _no_while(primitive)
    n = primitive.body_nconsts
    still = _still(primitive.body_jaxpr, n, len(primitive.body_jaxpr.invars) - n)
    return _while_without_still_carries(primitive, still) if any(still) else None


def _still(body: Jaxpr, first: int, count: int) -> tuple[bool, ...]:
    """Which carries, of those which are the inputs from `first` on, a body returns as they are."""
    return tuple(body.outvars[i] == body.invars[first + i] for i in range(count))


@remembered
def _no_iteration(scan: Scan) -> Jaxpr:
    avals = scan.operands(scan.jaxpr.in_avals)
    after, ys = scan.results(scan.jaxpr.out_avals)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        carry = scan.operands(ins)[1]
        return [
            *(convert(ctx, x, aval.dtype, aval.weak_type) for x, aval in zip(carry, after, strict=True)),
            *(full(ctx, scan.stacked(aval), 0) for aval in ys),
        ]

    return stage([*avals[0], *avals[1], *map(scan.stacked, avals[2])], run)


@remembered
def _one_iteration(scan: Scan) -> Jaxpr:
    consts, carry, xs = scan.operands(scan.jaxpr.in_avals)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        given = scan.operands(ins)
        rows = [reshape(ctx, x, aval.shape) for x, aval in zip(given[2], xs, strict=True)]
        after, ys = scan.results(interpret(ctx, scan.jaxpr, [*given[0], *given[1], *rows]))
        return [*after, *(reshape(ctx, y, (1, *y.aval.shape)) for y in ys)]

    return stage([*consts, *carry, *map(scan.stacked, xs)], run)


@remembered
def _without_still_carries(scan: Scan, still: tuple[bool, ...]) -> Jaxpr:
    n, k = scan.num_consts, scan.num_carry
    fixed = [i for i in range(k) if still[i]]
    moving = [i for i in range(k) if not still[i]]
    ys = range(k, len(scan.jaxpr.outvars))
    xs = range(n + k, len(scan.jaxpr.invars))
    order = (*range(n), *(n + i for i in fixed), *(n + i for i in moving), *xs)
    body = rearranged(scan.jaxpr, order, (*moving, *ys))
    loop = evolve(scan, jaxpr=body, num_consts=n + len(fixed), num_carry=len(moving))
    consts, carry, slices = scan.operands(scan.jaxpr.in_avals)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        bound = loop.jaxpr.outvars or must_stay(loop.effects)
        outs = ctx.bind(loop, *[ins[i] for i in order]) if bound else ()
        return [*merged(still, [ins[n + i] for i in fixed], outs), *outs[len(moving) :]]

    return stage([*consts, *carry, *map(scan.stacked, slices)], run)


@remembered
def _no_while(loop: While) -> Jaxpr:
    consts = loop.cond_jaxpr.in_avals[: loop.cond_nconsts]
    after = loop.body_jaxpr.out_avals

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        carry = loop.operands(ins)[2]
        return [convert(ctx, x, aval.dtype, aval.weak_type) for x, aval in zip(carry, after, strict=True)]

    return stage([*consts, *loop.body_jaxpr.in_avals], run)


@remembered
def _while_without_still_carries(loop: While, still: tuple[bool, ...]) -> Jaxpr:
    c, b, k = loop.cond_nconsts, loop.body_nconsts, len(still)
    fixed = [i for i in range(k) if still[i]]
    moving = [i for i in range(k) if not still[i]]
    cond = rearranged(loop.cond_jaxpr, (*range(c), *(c + i for i in fixed), *(c + i for i in moving)))
    body = rearranged(loop.body_jaxpr, (*range(b), *(b + i for i in fixed), *(b + i for i in moving)), tuple(moving))
    smaller = While(cond, c + len(fixed), body, b + len(fixed))
    avals = [*loop.cond_jaxpr.in_avals[:c], *loop.body_jaxpr.in_avals]

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        cond_consts, body_consts, carry = groups(ins, (c, b))
        constant = [carry[i] for i in fixed]
        operands = [*cond_consts, *constant, *body_consts, *constant, *(carry[i] for i in moving)]
        return merged(still, constant, ctx.bind(smaller, *operands))

    return stage(avals, run)
