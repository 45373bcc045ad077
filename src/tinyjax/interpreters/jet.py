"""Taylor mode: values are truncated power series, so that derivatives of any order are found together.

`jet_rules` has rules for the usual primitives. For every other one, the derivative of a series is found by its `jvp`
rule on series of one order less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any, Self, TypeAlias, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.arrays.elementwise import convert
from tinyjax.control.custom_batching import CustomVmap
from tinyjax.control.custom_derivatives import CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.implicit import Solving
from tinyjax.control.linear_call import LinearCall
from tinyjax.errors import InputError
from tinyjax.interpreters.base import RuleContext, Rules, overridden, register_all, rule_table
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.running import stage_call
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, FLOAT0, FLOAT64
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive, Zero
from tinyjax.ir.tangents import has_tangent
from tinyjax.primitives.elementwise import scale
from tinyjax.primitives.structure import broadcast_scalar, full
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import Tracer
from tinyjax.tracing.frames import OpenFrame


@final
@frozen
class Series:
    """A power series in t: the value at 0, then the coefficients of t, t², …. None: that coefficient is zero.

    Coefficients aren't multiplied by factorials.
    """

    primal: Hidden
    terms: tuple[Hidden | None, ...]

    @property
    def coefficients(self) -> tuple[Hidden | None, ...]:
        return (self.primal, *self.terms)

    @property
    def constant(self) -> bool:
        """Whether all terms are known to be zero."""
        return all(term is None for term in self.terms)


#: Which of the terms aren't known to be zero.
Mask: TypeAlias = tuple[bool, ...]
JetRules: TypeAlias = Rules[Series, Mask]
JET_RULES: JetRules = rule_table("Taylor", name="tinyjax.interpreters.JET_RULES")


@final
class JetContext(RuleContext[Series, Mask]):
    """Computes with series of one order. Where all operands are constant, applies the primitive itself."""

    __slots__ = ("order",)
    rules = JET_RULES

    def __init__(self, parent: Context[Hidden], order: int) -> None:
        super().__init__(parent)
        self.order: int = order

    @override
    def over(self, parent: Context[Hidden]) -> Self:
        return type(self)(parent, self.order)

    @override
    def bind(self, primitive: Primitive, *args: Series) -> tuple[Series, ...]:
        if all(arg.constant for arg in args):
            return tuple(map(self.pure, self.parent.bind(primitive, *[arg.primal for arg in args])))
        own = overridden(self.rules, type(primitive), "jvp")
        outs = by_jvp(primitive, self, args) if own else super().bind(primitive, *args)
        return tuple(Series(out.primal, tuple(self._filled(term, out) for term in out.terms)) for out in outs)

    def _filled(self, term: Hidden | None, out: Series) -> Hidden | None:
        """A term of the shape of the value: those of a scalar operand are scalars."""
        return None if term is None else broadcast_scalar(self.parent, term, self.parent.aval(out.primal).shape)

    @override
    def pure(self, value: Hidden) -> Series:
        return Series(value, (None,) * self.order)

    @override
    def primal(self, value: Series) -> Hidden:
        return value.primal

    @override
    def flatten(self, value: Series) -> tuple[Sequence[Hidden], Mask]:
        kept = [term for term in value.terms if term is not None]
        return [value.primal, *kept], tuple(term is not None for term in value.terms)

    @override
    def unflatten(self, structure: Mask, parts: Sequence[Hidden]) -> Series:
        primal, *kept = parts
        rest = iter(kept)
        return Series(primal, tuple(next(rest) if mark else None for mark in structure))

    @override
    def join(self, first: Mask, second: Mask) -> Mask:
        return tuple(a or b for a, b in zip(first, second, strict=True))

    @override
    def widen(self, value: Series, structure: Mask) -> Series:
        marked = zip(value.terms, structure, strict=True)
        return Series(value.primal, tuple(self.zero(value) if term is None and mark else term for term, mark in marked))

    def zero(self, value: Series) -> Hidden:
        """A coefficient that is zero: of discrete values a float, as in JAX."""
        aval = self.parent.aval(value.primal)
        return full(self.parent, aval.tangent if has_tangent(aval) else ShapedArray(aval.shape, FLOAT64), 0)


@JET_RULES.register(Primitive)
def by_jvp(primitive: Primitive, ctx: RuleContext[Series, Mask], args: Sequence[Series]) -> Sequence[Series]:
    """If y = f(x), then y' = df(x) x'. On series of order n - 1, that gives y up to order n."""
    parent, order = ctx.parent, len(args[0].terms)
    lower = JetContext(parent, order - 1)
    primals = [Series(arg.primal, arg.terms[:-1]) for arg in args]
    tangents = [derivative(parent, arg) for arg in args]
    outs, found = contracts.jvp(primitive, lower, primals, tangents)
    results: list[Series] = []
    for out, tangent in zip(outs, found, strict=True):
        last = None if isinstance(tangent, Zero) else tangent.coefficients[-1]
        results.append(Series(out.primal, (*out.terms, None if last is None else scale(parent, last, 1 / order))))
    return results


# What a function with a derivative of its own computes isn't what its derivative is that of.
register_all(JET_RULES, by_jvp, (CustomJvp, CustomVjp, MappedCustom, Solving, LinearCall, CustomVmap))


def derivative(parent: Context[Hidden], x: Series) -> Series | Zero:
    """The derivative of a series, of one order less."""
    aval = parent.aval(x.primal).tangent
    if x.constant:
        return Zero(aval)
    first, *rest = (None if term is None else scale(parent, term, k) for k, term in enumerate(x.terms, 1))
    return Series(full(parent, aval, 0) if first is None else first, tuple(rest))


def jet(
    fun: Callable[..., object],
    primals: Sequence[Any],  # the user's arrays
    series: Sequence[Sequence[Any]],
    *,
    factorial_scaled: bool = True,
) -> tuple[Any, Any]:
    """The value of `fun` along a curve, and its derivatives with respect to the curve's parameter.

    `series[i]` are the derivatives at 0, of order 1, 2, …, of the curve that `primals[i]` is on. Returns the results,
    and their tree with a list of the derivatives of each result in its place, of the same orders; those of integers and
    bools are zeros of float64. With
    `factorial_scaled=False` all are coefficients of power series: derivatives divided by factorials. Primals that are
    integers or bools stay as they are: their series are zeros, of any dtype; those of bools may be anything. Signature:
    JAX's jax.experimental.jet.

    >>> import tinyjax.numpy as tnp
    >>> jet(lambda x: tnp.exp(2.0 * x), (0.0,), ((1.0, 0.0, 0.0),))
    (Array(1., dtype=float64, weak_type=True), [Array(2., dtype=float64, weak_type=True), Array(4., dtype=float64, weak_type=True), Array(8., dtype=float64, weak_type=True)])
    """  # noqa: E501 (what a doctest prints is one line)
    orders = set(map(len, series))
    if len(series) != len(primals) or len(orders) > 1:
        raise InputError(
            f"jet: there must be one series for each of the {len(primals)} primals, all of one length; "
            f"got lengths {[len(terms) for terms in series]}"
        )
    order = orders.pop() if orders else 0
    call = stage_call("jet", fun, primals, {})
    if len(call.arrays) != len(primals):
        raise InputError(
            "jet: the primals must be arrays. Take trees apart, and put them together within the function."
        )
    named = [(x, term, f"series[{i}][{k}]") for i, x in enumerate(call.arrays) for k, term in enumerate(series[i])]
    terms = [_term(x, term, where) for x, term, where in named if has_tangent(x.aval) or _refused(x, term, where)]
    scales = [1 / factorial(k + 1) if factorial_scaled else 1.0 for k in range(order)]

    def run(frame: OpenFrame[Hidden], inputs: list[Hidden], coefficients: list[Hidden]) -> tuple[Any, Any]:
        parent = frame.context
        context = JetContext(parent, order)
        n = len(inputs) - len(primals)
        args = [context.pure(value) for value in inputs[:n]]
        given = iter(coefficients)
        for x in inputs[n:]:
            moves = has_tangent(parent.aval(x))
            args.append(Series(x, tuple(_scaled(parent, next(given), s) if moves else None for s in scales)))
        outs = interpret(context, call.jaxpr, args)
        found = [
            [
                frame.wrap(context.zero(out) if c is None else _scaled(parent, c, 1 / s))
                for c, s in zip(out.terms, scales, strict=True)
            ]
            for out in outs
        ]
        return call.results([frame.wrap(out.primal) for out in outs]), call.results(found)

    return call.run(terms, run)


def _scaled(parent: Context[Hidden], x: Hidden, factor: float) -> Hidden:
    return x if factor == 1.0 else scale(parent, x, factor)


def _term(x: Array, term: object, where: str) -> Array:
    """A term of a series of x: it must have x's tangent type; weak scalars take the dtype."""
    array, expected = as_array(term), x.aval.tangent
    if array.aval.weak_type and array.aval.dtype != expected.dtype:
        array = convert(array, expected.dtype)
    if not array.aval.matches(expected):
        raise InputError(f"jet: {where} must have type {expected}, that of its primal; got {array.aval}")
    return array


def _refused(x: Array, term: object, where: str) -> bool:
    """False for a term of a series of integers or bools, which stay as they are; an error if it says that they move."""
    array, shape = as_array(term), x.aval.shape
    if array.aval.shape != shape:
        raise InputError(f"jet: {where} must have shape {shape}, that of its primal; got {array.aval}")
    if x.aval.dtype == BOOL or array.aval.dtype == FLOAT0 or isinstance(array, Tracer) or not np.any(np.asarray(array)):
        return False
    raise InputError(f"jet: {where} must be 0, as its primal is of integers: convert that to floats; got {array.aval}")
