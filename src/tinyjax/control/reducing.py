"""Reductions by any associative function: of axes, of windows, and of what is scattered to chosen elements.

Each is defined by other primitives, which gives all rules; XLA has operations of its own for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.contexts.watching import alike
from tinyjax.control.composite import Composite
from tinyjax.control.scan import Scan
from tinyjax.errors import ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, INT64
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.arithmetic import Max, Min
from tinyjax.primitives.bitwise import And, Or, Xor, logical_and, logical_or
from tinyjax.primitives.comparison import ge, lt
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.dynamic import dynamic_slice, dynamic_update_slice
from tinyjax.primitives.elementwise import Add, Elementwise, Mul, unmapped
from tinyjax.primitives.gather import ScatterAdd, Scattering
from tinyjax.primitives.reductions import ReduceAnd, ReduceMax, ReduceMin, ReduceOr, ReduceProd, ReduceXor
from tinyjax.primitives.scatter import ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import iota, reshape
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.sliding import Windowed, slide
from tinyjax.primitives.structure import (
    ReduceSum,
    Reduction,
    broadcast_in_dim,
    broadcast_scalar,
    check_axes,
    constant_like,
    full,
    permute,
    with_leading_axis,
)
from tinyjax.primitives.window_shapes import Padding, Sizes
from tinyjax.primitives.windows import GatherScatterMode, ScatterDimensionNumbers

V = TypeVar("V")

#: What reduces by one primitive alone.
_REDUCTIONS: Final[dict[type[Primitive], type[Reduction]]] = {
    Add: ReduceSum, Mul: ReduceProd, Max: ReduceMax, Min: ReduceMin, And: ReduceAnd, Or: ReduceOr, Xor: ReduceXor,
}  # fmt: skip
_SCATTERS: Final[dict[type[Primitive], type[Scattering]]] = {
    Add: ScatterAdd, Mul: ScatterMul, Max: ScatterMax, Min: ScatterMin,
}  # fmt: skip


def monoid(jaxpr: Jaxpr) -> Primitive | None:
    """The primitive that is all there is in a program of two scalars, if it is one that reductions are known of."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    applied = jaxpr.outvars == eqn.outvars and eqn.invars in (jaxpr.invars, jaxpr.invars[::-1])
    return eqn.primitive if applied and type(eqn.primitive) in _REDUCTIONS else None


def applied(ctx: Context[V], jaxpr: Jaxpr, args: Sequence[V]) -> list[V]:
    """A program of scalars, applied to the elements of arrays of one shape."""
    shape = ctx.aval(args[0]).shape
    if shape == () or all(isinstance(eqn.primitive, Elementwise) for eqn in jaxpr.eqns):
        return [broadcast_scalar(ctx, out, shape) for out in interpret(ctx, jaxpr, args)]
    axis = BatchAxis(math.prod(shape))
    flat = [Batched(reshape(ctx, x, (axis.size,)), 0) for x in args]
    found = interpret(alike(ctx, BatchContext(ctx, axis)), jaxpr, flat)
    rows = [with_leading_axis(ctx, out.value, out.axis, axis.size, ()) for out in found]
    return [reshape(ctx, row, shape) for row in rows]


def combine(ctx: Context[V], jaxpr: Jaxpr, left: Sequence[V], right: Sequence[V]) -> list[V]:
    """What a program makes of the elements of two groups of arrays: arrays of the same types."""
    outs = applied(ctx, jaxpr, [*left, *right])
    return [_typed(ctx, out, ctx.aval(x)) for out, x in zip(outs, left, strict=True)]


def _typed(ctx: Context[V], x: V, aval: ShapedArray) -> V:
    found = ctx.aval(x)
    if found.dtype == aval.dtype and found.weak_type == aval.weak_type:
        return x
    return convert(ctx, x, aval.dtype, aval.weak_type)


def _check(name: str, jaxpr: Jaxpr, avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    """The operands, without the initial values; a TypingError unless they fit each other and the program."""
    n = len(avals) // 2
    operands, initial = list(avals[:n]), avals[n:]
    if n == 0 or len(avals) % 2:
        raise TypingError(f"{name} takes operands and as many initial values, got {len(avals)}")
    for x, i in zip(operands, initial, strict=True):
        if i.shape != ():
            raise ShapeError(f"{name}: the initial value of operand {x} must be a scalar, got {i}")
        if i.dtype != x.dtype:
            raise TypingError(f"{name}: the initial value of operand {x} must have its dtype, got {i}")
        if x.shape != operands[0].shape:
            raise ShapeError(f"{name}: the operands must have one shape, got {operands[0]} and {x}")
    scalars = [array_type((), x.dtype) for x in operands]
    _check_program(name, "jaxpr", jaxpr, [*scalars, *scalars], scalars)
    return operands


def _check_program(name: str, what: str, jaxpr: Jaxpr, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]) -> None:
    for found, expected, side in ((jaxpr.in_avals, ins, "take"), (jaxpr.out_avals, outs, "return")):
        if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in expected]:
            raise TypingError(
                f"{name}: {what} must {side} ({', '.join(map(str, expected))}), but its types are "
                f"({', '.join(map(str, found))})"
            )


@final
@frozen
class Reduce(Composite):
    """Operands reduced together over `dimensions` by a program: of an element of each, and another of each. Then come
    as many initial values, which are combined with what was found; over no dimensions nothing is."""

    jaxpr: Jaxpr
    dimensions: tuple[int, ...]
    name: ClassVar[str] = "reduce"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        operands = _check(self.name, self.jaxpr, avals)
        check_axes(self.name, self.dimensions, operands[0].ndim)
        shape = tuple(size for i, size in enumerate(operands[0].shape) if i not in self.dimensions)
        pairs = zip(operands, avals[len(operands) :], strict=True)
        return tuple(array_type(shape, x.dtype, x.weak_type and i.weak_type) for x, i in pairs)

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        avals = self.type_of(*map(ctx.aval, args))
        return [_typed(ctx, out, aval) for out, aval in zip(self._reduced(ctx, args), avals, strict=True)]

    def _reduced(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        n = len(args) // 2
        xs, initial = args[:n], args[n:]
        whole = ctx.aval(xs[0]).shape
        kept = tuple(i for i in range(len(whole)) if i not in self.dimensions)
        shape = tuple(whole[i] for i in kept)
        if not self.dimensions:  # as XLA has it
            return xs
        starts = [_strong(ctx, broadcast_in_dim(ctx, i, shape, ())) for i in initial]
        if 0 in whole:
            return starts
        single = monoid(self.jaxpr)
        if single is not None:
            (found,) = ctx.bind(_REDUCTIONS[type(single)](self.dimensions), xs[0])
            return [_strong(ctx, out) for out in ctx.bind(single, starts[0], found)]
        size = math.prod(whole[i] for i in self.dimensions)
        rows: Sequence[V] = [
            reshape(ctx, permute(ctx, _strong(ctx, x), self.dimensions + kept), (size, *shape)) for x in xs
        ]
        while size > 1:
            half = size // 2
            left, right = ([slice_in_dim(ctx, x, start, 2 * half, 2, 0) for x in rows] for start in (0, 1))
            last = [slice_in_dim(ctx, x, 2 * half, size, 1, 0) for x in rows]
            pairs = combine(ctx, self.jaxpr, left, right)
            rows = (
                pairs if size == 2 * half else [concatenate(ctx, [x, y], 0) for x, y in zip(pairs, last, strict=True)]
            )
            size -= half
        return combine(ctx, self.jaxpr, starts, [reshape(ctx, x, shape) for x in rows])

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        n = len(args) // 2
        if any(at is not None for at in axes[n:]):
            return Composite.batch(self, ctx, axis, args, axes)
        xs = _leading(ctx, axis, args[:n], axes[:n])
        mapped = Reduce(self.jaxpr, tuple(i + 1 for i in self.dimensions))
        return ctx.bind(mapped, *xs, *args[n:]), [0] * n


def _strong(ctx: Context[V], x: V) -> V:
    return convert(ctx, x, ctx.aval(x).dtype) if ctx.aval(x).weak_type else x


def _leading(ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]) -> list[V]:
    """All operands with the mapped axis first."""
    found: list[V] = []
    for arg, at in zip(args, axes, strict=True):
        found.append(with_leading_axis(ctx, arg, at, axis.size, unmapped(ctx.aval(arg).shape, at)))
    return found


@final
@frozen
class ReduceWindow(Composite, Windowed):
    """Windows of several operands reduced together by a program: of an element of each, and another of each. Then come
    as many initial values, which are combined with each window once; padding is left out."""

    jaxpr: Jaxpr
    name: ClassVar[str] = "reduce_window"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        operands = _check(self.name, self.jaxpr, avals)
        shape = self.out_shape(operands[0])
        return tuple(array_type(shape, x.dtype) for x in operands)

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        n = len(args) // 2
        xs, initial = ([_strong(ctx, x) for x in group] for group in (args[:n], args[n:]))

        def joined(ctx: Context[V], left: Sequence[V], right: Sequence[V]) -> Sequence[V]:
            """Of elements and whether there are any: what is filled in is left out."""
            both = combine(ctx, self.jaxpr, left[:n], right[:n])
            if len(left) == n:
                return both
            first = [select(ctx, right[n], x, y) for x, y in zip(both, left[:n], strict=True)]
            found = [select(ctx, left[n], x, y) for x, y in zip(first, right[:n], strict=True)]
            return [*found, logical_or(ctx, left[n], right[n])]

        filled = any(low > 0 or high > 0 for low, high in self.padding) or any(step > 1 for step in self.base_dilation)
        marks = [array_type(shape, BOOL) for shape in ((), ctx.aval(xs[0]).shape)] if filled else []
        starts = [*initial, *(full(ctx, aval, False) for aval in marks[:1])]
        found = slide(ctx, self, [*xs, *(full(ctx, aval, True) for aval in marks[1:])], starts, joined)
        shape = ctx.aval(found[0]).shape
        wide = [broadcast_in_dim(ctx, i, shape, ()) for i in initial]
        together = combine(ctx, self.jaxpr, wide, found[:n])
        if not filled:
            return together
        return [select(ctx, found[n], x, y) for x, y in zip(together, wide, strict=True)]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        n = len(args) // 2
        if any(at is not None for at in axes[n:]):
            return Composite.batch(self, ctx, axis, args, axes)
        xs = _leading(ctx, axis, args[:n], axes[:n])
        return ctx.bind(ReduceWindow(*self.mapped(0), self.jaxpr), *xs, *args[n:]), [0] * n


@final
@frozen
class SelectAndScatter(Composite):
    """Of each window of the operand an element is chosen, and there an element of the source is combined with what is
    there already: at first the initial value, the third operand.

    `select_jaxpr` says of two elements whether the first one is chosen, `scatter_jaxpr` what becomes of two.
    """

    select_jaxpr: Jaxpr
    scatter_jaxpr: Jaxpr
    window_dimensions: Sizes
    window_strides: Sizes
    padding: Padding
    name: ClassVar[str] = "select_and_scatter"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if len(avals) != 3:
            raise TypingError(f"{self.name} takes an operand, a source and an initial value, got {len(avals)} operands")
        x, source, initial = avals
        scalar = array_type((), x.dtype)
        _check_program(self.name, "select_jaxpr", self.select_jaxpr, [scalar] * 2, [array_type((), BOOL)])
        _check_program(self.name, "scatter_jaxpr", self.scatter_jaxpr, [scalar] * 2, [scalar])
        shape = self._windows().out_shape(x)
        if initial.shape != () or {source.dtype, initial.dtype} != {x.dtype}:
            raise TypingError(f"{self.name}: operand {x}, source {source} and initial value {initial}, a scalar, must "
                              "have one dtype")  # fmt: skip
        if source.shape != shape:
            raise TypingError(f"{self.name}: source {source} needs an element for each window of {x}: {shape}")
        return (array_type(x.shape, x.dtype),)

    def _windows(self) -> ReduceWindow:
        ones = (1,) * len(self.window_dimensions)
        return ReduceWindow(self.window_dimensions, self.window_strides, self.padding, ones, ones, self.select_jaxpr)

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        x, source, initial = (_strong(ctx, arg) for arg in args)
        aval = ctx.aval(x)
        start = broadcast_in_dim(ctx, initial, aval.shape, ())
        single = monoid(self.scatter_jaxpr)
        if ctx.aval(source).size == 0:
            return [start]
        numbers = reshape(ctx, iota(ctx, INT64, (aval.size,), 0), aval.shape)
        nowhere = constant_like(ctx, numbers, -1)

        def chosen(ctx: Context[V], left: Sequence[V], right: Sequence[V]) -> Sequence[V]:
            """Padding isn't chosen."""
            (a, i), (b, j) = left, right
            (first,) = applied(ctx, self.select_jaxpr, [a, b])
            zero = constant_like(ctx, i, 0)
            first = logical_or(ctx, first, lt(ctx, j, zero))
            first = logical_and(ctx, first, ge(ctx, i, zero))
            return [select(ctx, first, a, b), select(ctx, first, i, j)]

        _, places = slide(ctx, self._windows(), (x, numbers), (initial, nowhere), chosen)
        count = ctx.aval(source).size
        updates = reshape(ctx, source, (count,))
        flat, places = reshape(ctx, start, (aval.size,)), reshape(ctx, places, (count,))
        scatter = None if single is None else _SCATTERS.get(type(single))
        if scatter is None:
            (found,) = ctx.bind(
                Scan(_one_by_one(self.scatter_jaxpr, aval.size), count, False, 0, 1), flat, places, updates
            )
        else:
            added = scatter(ScatterDimensionNumbers((), (0,), (0,)), GatherScatterMode.FILL_OR_DROP)
            (found,) = ctx.bind(added, flat, reshape(ctx, places, (count, 1)), updates)
        return [reshape(ctx, found, aval.shape)]


@remembered
def _one_by_one(jaxpr: Jaxpr, size: int) -> Jaxpr:
    """What becomes of a vector of this size when a program combines its element at a place with a value; nothing does
    where the place is negative."""
    scalar = jaxpr.in_avals[0]

    def run(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
        vector, place, value = ins
        before = reshape(ctx, dynamic_slice(ctx, vector, (1,), place) if size > 1 else vector, ())
        (after,) = combine(ctx, jaxpr, [before], [value])
        after = select(ctx, ge(ctx, place, constant_like(ctx, place, 0)), after, before)
        return [dynamic_update_slice(ctx, vector, reshape(ctx, after, (1,)), place)]

    avals = [array_type((size,), scalar.dtype), array_type((), INT64), array_type((), scalar.dtype)]
    return stage(avals, run)
