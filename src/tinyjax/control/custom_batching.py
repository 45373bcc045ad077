"""Functions that say themselves how they are mapped."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import compress
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.composite import Composite
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effects
from tinyjax.ir.interpret import interpret
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import BatchAxis, Outputs, Split, Zero
from tinyjax.ir.program import Atom, Eqn, Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.shapes import Axes
from tinyjax.ir.tangents import nonzero_marks, with_zeros, without_zeros
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import axes_of
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.slicing import slice_in_dim
from tinyjax.primitives.structure import instantiate, move_axis
from tinyjax.transforms.batch import add_axis, batch, place_axis
from tinyjax.transforms.dce import prune
from tinyjax.transforms.inline import inline
from tinyjax.transforms.jvp import jvp

V = TypeVar("V")


@final
@frozen(eq=False)
class VmapProgram:
    """What a rule makes of operands: a program, the values that feed its first inputs, and which results have the
    mapped axis, as their first one."""

    jaxpr: Jaxpr
    consts: tuple[ConcreteValue, ...]
    mapped: tuple[bool, ...]


@frozen
class VmapRule(Opaque):
    """How a function is mapped."""

    @property
    @abstractmethod
    def user_rule(self) -> object:
        """The rule that a user has written, which all this follows from."""

    @abstractmethod
    def program(self, size: int, mapped: tuple[bool, ...], avals: Sequence[ShapedArray]) -> VmapProgram:
        """What to apply to operands of these types. Those that are mapped have the axis of this size first."""


@final
@frozen
class CustomVmap(Composite):
    """Applies `jaxpr`. Mapped, it is what `rule` says. The first operands are values that the function closes over; the
    rule doesn't take them."""

    function_name: str
    jaxpr: Jaxpr
    rule: VmapRule
    num_captured: int = 0
    name: ClassVar[str] = "custom_vmap"

    @property
    @override
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expect_types(f"{self.name} of {self.function_name!r} takes", self.jaxpr.in_avals, avals)
        return self.jaxpr.out_avals

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return axes_of(self.jaxpr.in_avals), axes_of(types)

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return evaluator.execute(self.jaxpr, args, self.function_name)

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        return interpret(ctx, self.jaxpr, args)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        n = self.num_captured
        if any(at is not None for at in axes[:n]):
            raise InputError(
                f"the custom_vmap function {self.function_name!r} closes over a value that is mapped, but its rule "
                "only says what becomes of arguments that are. Pass the value to the function as an argument."
            )
        moved = [x if at is None else move_axis(ctx, x, at, 0) for x, at in zip(args[n:], axes[n:], strict=True)]
        mapped = tuple(at is not None for at in axes[n:])
        found = self.rule.program(axis.size, mapped, list(map(ctx.aval, moved)))
        outs = interpret(ctx, found.jaxpr, [*map(ctx.constant, found.consts), *moved])
        return outs, [0 if mark else None for mark in found.mapped]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        n, count = self.num_captured, len(self.jaxpr.outvars)
        nonzero = nonzero_marks(tangents)
        derived = jvp(self.jaxpr, nonzero)
        operands = [*primals, *without_zeros(tangents)]
        if any(nonzero[:n]):  # of which the rule says nothing
            outs: Sequence[V] = interpret(ctx, derived.jaxpr, operands)
        else:
            rule = DerivedRule(self.rule, tuple(nonzero[n:]), tuple(derived.nonzero_out))
            outs = ctx.bind(CustomVmap(f"jvp_{self.function_name}", derived.jaxpr, rule, n), *operands)
        return outs[:count], with_zeros(outs[count:], derived.nonzero_out, self.jaxpr.out_avals)

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        """Where the operands are known, and their tangents aren't: what gives the tangents stays whole, so that the
        rule says how it is mapped. It computes the function again."""
        if not isinstance(self.rule, DerivedRule) or self.effects:  # which wouldn't happen twice
            return None
        n = self.num_captured + len(self.rule.nonzero)
        if unknown != tuple(i >= n for i in range(len(unknown))):
            return None
        tangents = sum(self.rule.wanted)
        results = len(self.jaxpr.outvars) - tangents
        derived = (False,) * results + (True,) * tangents
        function = prune(self.jaxpr, [not mark for mark in derived], [not mark for mark in unknown]).jaxpr
        if len(function.invars) > n:
            return None
        tangent = prune(self.jaxpr, derived, (True,) * len(unknown)).jaxpr
        return Split(
            CustomVmap(self.function_name, function, self.rule.rule, self.num_captured),
            CustomVmap(self.function_name, tangent, TangentRule(self.rule, results), self.num_captured),
            derived,
            tuple(range(n)),
        )


@final
@frozen
class TangentRule(VmapRule):
    """What a derived rule says of the tangents alone, which come after so many results."""

    rule: DerivedRule
    results: int

    @override
    def __str__(self) -> str:
        return f"tangents({self.rule})"

    @property
    @override
    def user_rule(self) -> object:
        return self.rule.user_rule

    @override
    def program(self, size: int, mapped: tuple[bool, ...], avals: Sequence[ShapedArray]) -> VmapProgram:
        found = self.rule.program(size, mapped, avals)
        kept = [i >= self.results for i in range(len(found.mapped))]
        jaxpr = prune(found.jaxpr, kept, (True,) * len(found.jaxpr.invars)).jaxpr
        return VmapProgram(jaxpr, found.consts, found.mapped[self.results :])


@final
@frozen
class DerivedRule(VmapRule):
    """How a function with its tangents is mapped: as what its rule gives. `nonzero` marks the operands that have a
    tangent; these come after all operands. `wanted` marks the results whose tangents are returned, after all results.

    Where operands and tangents are mapped together, the function is mapped by the rule, then differentiated. If only
    ones of different kinds are, it is the derivative of what the rule makes of operands that aren't mapped.
    """

    rule: VmapRule
    nonzero: tuple[bool, ...]
    wanted: tuple[bool, ...]

    @override
    def __str__(self) -> str:
        return f"jvp({self.rule})"

    @property
    @override
    def user_rule(self) -> object:
        return self.rule.user_rule

    @override
    def program(self, size: int, mapped: tuple[bool, ...], avals: Sequence[ShapedArray]) -> VmapProgram:
        count = len(self.nonzero)
        places = [*range(count), *compress(range(count), self.nonzero)]
        moving = set(compress(places[count:], mapped[count:]))
        if not any(mapped[i] for i in moving):
            return self._apart(size, mapped, avals)
        both = [mark or i in moving for i, mark in enumerate(mapped[:count])]
        types = [
            add_axis(aval, 0, size) if wide and not mark else aval
            for aval, mark, wide in zip(avals, mapped, both, strict=False)
        ]
        base, jaxpr = self._derived(size, both, types)
        n = len(base.consts)

        def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
            wide = [
                place_axis(ctx, x, 0 if mark else None, 0 if both[at] else None, size)
                for x, mark, at in zip(ins[n:], mapped, places, strict=True)
            ]
            return interpret(ctx, jaxpr, [*ins[:n], *wide])

        whole = stage([*(const.aval for const in base.consts), *avals], run)
        return VmapProgram(whole, base.consts, (*base.mapped, *compress(base.mapped, self.wanted)))

    def _apart(self, size: int, mapped: tuple[bool, ...], avals: Sequence[ShapedArray]) -> VmapProgram:
        """What to apply if no operand is mapped together with its tangent. The rule may apply its own function, which
        would have to be mapped in the same way, and so on: that is mapped as what it computes."""
        single = [_element(aval) if mark else aval for aval, mark in zip(avals, mapped, strict=True)]
        base, jaxpr = self._derived(size, [False] * len(self.nonzero), single[: len(self.nonzero)], self._is_own)
        axis, in_axes = BatchAxis(size), [*[None] * len(base.consts), *(0 if mark else None for mark in mapped)]
        found = tuple(at is not None for at in batch(jaxpr, axis, in_axes).out_axes)
        each = batch(jaxpr, axis, in_axes, [0 if mark else None for mark in found]).jaxpr
        ruled = (*base.mapped, *compress(base.mapped, self.wanted))

        def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
            outs = zip(interpret(ctx, each, ins), found, ruled, strict=True)
            return [_same_element(ctx, out, size) if mark and also else out for out, mark, also in outs]

        whole = stage(each.in_avals, run)
        return VmapProgram(whole, base.consts, tuple(mark or also for mark, also in zip(found, ruled, strict=True)))

    def _is_own(self, eqn: Eqn) -> bool:
        return isinstance(eqn.primitive, CustomVmap) and eqn.primitive.rule.user_rule is self.user_rule

    def _derived(
        self,
        size: int,
        mapped: Sequence[bool],
        primals: Sequence[ShapedArray],
        plain: Callable[[Eqn], bool] = lambda eqn: False,
    ) -> tuple[VmapProgram, Jaxpr]:
        """What the rule gives, and that with its tangents; some functions are nothing but that, without their rule."""
        base = self.rule.program(size, tuple(mapped), primals)
        derived = jvp(inline(base.jaxpr, plain), [*[False] * len(base.consts), *self.nonzero])
        results = len(base.mapped)

        def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
            outs = interpret(ctx, derived.jaxpr, ins)
            moving = with_zeros(outs[results:], derived.nonzero_out, base.jaxpr.out_avals)
            kept = [instantiate(ctx, t) for t, mark in zip(moving, self.wanted, strict=True) if mark]
            return [*outs[:results], *kept]

        return base, stage(derived.jaxpr.in_avals, run)


def _same_element(ctx: StagingContext, x: Atom, size: int) -> Atom:
    """Of a result that is mapped twice, along its first axes: what is the same element of both."""
    flat = reshape(ctx, x, (size * size, *ctx.aval(x).shape[2:]))
    return slice_in_dim(ctx, flat, 0, size * size, size + 1, 0)


def _element(aval: ShapedArray) -> ShapedArray:
    """The type of an element, where the mapped axis comes first."""
    return aval.of_shape(aval.shape[1:])
