"""Derivatives of formulas with loops, by computing with pairs: of a number, and of its tangent where it has one.

`contexts.jvp` does the same for programs. Values of primitives lie lower than contexts; their loops are no programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar, final

from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOATS
from tinyjax.ir.primitive import Primitive, Zero
from tinyjax.ir.program import Literal
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.formulas import Formula, Loop, Number, Numbers
from tinyjax.primitives.structure import instantiate

V = TypeVar("V")


@final
class _Pair(NamedTuple, Generic[V]):
    value: V
    tangent: V | Zero


@final
class _Pairs(Context[_Pair[V]]):
    """Applies the `jvp` of primitives on another context."""

    __slots__ = ("parent",)

    def __init__(self, parent: Context[V]) -> None:
        self.parent: Context[V] = parent

    @override
    def bind(self, primitive: Primitive, *args: _Pair[V]) -> tuple[_Pair[V], ...]:
        values, tangents = [arg.value for arg in args], [arg.tangent for arg in args]
        if all(isinstance(tangent, Zero) for tangent in tangents):
            return tuple(map(self.still, self.parent.bind(primitive, *values)))
        return tuple(map(_Pair, *primitive.jvp(self.parent, values, tangents)))

    @override
    def constant(self, value: ConcreteValue | Literal) -> _Pair[V]:
        return self.still(self.parent.constant(value))

    @override
    def aval(self, value: _Pair[V]) -> ShapedArray:
        return self.parent.aval(value.value)

    def still(self, value: V) -> _Pair[V]:
        """A value without a tangent."""
        return _Pair(value, Zero(self.parent.aval(value).tangent))


def slope_in_first(formula: Formula) -> Formula:
    """The derivative of a formula in its first number.

    A loop ends when the numbers of the formula itself don't change any more.
    """

    def slope(loop: Loop[V], *args: Number[V]) -> Number[V]:
        first, *rest = args
        pairs = _Pairs(first.ctx)
        moved = Number(pairs, _Pair(first.value, first.like(1).value))
        found = formula(_with_tangents(loop), moved, *[Number(pairs, pairs.still(x.value)) for x in rest])
        return Number(first.ctx, instantiate(first.ctx, found.value.tangent))

    return slope


def _with_tangents(loop: Loop[V]) -> Loop[_Pair[V]]:
    """A loop of pairs, of a loop that takes their numbers, and then the tangents of those that can have one."""

    def run(
        carry: Numbers[_Pair[V]],
        constants: Numbers[_Pair[V]],
        unfinished: Callable[[Numbers[_Pair[V]]], Number[_Pair[V]]],
        step: Callable[[Numbers[_Pair[V]], Numbers[_Pair[V]]], Numbers[_Pair[V]]],
    ) -> Numbers[_Pair[V]]:
        n, m = len(carry), len(constants)
        ctx = _parent(carry)
        found = loop(
            _apart(ctx, carry),
            _apart(ctx, constants),
            lambda now: Number(now[0].ctx, unfinished(_together(now, n)).value.value),
            lambda now, fixed: _apart(now[0].ctx, step(_together(now, n), _together(fixed, m))),
        )
        return _together(found, n)

    return run


def _parent(numbers: Numbers[_Pair[V]]) -> Context[V]:
    ctx = numbers[0].ctx
    if not isinstance(ctx, _Pairs):
        raise TypeError("pairs are computed on their context")
    return ctx.parent


def _smooth(ctx: Context[V], value: V) -> bool:
    return ctx.aval(value).dtype in FLOATS


def _apart(ctx: Context[V], numbers: Numbers[_Pair[V]]) -> Numbers[V]:
    pairs = [number.value for number in numbers]
    tangents = [instantiate(ctx, pair.tangent) for pair in pairs if _smooth(ctx, pair.value)]
    return [Number(ctx, value) for value in (*[pair.value for pair in pairs], *tangents)]


def _together(numbers: Numbers[V], count: int) -> Numbers[_Pair[V]]:
    ctx = numbers[0].ctx
    pairs = _Pairs(ctx)
    values = [number.value for number in numbers]
    tangents = iter(values[count:])
    return [Number(pairs, _Pair(x, next(tangents)) if _smooth(ctx, x) else pairs.still(x)) for x in values[:count]]
