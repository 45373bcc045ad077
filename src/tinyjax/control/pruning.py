"""How `dce` prunes primitives that hold programs: which results, operands, carries and residuals can go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from attrs import evolve

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.branches import any_of
from tinyjax.control.call import Call, Calling
from tinyjax.control.carry import fixpoint
from tinyjax.control.composite_call import CompositeCall
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomJvp, CustomVjp
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.forward_pass import ForwardPass
from tinyjax.control.loops import While
from tinyjax.control.recursion import Backward, Recursion, in_general, refusal_for
from tinyjax.control.scan import Scan
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.tangents import has_tangent, spread_marks
from tinyjax.primitives.structure import full
from tinyjax.transforms.dce import PRUNING, PrunedPrimitive, cleaned_up, prune


@PRUNING.register(Calling)
def _call(primitive: Calling, used: tuple[bool, ...]) -> PrunedPrimitive:
    found = prune(primitive.jaxpr, used)
    same = found.jaxpr is primitive.jaxpr
    return PrunedPrimitive(primitive if same else evolve(primitive, jaxpr=found.jaxpr), found.used_inputs, used)


@PRUNING.register(CompositeCall)
def _composite(primitive: CompositeCall, used: tuple[bool, ...]) -> PrunedPrimitive:
    """Its name is for all of its operands and results."""
    inner = cleaned_up(primitive.jaxpr)
    pruned = primitive if inner is primitive.jaxpr else evolve(primitive, jaxpr=inner)
    return PrunedPrimitive(pruned, (True,) * len(inner.invars), (True,) * len(used))


@PRUNING.register(ShardMap)
def _shard_map(primitive: ShardMap, used: tuple[bool, ...]) -> PrunedPrimitive:
    found = prune(primitive.jaxpr, used)
    if found.jaxpr is primitive.jaxpr:
        return PrunedPrimitive(primitive, found.used_inputs, used)
    pruned = evolve(
        primitive,
        jaxpr=found.jaxpr,
        in_specs=tuple(compress(primitive.in_specs, found.used_inputs)),
        out_specs=tuple(compress(primitive.out_specs, used)),
    )
    return PrunedPrimitive(pruned, found.used_inputs, used)


@PRUNING.register(ForwardPass)
def _forward_pass(primitive: ForwardPass, used: tuple[bool, ...]) -> PrunedPrimitive:
    """Where no residual is read, the function itself is enough."""
    n = len(primitive.function.outvars)
    if any(used[n:]):
        return PrunedPrimitive(primitive, (True,) * len(primitive.jaxpr.invars), (True,) * len(used))
    found = _call(Call(primitive.function_name, primitive.function), used[:n])
    return PrunedPrimitive(found.primitive, found.used_inputs, used)


@PRUNING.register(Cond)
def _cond(primitive: Cond, used: tuple[bool, ...]) -> PrunedPrimitive:
    operands = any_of([prune(branch, used).used_inputs for branch in primitive.branches])
    branches = tuple(prune(branch, used, operands).jaxpr for branch in primitive.branches)
    same = all(new is old for new, old in zip(branches, primitive.branches, strict=True))
    return PrunedPrimitive(primitive if same else Cond(branches), (True, *operands), used)


@PRUNING.register(Scan)
def _scan(primitive: Scan, used: tuple[bool, ...]) -> PrunedPrimitive:
    """A carry stays if it is read in the end, or if what stays in the body reads it."""
    last, ys = primitive.results(used)
    body = primitive.jaxpr
    carry, needed = fixpoint(
        last,
        lambda marks: (
            found := prune(body, (*marks, *ys)).used_inputs,
            primitive.operands(found)[1],
        ),
    )
    consts, _, xs = primitive.operands(needed)
    operands = (*consts, *carry, *xs)
    outputs = (*carry, *ys)
    jaxpr = prune(body, outputs, operands).jaxpr
    if jaxpr is body:
        return PrunedPrimitive(primitive, operands, outputs)
    pruned = evolve(primitive, jaxpr=jaxpr, num_consts=sum(consts), num_carry=sum(carry))
    return PrunedPrimitive(pruned, operands, outputs)


@PRUNING.register(While)
def _while(primitive: While, used: tuple[bool, ...]) -> PrunedPrimitive:
    """A carry stays if it is read in the end, if the condition reads it, or if what stays in the body does."""
    tested = prune(primitive.cond_jaxpr, (True,)).used_inputs
    cond_consts, read = tested[: primitive.cond_nconsts], tested[primitive.cond_nconsts :]
    n, body = primitive.body_nconsts, primitive.body_jaxpr
    start = any_of([used, read])
    carry, needed = fixpoint(start, lambda marks: (found := prune(body, marks).used_inputs, found[n:]))
    body_consts = needed[:n]
    operands = (*cond_consts, *body_consts, *carry)
    cond_jaxpr = prune(primitive.cond_jaxpr, (True,), (*cond_consts, *carry)).jaxpr
    body_jaxpr = prune(body, carry, (*body_consts, *carry)).jaxpr
    if cond_jaxpr is primitive.cond_jaxpr and body_jaxpr is body:
        return PrunedPrimitive(primitive, operands, carry)
    pruned = While(cond_jaxpr, sum(cond_consts), body_jaxpr, sum(body_consts))
    return PrunedPrimitive(pruned, operands, carry)


@PRUNING.register(CustomJvp)
def _custom_jvp(primitive: CustomJvp, used: tuple[bool, ...]) -> PrunedPrimitive:
    """Results go together with their tangents; an argument goes if neither the function nor its rule needs it."""
    rule = primitive.jvp_jaxpr
    n, ins, outs = primitive.num_captured, primitive.jaxpr.in_avals, primitive.jaxpr.out_avals
    if rule is None:
        return _within(primitive, cleaned_up(primitive.jaxpr), None, len(ins), len(outs))
    if primitive.special or Recursion(0) in rule.effects:  # it applies the function as it is
        return _within(primitive, cleaned_up(primitive.jaxpr), cleaned_up(rule), len(ins), len(outs))
    moving = [has_tangent(aval) for aval in ins[n:]]
    derived = (*used, *(mark for mark, aval in zip(used, outs, strict=True) if has_tangent(aval)))
    by_rule = prune(rule, derived).used_inputs
    by_tangents = (*(False,) * n, *spread_marks(by_rule[len(ins) :], ins[n:]))
    captured = tuple(i < n for i in range(len(ins)))
    operands = any_of([prune(primitive.jaxpr, used).used_inputs, by_rule[: len(ins)], by_tangents, captured])
    jaxpr = prune(primitive.jaxpr, used, operands).jaxpr
    kept = (*operands, *(mark for mark, moves in zip(operands[n:], moving, strict=True) if moves))
    pruned = _within(primitive, jaxpr, prune(rule, derived, kept).jaxpr, len(ins), len(outs)).primitive
    return PrunedPrimitive(pruned, operands, used)


def _within(
    primitive: CustomJvp, jaxpr: Jaxpr, rule: Jaxpr | None, num_operands: int, num_outputs: int
) -> PrunedPrimitive:
    """With these programs, and with all operands and outputs."""
    same = jaxpr is primitive.jaxpr and rule is primitive.jvp_jaxpr
    changed = primitive if same else evolve(primitive, jaxpr=jaxpr, jvp_jaxpr=rule)
    return PrunedPrimitive(changed, (True,) * num_operands, (True,) * num_outputs)


@PRUNING.register(CustomVjp)
def _custom_vjp(primitive: CustomVjp, used: tuple[bool, ...]) -> PrunedPrimitive:
    """Results go, whose cotangents are zero then, and residuals that nothing needs.

    An argument stays if its rule returns a cotangent for it, needed or not: that is what the rule is for.
    """
    used = _with_states(used, primitive.states)
    fwd, bwd = primitive.fwd_jaxpr, primitive.bwd_jaxpr
    n, num_ins, outs = primitive.num_captured, len(primitive.jaxpr.invars), primitive.jaxpr.out_avals
    if primitive.special or fwd is None or bwd is None or Recursion(0) in fwd.effects | bwd.effects:
        rules = [None if rule is None else cleaned_up(rule) for rule in (fwd, bwd)]
        jaxpr = cleaned_up(primitive.jaxpr)
        same = jaxpr is primitive.jaxpr and rules[0] is fwd and rules[1] is bwd
        changed = primitive if same else evolve(primitive, jaxpr=jaxpr, fwd_jaxpr=rules[0], bwd_jaxpr=rules[1])
        return PrunedPrimitive(changed, (True,) * num_ins, (True,) * len(outs))
    num_residuals = len(fwd.outvars) - len(outs)
    moving = [mark for mark, aval in zip(used, outs, strict=True) if has_tangent(aval)]
    backward = _with_zeros(bwd, n + num_residuals, moving)
    all_cts = (True,) * len(backward.outvars)
    residuals = prune(backward, all_cts).used_inputs[n : n + num_residuals]
    backward = prune(backward, all_cts, _kept(n, residuals, sum(moving))).jaxpr
    stays = tuple(i < n or primitive.returned[i - n] for i in range(num_ins))
    results = (*used, *residuals)
    operands = any_of([prune(primitive.jaxpr, used).used_inputs, prune(fwd, results).used_inputs, stays])
    jaxpr, forward = prune(primitive.jaxpr, used, operands).jaxpr, prune(fwd, results, operands).jaxpr
    if jaxpr is primitive.jaxpr and forward is fwd and backward is bwd:
        return PrunedPrimitive(primitive, operands, used)
    returned = tuple(compress(primitive.returned, operands[n:]))
    pruned = evolve(primitive, jaxpr=jaxpr, fwd_jaxpr=forward, bwd_jaxpr=backward, returned=returned)
    return PrunedPrimitive(pruned, operands, used)


@PRUNING.register(CustomLin)
def _custom_lin(primitive: CustomLin, used: tuple[bool, ...]) -> PrunedPrimitive:
    """As the derivative of `CustomVjp`: tangents that nothing reads go, and residuals that nothing needs."""
    used = _with_states(used, primitive.states)
    n = primitive.num_residuals
    possible = [case for case in primitive.special or () if _within_marks(case.given, used)]
    exact = [case.jaxpr for case in possible if case.given == used]
    backward = exact[0] if exact else _with_zeros(primitive.bwd, n, used)
    special = [case for case in possible if case.given != used]
    all_cts = (True,) * len(backward.outvars)
    programs = [backward, *(case.jaxpr for case in special)]
    residuals = any_of([prune(each, all_cts).used_inputs[:n] for each in programs])
    backward, *others = [prune(each, all_cts, _kept(0, residuals, len(each.invars) - n)).jaxpr for each in programs]
    operands = (*residuals, *all_cts)
    if backward is primitive.bwd and all(new is case.jaxpr for new, case in zip(others, special, strict=True)):
        return PrunedPrimitive(primitive, operands, used)
    refused = [refusal_for(each, tuple(compress(each.given, used))) for each in primitive.refused or ()
               if _within_marks(each.given, used)]  # fmt: skip
    general = in_general(primitive.refused)
    if general is not None and not exact and in_general(refused) is None:
        refused.append(refusal_for(general, (True,) * sum(used)))
    cases = [Backward(tuple(compress(case.given, used)), new) for case, new in zip(special, others, strict=True)]
    pruned = CustomLin(
        primitive.function_name,
        backward,
        sum(residuals),
        tuple(cases) or None,
        tuple(refused) or None,
        primitive.states,
    )
    return PrunedPrimitive(pruned, operands, used)


def _with_states(used: tuple[bool, ...], states: int | None) -> tuple[bool, ...]:
    """The results that stay: all states."""
    return (*used[:-states], *(True,) * states) if states else used


def _within_marks(given: Sequence[bool], used: Sequence[bool]) -> bool:
    return all(u or not g for g, u in zip(given, used, strict=True))


def _kept(num_captured: int, residuals: Sequence[bool], num_cotangents: int) -> tuple[bool, ...]:
    return (*(True,) * num_captured, *residuals, *(True,) * num_cotangents)


def _with_zeros(bwd: Jaxpr, first: int, used: Sequence[bool]) -> Jaxpr:
    """A program that takes cotangents from its input `first` on, but only those that are used: the others are zero."""
    if all(used):
        return bwd
    marks = (*(True,) * first, *used)
    avals: list[ShapedArray] = list(compress(bwd.in_avals, marks))

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        given = iter(ins)
        cts = [next(given) if mark else full(ctx, var.aval, 0) for var, mark in zip(bwd.invars, marks, strict=True)]
        return interpret(ctx, bwd, cts)

    return stage(avals, run)
