"""Solutions of ordinary differential equations, as equations of programs: their derivatives are such solutions again.

That of a trajectory is found by another equation, which belongs to the same method: of the tangents, which are solved
for together with the state; or of the cotangents, backwards in time. Each is made when it is needed, so there are
derivatives of all orders and in all modes, and no program contains itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Final, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.autodiff import jvp, vjp
from tinyjax.api.make_jaxpr import make_jaxpr
from tinyjax.caching import remembered
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.staging import stage
from tinyjax.control.call import Call
from tinyjax.control.composite import Composite
from tinyjax.control.custom_linear import batch_backwards
from tinyjax.control.implicit import staged_whole
from tinyjax.experimental.dormand_prince import OdeLimits, solution
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.ir.effects import Effects, NamedAxisEffect, names_of
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Outputs, Split, UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.tangents import known_operands, nonzero_marks, without_zeros
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.structure import instantiate
from tinyjax.tracing.array import Array
from tinyjax.tracing.core import bind
from tinyjax.transforms.batch import batch, place_axis

V = TypeVar("V")


@final
@frozen
class MappedSolution:
    """That an equation is mapped: along which axis, and where the operands have it. Results have it first."""

    axis: BatchAxis
    in_axes: tuple[int | None, ...]


@frozen
class Solved(Composite):
    """What a program computes that solves an equation. It stays whole, also where it is mapped, as its derivative isn't
    that of the program."""

    @abstractmethod
    def single(self) -> Jaxpr:
        """The program that isn't mapped."""

    @property
    @abstractmethod
    def mapped(self) -> tuple[MappedSolution, ...]:
        """How it is mapped, innermost first."""

    @property
    def program(self) -> Jaxpr:
        """What it computes."""
        return _mapped(self.single(), self.mapped)

    @abstractmethod
    def under(self, mapping: MappedSolution) -> Solved:
        """The same, mapped once more."""

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        program = self.program
        expect_types(f"{self.name} takes", program.in_avals, avals)
        return program.out_avals

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return evaluator.execute(self.program, args, self.name)

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        return interpret(ctx, self.program, args)

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split:
        return staged_whole(self, unknown, len(self.program.outvars))

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        outs = ctx.bind(self.under(MappedSolution(axis, tuple(axes))), *args)
        return outs, [0] * len(outs)


@final
@frozen
class Trajectory(Solved):
    """The states at `count` times. `dynamics` takes a state, which is a vector, a time and other operands, and gives
    the derivative of the state. The operands are the first state, the times, and these others."""

    dynamics: Jaxpr
    count: int
    limits: OdeLimits
    maps: tuple[MappedSolution, ...] = ()
    name: ClassVar[str] = "odeint"

    @property
    @override
    def effects(self) -> Effects:
        return _outside(self.dynamics.effects, self.maps)

    @property
    @override
    def mapped(self) -> tuple[MappedSolution, ...]:
        return self.maps

    @override
    def single(self) -> Jaxpr:
        return _solving(self.dynamics, self.count, self.limits)

    @override
    def under(self, mapping: MappedSolution) -> Trajectory:
        return evolve(self, maps=(*self.maps, mapping))

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        if self.maps:
            return self._mapped_jvp(ctx, primals, tangents)
        outs = ctx.bind(self, *primals)
        moving = tuple(nonzero_marks(tangents))
        if not any(moving):
            return outs, [Zero(ctx.aval(out).tangent) for out in outs]
        variation = Variation(self.dynamics, self.count, self.limits, moving)
        return outs, ctx.bind(variation, *primals, *outs, *without_zeros(tangents))

    def _mapped_jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """By the rule of what is mapped."""
        *inner, outer = self.maps
        parent = BatchContext(ctx, outer.axis)
        mapped = list(map(Batched, primals, outer.in_axes))
        given: list[Batched[V] | Zero] = [
            Zero(parent.aval(x).tangent) if isinstance(t, Zero) else Batched(t, at)
            for x, t, at in zip(mapped, tangents, outer.in_axes, strict=True)
        ]
        outs, derived = evolve(self, maps=tuple(inner)).jvp(parent, mapped, given)
        size, avals = outer.axis.size, self.program.out_avals
        return [place_axis(ctx, out.value, out.axis, 0, size) for out in outs], [
            Zero(aval.tangent) if isinstance(t, Zero) else place_axis(ctx, t.value, t.axis, 0, size)
            for t, aval in zip(derived, avals, strict=True)
        ]


@final
@frozen
class Variation(Solved):
    """The derivative of a trajectory, which is linear in its last operands: it takes the operands of the trajectory,
    the trajectory, and tangents of those operands that are `moving`."""

    dynamics: Jaxpr
    count: int
    limits: OdeLimits
    moving: tuple[bool, ...]
    maps: tuple[MappedSolution, ...] = ()
    name: ClassVar[str] = "odeint_tangent"

    @property
    @override
    def effects(self) -> Effects:
        return _outside(self.dynamics.effects, self.maps)

    @property
    @override
    def mapped(self) -> tuple[MappedSolution, ...]:
        return self.maps

    @override
    def single(self) -> Jaxpr:
        return _varying(self.dynamics, self.count, self.limits, self.moving)

    @override
    def under(self, mapping: MappedSolution) -> Variation:
        return evolve(self, maps=(*self.maps, mapping))

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        n = len(self.moving) + 1
        residuals = known_operands(args[:n])
        program = _adjoint(self.dynamics, self.count, self.limits, self.moving)
        for mapping in self.maps:
            program = batch_backwards(program, mapping.axis, mapping.in_axes[:n], mapping.in_axes[n:])
        found = interpret(ctx, program, [*residuals, *(instantiate(ctx, ct) for ct in cotangents)])
        wanted = [isinstance(arg, UndefPrimal) for arg in args[n:]]
        return [*[None] * n, *(ct if want else None for ct, want in zip(found, wanted, strict=True))]


#: What text and files of programs may name of these equations.
CLASSES: Final = (Trajectory, Variation, MappedSolution, OdeLimits)


def _outside(effects: Effects, maps: Sequence[MappedSolution]) -> Effects:
    """The effects of a program of which these axes are mapped."""
    names = {name for mapping in maps for name in names_of(mapping.axis)}
    return frozenset([one for one in effects if not isinstance(one, NamedAxisEffect) or one.name not in names])


@remembered
def _mapped(jaxpr: Jaxpr, maps: tuple[MappedSolution, ...]) -> Jaxpr:
    for mapping in maps:
        jaxpr = batch(jaxpr, mapping.axis, mapping.in_axes, [0] * len(jaxpr.outvars)).jaxpr
    return jaxpr


def _staged(f: Callable[..., Any], *avals: ShapedArray) -> Jaxpr:
    """The program of a function of arrays."""
    closed = make_jaxpr(f)(*avals)
    return stage(avals, lambda ctx, ins: interpret(ctx, closed.jaxpr, [*map(ctx.constant, closed.consts), *ins]))


def _call(dynamics: Jaxpr) -> Callable[..., Array]:
    call = Call("dynamics", dynamics)
    return lambda *operands: bind(call, *operands)[0]


def _operands(dynamics: Jaxpr, count: int) -> tuple[ShapedArray, ShapedArray, tuple[ShapedArray, ...]]:
    """The types of a state, of the times, and of the other operands."""
    state, time, *others = dynamics.in_avals
    return state, ShapedArray((count,), time.dtype), tuple(others)


@remembered
def _solving(dynamics: Jaxpr, count: int, limits: OdeLimits) -> Jaxpr:
    """From operands to the trajectory."""
    f = _call(dynamics)

    def solve(y0: Array, times: Array, *others: Array) -> Array:
        return solution(lambda y, time: f(y, time, *others), y0, times, limits)

    state, times, others = _operands(dynamics, count)
    return _staged(solve, state, times, *others)


def _solved(f: Callable[..., Array], limits: OdeLimits, y0: Array, times: Array, *others: Array) -> Array:
    """The trajectory of another equation, of the same method."""
    types = y0.aval, ShapedArray((), times.aval.dtype), *(x.aval for x in others)
    return bind(Trajectory(_staged(f, *types), times.shape[0], limits), y0, times, *others)[0]


def _divided(moving: Sequence[bool], tangents: Sequence[Array]) -> list[Array | None]:
    """For each operand its tangent, if it has one."""
    given = iter(tangents)
    return [next(given) if mark else None for mark in moving]


@remembered
def _varying(dynamics: Jaxpr, count: int, limits: OdeLimits, moving: tuple[bool, ...]) -> Jaxpr:
    """From operands, trajectory and tangents to the tangent of the trajectory: the tangents are solved for with the
    state, of which they need no better approximation."""
    f = _call(dynamics)
    state, times, others = _operands(dynamics, count)
    size, width = state.shape[0], len(others)
    shifted = [i for i, mark in enumerate(moving[2:]) if mark]

    def both(pair: Array, time: Array, *operands: Array) -> Array:
        rest, tangents = operands[:width], operands[width:]

        def along(y: Array, *changing: Array) -> Array:
            merged = list(rest)
            for i, x in zip(shifted, changing, strict=True):
                merged[i] = x
            return f(y, time, *merged)

        slope, bend = jvp(along, (pair[:size], *(rest[i] for i in shifted)), (pair[size:], *tangents))
        return tnp.concatenate([slope, bend])

    def vary(y0: Array, times: Array, *operands: Array) -> Array:
        rest, (ys, *tangents) = operands[:width], operands[width:]
        first, of_times, *of_others = _divided(moving, tangents)
        start = tnp.zeros_like(y0) if first is None else first
        if of_times is not None:  # who starts later is where one was before
            start = start - f(y0, times[0], *rest) * of_times[0].astype(y0.dtype)
        more = [x for x in of_others if x is not None]
        found = _solved(both, limits, tnp.concatenate([y0, start]), times, *rest, *more)[:, size:]
        if of_times is None:
            return found
        slopes = lax.map(lambda at: f(at[0], at[1], *rest), (ys, times))
        return found + slopes * of_times[:, None].astype(y0.dtype)

    trajectory = ShapedArray((count, size), state.dtype)
    all_types = (state, times, *others)
    return _staged(
        vary, *all_types, trajectory, *[x.tangent for x, mark in zip(all_types, moving, strict=True) if mark]
    )


@final
@frozen
class _Flat:
    """Arrays of these types as one vector. Where some are complex it is, too."""

    avals: tuple[ShapedArray, ...]

    def vector(self, arrays: Sequence[Array]) -> Array:
        dtype = tnp.result_type(*[aval.dtype for aval in self.avals])
        return tnp.concatenate([x.reshape(-1).astype(dtype) for x in arrays])

    def parts(self, flat: Array) -> list[Array]:
        found: list[Array] = []
        for aval, end in zip(self.avals, accumulate(aval.size for aval in self.avals), strict=True):
            part = flat[end - aval.size : end].reshape(aval.shape)
            found.append((part if aval.dtype in COMPLEXES else tnp.real(part)).astype(aval.dtype))
        return found


@remembered
def _adjoint(dynamics: Jaxpr, count: int, limits: OdeLimits, moving: tuple[bool, ...]) -> Jaxpr:
    """From operands, trajectory and its cotangent to the cotangents of the operands that are moving: the adjoint
    equation, from each time back to the one before."""
    f = _call(dynamics)
    state, times, others = _operands(dynamics, count)
    width = len(others)
    shifted = [i for i, mark in enumerate(moving[2:]) if mark]
    kept = _Flat((state, state, ShapedArray((), times.dtype), *(others[i] for i in shifted)))

    def backwards(flat: Array, reversed_time: Array, *rest: Array) -> Array:
        """Of the state, back in time, and the cotangents of state, time and operands."""
        y, y_ct, *_ = kept.parts(flat)

        def of_moving(y: Array, time: Array, *changing: Array) -> Array:
            merged = list(rest)
            for i, x in zip(shifted, changing, strict=True):
                merged[i] = x
            return f(y, time, *merged)

        slope, pull = vjp(of_moving, y, -reversed_time, *(rest[i] for i in shifted))
        return kept.vector([-slope, *pull(y_ct)])

    def adjoint(y0: Array, times: Array, *operands: Array) -> list[Array]:
        rest, (ys, ct) = operands[:width], operands[width:]

        def back(carry: Any, i: Array) -> tuple[Any, Array]:
            y_ct, start_ct, others_ct = carry
            # Moving the time of this result moves the result along its slope; and the way back begins elsewhere.
            moved = tnp.real(tnp.sum(f(ys[i], times[i], *rest) * ct[i])).astype(times.dtype)
            begin = kept.vector([ys[i], y_ct, start_ct - moved, *others_ct])
            span = tnp.stack([-times[i], -times[i - 1]])
            _, y_ct, start_ct, *others_ct = kept.parts(_solved(backwards, limits, begin, span, *rest)[1])
            return (y_ct + ct[i - 1], start_ct, others_ct), moved

        zeros = [tnp.zeros(others[i].shape, others[i].dtype) for i in shifted]
        carry = ct[-1], tnp.zeros((), times.dtype), zeros
        (y_ct, start_ct, others_ct), moved = lax.scan(back, carry, tnp.arange(1, count), reverse=True)
        times_ct = tnp.concatenate([start_ct[None], moved])
        found = [ct for ct, mark in zip((y_ct, times_ct), moving[:2], strict=True) if mark]
        return [*found, *others_ct]

    trajectory = ShapedArray((count, *state.shape), state.dtype)
    return _staged(adjoint, state, times, *others, trajectory, trajectory.tangent.cotangent)
