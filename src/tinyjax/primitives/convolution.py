"""Convolution, as it is in neural networks: a kernel slides over an array, and isn't turned around."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, Final, SupportsIndex, TypeAlias, TypeVar, final

import numpy as np
from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, ParameterError, ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, DType, HostArray
from tinyjax.ir.primitive import BatchAxis, UndefPrimal, Zero
from tinyjax.ir.result_types import result_types
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import kernels
from tinyjax.primitives.contractions import Bilinear, Precision, as_precision, product_dtypes
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.shaping import divide_axis, reshape, rev
from tinyjax.primitives.structure import check_arity, full, move_axis, shape_error
from tinyjax.primitives.window_shapes import (
    Padding,
    Sizes,
    check_each,
    dilated,
    dilated_shape,
    padded,
    padded_shape,
    window_shape,
    windows,
)

V = TypeVar("V")
#: What NumPy sums products of as it is told to.
_CORRELATED: Final = frozenset({FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64})
Spec: TypeAlias = tuple[int, ...]


def _spec(axes: Iterable[SupportsIndex]) -> Spec:
    """The numbers of axes: any integers."""
    try:
        return tuple(map(operator.index, axes))
    except TypeError as error:
        raise ParameterError(f"the axes of an operand are a tuple of integers, got {axes!r}") from error


@final
@frozen
class ConvDimensionNumbers:
    """Which axis of an operand or of the result is what.

    `lhs_spec`: of the left operand the batch axis, that of the features, and the spatial axes. `rhs_spec`: of the
    kernel the axis of the results' features, that of the operand's, and the spatial axes. `out_spec`: as `lhs_spec`, of
    the result.

    >>> lhs, rhs, out = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    >>> rhs
    (3, 2, 0, 1)
    """

    lhs_spec: Spec = field(converter=_spec)
    rhs_spec: Spec = field(converter=_spec)
    out_spec: Spec = field(converter=_spec)

    def __iter__(self) -> Iterator[Spec]:
        return iter((self.lhs_spec, self.rhs_spec, self.out_spec))


@final
@frozen
class ConvGeneralDilated(Bilinear):
    """The sums of products of a kernel with what is under it, at each position.

    The left operand gets `padding` around and `lhs_dilation - 1` zeros between each two elements, the kernel gaps as
    `rhs_dilation` says. With `feature_group_count` groups, the features of the left operand and the results' are
    divided: each group of results depends on one group of features. With `batch_group_count` it is so with the batch
    instead. Strides, paddings and dilations are in the order of the spatial axes of `dimension_numbers`.
    """

    window_strides: Sizes
    padding: Padding
    lhs_dilation: Sizes
    rhs_dilation: Sizes
    dimension_numbers: ConvDimensionNumbers
    feature_group_count: int = 1
    batch_group_count: int = 1
    precision: Precision | tuple[Precision, Precision] | None = field(default=None, converter=as_precision)
    preferred_element_type: DType | None = None
    name: ClassVar[str] = "conv_general_dilated"
    plain: ClassVar[bool] = True

    # Types.

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 2)
        x, y = avals
        if x.dtype != y.dtype:
            raise TypingError(
                f"{self.name}: the operands must have one dtype, got lhs {x} and rhs {y}. Convert one with astype."
            )
        dtype, _ = self.dtypes(x.dtype, y.dtype)
        self.check(x, y)
        lhs, rhs, out = self.dimension_numbers
        sizes = padded_shape(self.name, x, dilated_shape(_sizes(x, lhs[2:]), self.lhs_dilation), self.padding)
        spatial = window_shape(sizes, dilated_shape(_sizes(y, rhs[2:]), self.rhs_dilation), self.window_strides)
        canonical = (x.shape[lhs[0]] // self.batch_group_count, y.shape[rhs[0]], *spatial)
        shape = tuple(canonical[out.index(axis)] for axis in range(x.ndim))
        return (array_type(shape, dtype, x.weak_type and y.weak_type),)

    def check(self, x: ShapedArray, y: ShapedArray) -> None:
        """A ShapeError unless the parameters fit operands of these types, the padding aside."""
        self._check_numbers(x, y)
        self._check_groups(x, y)
        check_each(self.name, x, x.ndim - 2, window_strides=self.window_strides, lhs_dilation=self.lhs_dilation)
        check_each(self.name, x, x.ndim - 2, rhs_dilation=self.rhs_dilation)

    def _check_numbers(self, x: ShapedArray, y: ShapedArray) -> None:
        if x.ndim != y.ndim or x.ndim < 2:
            raise self._error(f"lhs and rhs must have as many axes, at least two; got lhs {x} and rhs {y}")
        for what, spec in zip(("lhs_spec", "rhs_spec", "out_spec"), self.dimension_numbers, strict=True):
            if sorted(spec) != list(range(x.ndim)):
                raise self._error(
                    f"{what} of dimension_numbers must name each of the {x.ndim} axes once, got {spec} for lhs {x} and "
                    f"rhs {y}"
                )

    def _check_groups(self, x: ShapedArray, y: ShapedArray) -> None:
        lhs, rhs, _ = self.dimension_numbers
        batch, features = _sizes(x, lhs[:2])
        results, taken = _sizes(y, rhs[:2])
        groups = {"feature_group_count": self.feature_group_count, "batch_group_count": self.batch_group_count}
        for what, number in groups.items():
            if number < 1:
                raise self._error(f"{what} must be at least 1, got {number}")
            if results % number:
                raise self._error(
                    f"{what} {number} must divide the number of features of the result, {results} in rhs {y}"
                )
        if min(groups.values()) > 1:
            raise self._error(f"only one of feature_group_count and batch_group_count may be more than 1, got {groups}")
        if batch % self.batch_group_count:
            raise self._error(
                f"batch_group_count {self.batch_group_count} must divide the size of the batch, {batch} in lhs {x}"
            )
        if features % self.feature_group_count:
            number = self.feature_group_count
            raise self._error(f"feature_group_count {number} must divide the features, {features} in lhs {x}")
        if features // self.feature_group_count != taken:
            raise self._error(
                f"lhs {x} has {features} features in {self.feature_group_count} groups (axis {lhs[1]}), but "
                f"rhs {y} takes {taken} (axis {rhs[1]})"
            )

    def _error(self, problem: str) -> ShapeError:
        return shape_error(self.name, problem)

    @override
    def terms(self, x: ShapedArray, y: ShapedArray) -> int:
        return math.prod(_sizes(y, self.dimension_numbers.rhs_spec[1:]))

    @override
    def dtypes(self, x: DType, y: DType) -> tuple[DType, DType]:
        return product_dtypes(x, y, self.preferred_element_type, self.name)

    @override
    def unconverted(self) -> ConvGeneralDilated:
        return evolve(self, preferred_element_type=None)

    # Values.

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, y = args
        (aval,) = result_types(self, [array_type(arg.shape, arg.dtype) for arg in args])
        if 0 in (x.size, y.size, aval.size):
            return (np.zeros(aval.shape, aval.dtype),)
        _, within = self.dtypes(x.dtype, y.dtype)
        x, y = x.astype(within, copy=False), y.astype(within, copy=False)
        lhs, rhs, out = self.dimension_numbers
        n = x.ndim - 2
        x, y = x.transpose(lhs), y.transpose(rhs)
        under = self._under_kernels(x, y.shape[2:])
        rows, groups, inner = under.shape[: 2 + n], under.shape[0], math.prod(under.shape[2 + n :])
        left, kernel = under.reshape((groups, -1, inner)), y.reshape((groups, -1, inner))
        filled = any(map(any, self.padding)) or any(step > 1 for step in self.lhs_dilation)
        if filled and not np.isfinite(kernel).all():
            there = self._under_kernels(np.ones(x.shape, np.bool_), y.shape[2:]).reshape(left.shape)
            found = _products(left, there, kernel)
        else:
            found = np.matmul(left, kernel.swapaxes(1, 2))
        found = found.reshape((*rows, -1)).transpose((1, 0, 2 + n, *range(2, 2 + n)))
        found = found.reshape((rows[1], -1, *rows[2:])).transpose(np.argsort(out))
        return (found.astype(aval.dtype, copy=False),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        x, y = avals
        (result,) = result_types(self, avals)
        lhs, rhs, _ = self.dimension_numbers
        at_once = (
            x.dtype in _CORRELATED
            and {result.dtype, *self.dtypes(x.dtype, y.dtype)} == {x.dtype}
            and 0 not in (x.size, y.size, result.size)
            and {*_sizes(x, lhs[:2]), *_sizes(y, rhs[:2])} == {1}
            and self.window_strides == self.lhs_dilation == self.rhs_dilation == (1,)
            and self.padding in (((0, 0),), ((y.size - 1, y.size - 1),))
        )
        return kernels.convolution(x, y, result, self.padding[0][0]) if at_once else super().host_function(*avals)

    def _under_kernels(self, x: HostArray, sizes: Shape) -> HostArray:
        """What lies under the kernel: for each group and each of its examples the positions, then what is summed."""
        n = len(sizes)
        x = padded(x, 0, ((0, 0), (0, 0), *self.padding), (1, 1, *self.lhs_dilation))
        under = windows(x, sizes, self.window_strides, self.rhs_dilation)  # batch, features, positions, kernel
        by_batch, groups = self.batch_group_count > 1, max(self.batch_group_count, self.feature_group_count)
        at = 0 if by_batch else 1
        under = under.reshape((*under.shape[:at], groups, -1, *under.shape[at + 1 :]))
        batch, features = (1, 2) if by_batch else (0, 2)
        places = tuple(range(3, 3 + n))
        found: HostArray = under.transpose((at, batch, *places, features, *range(3 + n, 3 + 2 * n)))
        return found

    # Batching.

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """The mapped axis becomes part of the batch, of the features, or of the groups."""
        (x, y), (at, y_at) = args, axes
        lhs, rhs, out = self.dimension_numbers
        features, batches, size = self.feature_group_count, self.batch_group_count, axis.size
        if size == 0:
            avals = [_unmapped(ctx.aval(arg), place) for arg, place in zip(args, axes, strict=True)]
            (aval,) = self.type_of(*avals)
            return [full(ctx, array_type((0, *aval.shape), aval.dtype, aval.weak_type), 0)], [0]
        if at is not None and y_at is not None:
            x = _merged(ctx, x, at, lhs[0] if batches > 1 else lhs[1])
            y = _merged(ctx, y, y_at, rhs[0])
            many = (features, batches * size) if batches > 1 else (features * size, batches)
            mapped = evolve(self, feature_group_count=many[0], batch_group_count=many[1])
            return [_divided(ctx, ctx.bind(mapped, x, y)[0], out[1], size)], [out[1]]
        if at is not None:
            (found,) = ctx.bind(self, _merged(ctx, x, at, lhs[0], batches), y)
            return [_divided(ctx, found, out[0], size)], [out[0]]
        groups = max(features, batches)
        (found,) = ctx.bind(self, x, _merged(ctx, y, y_at or 0, rhs[0], groups))
        return [_divided(ctx, found, out[1], size, groups)], [out[1]]

    # Transposition.

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, y) = cotangents, args
        if isinstance(ct, Zero):
            return [None, None]
        if isinstance(x, UndefPrimal):
            if isinstance(y, UndefPrimal):
                raise LinearityError(f"{self.name} is linear in each of its operands, but not in both together")
            empty = 0 in (ctx.aval(ct).size, ctx.aval(y).size)
            return [Zero(x.aval.tangent) if empty else self._lhs_cotangent(ctx, ct, x.aval, y), None]
        if isinstance(y, UndefPrimal):
            empty = 0 in (ctx.aval(ct).size, ctx.aval(x).size)
            return [None, Zero(y.aval.tangent) if empty else self._rhs_cotangent(ctx, ct, x, y.aval)]
        return [None, None]

    def _lhs_cotangent(self, ctx: Context[V], ct: V, x: ShapedArray, y: V) -> V:
        """The cotangent of the left operand: that of the result, convolved with the kernel turned around, whose axes of
        features are exchanged."""
        lhs, rhs, out = self.dimension_numbers
        kernel = _sizes(ctx.aval(y), rhs[2:])
        groups = max(self.feature_group_count, self.batch_group_count)
        if groups > 1:
            y = _merged(ctx, divide_axis(ctx, y, rhs[0], groups), rhs[0], rhs[1])
        y = _as_dtype(ctx, rev(ctx, y, rhs[2:]), ctx.aval(ct).dtype)
        padding: list[tuple[int, int]] = []
        for i, size in enumerate(dilated_shape(kernel, self.rhs_dilation)):
            before = size - 1 - self.padding[i][0]
            reach = dilated(ctx.aval(ct).shape[out[2 + i]], self.window_strides[i])
            whole = dilated(x.shape[lhs[2 + i]], self.lhs_dilation[i])
            padding.append((before, whole + size - 1 - reach - before))
        turned = ConvGeneralDilated(
            self.lhs_dilation, tuple(padding), self.window_strides, self.rhs_dilation,
            ConvDimensionNumbers(out, _exchanged(rhs), lhs), groups, 1, self.precision, self.preferred_element_type,
        )  # fmt: skip
        (found,) = ctx.bind(turned, ct, y)
        if self.batch_group_count > 1:
            found = _merged(ctx, divide_axis(ctx, found, lhs[1], groups), lhs[1], lhs[0])
        return _as_dtype(ctx, found, x.dtype, x.weak_type)

    def _rhs_cotangent(self, ctx: Context[V], ct: V, x: V, y: ShapedArray) -> V:
        """The cotangent of the kernel: the left operand, convolved with that of the result; what was the batch is now
        summed over."""
        lhs, rhs, out = self.dimension_numbers
        aval = ctx.aval(x)
        padding: list[tuple[int, int]] = []
        for i, (before, _) in enumerate(self.padding):
            reach = dilated(ctx.aval(ct).shape[out[2 + i]], self.window_strides[i])
            whole = dilated(aval.shape[lhs[2 + i]], self.lhs_dilation[i])
            size = dilated(y.shape[rhs[2 + i]], self.rhs_dilation[i])
            padding.append((before, reach - whole + size - before - 1))
        turned = ConvGeneralDilated(
            self.rhs_dilation, tuple(padding), self.lhs_dilation, self.window_strides,
            ConvDimensionNumbers(_exchanged(lhs), _exchanged(out), _exchanged(rhs)),
            self.batch_group_count, self.feature_group_count, self.precision, self.preferred_element_type,
        )  # fmt: skip
        (found,) = ctx.bind(turned, _as_dtype(ctx, x, ctx.aval(ct).dtype), ct)
        return _as_dtype(ctx, found, y.dtype, y.weak_type)


def _products(left: HostArray, there: HostArray, kernel: HostArray) -> HostArray:
    """Sums of products where there is an element: none of a kernel's infinities with the zeros in between."""
    columns = []
    for i in range(kernel.shape[1]):
        terms = np.multiply(left, kernel[:, None, i], where=there, out=np.zeros_like(left))
        columns.append(terms.sum(-1, dtype=terms.dtype))
    return np.stack(columns, -1)


def _sizes(aval: ShapedArray, axes: Spec) -> Shape:
    return tuple(aval.shape[axis] for axis in axes)


def _exchanged(spec: Spec) -> Spec:
    """With the first two axes exchanged."""
    return (spec[1], spec[0], *spec[2:])


def _unmapped(aval: ShapedArray, at: int | None) -> ShapedArray:
    return aval if at is None else array_type(aval.shape[:at] + aval.shape[at + 1 :], aval.dtype, aval.weak_type)


def _as_dtype(ctx: Context[V], x: V, dtype: DType, weak_type: bool = False) -> V:
    return x if ctx.aval(x).dtype == dtype else convert(ctx, x, dtype, weak_type)


def _merged(ctx: Context[V], x: V, at: int, into: int, groups: int = 1) -> V:
    """x with the axis `at` made part of another one, whose number is that without it: before what is there, in each
    of its groups."""
    size = ctx.aval(x).shape[at]
    x = move_axis(ctx, x, at, into)
    if groups > 1:
        x = divide_axis(ctx, x, into + 1, groups)
        x = move_axis(ctx, x, into + 1, into)
        shape = ctx.aval(x).shape
        return reshape(ctx, x, (*shape[:into], groups * size * shape[into + 2], *shape[into + 3 :]))
    shape = ctx.aval(x).shape
    return reshape(ctx, x, (*shape[:into], size * shape[into + 1], *shape[into + 2 :]))


def _divided(ctx: Context[V], x: V, at: int, size: int, groups: int = 1) -> V:
    """The inverse of `_merged`: x with a new axis of this size at `at`, and what it was part of after it."""
    if groups == 1:
        return divide_axis(ctx, x, at, size)
    x = divide_axis(ctx, divide_axis(ctx, x, at, groups), at + 1, size)
    x = move_axis(ctx, x, at + 1, at)
    shape = ctx.aval(x).shape
    return reshape(ctx, x, (*shape[: at + 1], groups * shape[at + 2], *shape[at + 3 :]))
