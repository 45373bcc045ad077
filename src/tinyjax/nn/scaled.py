"""Products of matrices that are scaled by blocks; and of matrices that are rounded so that they can be.

The formats are those of the Open Compute Project's microscaling formats (MX) specification, and NVIDIA's NVFP4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, final

import ml_dtypes
import numpy as np
import numpy.typing as npt
from attrs import frozen

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_vjp import custom_vjp
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, UINT32, as_dtype
from tinyjax.ir.shared_types import array_type
from tinyjax.lax.binding import dimension_pairs, sequence
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

#: Contracted axes of both operands, and axes of a batch of both.
DimensionNumbers: TypeAlias = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
_MODES: Final = ("nvfp4", "mxfp8")


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: npt.DTypeLike = np.float32,
) -> Array:
    """lhs rhsᵀ for each of a batch, where each block along the last axis has a scale, with which it is multiplied.

    Shapes: lhs [batch, M, K], rhs [batch, N, K], their scales [batch, M, K / block] and [batch, N, K / block].

    Raises:
      ShapeError: shapes don't go together.

    >>> ones = np.ones((1, 2, 4), "float32")
    >>> scaled_matmul(ones, ones, 2 * ones[:, :, :2], ones[:, :, :2])[0]
    Array([[8., 8.],
           [8., 8.]], dtype=float32)
    """
    wide = as_dtype(preferred_element_type)
    left, right = (_scaled(as_array(x), as_array(scales), wide) for x, scales in ((lhs, lhs_scales), (rhs, rhs_scales)))
    if left.shape[::2] != right.shape[::2]:
        raise ShapeError(
            f"scaled_matmul: lhs and rhs have one batch and one last axis; got {left.aval} and {right.aval}"
        )
    return tnp.einsum("bmk,bnk->bmn", left, right)


def _scaled(x: Array, scales: Array, dtype: np.dtype[np.generic]) -> Array:
    whole = x.shape[:-1] == scales.shape[:-1] and scales.ndim == 3 and scales.shape[2]
    if not whole or x.shape[2] % scales.shape[2]:
        raise ShapeError(f"scaled_matmul: the scales are [batch, rows, blocks] for {x.aval}; got {scales.aval}")
    wide = tnp.repeat(tnp.astype(scales, dtype), x.shape[2] // scales.shape[2], 2)
    return tnp.astype(x, dtype) * wide


@final
@frozen(eq=False)
class BlockScaleConfig:
    """How an operand is rounded: the size of a block, the formats of its elements and of its scale."""

    mode: str
    block_size: int
    data_type: npt.DTypeLike
    scale_type: npt.DTypeLike
    global_scale: Array | None
    infer_only: bool


def get_scaled_dot_general_config(
    mode: Literal["nvfp4", "mxfp8"], global_scale: ArrayLike | None = None
) -> BlockScaleConfig:
    """What `scaled_dot_general` takes for an operand, or for cotangents.

    "mxfp8" has blocks of 32 elements of float8_e4m3fn, whose scales are powers of two; "nvfp4" blocks of 16 of
    float4_e2m1fn, with scales of float8_e4m3fn, and all together a `global_scale`, 1 by default.

    Raises:
      ChoiceError: `mode` is neither.

    >>> get_scaled_dot_general_config("mxfp8").block_size
    32
    """
    if mode not in _MODES:
        raise ChoiceError(f"get_scaled_dot_general_config: mode is 'nvfp4' or 'mxfp8', got {mode!r}")
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, None, False)
    scale = as_array(np.ones(1, FLOAT32) if global_scale is None else global_scale)
    return BlockScaleConfig(mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, scale, False)


def scaled_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DimensionNumbers,
    preferred_element_type: npt.DTypeLike = np.float32,
    configs: Sequence[BlockScaleConfig] | None = None,
    implementation: Literal["cudnn"] | None = None,
) -> Array:
    """`lax.dot_general` of operands that are rounded to few bits, block by block along what is contracted.

    `configs` says how: for lhs, rhs and cotangents. The size of what is contracted, also in the derivative, is a
    multiple of the blocks'. The derivative is that of the product of what was rounded, as if rounding had the
    derivative 1; elements that are out of the range of "nvfp4" have none. Without `configs` nothing is rounded.
    `implementation` is accepted as in JAX.

    Raises:
      ChoiceError: `preferred_element_type` isn't float32, float16 or bfloat16.
      ShapeError: blocks don't divide what is contracted.

    >>> x = np.linspace(-1.0, 1.0, 64, dtype="float32").reshape(2, 32)
    >>> configs = [get_scaled_dot_general_config("mxfp8")] * 3
    >>> scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs)
    Array([[10.771484, -5.484375],
           [-5.484375, 10.771484]], dtype=float32)
    """
    left, right = as_array(lhs), as_array(rhs)
    dtype = as_dtype(preferred_element_type)
    if configs is None:
        return lax.dot_general(left, right, dimension_numbers, preferred_element_type=dtype)
    chosen = sequence("scaled_dot_general: configs", configs, 3)  # of lhs, rhs and cotangents
    if not all(isinstance(config, BlockScaleConfig) for config in chosen):
        raise InputError(f"scaled_dot_general: configs are BlockScaleConfigs, got {chosen}")
    if dtype not in (FLOAT32, FLOAT16, BFLOAT16):
        raise ChoiceError(
            f"scaled_dot_general: preferred_element_type is float32, float16 or bfloat16, got {dtype.name}"
        )
    pairs = dimension_pairs("scaled_dot_general", dimension_numbers)
    made = DotGeneral(pairs, None, FLOAT32)
    made.type_of(*(array_type(x.aval.shape, FLOAT32) for x in (left, right)))  # which says what doesn't fit
    dims = _Dimensions.of(pairs, left.ndim, right.ndim)
    result: Array = _product(left, right, dims, dtype, chosen)
    return result


@final
@frozen
class _Operand:
    """The axes of an operand: of the batch, those that stay, and those that are contracted."""

    batch: tuple[int, ...]
    kept: tuple[int, ...]
    contracted: tuple[int, ...]

    def arranged(self, x: Array, contracted_last: bool = True) -> Array:
        """As [batch, kept, contracted], or with the last two swapped."""
        parts = (
            [self.batch, self.kept, self.contracted] if contracted_last else [self.batch, self.contracted, self.kept]
        )
        sizes = [math.prod(x.shape[i] for i in part) for part in parts]
        return tnp.reshape(tnp.transpose(x, [i for part in parts for i in part]), sizes)

    def restored(self, x: Array, shape: Sequence[int]) -> Array:
        """An array arranged so, as the operand is."""
        order = (*self.batch, *self.kept, *self.contracted)
        whole = tnp.reshape(x, [shape[i] for i in order])
        return tnp.transpose(whole, [order.index(i) for i in range(len(order))])


@final
@frozen
class _Dimensions:
    """Those of both operands."""

    lhs: _Operand
    rhs: _Operand

    @staticmethod
    def of(numbers: DimensionNumbers, *ranks: int) -> _Dimensions:
        (lhs, rhs), (left, right) = numbers
        found = [
            _Operand(tuple(batch), tuple(i for i in range(rank) if i not in (*batch, *contracted)), tuple(contracted))
            for batch, contracted, rank in ((left, lhs, ranks[0]), (right, rhs, ranks[1]))
        ]
        return _Dimensions(*found)


def _value(
    lhs: Array, rhs: Array, dims: _Dimensions, dtype: np.dtype[np.generic], configs: Sequence[BlockScaleConfig]
) -> Array:
    product = _rounded_product(dims.lhs.arranged(lhs), dims.rhs.arranged(rhs), configs[0], configs[1], dtype)
    batch = [lhs.shape[i] for i in dims.lhs.batch]
    kept = [x.shape[i] for x, own in ((lhs, dims.lhs), (rhs, dims.rhs)) for i in own.kept]
    return tnp.reshape(product, [*batch, *kept])


_product = custom_vjp(_value, nondiff_argnums=(2, 3, 4))


def _fwd(
    lhs: Array, rhs: Array, dims: _Dimensions, dtype: np.dtype[np.generic], configs: Sequence[BlockScaleConfig]
) -> tuple[Array, tuple[Array, Array]]:
    return _value(lhs, rhs, dims, dtype, configs), (lhs, rhs)


def _bwd(
    dims: _Dimensions,
    dtype: np.dtype[np.generic],
    configs: Sequence[BlockScaleConfig],
    operands: tuple[Array, Array],
    ct: Array,
) -> tuple[Array, Array]:
    lhs, rhs = operands
    left, right = dims.lhs.arranged(lhs), dims.rhs.arranged(rhs)
    cts = tnp.reshape(ct, (left.shape[0], left.shape[1], right.shape[1]))
    found = []
    for x, own, other, given, config, theirs in (
        (lhs, dims.lhs, dims.rhs.arranged(rhs, contracted_last=False), cts, configs[0], configs[1]),
        (rhs, dims.rhs, dims.lhs.arranged(lhs, contracted_last=False), cts.mT, configs[1], configs[0]),
    ):
        if configs[2].mode == "nvfp4":
            derivative = tnp.einsum("bmn,bkn->bmk", given, other, preferred_element_type=dtype)
        else:
            derivative = _rounded_product(given, other, configs[2], theirs, dtype)
        whole = tnp.astype(own.restored(derivative, x.shape), x.dtype)
        found.append(tnp.where(tnp.abs(x) <= _largest(config), whole, 0) if config.mode == "nvfp4" else whole)
    return found[0], found[1]


_product.defvjp(_fwd, _bwd)


def _largest(config: BlockScaleConfig) -> Array | float:
    """The largest number that isn't clipped."""
    most = float(tnp.finfo(config.data_type).max) * float(tnp.finfo(config.scale_type).max)
    return most if config.global_scale is None else config.global_scale * most


def _rounded_product(
    lhs: Array, rhs: Array, left: BlockScaleConfig, right: BlockScaleConfig, dtype: np.dtype[np.generic]
) -> Array:
    """The product of [batch, M, K] and [batch, N, K], each of them rounded."""
    (x, x_scales), (y, y_scales) = _in_blocks(lhs, left), _in_blocks(rhs, right)
    found = scaled_matmul(x, y, x_scales, y_scales)
    for config in (left, right):
        if config.global_scale is not None:
            found = found * config.global_scale
    return tnp.astype(found, dtype)


def _in_blocks(x: Array, config: BlockScaleConfig) -> tuple[Array, Array]:
    """Elements and scales, as float32 that have few bits."""
    size = config.block_size
    if x.shape[-1] % size or not x.shape[-1]:
        raise ShapeError(
            f"scaled_dot_general: blocks of {size} elements don't divide an axis of size {x.shape[-1]} that is "
            f"contracted, there or in the derivative, in {x.aval}. Pad it by zeros."
        )
    largest = float(tnp.finfo(config.data_type).max)
    wide = tnp.astype(x, FLOAT32)
    if config.global_scale is not None:
        wide = wide / config.global_scale
    blocks = tnp.reshape(wide, (*x.shape[:-1], -1, size))
    scales = tnp.max(tnp.abs(blocks), axis=-1, keepdims=True) / largest
    if config.mode == "mxfp8":
        scales = _power_of_two_above(scales)
    else:
        scales = _with_few_bits(tnp.clip(scales, 0, float(tnp.finfo(config.scale_type).max)), config.scale_type)
    quotients = blocks / tnp.where(scales == 0, 1, scales)
    elements = _with_few_bits(tnp.clip(quotients, -largest, largest), config.data_type)
    return tnp.reshape(elements, x.shape), tnp.reshape(scales, scales.shape[:-1])


def _with_few_bits(x: Array, kind: npt.DTypeLike) -> Array:
    """Rounded to numbers of a narrow dtype, of whose range they are."""
    return tnp.astype(tnp.astype(x, kind), FLOAT32)


def _power_of_two_above(x: Array) -> Array:
    """The next power of two, which float8_e8m0fnu has."""
    bits = lax.bitcast_convert_type(x, UINT32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    up = (mantissa > 0) & (exponent != 0xFE) & ~((exponent == 0) & (mantissa <= 0x400000))
    found = lax.bitcast_convert_type(tnp.astype(exponent + tnp.astype(up, UINT32), UINT32) << 23, FLOAT32)
    return tnp.where(found == 0, 2.0**-127, found)
