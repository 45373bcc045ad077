"""Solutions of equations: whatever computes them, their derivatives come from the equations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import ClassVar, Final, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.control.call import Call
from tinyjax.control.carry import groups
from tinyjax.control.composite import Composite
from tinyjax.errors import LinearityError, ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effects
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.tangents import nonzero_marks, with_zeros, without_zeros, zero_tangents
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.elementwise import neg, sub, unmapped
from tinyjax.primitives.structure import instantiate, with_leading_axis
from tinyjax.transforms.batch import batch
from tinyjax.transforms.jvp import jvp

V = TypeVar("V")
_NOTHING: Final = Call("nothing", Jaxpr((), (), ()))


@frozen
class Solving(Composite):
    """What `solve` computes. The operands are constants of the programs, in groups of `const_lengths`, then the others,
    which each program takes after its constants. `solve` may return more than the solution."""

    solve: Jaxpr
    const_lengths: tuple[int, ...]

    @abstractmethod
    def own_group(self) -> int:
        """The group of the constants of `solve`."""

    @property
    @override
    def effects(self) -> Effects:
        return self.solve.effects

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expect_types(f"the program that solves in {self.name} takes", self.solve.in_avals, self._for_solve(avals))
        return self.solve.out_avals

    def _for_solve(self, items: Sequence[V]) -> Sequence[V]:
        parts = groups(items, self.const_lengths)
        return [*parts[self.own_group()], *parts[-1]]

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return evaluator.execute(self.solve, self._for_solve(args), self.name)

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        return interpret(ctx, self.solve, self._for_solve(args))

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split:
        return staged_whole(self, unknown, len(self.solve.outvars))


def staged_whole(primitive: Primitive, unknown: tuple[bool, ...], outputs: int) -> Split:
    """A primitive that isn't taken apart by partial evaluation, as it would have other derivatives then."""
    known = [i for i, mark in enumerate(unknown) if not mark]
    places = {i: n for n, i in enumerate([*known, *(i for i, mark in enumerate(unknown) if mark)])}
    order = tuple(places[i] for i in range(len(unknown)))
    return Split(_NOTHING, primitive, (True,) * outputs, tuple(known), order, ())


def mapped_rest(axis: BatchAxis, jaxpr: Jaxpr, own: Sequence[int | None]) -> Jaxpr:
    """The program mapped over the axes `own` of its first inputs, over axis 0 of the others, and of all it returns."""
    rest = len(jaxpr.invars) - len(own)
    return batch(jaxpr, axis, [*own, *([0] * rest)], [0] * len(jaxpr.outvars)).jaxpr


def tangents_of(ctx: Context[V], jaxpr: Jaxpr, primals: Sequence[V], tangents: Sequence[V | Zero]) -> list[V | Zero]:
    """The tangents of what a program computes."""
    derived = jvp(jaxpr, nonzero_marks(tangents))
    outs = interpret(ctx, derived.jaxpr, [*primals, *without_zeros(tangents)])
    return with_zeros(outs[len(jaxpr.outvars) :], derived.nonzero_out, jaxpr.out_avals)


@final
@frozen
class LinearSolve(Solving):
    """The solution x of `matvec(x) = b`, for a linear function: what `solve` makes of b.

    `vecmat` is the transpose of the function, and `transpose_solve` solves equations with that; without them there are
    no derivatives in reverse mode. The constants are those of matvec, vecmat, solve and transpose_solve.
    """

    matvec: Jaxpr
    vecmat: Jaxpr | None = None
    transpose_solve: Jaxpr | None = None
    name: ClassVar[str] = "custom_linear_solve"

    @override
    def own_group(self) -> int:
        return 2

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """A dx = db - dA x."""
        outs = ctx.bind(self, *primals)
        consts, *others, _ = groups(primals, self.const_lengths)
        moving, *_, right = groups(tangents, self.const_lengths)
        n = len(right)
        x, aux = outs[:n], outs[n:]
        if not any(nonzero_marks([*moving, *right])):
            return outs, zero_tangents(ctx, outs)
        wide = [instantiate(ctx, t) for t in right]
        if any(nonzero_marks(moving)):
            moved = tangents_of(ctx, self.matvec, [*consts, *x], [*moving, *zero_tangents(ctx, x)])
            wide = [t if isinstance(part, Zero) else sub(ctx, t, part) for t, part in zip(wide, moved, strict=True)]
        found = ctx.bind(self, *consts, *chain(*others), *wide)
        return outs, [*found[:n], *zero_tangents(ctx, aux)]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        *consts, right = groups(args, self.const_lengths)
        if self.vecmat is None or self.transpose_solve is None:
            raise ParameterError(
                "transpose_solve required for derivatives of custom_linear_solve in reverse mode: it solves the "
                "transposed equation; or say symmetric=True, if it is the same",
                "transpose_solve",
            )
        known: list[list[V]] = []
        for group in consts:
            if any(isinstance(arg, UndefPrimal) for arg in group):
                raise LinearityError(
                    f"{self.name} is linear in the right side, but not in what its programs close over"
                )
            known.append([arg for arg in group if not isinstance(arg, UndefPrimal)])
        matvec, vecmat, solve, transposed = known
        a, b, c, d = self.const_lengths
        other = LinearSolve(self.transpose_solve, (b, a, d, c), self.vecmat, self.matvec, self.solve)
        n = len(right)
        wide = [instantiate(ctx, ct) for ct in cotangents[:n]]
        found = ctx.bind(other, *vecmat, *matvec, *transposed, *solve, *wide)
        return [*([None] * (a + b + c + d)), *found[:n]]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        *const_axes, right_axes = groups(axes, self.const_lengths)
        consts = args[: len(args) - len(right_axes)]
        right = [
            with_leading_axis(ctx, x, at, axis.size, unmapped(ctx.aval(x).shape, at))
            for x, at in zip(args[len(consts) :], right_axes, strict=True)
        ]

        programs = (self.matvec, self.vecmat, self.solve, self.transpose_solve)
        matvec, vecmat, solve, transposed = (
            None if jaxpr is None else mapped_rest(axis, jaxpr, own)
            for jaxpr, own in zip(programs, const_axes, strict=True)
        )
        assert matvec is not None
        assert solve is not None
        outs = ctx.bind(LinearSolve(solve, self.const_lengths, matvec, vecmat, transposed), *consts, *right)
        return outs, [0] * len(outs)


@final
@frozen
class CustomRoot(Solving):
    """A solution x of `f(x) = 0`: what `solve` makes of a guess.

    `tangent_solve` takes a solution and the right side y of the equation that is linear there, `df(x)(t) = y`, and
    returns t. The constants are those of f, solve and tangent_solve.
    """

    f: Jaxpr
    tangent_solve: Jaxpr
    name: ClassVar[str] = "custom_root"

    @override
    def own_group(self) -> int:
        return 1

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """By the implicit function theorem: the guess doesn't matter."""
        outs = ctx.bind(self, *primals)
        consts, _, own, guess = groups(primals, self.const_lengths)
        moving = groups(tangents, self.const_lengths)[0]
        n = len(guess)
        x, aux = outs[:n], outs[n:]
        if not any(nonzero_marks(moving)):
            return outs, zero_tangents(ctx, outs)
        moved = tangents_of(ctx, self.f, [*consts, *x], [*moving, *zero_tangents(ctx, x)])
        if not any(nonzero_marks(moved)):
            return outs, zero_tangents(ctx, outs)
        wide = [instantiate(ctx, t) for t in moved]
        found = interpret(ctx, self.tangent_solve, [*own, *x, *wide])
        return outs, [*(neg(ctx, t) for t in found), *zero_tangents(ctx, aux)]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        *const_axes, guess_axes = groups(axes, self.const_lengths)
        consts = args[: len(args) - len(guess_axes)]
        guess = [
            with_leading_axis(ctx, x, at, axis.size, unmapped(ctx.aval(x).shape, at))
            for x, at in zip(args[len(consts) :], guess_axes, strict=True)
        ]

        programs = (self.f, self.solve, self.tangent_solve)
        f, solve, tangent = map(partial(mapped_rest, axis), programs, const_axes)
        outs = ctx.bind(CustomRoot(solve, self.const_lengths, f, tangent), *consts, *guess)
        return outs, [0] * len(outs)
