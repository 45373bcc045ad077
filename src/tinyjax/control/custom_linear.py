"""The derivative of a custom_vjp function at a point, of which only the transpose is known, as an equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NoReturn, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.recursion import (
    Backward,
    Refusal,
    case_for,
)
from tinyjax.errors import ForwardModeError, RefError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effects
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Primitive, UndefPrimal, Zero
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.shapes import Axes
from tinyjax.ir.tangents import (
    has_tangent,
    known_operands,
    nonzero_marks,
    with_zeros,
    without_zeros,
)
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import axes_of
from tinyjax.primitives.structure import instantiate, reduce_sum
from tinyjax.transforms.batch import BatchedProgram, batch

V = TypeVar("V")


@remembered
def batch_backwards(
    bwd: Jaxpr, axis: BatchAxis, residual_axes: tuple[int | None, ...], arg_axes: tuple[int | None, ...]
) -> Jaxpr:
    """A program from residuals and cotangents to cotangents, over a batch, with the mapped axis of the given cotangents
    first. The cotangent of an argument that isn't mapped is the sum over the batch."""
    cts = (0,) * (len(bwd.invars) - len(residual_axes))
    batched: BatchedProgram = batch(bwd, axis, (*residual_axes, *cts), [at or 0 for at in arg_axes])

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        outs = interpret(ctx, batched.jaxpr, ins)
        return [reduce_sum(ctx, out, (0,)) if at is None else out for out, at in zip(outs, arg_axes, strict=True)]

    return batched.jaxpr if None not in arg_axes else stage(batched.jaxpr.in_avals, run)


@final
@frozen
class CustomLin(Primitive):
    """The derivative of a custom_vjp function at a point: it takes residuals, then tangents, and returns tangents.

    All that is known of it is its transpose, `bwd`, which takes the residuals, then cotangents, and returns cotangents;
    and `special` programs for when some of the cotangents are known to be zero; as in `VjpCase`, `refused` are the
    cases that there are no programs for. The last operands and results are `states`, if there are any, as those of
    `CustomVjp`: without other cotangents, the rule doesn't run, and they go past.
    """

    function_name: str
    bwd: Jaxpr
    num_residuals: int
    special: tuple[Backward, ...] | None = None
    refused: tuple[Refusal, ...] | None = None
    states: int | None = None
    name: ClassVar[str] = "custom_lin"

    @property
    @override
    def effects(self) -> Effects:
        return self.bwd.effects

    def refuse(self) -> NoReturn:
        """Raises what there is to say about forward mode."""
        raise ForwardModeError(
            "can't apply forward-mode differentiation (jvp) to a custom_vjp function: the rule of "
            f"{self.function_name!r} is for reverse mode. Use grad or vjp, or define it with custom_jvp, which serves "
            "both modes."
        )

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expect_types(f"{self.name} of {self.function_name!r} takes", self._takes, avals)
        return tuple([aval.cotangent for aval in self.bwd.in_avals[self.num_residuals :]])

    @property
    def _takes(self) -> tuple[ShapedArray, ...]:
        return (*self.bwd.in_avals[: self.num_residuals], *[aval.cotangent for aval in self.bwd.out_avals])

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return axes_of(self._takes), axes_of(types)

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> NoReturn:
        self.refuse()

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> NoReturn:
        self.refuse()

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        n = self.num_residuals
        if self.states:
            check_states(self.function_name, [at is not None for at in axes[-self.states :]])

        def batched(jaxpr: Jaxpr) -> Jaxpr:
            return batch_backwards(jaxpr, axis, tuple(axes[:n]), tuple(axes[n:]))

        special = self.special and tuple(Backward(case.given, batched(case.jaxpr)) for case in self.special)
        outs = ctx.bind(evolve(self, bwd=batched(self.bwd), special=special), *args)
        return outs, [0] * len(outs)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        n = self.num_residuals
        residuals = known_operands(args[:n])
        if len(residuals) < n:
            self.refuse()
        if self.states and not any(nonzero_marks(cotangents[: -self.states])):
            past = [*[Zero(aval) for aval in self.bwd.out_avals[: -self.states]], *cotangents[-self.states :]]
            return [*[None] * n, *past]
        if self.states:
            check_states(self.function_name, nonzero_marks(cotangents[-self.states :]))
        case = case_for(self.function_name, nonzero_marks(cotangents), self.special, self.refused)
        if case is None:
            outs = interpret(ctx, self.bwd, [*residuals, *(instantiate(ctx, ct) for ct in cotangents)])
        else:
            outs = interpret(ctx, case.jaxpr, [*residuals, *without_zeros(cotangents)])
        return [
            *([None] * n),
            *(out if isinstance(arg, UndefPrimal) else None for out, arg in zip(outs, args[n:], strict=True)),
        ]


def check_states(name: str, there: Sequence[bool]) -> None:
    """A RefError unless these states can be threaded through the derivative of a function."""
    if not all(there):
        raise RefError(
            f"the bwd rule of custom_vjp function {name!r} uses a Ref, which can't be done here: the Ref must be made "
            "outside of what is differentiated, by grad or vjp, and not be mapped by vmap within it. Make the Ref "
            "outside; or map the gradient, with the Ref as an argument."
        )


def linear_part(
    ctx: Context[V],
    linear: CustomLin,
    residuals: Sequence[V],
    tangents: Sequence[V],
    out_avals: Sequence[ShapedArray],
) -> list[V | Zero]:
    """The tangents of the results of a custom_vjp function, for those tangents of arguments whose cotangents are
    returned."""
    found = ctx.bind(linear, *residuals, *tangents) if tangents else ()
    return with_zeros(found, [bool(tangents) and has_tangent(aval) for aval in out_avals], out_avals)
