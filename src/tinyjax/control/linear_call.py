"""A linear function with a transpose of its own: each is applied where the other is transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.control.carry import groups
from tinyjax.control.composite import Composite
from tinyjax.control.implicit import mapped_rest, staged_whole, tangents_of
from tinyjax.errors import LinearityError, MissingRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effects
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Outputs, Split, UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.tangents import has_tangent, nonzero_marks, zero_tangents
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.elementwise import add, unmapped
from tinyjax.primitives.structure import instantiate, with_leading_axis

V = TypeVar("V")


@final
@frozen
class LinearCall(Composite):
    """Applies `jaxpr`, which is linear in its last inputs; `transposed` is applied where that is transposed.

    The operands are the residuals of `jaxpr` and those of `transposed`, `const_lengths` of each, then those that it is
    linear in. Of what was read from text, the transpose isn't known.
    """

    jaxpr: Jaxpr
    const_lengths: tuple[int, int]
    transposed: Jaxpr | None = None
    name: ClassVar[str] = "linear_call"

    @property
    @override
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expect_types(f"the function of {self.name} takes", self.jaxpr.in_avals, self._taken(avals))
        return self.jaxpr.out_avals

    def _taken(self, items: Sequence[V]) -> Sequence[V]:
        residuals, _, linear = groups(items, self.const_lengths)
        return [*residuals, *linear]

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return evaluator.execute(self.jaxpr, self._taken(args), self.name)

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        return interpret(ctx, self.jaxpr, self._taken(args))

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split:
        return staged_whole(self, unknown, len(self.jaxpr.outvars))

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """The function itself, of the tangents; and its derivative with respect to the residuals."""
        outs = ctx.bind(self, *primals)
        residuals, others, linear = groups(primals, self.const_lengths)
        moving, _, moved = groups(tangents, self.const_lengths)
        found: Sequence[V | Zero] = zero_tangents(ctx, outs)
        if any(nonzero_marks(moved)):
            types = [ctx.aval(x) for x in linear]
            wide = [
                instantiate(ctx, t if has_tangent(aval) else Zero(aval)) for t, aval in zip(moved, types, strict=True)
            ]
            done = ctx.bind(self, *residuals, *others, *wide)
            found = [t if has_tangent(ctx.aval(t)) else Zero(ctx.aval(t).tangent) for t in done]
        if any(nonzero_marks(moving)):
            more = tangents_of(ctx, self.jaxpr, [*residuals, *linear], [*moving, *zero_tangents(ctx, linear)])
            found = [
                part if isinstance(t, Zero) else t if isinstance(part, Zero) else add(ctx, t, part)
                for t, part in zip(found, more, strict=True)
            ]
        return outs, found

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        a, b = self.const_lengths
        if self.transposed is None:
            raise MissingRuleError.of(self.name, type(self), "Transposition", "transposed")
        consts = [arg for arg in args[: a + b] if not isinstance(arg, UndefPrimal)]
        if len(consts) < a + b:
            raise LinearityError(f"{self.name} is linear in its linear_args, but not in the residuals")
        if not any(nonzero_marks(cotangents)):
            zeros = [Zero(arg.aval.cotangent) if isinstance(arg, UndefPrimal) else None for arg in args[a + b :]]
            return [*[None] * (a + b), *zeros]
        other = LinearCall(self.transposed, (b, a), self.jaxpr)
        wide = [
            instantiate(ctx, Zero(aval) if isinstance(ct, Zero) else ct)
            for ct, aval in zip(cotangents, self.transposed.in_avals[b:], strict=True)
        ]
        found = ctx.bind(other, *consts[a:], *consts[:a], *wide)
        own = zip(args[a + b :], found, strict=True)
        return [*[None] * (a + b), *(ct if isinstance(arg, UndefPrimal) else None for arg, ct in own)]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        residuals, others, linear = groups(axes, self.const_lengths)
        n = len(args) - len(linear)
        wide = [
            with_leading_axis(ctx, x, at, axis.size, unmapped(ctx.aval(x).shape, at))
            for x, at in zip(args[n:], linear, strict=True)
        ]
        back = self.transposed and mapped_rest(axis, self.transposed, others)
        outs = ctx.bind(
            LinearCall(mapped_rest(axis, self.jaxpr, residuals), self.const_lengths, back), *args[:n], *wide
        )
        return outs, [0] * len(outs)
