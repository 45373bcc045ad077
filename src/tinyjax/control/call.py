"""`call`: applying a program as one equation. What `jit` stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.caching import remembered_of
from tinyjax.control.inner_jvp import inner_jvp
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effects
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.shapes import Axes
from tinyjax.ir.tangents import cotangents_of, known_operands, linear_marks, nonzero_marks, with_zeros, without_zeros
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import axes_of
from tinyjax.transforms.batch import batch
from tinyjax.transforms.partial_eval import partial_eval
from tinyjax.transforms.transpose import transpose_linear

V = TypeVar("V")


@frozen
class Calling(Primitive):
    """Applies `jaxpr` to the operands. Each transformation of the equation applies the transformed program."""

    function_name: str
    jaxpr: Jaxpr

    @property
    @override
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expected = self.jaxpr.in_avals
        if avals != expected:  # as they hardly ever are: the words are made only then
            expect_types(f"{self.name} of {self.function_name!r} takes", expected, avals)
        return self.jaxpr.out_avals

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return axes_of(self.jaxpr.in_avals), axes_of(types)

    def of(self, jaxpr: Jaxpr) -> Calling:
        """The same for another program, which this one has been transformed into."""
        return evolve(self, jaxpr=jaxpr)

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return evaluator.execute(self.jaxpr, args, self.function_name)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        derived, nonzero_out = _differentiated(self, nonzero_marks(tangents))
        outs = ctx.bind(derived, *primals, *without_zeros(tangents))
        n = len(nonzero_out)
        return outs[:n], with_zeros(outs[n:], nonzero_out, self.jaxpr.out_avals)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        batched, out_axes = _batched(self, axis, tuple(axes))
        return ctx.bind(batched, *args), out_axes

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        return _divided(self, unknown)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        return apply_transposed(ctx, _transposed(self, linear_marks(args), nonzero_marks(cotangents)), cotangents, args)


def apply_transposed(
    ctx: Context[V],
    transposed: tuple[Primitive, tuple[bool, ...]],
    cotangents: Sequence[V | Zero],
    args: Sequence[V | UndefPrimal],
) -> Sequence[V | Zero | None]:
    """What a transposition rule returns that applies a primitive to the known operands and the cotangents that there
    are: it gives the cotangents of those linear operands that are marked beside it."""
    primitive, nonzero_out = transposed
    found = ctx.bind(primitive, *known_operands(args), *without_zeros(cotangents))
    return cotangents_of(args, found, nonzero_out)


@remembered_of
def _differentiated(call: Calling, nonzero: tuple[bool, ...]) -> tuple[Calling, tuple[bool, ...]]:
    """What also computes tangents, and which outputs have one."""
    derived = inner_jvp(call.jaxpr, nonzero)
    return call.of(derived.jaxpr), derived.nonzero_out


@remembered_of
def _batched(call: Calling, axis: BatchAxis, axes: tuple[int | None, ...]) -> tuple[Calling, tuple[int | None, ...]]:
    """What works on a batch, and where the mapped axis of each output is."""
    batched = batch(call.jaxpr, axis, axes)
    return call.of(batched.jaxpr), batched.out_axes


@remembered_of
def _divided(call: Calling, unknown: tuple[bool, ...]) -> Split:
    parts = partial_eval(call.jaxpr, unknown)
    known, staged = (call.of(jaxpr) for jaxpr in (parts.known, parts.staged))
    return Split(known, staged, parts.unknown_out, tuple(residual.input for residual in parts.residuals))


@remembered_of
def _transposed(call: Calling, linear: tuple[bool, ...], nonzero: tuple[bool, ...]) -> tuple[Calling, tuple[bool, ...]]:
    """What returns the cotangents of linear inputs, and which inputs have one."""
    transposed = transpose_linear(call.jaxpr, linear, nonzero, False)
    return call.of(transposed.jaxpr), transposed.nonzero_out


@final
@frozen
class Call(Calling):
    """Applies `jaxpr` to the operands: what `jit` stages."""

    name: ClassVar[str] = "call"


def for_later(primitive: Primitive, unknown: tuple[bool, ...], results: int) -> Split:
    """All of a primitive left for when the unknown operands are known: what it is made of may lack its rules."""
    places = sorted(range(len(unknown)), key=unknown.__getitem__)
    given = tuple(i for i in places if not unknown[i])
    order = tuple(places.index(i) for i in range(len(unknown)))
    nothing = Call("nothing", Jaxpr((), (), ()))
    return Split(nothing, primitive, (True,) * results, given, order, known_inputs=())
