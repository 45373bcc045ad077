"""`cond`: one of several programs, chosen by an index. What `lax.cond` and `lax.switch` stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, TypeVar, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.control.branches import any_of, divide, of_one_type, pick_outputs
from tinyjax.control.callbacks import DebugEffect
from tinyjax.control.inner_jvp import inner_jvp
from tinyjax.control.one_by_one import one_by_one
from tinyjax.control.together import check_together
from tinyjax.errors import BatchedPredicateError, LinearityError, ParameterError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOAT0, INEXACT, INT32
from tinyjax.ir.effects import NO_EFFECTS, Effects, axis_names, must_stay, names_of
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr, Var
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.shapes import Axes, unmarked
from tinyjax.ir.tangents import cotangents_of, known_operands, linear_marks, nonzero_marks, with_zeros, without_zeros
from tinyjax.ir.type_lists import all_match, expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import also, axes_of
from tinyjax.primitives.checks import CheckEffect
from tinyjax.primitives.comparison import eq, ge, le
from tinyjax.primitives.conversion import stop_gradient
from tinyjax.primitives.selection import select, select_n
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, move_axis
from tinyjax.stack import with_room
from tinyjax.transforms.batch import batch, place_axis
from tinyjax.transforms.checkify import noted_after
from tinyjax.transforms.dce import dce
from tinyjax.transforms.transpose import transpose_linear
from tinyjax.transforms.unread import evaluate

V = TypeVar("V")


@final
@frozen
class Cond(Primitive):
    """Applies `branches[index]` to the operands. The index, an int32 scalar, comes before them, and must be in range:
    `lax.switch` clamps it. All branches have the same type.
    """

    branches: tuple[Jaxpr, ...] = field()
    name: ClassVar[str] = "cond"

    @override
    def __attrs_post_init__(self) -> None:
        Primitive.__attrs_post_init__(self)
        if not self.branches:
            raise ParameterError("cond needs at least one branch")

    @property
    @override
    def effects(self) -> Effects:
        return NO_EFFECTS.union(*[branch.effects for branch in self.branches])

    def branch(self, index: int) -> Jaxpr:
        """The branch that an index names; the nearest, if it is out of range, where XLA takes the last."""
        return self.branches[min(max(index, 0), len(self.branches) - 1)]

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expected, results = self.branches[0].in_avals, self.branches[0].out_avals
        for i, branch in enumerate(self.branches[1:], 1):
            if not all_match(branch.in_avals, expected) or branch.out_avals != results:
                raise TypingError(
                    f"cond needs branches of one type, but branch 0 is {self.branches[0].type} and branch {i} is "
                    f"{branch.type}"
                )
        if not avals or avals[0].shape != () or avals[0].dtype != INT32:
            raise TypingError(f"cond needs an int32 scalar as index, got {avals[0] if avals else 'no operands'}")
        expect_types("the branches of cond take", expected, avals[1:])
        return results

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        chosen = unmarked(found[0])[0]
        check_together(self.name, "index", chosen, self.branches)
        return [found[0], *axes_of(self.branches[0].in_avals)], [also(axes, chosen) for axes in axes_of(types)]

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        index, *operands = args
        return evaluate(evaluator, self.branch(int(np.asarray(index.data))), operands, "branch")

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        marks = nonzero_marks(tangents[1:])
        nonzero_out = any_of([inner_jvp(branch, marks).nonzero_out for branch in self.branches])
        derived = of_one_type([inner_jvp(branch, marks, force=nonzero_out).jaxpr for branch in self.branches])
        outs = ctx.bind(Cond(derived), *primals, *without_zeros(tangents))
        avals = self.branches[0].out_avals
        return outs[: len(avals)], with_zeros(outs[len(avals) :], nonzero_out, avals)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        if axes[0] is None:
            found = [batch(branch, axis, axes[1:]).out_axes for branch in self.branches]
            wanted = [next((at for at in column if at is not None), None) for column in zip(*found, strict=True)]
            batched = [batch(branch, axis, axes[1:], wanted).jaxpr for branch in self.branches]
            return ctx.bind(Cond(of_one_type(batched)), *args), wanted
        if axis.cond == "error":
            raise BatchedPredicateError(
                f"{_where(ctx)} differs from element to element of a batch, which vmap(..., cond='error') forbids. "
                "With cond='select' all branches run on the whole batch, with cond='map' the elements take turns."
            )
        if axis.cond == "map":
            return self._map(ctx, axis, args, axes)
        return self._select(ctx, axis, args, axes)

    def _select(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """All branches on the whole batch, and the results chosen element by element."""
        staying = [effect for effect in self.effects if must_stay(frozenset({effect})) and not effect.harmless]
        if staying == [CheckEffect()]:  # only those of the branch that is taken are meant
            outs = noted_after(BatchContext(ctx, axis), self, list(map(Batched, args, axes)))
            return [out.value for out in outs], [out.axis for out in outs]
        if staying == [DebugEffect()]:
            return self._shown(ctx, axis, args, axes)
        effects = sorted(map(str, staying))
        if effects:
            raise BatchedPredicateError(
                f"{_where(ctx)} differs from element to element of a batch, and a branch has effects "
                f"({', '.join(effects)}). By default vmap runs all branches, so effects would happen that shouldn't. "
                "With vmap(..., cond='map') the elements take turns, and each runs its own branch only."
            )
        inner = BatchContext(ctx, axis)
        operands = list(map(Batched, args[1:], axes[1:]))
        index = move_axis(ctx, args[0], axes[0] or 0, 0)
        results: list[list[Batched[V]]] = []
        for i, branch in enumerate(self.branches):
            guarded = self._guarded(ctx, axis, index, i, operands)
            outs = with_room(partial(interpret, inner, branch, guarded))
            given = [atom.index if isinstance(atom, Var) else len(operands) for atom in branch.outvars]
            results.append([operands[at] if at < len(operands) else out for at, out in zip(given, outs, strict=True)])
        chosen: list[V] = []
        out_axes: list[int | None] = []
        for cases in zip(*results, strict=True):
            if all(case is cases[0] for case in cases) or ctx.aval(cases[0].value).dtype == FLOAT0:
                chosen.append(cases[0].value)
                out_axes.append(cases[0].axis)
                continue
            placed = [place_axis(ctx, case.value, case.axis, 0, axis.size) for case in cases]
            which = broadcast_in_dim(ctx, index, ctx.aval(placed[0]).shape, (0,))
            chosen.append(select_n(ctx, which, *placed))
            out_axes.append(0)
        return chosen, out_axes

    def _shown(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """Branches that show what they compute: the elements take turns to show it, each in its own branch only."""
        silent = Cond(tuple([_without_shows(branch) for branch in self.branches]))
        shows = Cond(tuple([dce(Jaxpr(branch.invars, branch.eqns, ())) for branch in self.branches]))
        reduced = not axis_names(shows.effects).isdisjoint(names_of(axis))
        if reduced or DebugEffect() in silent.effects:  # the latter in a call or a loop
            return self._map(ctx, axis, args, axes)
        one_by_one(shows, ctx, axis, args, axes)
        return silent._select(ctx, axis, args, axes)

    def _guarded(
        self, ctx: Context[V], axis: BatchAxis, index: V, i: int, operands: Sequence[Batched[V]]
    ) -> Sequence[Batched[V]]:
        """The operands of branch i, as constants to differentiation in the elements for which it isn't chosen.

        There it may divide by zero, or worse. Nobody reads its results, but in reverse mode their cotangents, which are
        zero, meet infinite derivatives on their way to the operands, and 0 * inf must not get there.
        """
        branch, last = self.branches[i], len(self.branches) - 1
        if not axis_names(branch.effects).isdisjoint(names_of(axis)):
            return operands  # all elements take part in a collective, chosen or not
        read = {atom.index for eqn in branch.eqns for atom in eqn.invars if isinstance(atom, Var)}
        marks = [aval.dtype in INEXACT and at in read for at, aval in enumerate(branch.in_avals)]
        if not any(marks):
            return operands
        compare = le if i == 0 else ge if i == last else eq  # an index out of range is that of the nearest
        taken = compare(ctx, index, constant_like(ctx, index, i))

        found: dict[tuple[int, int | None], Batched[V]] = {}  # one for each value, which may be there twice

        def guard(operand: Batched[V]) -> Batched[V]:
            key = id(operand.value), operand.axis
            if key not in found:
                x = place_axis(ctx, operand.value, operand.axis, 0, axis.size)
                mask = broadcast_in_dim(ctx, taken, ctx.aval(x).shape, (0,))
                found[key] = Batched(select(ctx, mask, x, stop_gradient(ctx, x)), 0)
            return found[key]

        return [guard(operand) if mark else operand for operand, mark in zip(operands, marks, strict=True)]

    def _map(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """The elements one after the other, each with its own branch only."""
        if not axis_names(self.effects).isdisjoint(names_of(axis)):
            raise BatchedPredicateError(
                f"{_where(ctx)} differs from element to element of a batch, and a branch reduces over that batch, the "
                f"axis {axis.name!r}. With vmap(..., cond='map') the elements take turns, so none sees the others."
            )
        return one_by_one(self, ctx, axis, args, axes)

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        if unknown[0]:
            return None
        parts = divide(self.branches, unknown[1:])
        if not parts.known[0].outvars:
            return None
        residuals = (0, *(1 + i for i in parts.forwarded), *(None for _ in parts.slots))
        return Split(Cond(parts.known), Cond(parts.staged), parts.unknown_out, residuals)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        index, *operands = args
        if isinstance(index, UndefPrimal):
            raise LinearityError("cond is linear in its operands, but not in its index")
        linear, nonzero = linear_marks(operands), nonzero_marks(cotangents)
        marks = any_of([transpose_linear(branch, linear, nonzero, False).nonzero_out for branch in self.branches])
        transposed = [pick_outputs(transpose_linear(branch, linear, nonzero).jaxpr, marks) for branch in self.branches]
        given = [index, *known_operands(operands), *without_zeros(cotangents)]
        return [None, *cotangents_of(operands, ctx.bind(Cond(of_one_type(transposed)), *given), marks)]


def _without_shows(branch: Jaxpr) -> Jaxpr:
    """A branch without the equations that do nothing but show something."""
    kept = [eqn for eqn in branch.eqns if eqn.outvars or eqn.effects != {DebugEffect()}]
    return Jaxpr(branch.invars, tuple(kept), branch.outvars)


def _where(ctx: Context[V]) -> str:
    """The predicate, and the line of it."""
    source = ctx.cursor.current()
    return "the predicate of a cond" + (f" at {source.location}" if source else "")
