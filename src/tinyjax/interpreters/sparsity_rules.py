"""How the elements of a result depend on those of the operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from attrs import evolve

from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.control.callbacks import Callback
from tinyjax.control.cond import Cond
from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.control.scan import Scan
from tinyjax.interpreters.base import RuleContext, register_all
from tinyjax.interpreters.sparsity import EVALUATION, SPARSITY_RULES, Pattern, anywhere, each_spread
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Primitive, Zero
from tinyjax.ir.result_types import result_types
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.annotations import OptimizationBarrier
from tinyjax.primitives.arithmetic import IntegerPow
from tinyjax.primitives.checks import Check
from tinyjax.primitives.collectives import AxisIndex, ReducingCollective
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.contractions import Bilinear
from tinyjax.primitives.cumulative import CumSum, Cumulative
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.elementwise import Elementwise, LinearUnary, Mul, Stepwise
from tinyjax.primitives.fourier import Fft
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering
from tinyjax.primitives.hidden_state import RngUniform
from tinyjax.primitives.matrices import OfMatrices
from tinyjax.primitives.platforms import PlatformIndex
from tinyjax.primitives.reduce_window import ReduceWindowSum, WindowReduction
from tinyjax.primitives.reductions import Position
from tinyjax.primitives.selection import SelectN
from tinyjax.primitives.shaping import Iota
from tinyjax.primitives.sinks import DceSink
from tinyjax.primitives.slicing import Concatenate, Pad
from tinyjax.primitives.sliding import Windowed
from tinyjax.primitives.sorting import Sort, TopK
from tinyjax.primitives.stacking import Stack
from tinyjax.primitives.structure import Linear, ReduceSum, Reduction
from tinyjax.primitives.threefry import Discrete
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd

Ctx: TypeAlias = RuleContext[Pattern, Pattern]


def _types(primitive: Primitive, args: Sequence[Pattern]) -> tuple[ShapedArray, ...]:
    return result_types(primitive, [arg.aval for arg in args])


def _elementwise(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    return [each_spread(_types(primitive, args)[0], args)]


def _nowhere(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    return [Pattern(aval, np.zeros((aval.size, _columns(args)), np.bool_)) for aval in _types(primitive, args)]


def _columns(args: Sequence[Pattern]) -> int:
    return int(args[0].depends.shape[1])


def _linear(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    """Linear in the numbers; the positions and selectors among the operands must be known. The dependence on each input
    is then the tangent for a 1 in each place that depends on it: a batch of tangents, found by the primitive's rule."""
    if any(arg.value is None and not has_tangent(arg.aval) for arg in args):
        return anywhere(primitive, ctx, args)
    axis = BatchAxis(_columns(args))
    batch = BatchContext(EVALUATION, axis)
    primals = [Batched(_elements(arg), None) for arg in args]
    tangents = [Zero(arg.aval.tangent) if arg.constant else Batched(_tangents(arg), 0) for arg in args]
    outs, found = contracts.jvp(primitive, batch, primals, tangents)
    results: list[Pattern] = []
    for out, tangent in zip(outs, found, strict=True):
        aval = batch.aval(out)
        depends = np.zeros((aval.size, axis.size), np.bool_)
        if not isinstance(tangent, Zero):
            array = np.asarray(tangent.value)
            at = tangent.axis
            rows = np.broadcast_to(array, (axis.size, *array.shape)) if at is None else np.moveaxis(array, at, 0)
            depends = np.asarray(rows.reshape(axis.size, aval.size).T != 0)
        results.append(Pattern(aval, depends))
    return results


def _elements(arg: Pattern) -> ConcreteValue:
    """The elements, or zeros in their place."""
    return ConcreteValue(np.zeros(arg.aval.shape, arg.aval.dtype), arg.aval) if arg.value is None else arg.value


def _tangents(arg: Pattern) -> ConcreteValue:
    aval = arg.aval.of_shape((arg.depends.shape[1], *arg.aval.shape))
    return ConcreteValue(arg.depends.T.reshape(aval.shape).astype(aval.dtype), aval)


def _transformed(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    """Each element on all along the axes that are transformed: as far as no number cancels another."""
    (x,) = args
    if not isinstance(primitive, Fft):
        return anywhere(primitive, ctx, args)
    (out,) = _types(primitive, args)
    rows = math.prod(x.aval.shape[: x.aval.ndim - len(primitive.fft_lengths)])
    if not x.aval.size:
        return _nowhere(primitive, ctx, args)
    each = x.depends.reshape(rows, x.aval.size // rows, -1).any(1)
    return [Pattern(out, np.repeat(each, out.size // rows, axis=0))]


def _of_matrices(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    """Each element on all of its matrices, but integers, which tell how rows are exchanged, on nothing."""
    assert isinstance(primitive, OfMatrices)
    outs = _types(primitive, args)
    rows = math.prod(args[0].aval.shape[: args[0].aval.ndim - primitive.ranks[0]])
    each = np.zeros((rows, args[0].depends.shape[1]), np.bool_)
    for arg in args:
        if arg.aval.size:
            each |= arg.depends.reshape(rows, arg.aval.size // rows, -1).any(1)
    found = [np.repeat(each, out.size // rows if rows else 0, axis=0) for out in outs]
    return [
        Pattern(out, depends if has_tangent(out) else np.zeros_like(depends))
        for out, depends in zip(outs, found, strict=True)
    ]


def _scattered(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    """As if the updates were added: what is updated depends on the updates, and on what was there."""
    if not isinstance(primitive, Scattering):
        return anywhere(primitive, ctx, args)
    adding = ScatterAdd(
        primitive.dimension_numbers, primitive.mode, primitive.indices_are_sorted, primitive.unique_indices
    )
    return _linear(adding, ctx, args)


def _bilinear(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    """Linear in each operand, where the other one isn't known to be zero."""
    x, y = args
    (first,) = _linear(primitive, ctx, [evolve(x, value=None), _ones(ctx, y)])
    (second,) = _linear(primitive, ctx, [_ones(ctx, x), evolve(y, value=None)])
    return [Pattern(first.aval, first.depends | second.depends)]


def _ones(ctx: Ctx, arg: Pattern) -> Pattern:
    """Where an operand may be other than zero: 1, else 0."""
    elements = np.ones(arg.aval.shape) if arg.value is None else np.asarray(arg.value) != 0
    value = ConcreteValue(np.asarray(elements).astype(arg.aval.dtype), arg.aval)
    return Pattern(arg.aval, np.zeros_like(arg.depends), value)


def _reduced(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    """As the sum over the same axes."""
    return _linear(ReduceSum(primitive.axes), ctx, args) if isinstance(primitive, Reduction) else ()


def _cumulated(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    if not isinstance(primitive, Cumulative):
        return anywhere(primitive, ctx, args)
    return _linear(CumSum(primitive.axis, primitive.reverse), ctx, args)


def _windows(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    """As the sum of the same windows; of tangents, too, wherever the chosen elements are."""
    assert isinstance(primitive, Windowed)
    return _linear(ReduceWindowSum(*primitive.parameters()), ctx, args[:1])


def _integer_pow(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    return (_nowhere if isinstance(primitive, IntegerPow) and primitive.y == 0 else _elementwise)(primitive, ctx, args)


def _select(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    """The chosen case, or all of them."""
    which = args[0]
    if which.value is not None:
        return _linear(primitive, ctx, args)
    return _elementwise(primitive, ctx, [evolve(which, depends=np.zeros_like(which.depends)), *args[1:]])


def _unchanged(primitive: Primitive, ctx: Ctx, args: Sequence[Pattern]) -> Sequence[Pattern]:
    return args


# Over a named axis, each element depends on the same inputs, of every element of the batch.
register_all(SPARSITY_RULES, _elementwise, (Elementwise, ReducingCollective))
register_all(SPARSITY_RULES, _nowhere, (Stepwise, Position, Constant, Discrete, Iota, AxisIndex, PlatformIndex))
register_all(SPARSITY_RULES, _linear, (Linear, LinearUnary, ReduceSum, CumSum, Concatenate, Stack, Pad, Gather,
                              ScatterAdd, DynamicSlice, DynamicUpdateSlice))  # fmt: skip
register_all(SPARSITY_RULES, _transformed, (Fft,))
register_all(SPARSITY_RULES, _of_matrices, (OfMatrices,))
register_all(SPARSITY_RULES, _scattered, (Scattering,))
register_all(SPARSITY_RULES, _bilinear, (Mul, Bilinear))
register_all(SPARSITY_RULES, _reduced, (Reduction,))
register_all(SPARSITY_RULES, _cumulated, (Cumulative,))
register_all(SPARSITY_RULES, _integer_pow, (IntegerPow,))
register_all(SPARSITY_RULES, _windows, (WindowReduction, SelectAndGatherAdd))
register_all(SPARSITY_RULES, _select, (SelectN,))
register_all(SPARSITY_RULES, anywhere, (SelectAndScatterAdd,))
register_all(SPARSITY_RULES, _unchanged, (OptimizationBarrier,))
# What a function from elsewhere does isn't known, and it isn't run. Checks and sinks have no results.
register_all(SPARSITY_RULES, anywhere, (Sort, TopK, Callback, CallExported, FfiCall, Check, DceSink, RngUniform))


@SPARSITY_RULES.register(Cond)
def _cond(primitive: Cond, ctx: RuleContext[Pattern, Pattern], args: Sequence[Pattern]) -> Sequence[Pattern]:
    index, *operands = args
    if index.value is not None:
        branch = int(np.clip(np.asarray(index.value), 0, len(primitive.branches) - 1))
        return interpret(ctx, primitive.branches[branch], operands)
    found = [interpret(ctx, branch, operands) for branch in primitive.branches]
    outs = found[0]
    for others in found[1:]:
        outs = list(map(ctx.join, outs, others))
    return outs


@SPARSITY_RULES.register(Scan)
def _scan(primitive: Scan, ctx: RuleContext[Pattern, Pattern], args: Sequence[Pattern]) -> Sequence[Pattern]:
    """One iteration after the other, as each has slices of its own."""
    consts, carry, xs = primitive.operands(args)
    columns = args[0].depends.shape[1] if args else 0
    rows: dict[int, Sequence[Pattern]] = {}
    for position in primitive.positions():
        slices = [_at(x, position) for x in xs]
        carry, rows[position] = primitive.results(interpret(ctx, primitive.jaxpr, [*consts, *carry, *slices]))
    if not rows:
        avals = primitive.jaxpr.out_avals[primitive.num_carry :]
        return [*carry, *(Pattern(primitive.stacked(aval), np.zeros((0, columns), np.bool_)) for aval in avals)]
    stacked = zip(*[rows[position] for position in sorted(rows)], strict=True)
    return [*carry, *map(partial(_stack, primitive), stacked)]


def _stack(primitive: Scan, slices: Sequence[Pattern]) -> Pattern:
    depends = np.concatenate([part.depends for part in slices])
    values = [part.value for part in slices if part.value is not None]
    aval = primitive.stacked(slices[0].aval)
    if len(values) < len(slices):
        return Pattern(aval, depends)
    return Pattern(aval, depends, ConcreteValue(np.stack(list(map(np.asarray, values))), aval))


def _at(x: Pattern, position: int) -> Pattern:
    """The slice at a position of the leading axis."""
    aval = x.aval.of_shape(x.aval.shape[1:])
    depends = x.depends[position * aval.size : (position + 1) * aval.size]
    value = None if x.value is None else ConcreteValue(np.asarray(x.value)[position], aval)
    return Pattern(aval, depends, value)
