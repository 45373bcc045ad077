"""`while`: a loop that runs as long as a predicate of its carry holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Call
from tinyjax.control.carry import (
    check_carry,
    fixpoint,
    groups,
    interleaved,
    positions,
    rearranged,
    with_unused,
)
from tinyjax.control.inner_jvp import inner_jvp
from tinyjax.control.together import check_together
from tinyjax.errors import LinearityError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL
from tinyjax.ir.effects import Effects
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.shapes import Axes
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import nonzero_marks, with_zeros, without_zeros
from tinyjax.ir.type_lists import expect_types, listed
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import also, axes_of, union
from tinyjax.primitives.checks import CheckEffect
from tinyjax.primitives.reductions import reduce_or
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import broadcast_in_dim, instantiate
from tinyjax.transforms.batch import BatchedProgram, batch, place_axis
from tinyjax.transforms.checkify import noted_after
from tinyjax.transforms.dce import dce
from tinyjax.transforms.partial_eval import PartialEvaluation, partial_eval

V = TypeVar("V")


@final
@frozen
class While(Primitive):
    """Applies `body_jaxpr` to a carry as long as `cond_jaxpr` of the carry is true.

    The operands are `cond_nconsts` constants that the condition takes before the carry, `body_nconsts` that the body
    takes before it, and the carry at the start. The equation returns the carry at the end.
    """

    cond_jaxpr: Jaxpr
    cond_nconsts: int
    body_jaxpr: Jaxpr
    body_nconsts: int
    name: ClassVar[str] = "while"

    @property
    @override
    def effects(self) -> Effects:
        return self.cond_jaxpr.effects | self.body_jaxpr.effects

    def operands(self, items: Sequence[V]) -> list[Sequence[V]]:
        """What belongs to the constants of the condition, to those of the body, and to the carry."""
        return groups(items, (self.cond_nconsts, self.body_nconsts))

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        body_consts, carry = groups(self.body_jaxpr.in_avals, (self.body_nconsts,))
        cond_consts, tested = groups(self.cond_jaxpr.in_avals, (self.cond_nconsts,))
        expect_types("while takes", [*cond_consts, *body_consts, *carry], avals)
        expect_types("the condition of while takes", tested, carry)
        check_carry(self.name, carry, self.body_jaxpr.out_avals)
        outs = self.cond_jaxpr.out_avals
        if len(outs) != 1 or not outs[0].matches(array_type((), BOOL)):
            raise TypingError(f"the condition of while must return one bool[], got {listed(outs)}")
        return self.body_jaxpr.out_avals

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        tested = union([aval.varying for aval in self.cond_jaxpr.out_avals])
        check_together(self.name, "predicate", tested, (self.cond_jaxpr, self.body_jaxpr))
        consts = axes_of(self.cond_jaxpr.in_avals[: self.cond_nconsts])
        return [*consts, *axes_of(self.body_jaxpr.in_avals)], [also(axes, tested) for axes in axes_of(types)]

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        if evaluator.compiles:
            return evaluator.execute(single_equation(self, tuple(arg.aval for arg in args)), args, self.name)
        cond_consts, body_consts, carry = self.operands(args)
        while np.asarray(evaluator.execute(self.cond_jaxpr, [*cond_consts, *carry], self.name)[0].data):
            carry = evaluator.execute(self.body_jaxpr, [*body_consts, *carry], self.name)
        return [ConcreteValue(x.data, aval) for x, aval in zip(carry, self.body_jaxpr.out_avals, strict=True)]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        _, const_marks, start = self.operands(nonzero_marks(tangents))
        cond_consts, body_consts, init = self.operands(primals)
        _, const_tangents, init_tangents = self.operands(tangents)

        def step(carry: tuple[bool, ...]) -> tuple[Jaxpr, tuple[bool, ...]]:
            derived = inner_jvp(self.body_jaxpr, (*const_marks, *carry), force=carry)
            return derived.jaxpr, derived.nonzero_out

        carry, body = fixpoint(start, step)
        order = interleaved((self.body_nconsts, len(init)), (sum(const_marks), sum(carry)))
        moving = [instantiate(ctx, t) for t, mark in zip(init_tangents, carry, strict=True) if mark]
        both = While(
            with_unused(self.cond_jaxpr, tuple(ctx.aval(t) for t in moving)),
            self.cond_nconsts,
            rearranged(body, order),
            self.body_nconsts + sum(const_marks),
        )
        outs = ctx.bind(both, *cond_consts, *body_consts, *without_zeros(const_tangents), *init, *moving)
        n = len(init)
        return outs[:n], with_zeros(outs[n:], carry, self.body_jaxpr.out_avals)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        cond_axes, body_axes, start = self.operands(axes)
        cond_consts, body_consts, init = self.operands(args)

        def condition(carry: Sequence[bool]) -> BatchedProgram:
            return batch(self.cond_jaxpr, axis, [*cond_axes, *(0 if mark else None for mark in carry)])

        def step(carry: tuple[bool, ...]) -> tuple[BatchedProgram, Sequence[bool]]:
            wanted = [0 if mark else None for mark in carry]
            batched = batch(self.body_jaxpr, axis, [*body_axes, *wanted], wanted)
            # Where rows end at different times, each of them has a carry of its own.
            if condition(carry).out_axes != (None,):
                return batched, [True] * len(carry)
            return batched, [at is not None for at in batched.out_axes]

        carry, body = fixpoint([at is not None for at in start], step)
        cond = condition(carry)
        wanted = [0 if mark else None for mark in carry]
        init = [place_axis(ctx, x, at, want, axis.size) for x, at, want in zip(init, start, wanted, strict=True)]
        if cond.out_axes == (None,):
            loop = evolve(self, cond_jaxpr=cond.jaxpr, body_jaxpr=body.jaxpr)
            return ctx.bind(loop, *cond_consts, *body_consts, *init), wanted
        if CheckEffect() in self.effects:  # which are none of a row that has ended
            outs = noted_after(BatchContext(ctx, axis), self, list(map(Batched, args, axes)))
            return [out.value for out in outs], [out.axis for out in outs]
        loop = rowwise(cond.jaxpr, self.cond_nconsts, body.jaxpr, self.body_nconsts)
        return ctx.bind(loop, *cond_consts, *cond_consts, *body_consts, *init), wanted

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        return _split(self, unknown)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        raise LinearityError(
            "reverse-mode differentiation does not work for lax.while_loop, or for lax.fori_loop with bounds that are "
            "traced: the number of iterations is not known beforehand, so there is no room for what each of them would "
            "have to keep. Use lax.scan, or lax.fori_loop with bounds that are Python integers; or differentiate in "
            "forward mode, with jvp or jacfwd."
        )


def rowwise(cond: Jaxpr, num_cond_consts: int, body: Jaxpr, num_body_consts: int) -> While:
    """The loop whose condition has an element for each row: it runs as long as one of them is true, and leaves rows
    alone for which it is false. It takes the constants of the condition twice."""
    frozen_body = _freezing(cond, body, num_cond_consts, num_body_consts)
    return While(_any(cond), num_cond_consts, frozen_body, num_cond_consts + num_body_consts)


@remembered
def _any(cond: Jaxpr) -> Jaxpr:
    """Whether a batched condition, whose result is mapped, holds for some row."""
    axes = tuple(range(cond.out_avals[0].ndim))
    return stage(cond.in_avals, lambda ctx, ins: [reduce_or(ctx, interpret(ctx, cond, ins)[0], axes)])


@remembered
def _freezing(cond: Jaxpr, body: Jaxpr, num_cond_consts: int, num_body_consts: int) -> Jaxpr:
    """A batched body that takes the constants of the condition too, and leaves rows alone for which that is false."""
    avals = [*cond.in_avals[:num_cond_consts], *body.in_avals]

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        cond_consts, body_consts, carry = groups(ins, (num_cond_consts, num_body_consts))
        (running,) = interpret(ctx, cond, [*cond_consts, *carry])
        after = interpret(ctx, body, [*body_consts, *carry])
        return [
            select(ctx, broadcast_in_dim(ctx, running, x.aval.shape, tuple(range(running.aval.ndim))), x, before)
            for x, before in zip(after, carry, strict=True)
        ]

    return stage(avals, run)


@remembered
def _split(loop: While, unknown: tuple[bool, ...]) -> Split | None:
    """The loop on those carries that are known throughout, and the whole loop, from the start, for the others.

    None if the condition is unknown, or everything is.
    """
    cond_unknown, const_unknown, start = loop.operands(unknown)

    def step(carry: tuple[bool, ...]) -> tuple[PartialEvaluation, Sequence[bool]]:
        parts = partial_eval(loop.body_jaxpr, (*const_unknown, *carry), force_unknown=carry)
        return parts, parts.unknown_out

    carry, parts = fixpoint(start, step)
    if all(carry) or any(cond_unknown):
        return None
    tested = partial_eval(loop.cond_jaxpr, (*cond_unknown, *carry))
    if tested.unknown_out != (False,):
        return None
    # Residuals of one iteration are of no use: the loop for later computes everything again.
    known = While(
        dce(rearranged(tested.known, None, (0,))),
        loop.cond_nconsts,
        dce(rearranged(parts.known, None, tuple(range(carry.count(False))))),
        const_unknown.count(False),
    )
    marks = (*cond_unknown, *const_unknown, *carry)
    avals = loop.cond_jaxpr.in_avals[: loop.cond_nconsts] + loop.body_jaxpr.in_avals
    kept = positions(carry)
    later = stage(avals, lambda ctx, ins: [ctx.bind(loop, *ins)[i] for i in kept])
    residuals = positions(not mark for mark in unknown)
    source = {at: i for i, at in enumerate([*residuals, *positions(unknown)])}
    order = tuple(source[i] for i in range(len(unknown)))
    inputs = tuple(positions(not mark for mark in marks))
    return Split(known, Call(loop.name, later), carry, tuple(residuals), order, inputs)
