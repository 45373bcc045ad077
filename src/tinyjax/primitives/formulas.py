"""Formulas as they are written, for values of any context: numbers with operators; and loops of them on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar, final

import numpy as np
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Literal
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.arithmetic import div
from tinyjax.primitives.bitwise import logical_and, logical_not, logical_or
from tinyjax.primitives.comparison import eq, ge, gt, le, lt
from tinyjax.primitives.elementwise import OneOperand, TwoOperands, add, mul, neg, sub
from tinyjax.primitives.numpy_values import QUIET
from tinyjax.primitives.reductions import reduce_or
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import constant_like, full

V = TypeVar("V")


@final
class Number(Generic[V]):
    """A value with the context that it is computed on. Operators take numbers of that context, and Python's."""

    __slots__ = ("ctx", "value")

    def __init__(self, ctx: Context[V], value: V) -> None:
        self.ctx: Context[V] = ctx
        self.value: V = value

    def of(self, function: OneOperand) -> Number[V]:
        """A function of this number."""
        return Number(self.ctx, function(self.ctx, self.value))

    def like(self, value: float) -> Number[V]:
        """An array of one number, of this shape and dtype."""
        return Number(self.ctx, full(self.ctx, self.ctx.aval(self.value), value))

    def number(self, value: float) -> Number[V]:
        """One number of this dtype. Arithmetic repeats it to the shape of the other operand."""
        return Number(self.ctx, constant_like(self.ctx, self.value, value))

    def _with(self, function: TwoOperands, other: Number[V] | float, *, turned: bool = False) -> Number[V]:
        y = other.value if isinstance(other, Number) else constant_like(self.ctx, self.value, other)
        pair = (y, self.value) if turned else (self.value, y)
        return Number(self.ctx, function(self.ctx, *pair))

    def __add__(self, other: Number[V] | float) -> Number[V]:
        return self._with(add, other)

    def __sub__(self, other: Number[V] | float) -> Number[V]:
        return self._with(sub, other)

    def __mul__(self, other: Number[V] | float) -> Number[V]:
        return self._with(mul, other)

    def __truediv__(self, other: Number[V] | float) -> Number[V]:
        return self._with(div, other)

    def __rsub__(self, other: float) -> Number[V]:
        return self._with(sub, other, turned=True)

    def __rtruediv__(self, other: float) -> Number[V]:
        return self._with(div, other, turned=True)

    def __neg__(self) -> Number[V]:
        return self.of(neg)

    def __lt__(self, other: Number[V] | float) -> Number[V]:
        return self._with(lt, other)

    def __le__(self, other: Number[V] | float) -> Number[V]:
        return self._with(le, other)

    def __gt__(self, other: Number[V] | float) -> Number[V]:
        return self._with(gt, other)

    def __ge__(self, other: Number[V] | float) -> Number[V]:
        return self._with(ge, other)

    def equals(self, other: Number[V] | float) -> Number[V]:
        """Where the two are equal. (`==` is for Python's own use of these objects.)"""
        return self._with(eq, other)

    def is_nan(self) -> Number[V]:
        """Where it is no number."""
        return self.equals(self).of(logical_not)

    def __and__(self, other: Number[V]) -> Number[V]:
        return self._with(logical_and, other)

    def __or__(self, other: Number[V]) -> Number[V]:
        return self._with(logical_or, other)

    def __invert__(self) -> Number[V]:
        return self.of(logical_not)

    def where(self, on_true: Number[V], on_false: Number[V]) -> Number[V]:
        """One number where this is true, the other elsewhere."""
        return Number(self.ctx, select(self.ctx, self.value, on_true.value, on_false.value))

    def any(self) -> Number[V]:
        """Whether this is true anywhere."""
        axes = tuple(range(self.ctx.aval(self.value).ndim))
        return Number(self.ctx, reduce_or(self.ctx, self.value, axes)) if axes else self


Numbers: TypeAlias = Sequence[Number[V]]


class Loop(Protocol[V]):
    """What repeats a step as long as it has to: `carry` is what changes from one to the next, and `constants` what the
    step reads besides."""

    def __call__(
        self,
        carry: Numbers[V],
        constants: Numbers[V],
        unfinished: Callable[[Numbers[V]], Number[V]],
        step: Callable[[Numbers[V], Numbers[V]], Numbers[V]],
    ) -> Numbers[V]: ...


@final
class _Host(Context[HostArray]):
    """Computes with NumPy's arrays as they are."""

    __slots__ = ()

    @override
    def bind(self, primitive: Primitive, *args: HostArray) -> tuple[HostArray, ...]:
        return primitive.evaluate(*args)

    @override
    def constant(self, value: ConcreteValue | Literal) -> HostArray:
        return np.asarray(value.data if isinstance(value, ConcreteValue) else value.value, value.aval.dtype)

    @override
    def aval(self, value: HostArray) -> ShapedArray:
        return array_type(value.shape, value.dtype)


def _host_loop(
    carry: Numbers[HostArray],
    constants: Numbers[HostArray],
    unfinished: Callable[[Numbers[HostArray]], Number[HostArray]],
    step: Callable[[Numbers[HostArray], Numbers[HostArray]], Numbers[HostArray]],
) -> Numbers[HostArray]:
    while unfinished(carry).value:
        carry = step(carry, constants)
    return carry


class Formula(Protocol):
    """A function of numbers that may need loops."""

    def __call__(self, loop: Loop[V], *args: Number[V]) -> Number[V]: ...


def on_host(formula: Formula) -> Callable[..., HostArray]:
    """The formula as a function of NumPy's arrays, which are repeated to one shape."""

    def apply(*args: HostArray) -> HostArray:
        numbers = [Number(_Host(), np.asarray(arg)) for arg in np.broadcast_arrays(*args)]
        return np.asarray(QUIET.copy().run(formula, _host_loop, *numbers).value)

    return apply
