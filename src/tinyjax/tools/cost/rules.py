"""The cost of one application of each primitive, counted as XLA counts it.

Elementwise primitives cost an operation per element of the result, of which some are transcendental; movements of data
cost bytes only. Primitives that are defined by others need no rule, and neither do calls, branches and loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from tinyjax.interpreters.base import register_all
from tinyjax.ir.dtypes import BOOL, INEXACT
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.primitives.annotations import Name, OptimizationBarrier
from tinyjax.primitives.arithmetic import Abs, Div, Extreme, IntegerPow, NextAfter, Rem, Square
from tinyjax.primitives.casts import Cast
from tinyjax.primitives.checks import Check
from tinyjax.primitives.complex import Complex
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.conversion import BitcastConvertType, Copy, StopGradient
from tinyjax.primitives.convolution import ConvGeneralDilated
from tinyjax.primitives.cumulative import CumLogSumExp, Cumulative
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.elementwise import Additive, Binary, LinearUnary, Mul, Smooth, Stepwise
from tinyjax.primitives.exponential import Logistic
from tinyjax.primitives.fourier import Fft
from tinyjax.primitives.gather import Gather, Scattering
from tinyjax.primitives.generators import RngBitGenerator
from tinyjax.primitives.hidden_state import RngUniform
from tinyjax.primitives.incomplete import RegularizedIncompleteBeta
from tinyjax.primitives.keys import RandomUnwrap, RandomWrap
from tinyjax.primitives.matrices import OfMatrices
from tinyjax.primitives.platforms import PlatformIndex
from tinyjax.primitives.reduce_window import WindowReduction
from tinyjax.primitives.reductions import Position
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.scatter import Scatter
from tinyjax.primitives.selection import Clamp, SelectN
from tinyjax.primitives.shaping import Iota, Reshape, Rev, Squeeze
from tinyjax.primitives.sinks import DceSink
from tinyjax.primitives.slicing import Concatenate, Pad, Slice, Split
from tinyjax.primitives.sliding import Windowed
from tinyjax.primitives.sorting import Sort, TopK
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import BroadcastInDim, Reduction, Transpose
from tinyjax.primitives.threefry import Threefry2x32
from tinyjax.primitives.threefry_values import ROTATIONS, ROUNDS
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd
from tinyjax.primitives.window_shapes import inside
from tinyjax.tools.cost.linear_algebra import OPERATIONS, operations
from tinyjax.tools.cost.records import FREE, Cost

#: Rules take the primitive and the equation, whose operands and results have types, and return a Cost.
CostRules: TypeAlias = RuleTable[[Eqn], Cost]
COSTS: Final[CostRules] = RuleTable("Cost", name="tinyjax.tools.cost.COSTS")


def bytes_read(eqn: Eqn) -> int:
    """The size of the operands, each counted once. Literals are part of the instruction."""
    operands = eqn.invars if len(eqn.invars) < 2 else dict.fromkeys(eqn.invars)
    return sum([atom.aval.nbytes for atom in operands if isinstance(atom, Var)])


def bytes_written(eqn: Eqn) -> int:
    """The size of the results."""
    return sum([var.aval.nbytes for var in eqn.outvars])


def bytes_moved(eqn: Eqn) -> int:
    """What is read and written if the equation reads all of its operands and writes all of its results.

    >>> from tinyjax import ShapedArray, make_jaxpr
    >>> (eqn,) = make_jaxpr(lambda x: x + x)(ShapedArray((8,), "float32")).eqns
    >>> bytes_moved(eqn)
    64
    """
    return bytes_read(eqn) + bytes_written(eqn)


# Elementwise.


def _elementwise(primitive: Primitive, eqn: Eqn) -> Cost:
    return Cost(flops=eqn.outvars[0].aval.size, bytes=bytes_moved(eqn))


def _transcendental(primitive: Primitive, eqn: Eqn) -> Cost:
    return Cost(transcendentals=eqn.outvars[0].aval.size, bytes=bytes_moved(eqn))


# By families: a smooth function is one elementary function, unless it has a rule of its own. Nothing is guessed of what
# says no more than that it is elementwise.
register_all(COSTS, _elementwise, (Stepwise, LinearUnary, Additive))
register_all(COSTS, _elementwise, (Mul, Div, Rem, Extreme, NextAfter, Abs, Square, Complex))
register_all(COSTS, _transcendental, (Smooth, Binary, RegularizedIncompleteBeta))


def _with_flops(flops: int) -> Callable[[Primitive, Eqn], Cost]:
    """The rule of a function that is computed by one elementary function and some operations."""

    def rule(primitive: Primitive, eqn: Eqn) -> Cost:
        size = eqn.outvars[0].aval.size
        return Cost(flops * size, size, bytes_moved(eqn))

    return rule


COSTS[Logistic] = _with_flops(3)  # 1 / (1 + exp(-x))


@COSTS.register(Clamp)
def _clamp(primitive: Clamp, eqn: Eqn) -> Cost:
    """One operation; of floats a maximum and a minimum."""
    out = eqn.outvars[0].aval
    return Cost((2 if out.dtype in INEXACT else 1) * out.size, bytes=bytes_moved(eqn))


@COSTS.register(IntegerPow)
def _integer_pow(primitive: IntegerPow, eqn: Eqn) -> Cost:
    """Squarings, multiplications for the bits that are set, and a division for a negative power."""
    power = abs(primitive.y)
    flops = power.bit_length() - 1 + power.bit_count() - 1 if power else 0
    return Cost((flops + (primitive.y < 0)) * eqn.outvars[0].aval.size, bytes=bytes_moved(eqn))


@COSTS.register(SelectN)
def _select_n(primitive: SelectN, eqn: Eqn) -> Cost:
    """A choice for each element; among n cases by an integer n - 1, each after a comparison."""
    which, *cases = eqn.invars
    choices = 1 if which.aval.dtype == BOOL else 2 * (len(cases) - 1)
    return Cost(choices * eqn.outvars[0].aval.size, bytes=bytes_moved(eqn))


# Data that is moved, or only seen differently.


def _moved(primitive: Primitive, eqn: Eqn) -> Cost:
    return Cost(bytes=bytes_moved(eqn))


def _nothing(primitive: Primitive, eqn: Eqn) -> Cost:
    return FREE


def _part(primitive: Primitive, eqn: Eqn) -> Cost:
    """Only that part of the first operand is read which gets to the results; the others are indices."""
    indices = sum(atom.aval.nbytes for atom in eqn.invars[1:] if isinstance(atom, Var))
    return Cost(bytes=2 * bytes_written(eqn) + indices)


def _written(primitive: Primitive, eqn: Eqn) -> Cost:
    return Cost(bytes=bytes_written(eqn))


register_all(
    COSTS, _nothing, (Reshape, Squeeze, Name, StopGradient, OptimizationBarrier, Constant, Cast, ShardingConstraint)
)
COSTS[Check] = COSTS[DceSink] = _nothing
register_all(COSTS, _moved, (BroadcastInDim, Transpose, Rev, Concatenate, Stack, Pad, Copy, BitcastConvertType,
                              RandomWrap, RandomUnwrap))  # fmt: skip
register_all(COSTS, _part, (Slice, Split, Unstack, DynamicSlice, Gather))
register_all(COSTS, _written, (Iota, PlatformIndex))


@COSTS.register(DynamicUpdateSlice)
def _dynamic_update_slice(primitive: DynamicUpdateSlice, eqn: Eqn) -> Cost:
    """The update is read, and written in place."""
    _, update, *starts = eqn.invars
    indices = sum(atom.aval.nbytes for atom in starts if isinstance(atom, Var))
    return Cost(bytes=2 * update.aval.nbytes + indices)


def _scatter(primitive: Primitive, eqn: Eqn) -> Cost:
    """In place: the updates are read, and combined with what is there. A plain `scatter` only writes."""
    _, indices, updates = (atom.aval for atom in eqn.invars)
    if isinstance(primitive, Scatter):
        return Cost(bytes=2 * updates.nbytes + indices.nbytes)
    return Cost(updates.size, bytes=3 * updates.nbytes + indices.nbytes)


register_all(COSTS, _scatter, (Scattering,))


# Sums and contractions.


def _reduction(primitive: Primitive, eqn: Eqn) -> Cost:
    """n elements are combined by n - 1 operations."""
    operations = eqn.invars[0].aval.size - eqn.outvars[0].aval.size
    return Cost(max(operations, 0), bytes=bytes_moved(eqn))


register_all(COSTS, _reduction, (Reduction, Position))


def _cumulative(primitive: Primitive, eqn: Eqn) -> Cost:
    """n elements along the axis are combined by n - 1 operations; log(exp(x) + exp(y)), without overflow, is 9."""
    x = eqn.invars[0].aval
    axis = primitive.axis if isinstance(primitive, Cumulative) else 0
    operations = x.size - x.size // x.shape[axis] if x.size else 0
    if isinstance(primitive, CumLogSumExp):
        return Cost(7 * operations, 2 * operations, bytes_moved(eqn))
    return Cost(operations, bytes=bytes_moved(eqn))


register_all(COSTS, _cumulative, (Cumulative,))


@COSTS.register(DotGeneral)
def _dot_general(primitive: DotGeneral, eqn: Eqn) -> Cost:
    """A multiplication and an addition for each product."""
    (x_sum, _), _ = primitive.dimension_numbers
    products = eqn.outvars[0].aval.size
    for axis in x_sum:
        products *= eqn.invars[0].aval.shape[axis]
    return Cost(2 * products, bytes=bytes_moved(eqn))


@COSTS.register(Fft)
def _fft(primitive: Fft, eqn: Eqn) -> Cost:
    """A complex multiplication and addition, 8 operations, for each element and each halving of each axis."""
    halvings = math.prod(max(length.bit_length() - 1, 0) for length in primitive.fft_lengths)
    return Cost(8 * halvings * eqn.invars[0].aval.size, bytes=bytes_moved(eqn))


@COSTS.register(ConvGeneralDilated)
def _convolution(primitive: ConvGeneralDilated, eqn: Eqn) -> Cost:
    """A multiplication and an addition for each element of the kernel that is over an element, and not over padding."""
    x, y = (atom.aval for atom in eqn.invars)
    lhs, rhs, out = primitive.dimension_numbers
    products = eqn.outvars[0].aval.shape[out[0]] * y.shape[rhs[0]] * y.shape[rhs[1]]
    for i, padding in enumerate(primitive.padding):
        products *= inside(
            x.shape[lhs[2 + i]], y.shape[rhs[2 + i]], primitive.window_strides[i], padding, primitive.rhs_dilation[i],
            primitive.lhs_dilation[i],
        )  # fmt: skip
    return Cost(2 * products, bytes=bytes_moved(eqn))


def _windows(primitive: Primitive, eqn: Eqn) -> Cost:
    """As many operations as a window has elements, less one, for each; of pairs a comparison and two selections."""
    assert isinstance(primitive, Windowed)
    steps = max(math.prod(primitive.window_dimensions) - 1, 0) * eqn.outvars[0].aval.size
    return Cost((3 if isinstance(primitive, SelectAndGatherAdd) else 1) * steps, bytes=bytes_moved(eqn))


register_all(COSTS, _windows, (WindowReduction, SelectAndGatherAdd))


@COSTS.register(SelectAndScatterAdd)
def _select_and_scatter_add(primitive: SelectAndScatterAdd, eqn: Eqn) -> Cost:
    """A comparison for each element of a window but one, and an addition for each window."""
    return Cost(math.prod(primitive.window_dimensions) * eqn.invars[0].aval.size, bytes=bytes_moved(eqn))


def _of_matrices(primitive: Primitive, eqn: Eqn) -> Cost:
    assert isinstance(primitive, OfMatrices)
    return Cost(operations(primitive, eqn), bytes=bytes_moved(eqn))


register_all(COSTS, _of_matrices, tuple(OPERATIONS))


@COSTS.register(Threefry2x32)
def _threefry(primitive: Threefry2x32, eqn: Eqn) -> Cost:
    """Twenty rounds of five operations, and additions of words of the key."""
    each = sum(5 * len(ROTATIONS[i % 2]) + 3 for i in range(ROUNDS)) + 2
    return Cost(each * eqn.outvars[0].aval.size, bytes=bytes_moved(eqn))


@COSTS.register(RngBitGenerator)
def _rng_bit_generator(primitive: RngBitGenerator, eqn: Eqn) -> Cost:
    """Ten rounds of ten operations for four words, as Philox has them."""
    return Cost(25 * eqn.outvars[1].aval.size * -(-primitive.dtype.itemsize // 4), bytes=bytes_moved(eqn))


@COSTS.register(RngUniform)
def _rng_uniform(primitive: RngUniform, eqn: Eqn) -> Cost:
    """Random bits, and what brings them to the interval."""
    out = eqn.outvars[0].aval
    return Cost((25 * -(-out.dtype.itemsize // 4) + 2) * out.size, bytes=bytes_moved(eqn))


@COSTS.register(TopK)
def _top_k(primitive: TopK, eqn: Eqn) -> Cost:
    """log2(k) comparisons for each element, with the logarithm rounded up, and at least one."""
    x = eqn.invars[0].aval
    return Cost(x.size * max((primitive.k - 1).bit_length(), 1) if primitive.k else 0, bytes=bytes_moved(eqn))


@COSTS.register(Sort)
def _sort(primitive: Sort, eqn: Eqn) -> Cost:
    """n log2(n) comparisons for each row of n, with the logarithm rounded up."""
    x = eqn.invars[0].aval
    length = x.shape[primitive.dimension]
    return Cost(x.size * max(length - 1, 0).bit_length(), bytes=bytes_moved(eqn))
