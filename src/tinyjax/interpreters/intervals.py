"""Interval arithmetic: values are lower and upper bounds of every element, rounded outwards.

Truth values are intervals too: from False to True where it isn't known. `interval_rules` has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import InputError, TreeError, UnsupportedError
from tinyjax.interpreters.base import RuleContext, Rules, rule_table
from tinyjax.interpreters.hidden import Hidden
from tinyjax.interpreters.running import stage_call
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, FLOAT64, FLOATS, DType
from tinyjax.ir.effects import NO_EFFECTS
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import result_types
from tinyjax.numpy.types import finfo
from tinyjax.primitives.arithmetic import abs_, max_, min_
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.comparison import ge, le, ne
from tinyjax.primitives.conversion import convert, copy, stop_gradient
from tinyjax.primitives.elementwise import add, scale, sub
from tinyjax.primitives.reductions import highest, lowest
from tinyjax.primitives.rounding import is_finite
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import broadcast_scalar, constant_like
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.frames import OpenFrame

Parent: TypeAlias = Context[Hidden]


@final
@frozen
class Interval:
    """All arrays between two. If the bounds are the same value, the array is known: a point."""

    lower: Hidden
    upper: Hidden

    @property
    def point(self) -> bool:
        return self.lower is self.upper


IntervalRules: TypeAlias = Rules[Interval, bool]
INTERVAL_RULES: IntervalRules = rule_table("Interval", name="tinyjax.interpreters.INTERVAL_RULES")


@final
class IntervalContext(RuleContext[Interval, bool]):
    """Computes bounds. The structure of a value is whether it is a point."""

    __slots__ = ()
    rules = INTERVAL_RULES

    @override
    def bind(self, primitive: Primitive, *args: Interval) -> tuple[Interval, ...]:
        if not self.covers(primitive, [self.aval(arg) for arg in args]) and type(primitive) in INTERVAL_RULES:
            raise UnsupportedError(
                f"bounds: {primitive.name} is applied to complex numbers, which have no order, so there are no bounds. "
                "Compute with their real and imaginary parts as two arrays."
            )
        points = all(arg.point for arg in args)
        if points and not primitive.applied_programs:
            types = result_types(primitive, [self.aval(arg) for arg in args])
            exact = not any(aval.dtype in FLOATS or aval.dtype in COMPLEXES for aval in types)
            if exact or not args or primitive.effects != NO_EFFECTS:  # nothing is rounded
                return tuple(map(self.pure, self.parent.bind(primitive, *[arg.lower for arg in args])))
        return super().bind(primitive, *args)

    @override
    @classmethod
    def covers(cls, primitive: Primitive, avals: Sequence[ShapedArray]) -> bool:
        return super().covers(primitive, avals) and not any(aval.dtype in COMPLEXES for aval in avals)

    @override
    def flatten(self, value: Interval) -> tuple[Sequence[Hidden], bool]:
        return ([value.lower] if value.point else [value.lower, value.upper]), value.point

    @override
    def unflatten(self, structure: bool, parts: Sequence[Hidden]) -> Interval:
        return Interval(parts[0], parts[0 if structure else 1])

    @override
    def pure(self, value: Hidden) -> Interval:
        return Interval(value, value)

    @override
    def primal(self, value: Interval) -> Hidden:
        return value.lower

    @override
    def join(self, first: bool, second: bool) -> bool:
        return first and second

    @override
    def widen(self, value: Interval, structure: bool) -> Interval:
        return Interval(value.lower, copy(self.parent, value.upper))  # two values, though they are equal


# Rounding outwards.


def resolution(dtype: DType) -> tuple[float, float]:
    """The relative distance of neighbouring numbers, and the smallest normal one."""
    info = finfo(dtype)
    return float(info.eps), float(info.tiny)


def slack(p: Parent, magnitude: Hidden, ulps: float) -> Hidden:
    """At least so many units in the last place of numbers up to this magnitude. It has no derivative."""
    eps, tiny = resolution(p.aval(magnitude).dtype)
    margin = add(p, scale(p, magnitude, eps * ulps), constant_like(p, magnitude, tiny))
    return stop_gradient(p, margin)


def outward(p: Parent, lower: Hidden, upper: Hidden, ulps: float = 1) -> Interval:
    """The bounds further apart, by as much as they may have been rounded. Integers aren't rounded."""
    if p.aval(lower).dtype not in FLOATS:
        return Interval(lower, upper)
    return widened(p, lower, upper, slack(p, abs_(p, lower), ulps), slack(p, abs_(p, upper), ulps))


def widened(p: Parent, lower: Hidden, upper: Hidden, below: Hidden, above: Hidden) -> Interval:
    """The bounds moved apart by these amounts. What overflowed is finite, perhaps; nan says nothing."""
    dtype = p.aval(lower).dtype
    largest = float(finfo(dtype).max)
    low = select(p, is_finite(p, lower), sub(p, lower, below), min_(p, lower, constant_like(p, lower, largest)))
    high = select(p, is_finite(p, upper), add(p, upper, above), max_(p, upper, constant_like(p, upper, -largest)))
    return Interval(
        replace_nan(p, low, constant_like(p, low, lowest(dtype))),
        replace_nan(p, high, constant_like(p, high, highest(dtype))),
    )


# Integers, which overflow where real numbers would leave the range.


def real(p: Parent, x: Interval) -> Interval:
    """The bounds as real numbers."""
    if p.aval(x.lower).dtype in FLOATS:
        return x
    lower, upper = (convert(p, end, FLOAT64, False) for end in (x.lower, x.upper))
    return outward(p, lower, upper) if p.aval(x.lower).dtype.itemsize == FLOAT64.itemsize else Interval(lower, upper)


def unless_overflow(p: Parent, found: Interval, exact: Interval) -> Interval:
    """What was found for integers, where bounds of the exact results are in the range; elsewhere, all of the range."""
    dtype = p.aval(found.lower).dtype
    # Exact results are whole numbers. Those of 64 bits have none between that are floating-point numbers.
    low, high = float(lowest(dtype).real) - 0.5, float(highest(dtype).real) + 0.5
    if dtype.itemsize == FLOAT64.itemsize:
        low, high = (math.nextafter(end, 0.0) for end in (low, high))
    fits = logical_and(
        p,
        ge(p, exact.lower, constant_like(p, exact.lower, low)),
        le(p, exact.upper, constant_like(p, exact.upper, high)),
    )
    return chosen(p, fits, found, whole(p, found))


def whole(p: Parent, like: Interval) -> Interval:
    """All numbers of a dtype."""
    aval = p.aval(like.lower)
    ends = (constant_like(p, like.lower, end(aval.dtype)) for end in (lowest, highest))
    return Interval(*[broadcast_scalar(p, end, aval.shape) for end in ends])


def chosen(p: Parent, which: Hidden, on_true: Interval, on_false: Interval) -> Interval:
    """One or the other, element by element."""
    return Interval(
        select(p, which, on_true.lower, on_false.lower),
        select(p, which, on_true.upper, on_false.upper),
    )


def replace_nan(p: Parent, x: Hidden, value: Hidden) -> Hidden:
    return select(p, ne(p, x, x), value, x)


def bounds(fun: Callable[..., object]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Bounds of the results of `fun`, for all arguments between two.

    `bounds(fun)(lower, upper)` returns the lower and the upper bounds of the results. `lower` and `upper` are the
    argument, or a tuple of the arguments. Every result that `fun` can have in between lies within the bounds, computed
    exactly or in floating point; where it would be nan, nothing is said. Integers that may overflow may be any
    number of their dtype. Bounds may be wider than they need to be, as a value that is used twice is taken for two that
    are independent.

    >>> import tinyjax.numpy as tnp
    >>> lower, upper = bounds(lambda x: tnp.sin(x) ** 2)(1.0, 2.0)
    >>> print(f"{lower:.6f} {upper:.6f}")
    0.708073 1.000000
    """

    @filtered
    def bounded(lower: Any, upper: Any) -> tuple[Any, Any]:  # the user's arguments
        args = lower if isinstance(lower, tuple) else (lower,)
        call = stage_call("bounds", fun, args, {})
        highs, treedef = tree.flatten(((upper if isinstance(upper, tuple) else (upper,)), {}))
        if treedef != call.treedef:
            raise TreeError(
                f"bounds: the lower bounds have the tree {tree.shown(call.treedef)}, "
                f"the upper ones {tree.shown(treedef)}"
            )
        uppers = list(map(as_array, highs))
        for low, high in zip(call.arrays, uppers, strict=True):
            if not low.aval.matches(high.aval):
                raise InputError(f"bounds: lower and upper bounds must have one type, got {low.aval} and {high.aval}")

        def run(frame: OpenFrame[Hidden], inputs: list[Hidden], others: list[Hidden]) -> tuple[Any, Any]:
            ctx = IntervalContext(frame.context)
            n = len(inputs) - len(others)
            ins = [*map(ctx.pure, inputs[:n]), *map(Interval, inputs[n:], others)]
            outs = interpret(ctx, call.jaxpr, ins)
            return (
                call.results([frame.wrap(out.lower) for out in outs]),
                call.results([frame.wrap(out.upper) for out in outs]),
            )

        return call.run(uppers, run)

    return bounded
