"""Functions with derivatives of their own, as equations: their rules are programs too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts import transposition
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.control.branches import pick_outputs
from tinyjax.control.custom_linear import CustomLin, check_states, linear_part
from tinyjax.control.forward_pass import ForwardPass
from tinyjax.control.program_types import check_program
from tinyjax.control.recursion import (
    Backward,
    JvpCase,
    Refusal,
    VjpCase,
    WithRules,
    case_for,
    closed_rule,
    in_general,
    outside_of_rule,
    refuse,
)
from tinyjax.errors import MissingRuleError, ParameterError, UnexpectedTracedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effects, NamedAxisEffect, names_of
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.shapes import Axes
from tinyjax.ir.tangents import (
    cotangent_avals,
    has_tangent,
    nonzero_marks,
    spread_marks,
    tangent_avals,
    with_zeros,
    without_zeros,
)
from tinyjax.ir.traverse import programs_of
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import axes_of
from tinyjax.primitives.shaping import squeeze
from tinyjax.primitives.slicing import slice_in_dim
from tinyjax.primitives.structure import instantiate
from tinyjax.transforms.batch import batch, place_axis
from tinyjax.transforms.unread import evaluate

V = TypeVar("V")


@frozen
class CustomCall(WithRules):
    """Applies `jaxpr`, which has a derivative of its own."""

    function_name: str
    jaxpr: Jaxpr

    @property
    @override
    def effects(self) -> Effects:
        found = self.jaxpr.effects
        for rule in (*self.rules.values(), *self.cases):
            found |= outside_of_rule(rule.effects)
            found |= {effect for effect in rule.effects if isinstance(effect, NamedAxisEffect)}
        return found

    @property
    @override
    def applied_programs(self) -> tuple[Jaxpr, ...]:
        """The function itself, without the rules for its derivative."""
        return (self.jaxpr,)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expected = self.jaxpr.in_avals
        if avals != expected:  # as they hardly ever are: the words are made only then
            expect_types(f"{self.name} of {self.function_name!r} takes", expected, avals)
        return self.jaxpr.out_avals

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return axes_of(self.jaxpr.in_avals), axes_of(types)

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return evaluate(evaluator, self.jaxpr, args, self.function_name)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        out_axes: list[int | None] = [0] * len(self.jaxpr.outvars)
        jaxpr = batch(self.jaxpr, axis, axes, [0] * len(out_axes)).jaxpr
        outs = list(ctx.bind(MappedCustom(self.function_name, jaxpr, self, axis, tuple(axes)), *args))
        if axis.size and all(at is None for at in axes):  # it is here for its collectives: results may be the same
            for i, at in enumerate(batch(self.jaxpr, axis, axes).out_axes):
                if at is None:
                    outs[i], out_axes[i] = squeeze(ctx, slice_in_dim(ctx, outs[i], 0, 1, 1, 0), (0,)), None
        return outs, out_axes

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        return transposition.transpose(ctx, self.jaxpr, args, cotangents)

    def rule(self, name: str) -> Jaxpr:
        """The program of a rule, closed; a MissingRuleError if it was left out."""
        if (refusal := self.refusal_of(name)) is not None:
            refuse(self.function_name, refusal)
        if (found := self.rules.get(name)) is None:
            raise MissingRuleError(
                f"the program holds no derivative of {self.function_name!r} of this order. Either it was read from "
                "what JAX printed, which doesn't have the rules, or the rule applies the function to ever new "
                "arguments outside of differentiation (nondiff_argnums), so that it has no finite program. "
                "Differentiate the Python function instead of the staged one."
            )
        return closed_rule(self, found)

    def refusal_of(self, name: str) -> Refusal | None:
        """What the user's rule raised, if it knows no case."""
        return None

    def reads_captured(self) -> list[bool]:
        """Which of the captured values the function itself reads, not only its rule."""
        read = {*self.jaxpr.outvars, *(atom for eqn in self.jaxpr.eqns for atom in eqn.invars)}
        return [var in read for var in self.jaxpr.invars[: self.captured]]

    def check_captured(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> None:
        """An UnexpectedTracedError if a captured value that the function reads is differentiated with respect to. On
        one that only its rule reads its value doesn't depend."""
        moving = [not isinstance(tangent, Zero) for tangent in tangents[: self.captured]]
        read = self.reads_captured() if any(moving) else moving
        for primal, moves, is_read in zip(primals[: self.captured], moving, read, strict=True):
            if moves and is_read:
                raise UnexpectedTracedError(
                    f"the {self.name} function {self.function_name!r} closes over a value of type {ctx.aval(primal)} "
                    "that is being differentiated with respect to, but its rule only says how to differentiate with "
                    f"respect to its arguments. Pass the value to {self.function_name!r} as an argument and adapt the "
                    "rule, or apply lax.stop_gradient to it."
                )


@final
@frozen
class CustomJvp(CustomCall):
    """Applies `jaxpr`. The derivative is `jvp_jaxpr`: it takes the same operands, then a tangent for each of those that
    is no captured value and can have one; it returns the results, then a tangent for each that can have one. The first
    `num_captured` operands are values that the function or its rule closes over. `special` are other rules, for when
    some of the tangents are known to be zero, and `refused` the cases that the rule doesn't know."""

    jvp_jaxpr: Jaxpr | None = None
    num_captured: int = 0
    special: tuple[JvpCase, ...] | None = None
    refused: tuple[Refusal, ...] | None = None
    name: ClassVar[str] = "custom_jvp"

    @override
    def __attrs_post_init__(self) -> None:
        Primitive.__attrs_post_init__(self)
        if self.jvp_jaxpr is not None:
            ins, outs = self.jaxpr.in_avals, self.jaxpr.out_avals
            derived_ins = (*ins, *tangent_avals(ins[self.num_captured :]))
            check_program(self, "jvp_jaxpr", self.jvp_jaxpr, derived_ins, (*outs, *tangent_avals(outs)))

    @property
    @override
    def rules(self) -> Mapping[str, Jaxpr]:
        return {} if self.jvp_jaxpr is None else {"jvp_jaxpr": self.jvp_jaxpr}

    @override
    def refusal_of(self, name: str) -> Refusal | None:
        return None if self.special else in_general(self.refused)

    @property
    @override
    def cases(self) -> tuple[Jaxpr, ...]:
        return tuple(case.jaxpr for case in self.special or ())

    @property
    @override
    def captured(self) -> int:
        return self.num_captured

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        self.check_captured(ctx, primals, tangents)
        own = _possible(tangents[self.num_captured :])
        case = case_for(self.function_name, nonzero_marks(own), self.special, self.refused)
        avals = self.jaxpr.out_avals
        nonzero_out = [True] * len(tangent_avals(avals)) if case is None else case.nonzero_out
        if case is None:
            outs = interpret(ctx, self.rule("jvp_jaxpr"), [*primals, *(instantiate(ctx, t) for t in own)])
        else:
            outs = interpret(ctx, closed_rule(self, case.jaxpr), [*primals, *without_zeros(own)])
        return outs[: len(avals)], with_zeros(outs[len(avals) :], spread_marks(nonzero_out, avals), avals)


@final
@frozen
class CustomVjp(CustomCall):
    """Applies `jaxpr`. For the derivative, `fwd_jaxpr` takes the same operands and returns the results, then residuals;
    `bwd_jaxpr` takes the captured values, the residuals, and a cotangent for each result that can have one. It returns
    a cotangent for each argument marked in `returned` (captured values are none); those of the others are zero.
    `special` are the rules for each choice of arguments that are differentiated with respect to, if they tell these
    apart, and `refused` those choices that they don't know. With `optimize_remat`, `jaxpr` replaces the forward rule
    where no residual is read. The last arguments and results are `states`, if there are any: values that nobody reads,
    whose cotangents `bwd_jaxpr` takes as what it finds, and returns as what it leaves (see `tinyjax.refs.backward`)."""

    fwd_jaxpr: Jaxpr | None = None
    bwd_jaxpr: Jaxpr | None = None
    returned: tuple[bool, ...] = ()
    num_captured: int = 0
    special: tuple[VjpCase, ...] | None = None
    refused: tuple[Refusal, ...] | None = None
    optimize_remat: bool | None = None  # not False, which would be printed
    states: int | None = None
    name: ClassVar[str] = "custom_vjp"

    @override
    def __attrs_post_init__(self) -> None:
        Primitive.__attrs_post_init__(self)
        if self.fwd_jaxpr is None or self.bwd_jaxpr is None:
            return
        ins, outs = self.jaxpr.in_avals, self.jaxpr.out_avals
        captured, args = ins[: self.num_captured], ins[self.num_captured :]
        if len(self.returned) != len(args):
            raise ParameterError(f"returned of {self.name} has {len(self.returned)} entries for {len(args)} arguments")
        residuals = self.fwd_jaxpr.out_avals[len(outs) :]
        check_program(self, "fwd_jaxpr", self.fwd_jaxpr, ins, (*outs, *residuals))
        cts = [aval.cotangent for aval, mark in zip(args, self.returned, strict=True) if mark]
        check_program(self, "bwd_jaxpr", self.bwd_jaxpr, (*captured, *residuals, *cotangent_avals(outs)), cts)

    @property
    @override
    def rules(self) -> Mapping[str, Jaxpr]:
        both = {"fwd_jaxpr": self.fwd_jaxpr, "bwd_jaxpr": self.bwd_jaxpr}
        return {name: rule for name, rule in both.items() if rule is not None}

    @override
    def refusal_of(self, name: str) -> Refusal | None:
        general = in_general(self.special)
        if general is None:
            return in_general(self.refused)
        return in_general(general.refused) if name == "bwd_jaxpr" and not general.special else None

    @property
    @override
    def cases(self) -> tuple[Jaxpr, ...]:
        return tuple(jaxpr for case in self.special or () for jaxpr in programs_of(case))

    @property
    @override
    def captured(self) -> int:
        return self.num_captured

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        self.check_captured(ctx, primals, tangents)
        n, avals = self.num_captured, self.jaxpr.out_avals
        if self.states:
            own, last = tangents[: -self.states], tangents[-self.states :]
            if not any(nonzero_marks(own)):  # some other function is differentiated: its states go past
                return ctx.bind(self, *primals), [*[Zero(aval.tangent) for aval in avals[: -self.states]], *last]
            check_states(self.function_name, nonzero_marks(last))
        perturbed = nonzero_marks(_possible(tangents[n:]))
        case = case_for(self.function_name, perturbed, self.special, self.refused) or in_general(self.special)
        fwd = self.rule("fwd_jaxpr") if case is None else closed_rule(self, case.jaxpr)
        bwd = self.rule("bwd_jaxpr") if case is None else closed_rule(self, case.bwd)
        if self.optimize_remat:
            outs: Sequence[V] = ctx.bind(ForwardPass(self.function_name, fwd, self.jaxpr), *primals)
        else:
            outs = interpret(ctx, fwd, primals)
        marks = self.returned if case is None else case.returned
        returned = [t for t, mark in zip(tangents[n:], marks, strict=True) if mark]
        picked = nonzero_marks(returned)
        special = case and tuple(
            Backward(each.given, pick_outputs(closed_rule(self, each.jaxpr), picked)) for each in case.special
        )
        residuals = [*primals[:n], *outs[len(avals) :]]
        lin = CustomLin(
            self.function_name,
            pick_outputs(bwd, picked),
            len(residuals),
            special or None,
            case and case.refused,
            self.states,
        )
        return outs[: len(avals)], linear_part(ctx, lin, residuals, without_zeros(returned), avals)


@final
@frozen
class MappedCustom(CustomCall):
    """Applies `jaxpr`, which is `original` over a batch: operands are mapped at `in_axes`, results along their first
    axis. The derivative is the original's rule, mapped."""

    original: CustomCall
    axis: BatchAxis
    in_axes: tuple[int | None, ...]
    name: ClassVar[str] = "mapped_custom"

    @property
    @override
    def rules(self) -> Mapping[str, Jaxpr]:
        return {}

    @property
    @override
    def effects(self) -> Effects:
        return self.jaxpr.effects | {
            effect
            for effect in self.original.effects
            if not isinstance(effect, NamedAxisEffect) or effect.name not in names_of(self.axis)
        }

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        inner = BatchContext(ctx, self.axis)
        mapped = list(map(Batched, primals, self.in_axes))
        zeros = [Zero(inner.aval(x).tangent) for x in mapped]
        given: list[Batched[V] | Zero] = [
            zero if isinstance(t, Zero) else Batched(t, at)
            for t, zero, at in zip(tangents, zeros, self.in_axes, strict=True)
        ]
        outs, derived = self.original.jvp(inner, mapped, given)
        size, avals = self.axis.size, self.jaxpr.out_avals
        return [place_axis(ctx, out.value, out.axis, 0, size) for out in outs], [
            Zero(aval.tangent) if isinstance(t, Zero) else place_axis(ctx, t.value, t.axis, 0, size)
            for t, aval in zip(derived, avals, strict=True)
        ]


def _possible(tangents: Sequence[V | Zero]) -> list[V | Zero]:
    """The tangents of those values that can have one."""
    return [t for t in tangents if not isinstance(t, Zero) or has_tangent(t.aval)]
