"""How JAX applies the first-order primitives: by its own of the same meaning, bound as they are.

The functions of `jax.lax` would drop equations that change nothing, and broadcast or convert operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import jax
import numpy as np
from jax import lax
from jax.extend.core import Primitive as JaxPrimitive
from jax.extend.core import primitives as p
from jax.typing import ArrayLike

from tinyjax.interop.jax_context import TO_JAX, JaxContext
from tinyjax.ir.dtypes import BOOL, INT32, DType
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives import arithmetic, bitwise, comparison, elementwise, exponential, special, trigonometric
from tinyjax.primitives.annotations import Name, OptimizationBarrier
from tinyjax.primitives.collectives import AxisIndex, PMax, PMin, PSum
from tinyjax.primitives.complex import Complex, Conj, Imag, Real
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.conversion import (
    BitcastConvertType,
    ConvertElementType,
    Copy,
    ReducePrecision,
    StopGradient,
)
from tinyjax.primitives.cumulative import CumLogSumExp, CumMax, CumMin, CumProd, CumSum, Cumulative
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering
from tinyjax.primitives.reductions import (
    ArgMax,
    ArgMin,
    Position,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
)
from tinyjax.primitives.rounding import Ceil, Floor, IsFinite, Round, Sign
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.selection import Clamp, SelectN
from tinyjax.primitives.shaping import Iota, Reshape, Rev, Squeeze
from tinyjax.primitives.slicing import Concatenate, Pad, Slice, Split
from tinyjax.primitives.sorting import Sort
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum, Reduction, Transpose
from tinyjax.primitives.windows import GatherScatterMode

Args: TypeAlias = Sequence[ArrayLike]


def apply(primitive: JaxPrimitive, *args: ArrayLike, **params: object) -> Args:
    """The results of one of JAX's primitives."""
    found = primitive.bind(*args, **params)
    results: Args = found if primitive.multiple_results else [found]
    return results


def _alike(cls: type[Primitive], primitive: JaxPrimitive, **params: object) -> None:
    """Enters a primitive that has no parameters: JAX's own takes these."""
    TO_JAX[cls] = lambda _, ctx, args: apply(primitive, *args, **params)


for _cls, _primitive in (
    (elementwise.Neg, p.neg_p), (elementwise.Add, p.add_p), (elementwise.Sub, p.sub_p), (arithmetic.Div, p.div_p),
    (arithmetic.Rem, p.rem_p), (arithmetic.Max, p.max_p), (arithmetic.Min, p.min_p), (arithmetic.Abs, p.abs_p),
    (arithmetic.NextAfter, p.nextafter_p), (arithmetic.Square, p.square_p), (exponential.Pow, p.pow_p),
    (bitwise.Not, p.not_p), (bitwise.And, p.and_p), (bitwise.Or, p.or_p), (bitwise.Xor, p.xor_p),
    (bitwise.PopulationCount, p.population_count_p), (bitwise.Clz, p.clz_p), (bitwise.ShiftLeft, p.shift_left_p),
    (bitwise.ShiftRightLogical, p.shift_right_logical_p), (bitwise.ShiftRightArithmetic, p.shift_right_arithmetic_p),
    (comparison.Eq, p.eq_p), (comparison.Ne, p.ne_p), (comparison.Lt, p.lt_p), (comparison.Le, p.le_p),
    (comparison.Gt, p.gt_p), (comparison.Ge, p.ge_p), (Real, p.real_p), (Imag, p.imag_p), (Complex, p.complex_p),
    (special.Erf, p.erf_p), (special.Erfc, p.erfc_p), (special.ErfInv, p.erf_inv_p), (special.Lgamma, p.lgamma_p),
    (special.Digamma, p.digamma_p), (special.Polygamma, p.polygamma_p), (trigonometric.Asin, p.asin_p),
    (trigonometric.Acos, p.acos_p), (trigonometric.Atan, p.atan_p), (trigonometric.Atan2, p.atan2_p),
    (trigonometric.Sinh, p.sinh_p), (trigonometric.Cosh, p.cosh_p), (trigonometric.Asinh, p.asinh_p),
    (trigonometric.Acosh, p.acosh_p), (trigonometric.Atanh, p.atanh_p), (Sign, p.sign_p), (Floor, p.floor_p),
    (Ceil, p.ceil_p), (IsFinite, p.is_finite_p), (Copy, p.copy_p), (StopGradient, p.stop_gradient_p),
    (OptimizationBarrier, lax.optimization_barrier_p), (DynamicUpdateSlice, p.dynamic_update_slice_p),
):  # fmt: skip
    _alike(_cls, _primitive)
_alike(elementwise.Mul, p.mul_p, out_dtype=None)
for _accurate, _primitive in (
    (exponential.Exp, p.exp_p), (exponential.Exp2, p.exp2_p), (exponential.Expm1, p.expm1_p),
    (exponential.Log, p.log_p), (exponential.Log1p, p.log1p_p), (exponential.Logistic, p.logistic_p),
    (exponential.Sqrt, p.sqrt_p), (exponential.Rsqrt, p.rsqrt_p), (exponential.Cbrt, p.cbrt_p),
    (trigonometric.Sin, p.sin_p), (trigonometric.Cos, p.cos_p), (trigonometric.Tan, p.tan_p),
    (trigonometric.Tanh, p.tanh_p),
):  # fmt: skip
    _alike(_accurate, _primitive, accuracy=None)


@TO_JAX.register(arithmetic.IntegerPow)
def _integer_pow(primitive: arithmetic.IntegerPow, ctx: JaxContext, args: Args) -> Args:
    return apply(p.integer_pow_p, *args, y=primitive.y)


@TO_JAX.register(Conj)
def _conj(primitive: Conj, ctx: JaxContext, args: Args) -> Args:
    return apply(p.conj_p, *args, input_dtype=ctx.aval(args[0]).dtype)


@TO_JAX.register(Round)
def _round(primitive: Round, ctx: JaxContext, args: Args) -> Args:
    return apply(p.round_p, *args, rounding_method=lax.RoundingMethod(primitive.rounding_method.value))


@TO_JAX.register(SelectN)
def _select_n(primitive: SelectN, ctx: JaxContext, args: Args) -> Args:
    which, *cases = args
    aval = ctx.aval(which)
    if aval.dtype not in (BOOL, INT32):
        # JAX selects by these only. The last case may be named by any larger number.
        ends = [np.asarray(end, aval.dtype)[()] for end in (0, len(cases) - 1)]
        (which,) = apply(p.clamp_p, ends[0], which, ends[1])
        which = _converted(which, INT32)
    return apply(p.select_n_p, which, *_of_one_shape(ctx, cases, aval.shape))


def _of_one_shape(ctx: JaxContext, values: Args, shape: tuple[int, ...] = ()) -> Args:
    """The values, scalars among them repeated to the shape of the others."""
    full = max([shape, *(ctx.aval(value).shape for value in values)], key=len)
    return [value if ctx.aval(value).shape == full else _repeated(value, full) for value in values]


def _repeated(value: ArrayLike, shape: tuple[int, ...]) -> ArrayLike:
    (found,) = apply(p.broadcast_in_dim_p, value, shape=shape, broadcast_dimensions=(), sharding=None)
    return found


def _converted(value: ArrayLike, dtype: DType) -> ArrayLike:
    (found,) = apply(p.convert_element_type_p, value, new_dtype=dtype, weak_type=False, sharding=None)
    return found


@TO_JAX.register(Clamp)
def _clamp(primitive: Clamp, ctx: JaxContext, args: Args) -> Args:
    low, x, high = args
    shape = max((ctx.aval(arg).shape for arg in args), key=len)
    if ctx.aval(x).shape != shape:
        x = _repeated(x, shape)
    return apply(p.clamp_p, low, x, high)


@TO_JAX.register(ConvertElementType)
def _convert(primitive: ConvertElementType, ctx: JaxContext, args: Args) -> Args:
    dtype, weak = primitive.new_dtype, primitive.weak_type
    return apply(p.convert_element_type_p, *args, new_dtype=dtype, weak_type=weak, sharding=None)


@TO_JAX.register(BitcastConvertType)
def _bitcast(primitive: BitcastConvertType, ctx: JaxContext, args: Args) -> Args:
    return apply(p.bitcast_convert_type_p, *args, new_dtype=primitive.new_dtype)


@TO_JAX.register(ReducePrecision)
def _reduce_precision(primitive: ReducePrecision, ctx: JaxContext, args: Args) -> Args:
    bits = {"exponent_bits": primitive.exponent_bits, "mantissa_bits": primitive.mantissa_bits}
    return apply(p.reduce_precision_p, *args, **bits)


@TO_JAX.register(Name)
def _name(primitive: Name, ctx: JaxContext, args: Args) -> Args:
    return apply(p.name_p, *args, name=primitive.label)


@TO_JAX.register(Constant)
def _constant(primitive: Constant, ctx: JaxContext, args: Args) -> Args:
    return [ctx.constant(primitive.value)]


# Shapes.


@TO_JAX.register(BroadcastInDim)
def _broadcast_in_dim(primitive: BroadcastInDim, ctx: JaxContext, args: Args) -> Args:
    dims = primitive.broadcast_dimensions
    return apply(p.broadcast_in_dim_p, *args, shape=primitive.shape, broadcast_dimensions=dims, sharding=None)


@TO_JAX.register(Reshape)
def _reshape(primitive: Reshape, ctx: JaxContext, args: Args) -> Args:
    return apply(p.reshape_p, *args, new_sizes=primitive.new_sizes, dimensions=None, sharding=None)


@TO_JAX.register(Transpose)
def _transpose(primitive: Transpose, ctx: JaxContext, args: Args) -> Args:
    return apply(p.transpose_p, *args, permutation=primitive.permutation)


@TO_JAX.register(Squeeze)
def _squeeze(primitive: Squeeze, ctx: JaxContext, args: Args) -> Args:
    return apply(p.squeeze_p, *args, dimensions=primitive.dimensions)


@TO_JAX.register(Rev)
def _rev(primitive: Rev, ctx: JaxContext, args: Args) -> Args:
    return apply(p.rev_p, *args, dimensions=primitive.dimensions)


@TO_JAX.register(Iota)
def _iota(primitive: Iota, ctx: JaxContext, args: Args) -> Args:
    shape, dimension = primitive.shape, primitive.dimension
    return apply(p.iota_p, dtype=primitive.dtype, shape=shape, dimension=dimension, sharding=None)


@TO_JAX.register(Slice)
def _slice(primitive: Slice, ctx: JaxContext, args: Args) -> Args:
    starts, limits = primitive.start_indices, primitive.limit_indices
    return apply(p.slice_p, *args, start_indices=starts, limit_indices=limits, strides=primitive.strides)


@TO_JAX.register(Concatenate)
def _concatenate(primitive: Concatenate, ctx: JaxContext, args: Args) -> Args:
    return apply(p.concatenate_p, *args, dimension=primitive.dimension)


@TO_JAX.register(Split)
def _split(primitive: Split, ctx: JaxContext, args: Args) -> Args:
    return apply(lax.split_p, *args, sizes=primitive.sizes, axis=primitive.axis)


@TO_JAX.register(Pad)
def _pad(primitive: Pad, ctx: JaxContext, args: Args) -> Args:
    return apply(p.pad_p, *args, padding_config=primitive.padding_config)


@TO_JAX.register(DynamicSlice)
def _dynamic_slice(primitive: DynamicSlice, ctx: JaxContext, args: Args) -> Args:
    return apply(p.dynamic_slice_p, *args, slice_sizes=primitive.slice_sizes)


# Reductions and what goes along an axis.


def _reduction(cls: type[Reduction], primitive: JaxPrimitive, **params: object) -> None:
    TO_JAX[cls] = lambda ours, ctx, args: apply(primitive, *args, axes=ours.axes, **params)


#: From 0.11 on, JAX's maxima and minima say how their results are sharded, as its sums do.
_SHARDED: dict[str, object] = {"out_sharding": None} if jax.__version_info__ >= (0, 11) else {}
_reduction(ReduceSum, p.reduce_sum_p, out_sharding=None)
_reduction(ReduceMax, p.reduce_max_p, **_SHARDED)
_reduction(ReduceMin, p.reduce_min_p, **_SHARDED)
for _reducing, _primitive in (
    (ReduceProd, p.reduce_prod_p), (ReduceAnd, p.reduce_and_p), (ReduceOr, p.reduce_or_p), (ReduceXor, p.reduce_xor_p),
):  # fmt: skip
    _reduction(_reducing, _primitive)


def _position(cls: type[Position], primitive: JaxPrimitive) -> None:
    TO_JAX[cls] = lambda ours, ctx, args: apply(primitive, *args, axes=ours.axes, index_dtype=ours.index_dtype)


_position(ArgMax, p.argmax_p)
_position(ArgMin, p.argmin_p)


def _cumulative(cls: type[Cumulative], primitive: JaxPrimitive) -> None:
    TO_JAX[cls] = lambda ours, ctx, args: apply(primitive, *args, axis=ours.axis, reverse=ours.reverse)


_cumulative(CumSum, p.cumsum_p)
_cumulative(CumProd, p.cumprod_p)
_cumulative(CumMax, p.cummax_p)
_cumulative(CumMin, p.cummin_p)
_cumulative(CumLogSumExp, p.cumlogsumexp_p)


@TO_JAX.register(Sort)
def _sort(primitive: Sort, ctx: JaxContext, args: Args) -> Args:
    along, stable, keys = primitive.dimension, primitive.is_stable, primitive.num_keys
    return apply(p.sort_p, *args, dimension=along, is_stable=stable, num_keys=keys)


@TO_JAX.register(DotGeneral)
def _dot_general(primitive: DotGeneral, ctx: JaxContext, args: Args) -> Args:
    given = primitive.precision
    pair = given if isinstance(given, tuple) else (given, given)
    precision = None if given is None else tuple(one and lax.Precision[one.name] for one in pair)
    return apply(
        p.dot_general_p, *args, dimension_numbers=primitive.dimension_numbers, precision=precision,
        preferred_element_type=primitive.preferred_element_type, out_sharding=None,
    )  # fmt: skip


# Windows.


@TO_JAX.register(Gather)
def _gather(primitive: Gather, ctx: JaxContext, args: Args) -> Args:
    dims, fill = primitive.dimension_numbers, primitive.fill_value
    if primitive.mode is GatherScatterMode.FILL_OR_DROP:  # JAX wants to be told the one that None stands for
        fill = primitive.fill(ctx.aval(args[0]).dtype)
    numbers = lax.GatherDimensionNumbers(
        dims.offset_dims, dims.collapsed_slice_dims, dims.start_index_map, dims.operand_batching_dims,
        dims.start_indices_batching_dims,
    )  # fmt: skip
    return apply(
        p.gather_p, *args, dimension_numbers=numbers, slice_sizes=primitive.slice_sizes,
        unique_indices=primitive.unique_indices, indices_are_sorted=primitive.indices_are_sorted,
        mode=lax.GatherScatterMode[primitive.mode.name], fill_value=fill,
    )  # fmt: skip


_SCATTERS: Final[Mapping[type[Scattering], Callable[..., jax.Array]]] = {
    Scatter: lax.scatter, ScatterAdd: lax.scatter_add, ScatterMul: lax.scatter_mul, ScatterMin: lax.scatter_min,
    ScatterMax: lax.scatter_max,
}  # fmt: skip


def _scatter(primitive: Scattering, ctx: JaxContext, args: Args) -> Args:
    dims = primitive.dimension_numbers
    numbers = lax.ScatterDimensionNumbers(
        dims.update_window_dims, dims.inserted_window_dims, dims.scatter_dims_to_operand_dims,
        dims.operand_batching_dims, dims.scatter_indices_batching_dims,
    )  # fmt: skip
    found = _SCATTERS[type(primitive)](
        *args, numbers, indices_are_sorted=primitive.indices_are_sorted, unique_indices=primitive.unique_indices,
        mode=lax.GatherScatterMode[primitive.mode.name],
    )  # fmt: skip
    return [found]


for _scattering in (Scatter, ScatterAdd, ScatterMul, ScatterMin, ScatterMax):
    TO_JAX[_scattering] = _scatter


# Named axes.


@TO_JAX.register(PSum)
def _psum(primitive: PSum, ctx: JaxContext, args: Args) -> Args:
    return [lax.psum(args[0], primitive.axis_name)]


@TO_JAX.register(PMax)
def _pmax(primitive: PMax, ctx: JaxContext, args: Args) -> Args:
    return [lax.pmax(args[0], primitive.axis_name)]


@TO_JAX.register(PMin)
def _pmin(primitive: PMin, ctx: JaxContext, args: Args) -> Args:
    return [lax.pmin(args[0], primitive.axis_name)]


@TO_JAX.register(AxisIndex)
def _axis_index(primitive: AxisIndex, ctx: JaxContext, args: Args) -> Args:
    return [lax.axis_index(primitive.axis_name)]
