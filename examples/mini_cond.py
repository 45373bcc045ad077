"""A primitive that someone adds to the small tinyjax: the code of a section of docs/from-scratch.md.

Extracted from that page; don't edit it here. `pytest tests/test_mini.py --update-golden` extracts it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import numpy as np
from attrs import frozen

from examples.mini import (
    OPERATIONS,
    SSA,
    Array,
    ArrayLike,
    Atom,
    Batched,
    Call,
    ConcreteArray,
    Context,
    Cotangents,
    EvalContext,
    HostArray,
    Jaxpr,
    LoweringContext,
    Marks,
    Operands,
    Primitive,
    R,
    ShapedArray,
    Split,
    StagingContext,
    Tangents,
    TreeDef,
    Ts,
    UndefPrimal,
    V,
    Zero,
    batch_program,
    bind,
    flatten,
    indented,
    instantiate,
    interpret,
    jvp_program,
    lowered,
    moving,
    nonzero,
    partial_eval,
    returned,
    stacked,
    staged,
    tensor,
    transpose_program,
)

INT = np.dtype("int32")


@frozen
class Convert(Primitive):
    new_dtype: np.dtype[Any]
    weak_type: bool
    name = "convert_element_type"

    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return [ShapedArray(aval.shape, self.new_dtype, self.weak_type) for aval in avals]

    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        return [args[0].astype(self.new_dtype)]

    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        return ctx.bind(self, *args), mapped


OPERATIONS[Convert] = "convert {0} : ({types}) -> {out}"


def restaged(jaxpr: Jaxpr, change: Callable[[StagingContext, list[Atom]], list[Atom]]) -> Jaxpr:
    ctx = StagingContext()
    outs = interpret(ctx, jaxpr, list(map(ctx.argument, jaxpr.in_avals)))
    return ctx.finish(change(ctx, outs))


def in_any(marks: Sequence[Marks]) -> Marks:
    return tuple(map(any, zip(*marks, strict=True)))


def agreeing(parts: Sequence[tuple[Jaxpr, Marks]], avals: Sequence[ShapedArray], start: int = 0) -> tuple[Cond, Marks]:
    """The programs with zeros for the outputs, from `start` on, that others have and they don't."""
    wanted = in_any([marks for _, marks in parts])

    def filled(jaxpr: Jaxpr, marks: Marks) -> Jaxpr:
        def change(ctx: StagingContext, outs: list[Atom]) -> list[Atom]:
            found = iter(outs[start:])
            every = [next(found) if mark else Zero(aval) for mark, aval in zip(marks, avals, strict=True)]
            return [*outs[:start], *[instantiate(ctx, out) for out in compress(every, wanted)]]

        return restaged(jaxpr, change)

    return Cond(tuple([filled(*part) for part in parts])), wanted


@frozen
class Cond(Primitive):
    branches: tuple[Jaxpr, ...]
    name = "cond"

    def type_of(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        first, *_ = [Call("branch", branch).type_of(*avals[1:]) for branch in self.branches]
        return first

    def evaluate(self, *args: HostArray) -> Sequence[HostArray]:
        branch = self.branches[int(args[0])]
        values = list(map(ConcreteArray, args[1:], branch.in_avals))
        return [out.elements() for out in interpret(EvalContext(), branch, values)]

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Tangents[V]) -> tuple[Sequence[V], Tangents[V]]:
        marks, avals = moving(tangents[1:]), self.branches[0].out_avals
        derived, moves = agreeing([jvp_program(branch, marks) for branch in self.branches], avals, len(avals))
        outs = ctx.bind(derived, *primals, *nonzero(tangents))
        moved = iter(outs[len(avals) :])
        return outs[: len(avals)], [next(moved) if mark else Zero(x) for mark, x in zip(moves, avals, strict=True)]

    def batch(self, ctx: Context[V], size: int, args: Sequence[V], mapped: Marks) -> tuple[Sequence[V], Marks]:
        if mapped[0]:
            raise NotImplementedError("Batching rule for 'cond' with a mapped predicate not implemented")
        parts = [batch_program(branch, size, mapped[1:]) for branch in self.branches]
        wanted = in_any([marks for _, marks in parts])

        def repeated(jaxpr: Jaxpr, marks: Marks) -> Jaxpr:
            def change(ctx: StagingContext, outs: list[Atom]) -> list[Atom]:
                batched = map(Batched[Atom], outs, marks)
                return [stacked(ctx, x, size) if mark else x.value for x, mark in zip(batched, wanted, strict=True)]

            return restaged(jaxpr, change)

        return ctx.bind(Cond(tuple([repeated(*part) for part in parts])), *args), wanted

    def transpose(self, ctx: Context[V], cts: Tangents[V], args: Operands[V]) -> Cotangents[V]:
        linear = tuple([isinstance(arg, UndefPrimal) for arg in args[1:]])
        parts = [transpose_program(branch, linear, moving(cts)) for branch in self.branches]
        transposed, marks = agreeing(parts, list(compress(self.branches[0].in_avals, linear)))
        values = [arg for arg in args if not isinstance(arg, UndefPrimal)]
        outs = iter(ctx.bind(transposed, *values, *nonzero(cts)))
        found = iter([next(outs) if mark else None for mark in marks])
        return [None, *[next(found) if mark else None for mark in linear]]

    def partial_eval(self, unknown: Marks) -> Split[Primitive] | None:
        if unknown[0]:
            return None
        unknown, in_avals = unknown[1:], self.branches[0].in_avals
        marks = in_any([partial_eval(branch, unknown).unknown_out for branch in self.branches])
        parts = [partial_eval(branch, unknown, marks) for branch in self.branches]
        num_known = marks.count(False)
        slots: list[ShapedArray] = []
        places = [places_in(slots, part.known.out_avals[num_known:]) for part in parts]
        passed = sorted({i for part in parts for i in part.residuals if i is not None})
        later_avals = [*[in_avals[i] for i in passed], *slots, *compress(in_avals, unknown)]

        def now(part: Split[Jaxpr], place: list[int]) -> Jaxpr:
            def change(ctx: StagingContext, outs: list[Atom]) -> list[Atom]:
                found = dict(zip(place, outs[num_known:], strict=True))
                filled = [found.get(i) or instantiate(ctx, Zero(aval)) for i, aval in enumerate(slots)]
                return [*outs[:num_known], *filled]

            return restaged(part.known, change)

        def later(part: Split[Jaxpr], place: list[int]) -> Jaxpr:
            ctx = StagingContext()
            ins = list(map(ctx.argument, later_avals))
            own = iter([ins[len(passed) + i] for i in place])
            residuals = [next(own) if i is None else ins[passed.index(i)] for i in part.residuals]
            return ctx.finish(interpret(ctx, part.staged, [*residuals, *ins[len(passed) + len(slots) :]]))

        residuals = (0, *[i + 1 for i in passed], *[None for _ in slots])
        at_once, rest = [Cond(tuple(map(half, parts, places))) for half in (now, later)]
        return Split(at_once, rest, marks, residuals)


def places_in(slots: list[ShapedArray], avals: Sequence[ShapedArray]) -> list[int]:
    """A slot for each value: one of its type that no value before it has, or a new one."""
    places: list[int] = []
    for aval in avals:
        free = [i for i, slot in enumerate(slots) if slot == aval and i not in places]
        places.append(free[0] if free else len(slots))
        slots.extend([] if free else [aval])
    return places


@lowered.register
def lowered_cond(primitive: Cond, ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
    def region(jaxpr: Jaxpr) -> str:
        inner = LoweringContext()
        inner.numbers = ctx.numbers
        outs = interpret(inner, jaxpr, args[1:])
        return indented("{", *inner.lines, f"stablehlo.return {returned(outs)}") + "\n}"

    avals = primitive.branches[0].out_avals
    regions, results = ", ".join(map(region, primitive.branches)), ", ".join(map(tensor, avals))
    return ctx.emit(f'"stablehlo.case"({args[0].name}) ({regions}) : (tensor<i32>) -> ({results})', *avals)


def cond(predicate: ArrayLike, if_true: Callable[[*Ts], R], if_false: Callable[[*Ts], R], *operands: *Ts) -> R:
    xs, treedef = flatten(operands)
    parts = [staged(f, treedef, [x.aval for x in xs]) for f in (if_true, if_false)]
    captured = list(dict.fromkeys(x for _, found, _ in parts for x in found))

    def widened(jaxpr: Jaxpr, own: list[Array], out_tree: TreeDef) -> Jaxpr:
        ctx = StagingContext()
        ins = [ctx.argument(x.aval) for x in (*captured, *xs)]
        return ctx.finish(interpret(ctx, jaxpr, [*[ins[captured.index(x)] for x in own], *ins[len(captured) :]]))

    (index,) = bind(Convert(INT, False), predicate)
    branches = Cond(tuple([widened(*part) for part in reversed(parts)]))
    result: R = parts[0][2].unflatten(iter(bind(branches, index, *captured, *xs)))
    return result
