"""Named examples of the primitives that aren't elementwise: parameters, operand types, and what they are in jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from attrs import frozen
from jax import lax
from jax.extend.core import Primitive as JaxPrimitive
from jax.extend.core import primitives

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BFLOAT16, INT8, INT32, INT64, UINT8
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.contractions import DotGeneral, Precision
from tinyjax.primitives.convolution import ConvDimensionNumbers, ConvGeneralDilated
from tinyjax.primitives.cumulative import CumLogSumExp, CumMax, CumMin, CumProd, CumSum
from tinyjax.primitives.fourier import Fft, FftType
from tinyjax.primitives.reduce_window import ReduceWindowMax, ReduceWindowMin, ReduceWindowSum
from tinyjax.primitives.reductions import (
    ArgMax,
    ArgMin,
    NanMode,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
)
from tinyjax.primitives.shaping import Iota, Reshape, Rev, Squeeze
from tinyjax.primitives.slicing import Concatenate, Pad, Slice, Split
from tinyjax.primitives.sorting import Sort, TopK
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum, Transpose
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd
from tinyjax.primitives.window_shapes import Padding, Sizes

Reference: TypeAlias = Callable[..., "jax.Array | Sequence[jax.Array]"]


@final
@frozen
class Case:
    """One application of a primitive. `linear` lists the operands in which it is linear, all together."""

    name: str
    primitive: Primitive
    avals: tuple[ShapedArray, ...]
    reference: Reference
    linear: tuple[int, ...] = ()


def aval(text: str) -> ShapedArray:
    """A type written as `float32[2,3]`."""
    dtype, _, shape = text.rstrip("]").partition("[")
    weak = dtype.startswith("~")
    return ShapedArray(tuple(int(size) for size in shape.split(",") if size), dtype.lstrip("~"), weak)


def case(
    name: str, primitive: Primitive, types: str, reference: Reference, linear: tuple[int, ...] | None = None
) -> Case:
    """A case with operand types separated by spaces."""
    return Case(f"{primitive.name}-{name}", primitive, tuple(map(aval, types.split())), reference, linear or ())


_ALL = (0,)


def _shaping() -> list[Case]:
    return [
        case("2d", Reshape((3, 4)), "float32[2,6]", lambda x: lax.reshape(x, (3, 4)), _ALL),
        case("to-scalar", Reshape(()), "float64[1,1]", lambda x: lax.reshape(x, ()), _ALL),
        case("empty", Reshape((5, 0)), "float32[0,3]", lambda x: lax.reshape(x, (5, 0)), _ALL),
        case("int", Reshape((6,)), "int8[2,3]", lambda x: lax.reshape(x, (6,))),
        case("weak", Reshape((1,)), "~float64[]", lambda x: lax.reshape(x, (1,)), _ALL),
        case("middle", Squeeze((1, 3)), "float32[2,1,3,1]", lambda x: lax.squeeze(x, (1, 3)), _ALL),
        case("none", Squeeze(()), "complex64[2,1]", lambda x: lax.squeeze(x, ()), _ALL),
        case("one", Rev((1,)), "float32[2,3]", lambda x: lax.rev(x, (1,)), _ALL),
        case("both", Rev((1, 0)), "bfloat16[2,3]", lambda x: lax.rev(x, (1, 0)), _ALL),
        case("rows", Iota(INT32, (3, 2), 0), "", lambda: lax.broadcasted_iota(np.int32, (3, 2), 0)),
        case("bf16", Iota(BFLOAT16, (4,), 0), "", lambda: lax.broadcasted_iota(jnp.bfloat16, (4,), 0)),
        case("wraps", Iota(INT8, (300,), 0), "", lambda: lax.broadcasted_iota(np.int8, (300,), 0)),
        case("swap", Transpose((1, 0, 2)), "float32[2,3,4]", lambda x: lax.transpose(x, (1, 0, 2)), _ALL),
        case(
            "stretch", BroadcastInDim((2, 3, 4), (0, 2)), "float32[2,1]",
            lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (0, 2)), _ALL,
        ),
    ]  # fmt: skip


def _slicing() -> list[Case]:
    edges = ((1, 2, 0), (0, 1, 2))
    inward = ((-1, 2, 1), (3, -2, 0))
    return [
        case(
            "strided", Slice((1, 0), (4, 5), (1, 2)), "float32[4,6]",
            lambda x: lax.slice(x, (1, 0), (4, 5), (1, 2)), _ALL,
        ),
        case("plain", Slice((1, 2), (3, 5)), "complex64[4,6]", lambda x: lax.slice(x, (1, 2), (3, 5)), _ALL),
        case("nothing", Slice((2,), (2,), (3,)), "float64[4]", lambda x: lax.slice(x, (2,), (2,), (3,)), _ALL),
        case("scalar", Slice((), ()), "float32[]", lambda x: lax.slice(x, (), ()), _ALL),
        case("bool", Slice((0,), (5,), (2,)), "bool[5]", lambda x: lax.slice(x, (0,), (5,), (2,))),
        case("edges", Pad(edges), "float32[2,3] float32[]", lambda x, v: lax.pad(x, v, edges), (0, 1)),
        case("inward", Pad(inward), "float64[4,3] float64[]", lambda x, v: lax.pad(x, v, inward), (0, 1)),
        case(
            "of-nothing", Pad(((1, 2, 3),)), "float32[0] float32[]",
            lambda x, v: lax.pad(x, v, ((1, 2, 3),)), (0, 1),
        ),
        case("int", Pad(((1, 0, 1),)), "uint8[3] uint8[]", lambda x, v: lax.pad(x, v, ((1, 0, 1),))),
        case("bf16", Pad(((-1, 1, 1),)), "bfloat16[3] bfloat16[]", lambda x, v: lax.pad(x, v, ((-1, 1, 1),)), (0, 1)),
        case("scalar", Pad(()), "float32[] float32[]", lambda x, v: lax.pad(x, v, ()), (0, 1)),
        case(
            "three", Concatenate(1), "float32[2,1] float32[2,0] float32[2,3]",
            lambda *xs: lax.concatenate(xs, 1), (0, 1, 2),
        ),
        case("one", Concatenate(0), "float16[2]", lambda *xs: lax.concatenate(xs, 0), _ALL),
        case("mixed-weak", Concatenate(0), "~float64[2] float64[1]", lambda *xs: lax.concatenate(xs, 0), (0, 1)),
        case("int", Concatenate(0), "int32[2] int32[1]", lambda *xs: lax.concatenate(xs, 0)),
        case("parts", Split((1, 0, 2), 1), "float32[2,3]", lambda x: lax.split(x, (1, 0, 2), 1), _ALL),
        case("int", Split((2, 1), 0), "int64[3]", lambda x: lax.split(x, (2, 1), 0)),
        case("three", Stack(1), "float32[2,3] float32[2,3] float32[2,3]", lambda *xs: lax.stack(xs, 1), (0, 1, 2)),
        case("scalars", Stack(0), "float64[] float64[]", lambda *xs: lax.stack(xs), (0, 1)),
        case("one", Stack(1), "bfloat16[2]", lambda *xs: lax.stack(xs, 1), _ALL),
        case("mixed-weak", Stack(0), "~float64[2] float64[2]", lambda *xs: lax.stack(xs), (0, 1)),
        case("empty", Stack(1), "complex64[0] complex64[0]", lambda *xs: lax.stack(xs, 1), (0, 1)),
        case("int", Stack(0), "uint8[3] uint8[3]", lambda *xs: lax.stack(xs)),
        case("parts", Unstack(1), "float32[2,3]", lambda x: lax.unstack(x, 1), _ALL),
        case("scalars", Unstack(0), "~float64[2]", lax.unstack, _ALL),
        case("one", Unstack(0), "float16[1,2]", lax.unstack, _ALL),
        case("bool", Unstack(0), "bool[3]", lax.unstack),
    ]  # fmt: skip


def _reductions() -> list[Case]:
    return [
        case("sum", ReduceSum((1,)), "float32[2,3,2]", lambda x: lax.reduce_sum(x, (1,)), _ALL),
        case("sum-bf16", ReduceSum((0,)), "bfloat16[300]", lambda x: lax.reduce_sum(x, (0,)), _ALL),
        case("odd", ReduceProd((0,)), "float64[5,2]", lambda x: lax.reduce_prod(x, (0,))),
        case("axes", ReduceProd((2, 0)), "float32[2,2,3]", lambda x: lax.reduce_prod(x, (2, 0))),
        case("none", ReduceProd(()), "float64[3]", lambda x: lax.reduce_prod(x, ())),
        case("complex", ReduceProd((0,)), "complex128[3]", lambda x: lax.reduce_prod(x, (0,))),
        case("int", ReduceProd((0,)), "int32[3,2]", lambda x: lax.reduce_prod(x, (0,))),
        case("empty", ReduceProd((0,)), "float32[0,2]", lambda x: lax.reduce_prod(x, (0,))),
        case("bf16", ReduceProd((0,)), "bfloat16[6]", lambda x: lax.reduce_prod(x, (0,))),
        case("weak", ReduceProd((0,)), "~float64[3]", lambda x: lax.reduce_prod(x, (0,))),
        case("axis", ReduceMax((1,)), "float64[2,5]", lambda x: lax.reduce_max(x, (1,))),
        case("all", ReduceMax((0, 1)), "float32[3,3]", lambda x: lax.reduce_max(x, (0, 1))),
        case("none", ReduceMax(()), "float32[3]", lambda x: lax.reduce_max(x, ())),
        case("f16", ReduceMax((0,)), "float16[5]", lambda x: lax.reduce_max(x, (0,))),
        case("bf16", ReduceMax((0,)), "bfloat16[5]", lambda x: lax.reduce_max(x, (0,))),
        case("int", ReduceMax((0,)), "int8[5,2]", lambda x: lax.reduce_max(x, (0,))),
        case("bool", ReduceMax((0,)), "bool[3,2]", lambda x: lax.reduce_max(x, (0,))),
        case("complex", ReduceMax((0,)), "complex64[4,2]", lambda x: lax.reduce_max(x, (0,))),
        case("either", ReduceMax((1,), NanMode.EITHER), "float32[2,5]", lambda x: lax.reduce_max(x, (1,))),
        case("axis", ReduceMin((0,)), "float64[5,2]", lambda x: lax.reduce_min(x, (0,))),
        case("uint", ReduceMin((0, 1)), "uint8[3,2]", lambda x: lax.reduce_min(x, (0, 1))),
        case("bf16", ReduceMin((0,)), "bfloat16[5]", lambda x: lax.reduce_min(x, (0,))),
        case("empty-int", ReduceMin((0,)), "int32[0,2]", lambda x: lax.reduce_min(x, (0,))),
        case("bool", ReduceAnd((1,)), "bool[2,3]", lambda x: lax.reduce_and(x, (1,))),
        case("int", ReduceAnd((0,)), "int8[3,2]", lambda x: lax.reduce_and(x, (0,))),
        case("bool", ReduceOr((0, 1)), "bool[2,3]", lambda x: lax.reduce_or(x, (0, 1))),
        case("uint", ReduceOr((0,)), "uint8[3]", lambda x: lax.reduce_or(x, (0,))),
        case("empty", ReduceOr((0,)), "bool[0,2]", lambda x: lax.reduce_or(x, (0,))),
        case("bool", ReduceXor((0,)), "bool[3,2]", lambda x: lax.reduce_xor(x, (0,))),
        case("int", ReduceXor((0,)), "int32[3]", lambda x: lax.reduce_xor(x, (0,))),
        case("float", ArgMax((1,), INT32), "float32[2,4]", lambda x: lax.argmax(x, 1, np.int32)),
        case("bool", ArgMax((0,), INT64), "bool[3]", lambda x: lax.argmax(x, 0, np.int64)),
        case("bf16", ArgMax((0,), UINT8), "bfloat16[3,2]", lambda x: lax.argmax(x, 0, np.uint8)),
        case("float", ArgMin((0,), INT64), "float64[4,2]", lambda x: lax.argmin(x, 0, np.int64)),
        case("int", ArgMin((0,), INT32), "int8[5]", lambda x: lax.argmin(x, 0, np.int32)),
    ]


def _cumulative() -> list[Case]:
    return [
        case("first", CumSum(0), "float32[4,2]", lambda x: lax.cumsum(x, 0), _ALL),
        case("reverse", CumSum(1, True), "float64[2,5]", lambda x: lax.cumsum(x, 1, reverse=True), _ALL),
        case("int", CumSum(0), "uint8[5]", lambda x: lax.cumsum(x, 0)),
        case("bf16", CumSum(0), "bfloat16[300]", lambda x: lax.cumsum(x, 0), _ALL),
        case("complex", CumSum(0), "complex64[3]", lambda x: lax.cumsum(x, 0), _ALL),
        case("odd", CumProd(0), "float64[5,2]", lambda x: lax.cumprod(x, 0)),
        case("even-reverse", CumProd(1, True), "float32[2,6]", lambda x: lax.cumprod(x, 1, reverse=True)),
        case("complex", CumProd(0), "complex128[3]", lambda x: lax.cumprod(x, 0)),
        case("empty", CumProd(0), "float32[0,2]", lambda x: lax.cumprod(x, 0)),
        case("ties", CumMax(0), "float64[7]", lambda x: lax.cummax(x, 0)),
        case("reverse", CumMax(0, True), "float32[6,2]", lambda x: lax.cummax(x, 0, reverse=True)),
        case("int", CumMax(0), "int32[5]", lambda x: lax.cummax(x, 0)),
        case("one", CumMax(0), "float64[1]", lambda x: lax.cummax(x, 0)),
        case("ties", CumMin(1), "float64[2,8]", lambda x: lax.cummin(x, 1)),
        case("f16", CumMin(0), "float16[5]", lambda x: lax.cummin(x, 0)),
        case("odd", CumLogSumExp(0), "float64[5,2]", lambda x: lax.cumlogsumexp(x, 0)),
        case("reverse", CumLogSumExp(0, True), "float32[4]", lambda x: lax.cumlogsumexp(x, 0, reverse=True)),
        case("two", CumLogSumExp(0), "float64[2]", lambda x: lax.cumlogsumexp(x, 0)),
        case("complex", CumLogSumExp(0), "complex128[3]", lambda x: lax.cumlogsumexp(x, 0)),
    ]


def _contractions() -> list[Case]:
    def dot(dims: tuple[tuple[tuple[int, ...], ...], ...], precision: Precision | None = None,
            preferred: str | None = None) -> tuple[Primitive, Reference]:  # fmt: skip
        (x_sum, y_sum), (x_batch, y_batch) = dims
        dtype = None if preferred is None else jnp.dtype(preferred)
        primitive = DotGeneral(((x_sum, y_sum), (x_batch, y_batch)), precision, dtype)
        jax_precision = None if precision is None else lax.Precision[precision.name]

        def reference(x: jax.Array, y: jax.Array) -> jax.Array:
            numbers = (x_sum, y_sum), (x_batch, y_batch)
            return lax.dot_general(x, y, numbers, precision=jax_precision, preferred_element_type=dtype)

        return primitive, reference

    matmul = (((1,), (0,)), ((), ()))
    inner = (((0,), (0,)), ((), ()))
    outer: tuple[tuple[tuple[int, ...], ...], ...] = (((), ()), ((), ()))
    batched = (((2,), (1,)), ((0,), (0,)))
    crossed = (((3, 0), (1, 2)), ((2,), (3,)))
    table: list[tuple[str, tuple[Primitive, Reference], str]] = [
        ("matmul", dot(matmul), "float32[2,3] float32[3,4]"),
        ("matvec", dot(matmul), "float64[2,3] float64[3]"),
        ("inner", dot(inner), "float64[3] float64[3]"),
        ("outer", dot(outer), "float32[2] float32[3]"),
        ("scalars", dot(outer), "~float64[] ~float64[]"),
        ("batched", dot(batched), "float32[2,3,4] float32[2,4,2]"),
        ("crossed", dot(crossed), "float64[2,3,2,4] float64[3,4,2,2]"),
        ("highest", dot(matmul, Precision.HIGHEST), "float32[2,3] float32[3,4]"),
        ("empty-sum", dot(matmul), "float32[2,0] float32[0,4]"),
        ("empty", dot(matmul), "float32[0,2] float32[2,3]"),
        ("bf16", dot(matmul), "bfloat16[2,3] bfloat16[3,4]"),
        ("f16-long", dot(inner), "float16[200] float16[200]"),
        ("f16-to-f32", dot(matmul, None, "float32"), "float16[2,3] float16[3,4]"),
        ("f32-to-bf16", dot(matmul, None, "bfloat16"), "float32[2,3] float32[3,4]"),
        ("f32-bf16", dot(matmul), "float32[2,3] bfloat16[3,4]"),
        ("f16-bf16", dot(matmul), "float16[2,3] bfloat16[3,4]"),
        ("int8-to-int32", dot(matmul, None, "int32"), "int8[2,3] int8[3,4]"),
        ("int-wraps", dot(inner), "uint8[200] uint8[200]"),
        ("int-uint", dot(inner), "int32[3] uint32[3]"),
        ("int-float", dot(matmul), "int32[2,3] float32[3]"),
        ("bool", dot(matmul), "bool[2,3] bool[3,2]"),
        ("bool-to-int32", dot(matmul, None, "int32"), "bool[2,3] bool[3,2]"),
        ("complex", dot(matmul), "complex64[2,3] complex64[3,2]"),
        ("float-complex", dot(inner), "float64[3] complex128[3]"),
        ("float-to-complex", dot(inner, None, "complex64"), "float32[3] float32[3]"),
    ]
    return [case(name, primitive, types, reference) for name, (primitive, reference), types in table]


def convolution(
    spec: tuple[str, str, str], strides: tuple[int, ...], padding: tuple[tuple[int, int], ...],
    lhs_dilation: tuple[int, ...] = (), rhs_dilation: tuple[int, ...] = (), features: int = 1, batches: int = 1,
    precision: Precision | tuple[Precision, Precision] | None = None, preferred: str | None = None,
) -> tuple[Primitive, Reference]:  # fmt: skip
    """A convolution with axes as in `spec`, here and in jax."""
    ones = (1,) * len(strides)
    dtype = None if preferred is None else jnp.dtype(preferred)
    rank = (1,) * len(spec[0])
    numbers = lax.conv_dimension_numbers(rank, rank, spec)
    primitive = ConvGeneralDilated(
        strides, padding, lhs_dilation or ones, rhs_dilation or ones, ConvDimensionNumbers(*numbers), features, batches,
        precision, dtype,
    )  # fmt: skip
    left, right = precision if isinstance(precision, tuple) else (precision, precision)
    pair = None if left is None or right is None else (lax.Precision[left.name], lax.Precision[right.name])

    def reference(x: jax.Array, y: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(
            x, y, strides, padding, lhs_dilation or None, rhs_dilation or None, numbers, features, batches,
            precision=pair, preferred_element_type=dtype,
        )  # fmt: skip

    return primitive, reference


def _convolutions() -> list[Case]:
    one, two = ("NCH", "OIH", "NCH"), ("NHWC", "HWIO", "NHWC")
    mixed = ("HNCW", "IWOH", "CWHN")
    same = ((1, 1), (1, 1))
    table: list[tuple[str, tuple[Primitive, Reference], str]] = [
        ("strides", convolution(two, (2, 3), ((0, 2), (1, 0))), "float64[1,5,6,1] float64[2,3,1,2]"),
        ("order", convolution(mixed, (2, 1), ((1, 0), (0, 1))), "float64[4,2,3,5] float64[3,2,2,3]"),
        ("dilated", convolution(one, (2,), ((2, 1),), (3,), (2,)), "float64[2,1,3] float64[2,1,2]"),
        ("negative", convolution(one, (1,), ((-1, -2),), (2,)), "float64[1,2,4] float64[1,2,2]"),
        ("features", convolution(one, (1,), ((1, 1),), features=2), "float64[2,4,3] float64[6,2,2]"),
        ("batches", convolution(one, (1,), ((1, 0),), batches=2), "float64[4,3,3] float64[4,3,2]"),
        ("batches-order", convolution(mixed, (1, 1), same, (1, 2), (2, 1), batches=3),
         "float64[2,3,2,2] float64[2,2,3,2]"),
        ("no-space", convolution(("NC", "OI", "NC"), (), ()), "float64[2,3] float64[4,3]"),
        ("too-large", convolution(one, (1,), ((0, 0),)), "float64[1,2,2] float64[1,2,3]"),
        ("bf16", convolution(one, (1,), ((1, 1),)), "bfloat16[1,2,4] bfloat16[2,2,3]"),
        ("f16-to-f32", convolution(one, (1,), ((1, 1),), preferred="float32"), "float16[1,2,4] float16[2,2,3]"),
        ("int", convolution(two, (1, 1), same), "int32[1,3,3,2] int32[2,2,2,1]"),
        ("complex", convolution(one, (1,), ((1, 0),)), "complex64[1,2,3] complex64[2,2,2]"),
        ("weak", convolution(("NC", "OI", "NC"), (), ()), "~float64[1,1] ~float64[1,1]"),
    ]  # fmt: skip
    return [case(name, primitive, types, reference) for name, (primitive, reference), types in table]


def _windows() -> list[Case]:
    sizes, strides, padding, base, holes = (2, 3), (1, 2), ((1, 0), (0, 2)), (1, 2), (2, 1)
    plain = (sizes, strides, padding, (1, 1), (1, 1))

    def over(
        identity: float,
        combine: Callable[..., jax.Array],
        window: Sizes,
        steps: Sizes,
        pads: Padding,
        spread: Sizes,
        gaps: Sizes,
    ) -> Reference:
        def reference(x: jax.Array) -> jax.Array:
            start = np.asarray(identity, x.dtype)[()]
            found: jax.Array = lax.reduce_window(x, start, combine, window, steps, pads, spread, gaps)
            return found

        return reference

    def picked(by: str, which: JaxPrimitive, **parameters: object) -> Reference:
        chosen = primitives.ge_p if by == "ge" else primitives.le_p
        return lambda x, y: which.bind(x, y, select_prim=chosen, **parameters)

    gather = {
        "window_dimensions": sizes, "window_strides": strides, "padding": padding, "base_dilation": (1, 1),
        "window_dilation": (1, 1),
    }  # fmt: skip
    scatter = {key: gather[key] for key in ("window_dimensions", "window_strides", "padding")}
    every = (sizes, strides, ((-1, 2), (0, 2)), base, holes)
    low = np.iinfo(np.int8).min
    return [
        case("plain", ReduceWindowSum(*plain), "float64[3,4]", over(0, lax.add, *plain), _ALL),
        case("all", ReduceWindowSum(*every), "float32[4,3]", over(0, lax.add, *every), _ALL),
        case("bf16", ReduceWindowSum(*plain), "bfloat16[3,4]", over(0, lax.add, *plain), _ALL),
        case("int", ReduceWindowSum(*plain), "int8[3,4]", over(0, lax.add, *plain)),
        case("complex", ReduceWindowSum(*plain), "complex64[3,4]", over(0, lax.add, *plain), _ALL),
        case("none", ReduceWindowSum((3,), (1,), ((0, 0),), (1,), (1,)), "float32[2]",
             over(0, lax.add, (3,), (1,), ((0, 0),), (1,), (1,)), _ALL),
        case("plain", ReduceWindowMax(*plain), "float64[3,4]", over(-np.inf, lax.max, *plain)),
        case("int", ReduceWindowMax(*every), "int8[4,3]", over(low, lax.max, *every)),
        case("bf16", ReduceWindowMax(*plain), "bfloat16[3,4]", over(-np.inf, lax.max, *plain)),
        case("f32", ReduceWindowMin(*plain), "float32[3,4]", over(np.inf, lax.min, *plain)),
        case("ge", SelectAndGatherAdd(*plain, "ge"), "float64[3,4] float64[3,4]",
             picked("ge", lax.select_and_gather_add_p, **gather), _ALL),
        case("le", SelectAndScatterAdd(sizes, strides, padding, "le"), "float64[3,2] float64[3,4]",
             picked("le", lax.select_and_scatter_add_p, **scatter), _ALL),
        case("uint", SelectAndScatterAdd(sizes, strides, padding, "le"), "uint8[3,2] uint8[3,4]",
             picked("le", lax.select_and_scatter_add_p, **scatter)),
        case("bool", SelectAndScatterAdd(sizes, strides, padding, "ge"), "bool[3,2] bool[3,4]",
             picked("ge", lax.select_and_scatter_add_p, **scatter)),
    ]  # fmt: skip


def _sorting() -> list[Case]:
    def both(primitive: Sort, types: str, name: str) -> Case:
        def reference(*xs: jax.Array) -> Sequence[jax.Array]:
            return lax.sort(xs, dimension=primitive.dimension, is_stable=True, num_keys=primitive.num_keys)

        return case(name, primitive, types, reference)

    def greatest(axis: int, k: int, types: str, name: str) -> Case:
        return case(name, TopK(axis, k), types, lambda x: lax.top_k(x, k, axis=axis))

    return [
        greatest(1, 2, "float32[2,5]", "float"),
        greatest(0, 3, "float64[6,2]", "first-axis"),
        greatest(1, 2, "float64[2,5,3]", "middle"),
        greatest(0, 4, "bfloat16[6]", "half"),
        greatest(0, 2, "int8[6]", "integers"),
        greatest(0, 4, "bool[4]", "bool"),
        greatest(1, 0, "float32[2,3]", "none"),
        greatest(1, 0, "float32[2,0]", "empty"),
        greatest(0, 2, "~float64[3]", "weak"),
        both(Sort(1), "float32[2,5]", "float"),
        both(Sort(0), "float64[6,2] float64[6,2]", "pair"),
        both(Sort(0, True, 2), "int8[6] float32[6] float64[6]", "two-keys"),
        both(Sort(0), "bool[4] int32[4]", "bool"),
        both(Sort(0, True, 2), "bfloat16[6] float16[6]", "half"),
        both(Sort(0), "complex64[6]", "complex"),
        both(Sort(1), "float32[2,0]", "empty"),
        both(Sort(0), "~float64[3]", "weak"),
    ]


def _fourier() -> list[Case]:
    def one(name: str, kind: FftType, lengths: tuple[int, ...], types: str) -> Case:
        def reference(x: jax.Array) -> jax.Array:
            return jnp.asarray(lax.fft(x, kind.name, lengths))

        return case(name, Fft(kind, lengths), types, reference, _ALL)

    return [
        one("fft", FftType.FFT, (5,), "complex64[2,5]"),
        one("fft-2d", FftType.FFT, (3, 4), "complex128[3,4]"),
        one("fft-3d", FftType.FFT, (2, 1, 3), "complex64[2,2,1,3]"),
        one("ifft", FftType.IFFT, (4,), "complex128[4,4]"),
        one("ifft-3d", FftType.IFFT, (2, 3, 2), "complex64[2,3,2]"),
        one("rfft-even", FftType.RFFT, (4,), "float32[3,4]"),
        one("rfft-odd", FftType.RFFT, (5,), "float64[5]"),
        one("rfft-2d", FftType.RFFT, (3, 2), "float32[3,2]"),
        one("rfft-1", FftType.RFFT, (1,), "float64[2,1]"),
        one("irfft-even", FftType.IRFFT, (4,), "complex64[2,3]"),
        one("irfft-odd", FftType.IRFFT, (5,), "complex128[3]"),
        one("irfft-3d", FftType.IRFFT, (2, 3, 3), "complex128[2,3,2]"),
        one("irfft-1", FftType.IRFFT, (1,), "complex128[2,1]"),
        one("no-rows", FftType.FFT, (3,), "complex64[0,3]"),
    ]


CASES: tuple[Case, ...] = (
    *_shaping(),
    *_slicing(),
    *_reductions(),
    *_cumulative(),
    *_contractions(),
    *_convolutions(),
    *_windows(),
    *_sorting(),
    *_fourier(),
)


def cases(*names: str) -> list[Case]:
    """The cases of the primitives with these names."""
    return [found for found in CASES if found.primitive.name in names]
