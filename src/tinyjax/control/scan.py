"""`scan`: a loop over the leading axis of arrays, with a carry, whose number of iterations is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Call
from tinyjax.control.carry import check_carry, fixpoint, groups, interleaved, positions, rearranged
from tinyjax.control.inner_jvp import inner_jvp
from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.effects import Effects, must_stay
from tinyjax.ir.interpret import interpret
from tinyjax.ir.merging import merged, sourced
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.shapes import Axes
from tinyjax.ir.tangents import cotangents_of, known_operands, linear_marks, nonzero_marks, with_zeros, without_zeros
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import axes_of
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.structure import full, instantiate, move_axis
from tinyjax.transforms.batch import batch, place_axis
from tinyjax.transforms.partial_eval import PartialEvaluation, partial_eval
from tinyjax.transforms.transpose import TransposedProgram, transpose_linear

V = TypeVar("V")


@final
@frozen
class Scan(Primitive):
    """Applies `jaxpr` once for each position along the leading axis of some operands, handing a carry on.

    The operands are `num_consts` constants, `num_carry` carries, and the arrays that are scanned over. `jaxpr` takes
    the constants, the carries, and one slice of each array; it returns the new carries, and slices of the arrays that
    the equation returns after the last carries. With `reverse`, positions are visited from the last to the first.
    `unroll` says how many applications an iteration of the compiled loop contains.
    """

    jaxpr: Jaxpr
    length: int
    reverse: bool
    num_consts: int
    num_carry: int
    unroll: int = 1
    name: ClassVar[str] = "scan"

    @property
    @override
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @property
    def num_ys(self) -> int:
        """How many stacked arrays are returned."""
        return len(self.jaxpr.outvars) - self.num_carry

    def operands(self, items: Sequence[V]) -> list[Sequence[V]]:
        """What belongs to the constants, to the carries, and to the arrays that are scanned over."""
        return groups(items, (self.num_consts, self.num_carry))

    def results(self, items: Sequence[V]) -> list[Sequence[V]]:
        """What belongs to the last carries, and to the stacked arrays."""
        return groups(items, (self.num_carry,))

    def stacked(self, aval: ShapedArray) -> ShapedArray:
        """The type of the stack of slices of this type."""
        return aval.of_shape((self.length, *aval.shape))

    def positions(self) -> range:
        """The positions along the leading axis, in the order in which they are visited."""
        return range(self.length - 1, -1, -1) if self.reverse else range(self.length)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        consts, carry, xs = self.operands(self.jaxpr.in_avals)
        after, ys = self.results(self.jaxpr.out_avals)
        expect_types("scan takes", (*consts, *carry, *map(self.stacked, xs)), avals)
        check_carry(self.name, carry, after)
        if self.length < 0 or self.unroll < 1:
            raise TypingError(f"scan needs length >= 0 and unroll >= 1, got {self.length} and {self.unroll}")
        return (*after, *map(self.stacked, ys))

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return axes_of(self.jaxpr.in_avals), axes_of(types)

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        if evaluator.compiles:
            return evaluator.execute(single_equation(self, tuple(arg.aval for arg in args)), args, self.name)
        consts, carry, xs = self.operands(args)
        slices = self.operands(self.jaxpr.in_avals)[2]
        after, ys = self.results(self.jaxpr.out_avals)
        arrays: list[HostArray] = [np.asarray(x.data) for x in xs]
        stacks: list[HostArray] = [np.empty((self.length, *aval.shape), aval.dtype) for aval in ys]
        for i in self.positions():
            row = [ConcreteValue(np.array(x[i]), aval) for x, aval in zip(arrays, slices, strict=True)]
            carry, parts = self.results(evaluator.execute(self.jaxpr, [*consts, *carry, *row], self.name))
            for stack, part in zip(stacks, parts, strict=True):
                stack[i] = part.data
        for stack in stacks:
            stack.flags.writeable = False
        return [
            *(ConcreteValue(value.data, aval) for value, aval in zip(carry, after, strict=True)),
            *(ConcreteValue(stack, self.stacked(aval)) for stack, aval in zip(stacks, ys, strict=True)),
        ]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        consts, start, xs = self.operands(nonzero_marks(tangents))

        def step(carry: tuple[bool, ...]) -> tuple[Jaxpr, tuple[bool, ...]]:
            nonzero, force = (*consts, *carry, *xs), (*carry, *(False,) * self.num_ys)
            derived = inner_jvp(self.jaxpr, nonzero, force=force)
            return derived.jaxpr, derived.nonzero_out

        carry, _ = fixpoint(start, lambda marks: (None, self.results(step(marks)[1])[0]))
        derived, nonzero_out = step(carry)
        marks = (*consts, *carry, *xs)
        counts = tuple(map(sum, (consts, carry, xs)))
        order = interleaved((self.num_consts, self.num_carry, len(xs)), counts)
        out_order = interleaved((self.num_carry, self.num_ys), (counts[1], sum(nonzero_out) - counts[1]))
        both = evolve(
            self,
            jaxpr=rearranged(derived, order, out_order),
            num_consts=self.num_consts + counts[0],
            num_carry=self.num_carry + counts[1],
        )
        given = [*primals, *(instantiate(ctx, t) for t, mark in zip(tangents, marks, strict=True) if mark)]
        outs = dict(zip(out_order, ctx.bind(both, *[given[i] for i in order]), strict=True))
        n = len(self.jaxpr.outvars)
        avals = self.type_of(*[ctx.aval(primal) for primal in primals])
        derivatives = [outs[i] for i in range(n, len(outs))]
        return [outs[i] for i in range(n)], with_zeros(derivatives, nonzero_out, avals)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        const_axes, start, x_axes = self.operands(axes)
        consts, init, xs = self.operands(args)
        # The leading axis is the one that is scanned over, so the mapped axis comes after it.
        slice_axes = [None if at is None else max(at - 1, 0) for at in x_axes]
        xs = [move_axis(ctx, x, 0, 1) if at == 0 else x for x, at in zip(xs, x_axes, strict=True)]

        def step(carry: tuple[bool, ...]) -> tuple[tuple[Jaxpr, tuple[int | None, ...]], list[bool]]:
            wanted = [0 if mark else None for mark in carry]
            batched = batch(self.jaxpr, axis, [*const_axes, *wanted, *slice_axes], [*wanted, *[None] * self.num_ys])
            return (batched.jaxpr, batched.out_axes), [at is not None for at in batched.out_axes[: self.num_carry]]

        carry, (jaxpr, out_axes) = fixpoint([at is not None for at in start], step)
        init = [
            place_axis(ctx, x, at, 0 if mark else None, axis.size)
            for x, at, mark in zip(init, start, carry, strict=True)
        ]
        outs = ctx.bind(evolve(self, jaxpr=jaxpr), *consts, *init, *xs)
        carry_axes, y_axes = self.results(out_axes)
        return outs, [*carry_axes, *(None if at is None else at + 1 for at in y_axes)]

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        return _split(self, unknown)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        linear = linear_marks(args)
        split = None if all(_unknown_carries(self, linear)[0]) else _split(self, linear)
        if split is not None:
            return self._transpose_in_two(ctx, cotangents, args, linear, split)
        backward = _transposed(self, linear, nonzero_marks(cotangents))
        consts, init, xs = self.operands(args)
        carry_cts, y_cts = self.results(cotangents)
        totals = iter(backward.consts)
        zeros = [full(ctx, arg.aval.cotangent, 0) for arg in consts if isinstance(arg, UndefPrimal) and next(totals)]
        operands = [
            *known_operands(consts),
            *zeros,
            *(instantiate(ctx, ct) for ct, mark in zip(carry_cts, backward.carry, strict=True) if mark),
            *known_operands(xs),
            *without_zeros(y_cts),
        ]
        found = iter(ctx.bind(backward.scan, *operands))
        const_results = cotangents_of(consts, found, backward.consts)
        # All carries are linear in the body, also those whose first value isn't.
        carry_results: list[V | Zero | None] = []
        for arg, mark in zip(init, backward.carry, strict=True):
            ct = next(found) if mark else None
            zero = Zero(arg.aval.cotangent) if isinstance(arg, UndefPrimal) else None
            carry_results.append(zero if zero is None or ct is None else ct)
        return [*const_results, *carry_results, *cotangents_of(xs, found, backward.xs)]

    def _transpose_in_two(
        self,
        ctx: Context[V],
        cotangents: Sequence[V | Zero],
        args: Sequence[V | UndefPrimal],
        linear: tuple[bool, ...],
        split: Split,
    ) -> Sequence[V | Zero | None]:
        """Runs the carries that don't depend on linear arguments first, then transposes the rest."""
        passed = range(len(args)) if split.known_inputs is None else split.known_inputs
        given = [args[i] for i in passed]
        known = ctx.bind(split.known, *known_operands(given))
        sources: list[int | None] = [*split.residuals, *positions(linear)]
        inputs = sourced(sources, args, known[split.unknown_out.count(False) :])
        order = range(len(inputs)) if split.order is None else split.order
        cts = [ct for ct, mark in zip(cotangents, split.unknown_out, strict=True) if mark]
        found = split.staged.transpose(ctx, cts, [inputs[i] for i in order])
        results: list[V | Zero | None] = [None] * len(args)
        for i, result in zip(order, found, strict=True):
            at = sources[i]
            if at is not None and linear[at]:
                results[at] = result
        return results


def _unknown_carries(scan: Scan, unknown: tuple[bool, ...]) -> tuple[tuple[bool, ...], PartialEvaluation]:
    """Which carries are unknown at some point, if some operands are; and the body, divided accordingly."""
    consts, start, xs = scan.operands(unknown)

    def step(carry: tuple[bool, ...]) -> tuple[PartialEvaluation, Sequence[bool]]:
        force = (*carry, *(False,) * scan.num_ys)
        parts = partial_eval(scan.jaxpr, (*consts, *carry, *xs), force_unknown=force)
        return parts, parts.unknown_out[: scan.num_carry]

    return fixpoint(start, step)


@remembered
def _split(scan: Scan, unknown: tuple[bool, ...]) -> Split | None:
    """The scan divided in two: a known one, which also returns residuals, stacked, and one for later.

    A residual that is the same in every iteration, because it depends on constants only, isn't stacked: it is computed
    once, before the known scan.
    """
    carry, parts = _unknown_carries(scan, unknown)
    if not parts.known.outvars and not must_stay(parts.known.effects):
        return None
    first_carry, first_x = scan.num_consts, scan.num_consts + scan.num_carry
    marks = (*unknown[:first_carry], *carry, *unknown[first_x:])
    # Those that the known scan makes; the others are operands of it.
    made = [r.input for r in parts.residuals if r.input is None or first_carry <= r.input < first_x]
    num_outs = parts.unknown_out.count(False)
    known_inputs = [i for i, mark in enumerate(marks) if not mark]

    def run_body(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        outs = interpret(ctx, parts.known, ins)
        return [*outs[:num_outs], *sourced(made, dict(zip(known_inputs, ins, strict=True)), outs[num_outs:])]

    body = stage([scan.jaxpr.invars[i].aval for i in known_inputs], run_body)
    num_carry = carry.count(False)
    known, varies = _hoisted(
        evolve(scan, jaxpr=body, num_consts=marks[:first_carry].count(False), num_carry=num_carry), num_outs
    )
    stacks = iter(varies)
    varying = [
        next(stacks) if r.input is None or first_carry <= r.input < first_x else r.input >= first_x
        for r in parts.residuals
    ]
    sources = [r.input if r.input is not None and not first_carry <= r.input < first_x else None
               for r in parts.residuals]  # fmt: skip
    # Carries that become unknown in the course of the loop start at a known value.
    starts = [first_carry + i for i, mark in enumerate(carry) if mark and not unknown[first_carry + i]]
    place = {at: i for i, at in enumerate([*starts, *positions(unknown)], len(sources))}
    invariant, stacked = positions(not mark for mark in varying), positions(varying)
    later = positions(marks)
    order = [
        *invariant,
        *(place[at] for at in later if at < first_x),
        *stacked,
        *(place[at] for at in later if at >= first_x),
    ]
    n = len(sources)
    before_xs = n + sum(marks[:first_x])
    staged = evolve(
        scan,
        jaxpr=rearranged(parts.staged, (*invariant, *range(n, before_xs), *stacked, *range(before_xs, n + len(later)))),
        num_consts=len(invariant) + sum(marks[:first_carry]),
        num_carry=sum(carry),
    )
    return Split(known, staged, parts.unknown_out, (*sources, *starts), tuple(order), tuple(known_inputs))


def _hoisted(scan: Scan, num_kept: int) -> tuple[Primitive, tuple[bool, ...]]:
    """A scan after what depends on its constants only, which is computed once.

    Of the outputs after the first `num_kept`, those that are the same in every iteration are returned once instead of
    stacked. Also says which of them aren't.
    """
    num_rest = len(scan.jaxpr.outvars) - num_kept
    whole = scan, (True,) * num_rest
    if must_stay(scan.effects):
        return whole
    n = scan.num_consts
    unknown = (False,) * n + (True,) * (len(scan.jaxpr.invars) - n)
    parts = partial_eval(scan.jaxpr, unknown, force_unknown=(True,) * num_kept + (False,) * num_rest)
    varies = parts.unknown_out[num_kept:]
    if not parts.known.eqns and all(varies):
        return whole
    loop = evolve(scan, jaxpr=parts.staged, num_consts=len(parts.residuals))

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        outs = interpret(ctx, parts.known, ins[:n])
        consts = sourced([r.input for r in parts.residuals], ins, outs[varies.count(False) :])
        scanned = ctx.bind(loop, *consts, *ins[n:]) if loop.jaxpr.outvars else ()
        return [*scanned[:num_kept], *merged(varies, scanned[num_kept:], outs)]

    consts, carry, xs = scan.operands(scan.jaxpr.in_avals)
    return Call(scan.name, stage([*consts, *carry, *map(scan.stacked, xs)], run)), varies


@final
@frozen
class _Transposed:
    """The scan that runs a linear scan backwards, and which cotangents it returns.

    It takes the constants that aren't linear; carries the cotangents of linear constants, which add up, and of the
    carries; and scans over the arrays that aren't linear and the cotangents of the stacked results.
    """

    scan: Scan
    consts: tuple[bool, ...]
    carry: tuple[bool, ...]
    xs: tuple[bool, ...]


@remembered
def _transposed(scan: Scan, linear: tuple[bool, ...], nonzero: tuple[bool, ...]) -> _Transposed:
    lin_consts, _, lin_xs = scan.operands(linear)
    start, y_marks = scan.results(nonzero)
    body_linear = (*lin_consts, *(True,) * scan.num_carry, *lin_xs)
    sizes = (sum(lin_consts), scan.num_carry)

    def step(carry: tuple[bool, ...]) -> tuple[TransposedProgram, Sequence[bool]]:
        program = transpose_linear(scan.jaxpr, body_linear, (*carry, *y_marks), False)
        return program, groups(program.nonzero_out, sizes)[1]

    carry, program = fixpoint(start, step)
    found_consts, found_carry, found_xs = groups(program.nonzero_out, sizes)
    consts, slices = lin_consts.count(False), lin_xs.count(False)
    in_avals = scan.jaxpr.in_avals
    const_avals = [aval for aval, mark in zip(in_avals, lin_consts, strict=False) if mark]
    carry_avals = scan.operands(in_avals)[1]

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        known, totals, cts, rows, y_cts = groups(ins, (consts, sum(found_consts), sum(carry), slices))
        outs = iter(interpret(ctx, program.jaxpr, [*known, *rows, *cts, *y_cts]))
        sums = [add(ctx, total, next(outs)) for total in totals]
        after = [
            next(outs) if found else full(ctx, aval.cotangent, 0)
            for mark, found, aval in zip(carry, found_carry, carry_avals, strict=True)
            if mark
        ]
        return [*sums, *after, *outs]

    known_avals = [aval for aval, mark in zip(in_avals, body_linear, strict=True) if not mark]
    ct_avals = [aval.cotangent for aval, mark in zip(scan.jaxpr.out_avals, (*carry, *y_marks), strict=True) if mark]
    avals = [
        *known_avals[:consts],
        *(aval.cotangent for aval, mark in zip(const_avals, found_consts, strict=True) if mark),
        *ct_avals[: sum(carry)],
        *known_avals[consts:],
        *ct_avals[sum(carry) :],
    ]
    backward = evolve(
        scan,
        jaxpr=stage(avals, run),
        reverse=not scan.reverse,
        num_consts=consts,
        num_carry=sum(found_consts) + sum(carry),
    )
    return _Transposed(backward, tuple(found_consts), carry, tuple(found_xs))
