"""Primitives of other libraries for JAX: they keep their meaning, which JAX is asked for when a rule is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import ClassVar, Final, Protocol, TypeAlias, TypeVar, final

import jax
from attrs import field, frozen
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import JaxprEqn
from jax.extend.core import Primitive as JaxPrimitive
from jax.typing import ArrayLike
from typing_extensions import override

from tinyjax.backend import jax_equations
from tinyjax.caching import bounded
from tinyjax.control.branches import with_types
from tinyjax.control.call import for_later
from tinyjax.control.composite import Composite
from tinyjax.control.one_by_one import one_by_one
from tinyjax.errors import UnsupportedError
from tinyjax.interop.first_order import apply
from tinyjax.interop.jax_context import TO_JAX, Args, JaxContext, struct
from tinyjax.interop.types import type_of
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.interpret import interpret
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.tangents import has_tangent, known_operands, linear_marks, with_zeros, without_zeros
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.structure import instantiate
from tinyjax.transforms.batch import add_axis
from tinyjax.transforms.dce import dce

V = TypeVar("V")
#: For an equation, what it computes, and which operands are differentiated with respect to: what has that derivative.
DerivativeRule: TypeAlias = Callable[[JaxprEqn, Jaxpr, tuple[bool, ...]], Primitive]


class Importing(Protocol):
    """How a program of JAX becomes ours, and where it is traced."""

    def program(self, closed: JaxClosedJaxpr) -> Jaxpr: ...

    def entered(self) -> AbstractContextManager[None]:
        """JAX traces as where the equation is."""
        ...


@final
class Applied:
    """What makes equations equal: primitive and parameters. Which variables they have makes no difference."""

    __slots__ = ("eqn",)

    def __init__(self, eqn: JaxprEqn) -> None:
        self.eqn: JaxprEqn = eqn

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Applied) or self.eqn.primitive is not other.eqn.primitive:
            return False
        params, others = self.eqn.params, other.eqn.params
        return params.keys() == others.keys() and all(_same(value, others[key]) for key, value in params.items())

    @override
    def __hash__(self) -> int:
        return hash((self.eqn.primitive.name, *sorted(self.eqn.params)))


@final
@frozen
class JaxEquation(Opaque):
    """How JAX applies the primitive, and how what it says becomes ours."""

    eqn: JaxprEqn = field(eq=Applied)
    importing: Importing
    #: What says the derivative, if JAX doesn't.
    rule: DerivativeRule | None = None

    def __call__(self, *args: ArrayLike) -> list[jax.Array]:
        primitive: JaxPrimitive = self.eqn.primitive
        outs = apply(primitive, *args, **jax_equations.bind_params(primitive, self.eqn.params))
        return list(map(jax.numpy.asarray, outs))

    def imported(self, function: Callable[..., object], avals: Sequence[ShapedArray]) -> Jaxpr:
        """The program of a function of JAX."""
        with self.importing.entered():
            closed = jax.make_jaxpr(function)(*map(struct, avals))
        return dce(self.importing.program(closed))

    @property
    def is_transposed(self) -> bool:
        """Whether JAX knows the transpose of the primitive."""
        return self.rule is None and jax_equations.is_transposed(self.eqn.primitive)

    @override
    def __str__(self) -> str:
        return f"jax({self.eqn.primitive.name})"


def _same(x: object, y: object) -> bool:
    if x is y:
        return True
    try:
        return type(x) is type(y) and bool(x == y)
    except Exception:  # noqa: BLE001 (whatever the comparison of a parameter raises)
        return False


@final
@frozen
class Adopted(Composite):
    """Applies `jaxpr`, the implementation of a primitive of JAX. What becomes of it under transformations, JAX says by
    the rules that the primitive has there."""

    function_name: str
    jaxpr: Jaxpr
    equation: JaxEquation
    name: ClassVar[str] = "adopted"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expect_types(f"{self.function_name} takes", self.jaxpr.in_avals, avals)
        return self.jaxpr.out_avals

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return evaluator.execute(self.jaxpr, args, self.function_name)

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        return interpret(ctx, self.jaxpr, args)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        nonzero = tuple(not isinstance(t, Zero) for t in tangents)
        if self.equation.rule is not None:
            return _special(self, nonzero).jvp(ctx, primals, tangents)
        rule = _derived(self, nonzero)
        outs = interpret(ctx, rule, [*primals, *without_zeros(tangents)])
        avals = self.jaxpr.out_avals
        return outs[: len(avals)], with_zeros(outs[len(avals) :], tuple(map(has_tangent, avals)), avals)

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        """If JAX says what its transpose is, all of it is for later: its implementation may have no transpose."""
        if not self.equation.is_transposed:
            return None
        return for_later(self, unknown, len(self.jaxpr.outvars))

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        try:
            rule, mapped = _mapped(self, axis, tuple(axes))
        except NotImplementedError:  # which is what JAX says: a loop needs no rule
            return one_by_one(self, ctx, axis, args, axes)
        return interpret(ctx, rule, args), [0 if mark else None for mark in mapped]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        if not self.equation.is_transposed:
            return Composite.transpose(self, ctx, cotangents, args)
        linear = linear_marks(args)
        given = [instantiate(ctx, ct) for ct, aval in zip(cotangents, self.jaxpr.out_avals, strict=True)
                 if has_tangent(aval)]  # fmt: skip
        found = iter(interpret(ctx, _transposed(self, linear), [*known_operands(args), *given]))
        return [next(found) if mark else None for mark in linear]


#: What tells that a function reads the elements of its arguments, so that it can't be traced.
_READS: Final = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


def implementation(eqn: JaxprEqn, ins: Sequence[ShapedArray]) -> JaxClosedJaxpr:
    """What the primitive of an equation computes, by others, as it is evaluated or lowered; an implementation that
    reads elements is called on the host. A LookupError if nothing is known."""
    primitive: JaxPrimitive = eqn.primitive
    lowered = jax_equations.lowered_function(eqn)
    for function in (primitive.impl, lowered):
        if function is None:
            continue
        try:
            closed = jax.make_jaxpr(partial(function, **eqn.params))(*map(struct, ins))
        except (RecursionError, MemoryError):
            raise
        except NotImplementedError:
            continue
        except _READS as error:
            if eqn.effects:
                raise UnsupportedError(f"its implementation reads elements, and it has effects: {error}") from error
            closed = _called_on_host(eqn, partial(function, **eqn.params), ins)
        except Exception as error:  # whatever an implementation raises that isn't for traced arguments
            if function is lowered or lowered is None:
                raise UnsupportedError(
                    f"its implementation can't be traced: {type(error).__name__}: {error}"
                ) from error
            continue
        if not eqn.effects and not jax_equations.applies(closed.jaxpr, eqn):
            return closed
    raise LookupError(primitive.name)


def _called_on_host(eqn: JaxprEqn, function: Callable[..., object], ins: Sequence[ShapedArray]) -> JaxClosedJaxpr:
    """The program that calls an implementation with elements, when it runs."""
    outs = [struct(type_of(var.aval)) for var in eqn.outvars]

    def run(*args: jax.Array) -> Sequence[object]:
        return jax.tree.leaves(function(*args))

    return jax.make_jaxpr(lambda *args: jax.pure_callback(run, outs, *args))(*map(struct, ins))


def adopted(
    eqn: JaxprEqn, program: Jaxpr, outs: Sequence[ShapedArray], importing: Importing,
    rule: DerivativeRule | None = None,
) -> Adopted:  # fmt: skip
    """The primitive for an equation of JAX, by the program that implements it, and the rule of its derivative."""
    return Adopted(eqn.primitive.name, with_types(program, outs), JaxEquation(eqn, importing, rule))


@bounded(1024)
def _special(call: Adopted, nonzero: tuple[bool, ...]) -> Primitive:
    rule = call.equation.rule
    return call if rule is None else rule(call.equation.eqn, call.jaxpr, nonzero)


@bounded(1024)
def _derived(call: Adopted, nonzero: tuple[bool, ...]) -> Jaxpr:
    """Takes primals and nonzero tangents; returns the results, and a tangent for each that can have one."""
    ins, outs = call.jaxpr.in_avals, call.jaxpr.out_avals

    def run(*args: jax.Array) -> list[jax.Array]:
        primals, tangents = args[: len(ins)], args[len(ins) :]

        def moving(*given: jax.Array) -> list[jax.Array]:
            return call.equation(*_merged(nonzero, given, primals))

        chosen = [x for x, mark in zip(primals, nonzero, strict=True) if mark]
        found, derived = jax.jvp(moving, tuple(chosen), tuple(tangents))
        return [*found, *(t for t, aval in zip(derived, outs, strict=True) if has_tangent(aval))]

    types = [*ins, *(aval.tangent for aval, mark in zip(ins, nonzero, strict=True) if mark)]
    program = call.equation.imported(run, types)
    return with_types(program, [*outs, *(aval.tangent for aval in outs if has_tangent(aval))])


@bounded(1024)
def _mapped(call: Adopted, axis: BatchAxis, axes: tuple[int | None, ...]) -> tuple[Jaxpr, tuple[bool, ...]]:
    """What it is over a batch, and which results are mapped, along their first axis."""
    marks: list[bool] = []

    def one(*args: jax.Array) -> list[jax.Array]:
        outs = call.equation(*args)
        marks[:] = map(jax_equations.is_mapped, outs)
        return outs

    def run(out_axes: list[int | None] | int) -> Jaxpr:
        mapped = jax.vmap(one, in_axes=axes, out_axes=out_axes, axis_name=axis.name, axis_size=axis.size)
        return call.equation.imported(mapped, types)

    types = [aval if at is None else add_axis(aval, at, axis.size)
             for aval, at in zip(call.jaxpr.in_avals, axes, strict=True)]  # fmt: skip
    run(0)
    program = run([0 if mark else None for mark in marks])
    outs = [add_axis(aval, 0, axis.size) if mark else aval
            for aval, mark in zip(call.jaxpr.out_avals, marks, strict=True)]  # fmt: skip
    return with_types(program, outs), tuple(marks)


@bounded(1024)
def _transposed(call: Adopted, linear: tuple[bool, ...]) -> Jaxpr:
    """Takes the operands that it isn't linear in, then cotangents; returns those of the others."""
    ins, outs = call.jaxpr.in_avals, call.jaxpr.out_avals
    known = [aval for aval, mark in zip(ins, linear, strict=True) if not mark]
    moving = [aval for aval, mark in zip(ins, linear, strict=True) if mark]

    def run(*args: jax.Array) -> list[jax.Array]:
        def of_linear(*given: jax.Array) -> list[jax.Array]:
            found = call.equation(*_inserted(linear, given, args[: len(known)]))
            return [out for out, aval in zip(found, outs, strict=True) if has_tangent(aval)]

        return list(jax.linear_transpose(of_linear, *map(struct, moving))(list(args[len(known) :])))

    types = [*known, *(aval.tangent for aval in outs if has_tangent(aval))]
    return with_types(call.equation.imported(run, types), moving)


def _merged(marks: Sequence[bool], given: Sequence[jax.Array], all_values: Sequence[jax.Array]) -> list[jax.Array]:
    found = iter(given)
    return [next(found) if mark else value for mark, value in zip(marks, all_values, strict=True)]


def _inserted(marks: Sequence[bool], given: Sequence[jax.Array], others: Sequence[jax.Array]) -> list[jax.Array]:
    found, rest = iter(given), iter(others)
    return [next(found) if mark else next(rest) for mark in marks]


@TO_JAX.register(Adopted)
def _to_jax(primitive: Adopted, ctx: JaxContext, args: Args) -> Args:
    return list(primitive.equation(*args))
