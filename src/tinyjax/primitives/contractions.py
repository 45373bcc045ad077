"""The general product of two arrays, which sums over some axes and goes element by element over others."""

from __future__ import annotations

import enum
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeAlias, TypeVar, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.caching import bounded
from tinyjax.errors import LinearityError, TypingError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    BFLOAT16,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INEXACT,
    NARROW_FLOATS,
    NUMERIC,
    SUPPORTED,
    UNSIGNED,
    DType,
    HostArray,
    bits,
    finite_limits,
    real_dtype,
    short_name,
)
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.dot_algorithms import DotAlgorithm, DotAlgorithmPreset, as_algorithm
from tinyjax.primitives.elementwise import add, check_dtype
from tinyjax.primitives.shaping import shift_axes
from tinyjax.primitives.structure import accumulator, check_arity, check_axes, permute, shape_error

V = TypeVar("V")
Axes: TypeAlias = tuple[int, ...]
#: ((contracting axes of the left operand, of the right one), (batch axes of the left operand, of the right one)).
DimensionNumbers: TypeAlias = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
MATMUL: DimensionNumbers = (((1,), (0,)), ((), ()))


class Precision(enum.Enum):
    """How exactly an accelerator multiplies float32 numbers."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"

    @override
    def __str__(self) -> str:
        return self.name


#: Other names, after what some accelerators do: the same as JAX's.
_ALIASES: Final = {
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "float32": Precision.HIGHEST,
}


def as_precision(given: object) -> Precision | tuple[Precision, Precision] | None:
    """A precision for both operands, or one for each, from members of `Precision` (or of JAX's) or their names; an
    UnsupportedError for anything else.

    >>> as_precision("float32"), as_precision(("high", "high")), as_precision(None)
    (<Precision.HIGHEST: 'highest'>, <Precision.HIGH: 'high'>, None)
    """
    if given is None or type(given) is Precision:
        return given
    if type(given) is tuple or isinstance(given, list):
        if len(given) == 2:
            x, y = (Precision.DEFAULT if one is None else as_precision(one) for one in given)
            if isinstance(x, Precision) and isinstance(y, Precision):
                return x if x == y else (x, y)
    elif isinstance(given, str):
        found = _ALIASES.get(given) or Precision.__members__.get(given.upper())
        if found is not None:
            return found
    elif isinstance(given, enum.Enum) and type(given).__name__ == "Precision" and given.name in Precision.__members__:
        return Precision[given.name]
    raise UnsupportedError(
        "dot_general: a precision is 'default', 'high' or 'highest', a member of lax.Precision, or a pair of these, "
        f"one for each operand; got {given!r}. (Products of matrices take an algorithm too, such as "
        "lax.DotAlgorithmPreset.F32_F32_F32.)"
    )


#: How a product is computed, as a parameter.
DotPrecision: TypeAlias = Precision | tuple[Precision, Precision] | DotAlgorithm | DotAlgorithmPreset | None


def as_dot_precision(given: object) -> DotPrecision:
    """The same, or an algorithm."""
    found = as_algorithm(given)
    return as_precision(given) if found is None else found


@frozen
class Bilinear(Primitive):
    """Linear in each of two operands: a sum of products, for each element of the result."""

    @abstractmethod
    def terms(self, x: ShapedArray, y: ShapedArray) -> int:
        """How many products each sum has."""

    @abstractmethod
    def dtypes(self, x: DType, y: DType) -> tuple[DType, DType]:
        """The dtype of the result, and the one to multiply and add in."""

    @abstractmethod
    def unconverted(self) -> Bilinear:
        """The same with a result of the operands' dtype."""

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,), (1,))

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x, y), (tx, ty) = primals, tangents
        (out,) = ctx.bind(self, x, y)
        total: V | Zero = Zero(ctx.aval(out).tangent)
        if not isinstance(tx, Zero):
            (total,) = ctx.bind(self, tx, y)
        if not isinstance(ty, Zero):
            (part,) = ctx.bind(self, x, ty)
            total = part if isinstance(total, Zero) else add(ctx, total, part)
        return [out], [total]


@final
@frozen
class DotGeneral(Bilinear):
    """Sums products over the contracting axes, for each element of the batch axes.

    The axes of the result are the batch axes, the other axes of the left operand, those of the right one. The operands
    may have different dtypes; the wider one decides the result's, or `preferred_element_type` does. `precision` is for
    both operands, or a pair, one for each, or an algorithm, which says what to multiply and add in.

    >>> DotGeneral((((2,), (1,)), ((0,), (0,)))).type_of(
    ...     ShapedArray((5, 2, 3), "int8"), ShapedArray((5, 3), "int32")
    ... )
    (ShapedArray(i32[5,2]),)
    """

    dimension_numbers: DimensionNumbers
    precision: DotPrecision = field(default=None, converter=as_dot_precision)
    preferred_element_type: DType | None = None
    name: ClassVar[str] = "dot_general"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 2)
        x, y = avals
        (x_sum, y_sum), (x_batch, y_batch) = self.dimension_numbers
        check_axes(f"{self.name}, left operand {x}", x_sum + x_batch, x.ndim)
        check_axes(f"{self.name}, right operand {y}", y_sum + y_batch, y.ndim)
        self._check_pairs("contracting", x, y, x_sum, y_sum)
        self._check_pairs("batch", x, y, x_batch, y_batch)
        shape = (*_sizes(x, x_batch), *_sizes(x, _rest(x.ndim, x_sum, x_batch)),
                 *_sizes(y, _rest(y.ndim, y_sum, y_batch)))  # fmt: skip
        dtype, _ = self.dtypes(x.dtype, y.dtype)
        return (array_type(shape, dtype, x.weak_type and y.weak_type),)

    def _check_pairs(self, kind: str, x: ShapedArray, y: ShapedArray, x_axes: Axes, y_axes: Axes) -> None:
        if _sizes(x, x_axes) != _sizes(y, y_axes):
            raise shape_error(self.name, f"{kind} axes {x_axes} of {x} and {y_axes} of {y} differ in number or size")

    @override
    def terms(self, x: ShapedArray, y: ShapedArray) -> int:
        return math.prod(_sizes(x, self.dimension_numbers[0][0]))

    @override
    def dtypes(self, x: DType, y: DType) -> tuple[DType, DType]:
        return product_dtypes(x, y, self.preferred_element_type)

    @override
    def unconverted(self) -> DotGeneral:
        return DotGeneral(self.dimension_numbers, self.precision)

    @property
    def algorithm(self) -> DotAlgorithm | DotAlgorithmPreset | None:
        """The algorithm, if there is one."""
        given = self.precision
        return given if isinstance(given, DotAlgorithm | DotAlgorithmPreset) else None

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, y = args
        out, within = self.dtypes(x.dtype, y.dtype)
        added = out
        if self.algorithm is not None:
            x_stored, y_stored, added = self.algorithm.compute_types(x.dtype, y.dtype, out)
            x, y, within = x.astype(x_stored), y.astype(y_stored), accumulator(added)
        x, y = x.astype(within, copy=False), y.astype(within, copy=False)
        alone = self._single(x.shape)
        if self._is_matmul(x.ndim, y.ndim) and not alone:
            return (np.asarray(np.matmul(x, y)).astype(added, copy=False).astype(out, copy=False),)
        (x_sum, y_sum), (x_batch, y_batch) = self.dimension_numbers
        x_rest, y_rest = _rest(x.ndim, x_sum, x_batch), _rest(y.ndim, y_sum, y_batch)
        batch, rows, columns = ([a.shape[i] for i in axes] for a, axes in ((x, x_batch), (x, x_rest), (y, y_rest)))
        summed = math.prod(x.shape[i] for i in x_sum)
        left = x.transpose(x_batch + x_rest + x_sum).reshape((*batch, math.prod(rows), summed))
        right = y.transpose(y_batch + y_sum + y_rest).reshape((*batch, summed, math.prod(columns)))
        multiply = np.multiply if alone else np.matmul
        return (
            multiply(left, right).reshape((*batch, *rows, *columns)).astype(added, copy=False).astype(out, copy=False),
        )

    def _single(self, x: Shape) -> bool:
        """Whether each result is one product, which NumPy would add to 0: -0.0 would lose its sign."""
        return all(x[axis] == 1 for axis in self.dimension_numbers[0][0])

    def _is_matmul(self, x_ndim: int, y_ndim: int) -> bool:
        """Whether NumPy has this product as it is."""
        return max(x_ndim, y_ndim) <= 2 and self.dimension_numbers == (((x_ndim - 1,), (0,)), ((), ()))

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        x, y = avals
        _, within = self.dtypes(x.dtype, y.dtype)
        if (
            self.algorithm
            or not self._is_matmul(x.ndim, y.ndim)
            or not x.dtype == y.dtype == within
            or self._single(x.shape)
        ):
            return super().host_function(*avals)
        # `np.dot` looks for classes of users, `np.matmul` for batches; it rounds complex products otherwise.
        return np.ndarray.dot if x.ndim == y.ndim == 1 or x.dtype not in COMPLEXES else np.matmul

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x, y), (at, y_at) = args, axes
        (x_sum, y_sum), (x_batch, y_batch) = self.dimension_numbers
        x_rest = _rest(ctx.aval(x).ndim - (at is not None), x_sum, x_batch)
        y_rest = _rest(ctx.aval(y).ndim - (y_at is not None), y_sum, y_batch)
        if at is not None:
            x_sum, x_batch = shift_axes(x_sum, at), shift_axes(x_batch, at)
        if y_at is not None:
            y_sum, y_batch = shift_axes(y_sum, y_at), shift_axes(y_batch, y_at)
        if at is not None and y_at is not None:
            x_batch, y_batch, out_at = (at, *x_batch), (y_at, *y_batch), 0
        elif at is not None:
            out_at = len(x_batch) + sum(i < at for i in shift_axes(x_rest, at))
        else:
            y_at = y_at or 0
            out_at = len(x_batch) + len(x_rest) + sum(i < y_at for i in shift_axes(y_rest, y_at))
        mapped = DotGeneral(((x_sum, y_sum), (x_batch, y_batch)), self.precision, self.preferred_element_type)
        return ctx.bind(mapped, x, y), [out_at]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, y) = cotangents, args
        if isinstance(ct, Zero):
            return [None, None]
        (x_sum, y_sum), (x_batch, y_batch) = self.dimension_numbers
        if isinstance(x, UndefPrimal):
            if isinstance(y, UndefPrimal):
                raise LinearityError("dot_general is linear in each of its operands, but not in both together")
            return [self._cotangent(ctx, ct, x.aval, y, (x_sum, x_batch), (y_sum, y_batch), True), None]
        if isinstance(y, UndefPrimal):
            return [None, self._cotangent(ctx, ct, y.aval, x, (y_sum, y_batch), (x_sum, x_batch), False)]
        return [None, None]

    def _cotangent(
        self, ctx: Context[V], ct: V, aval: ShapedArray, other: V,
        own_axes: tuple[Axes, Axes], other_axes: tuple[Axes, Axes], is_left: bool,
    ) -> V:  # fmt: skip
        """The cotangent of one operand: that of the result, contracted with the other operand's remaining axes."""
        (own_sum, own_batch), (other_sum, other_batch) = own_axes, other_axes
        own_rest = _rest(aval.ndim, own_sum, own_batch)
        other_rest = _rest(ctx.aval(other).ndim, other_sum, other_batch)
        start = len(own_batch) + (len(own_rest) if is_left else 0)
        ct_sum = tuple(range(start, start + len(other_rest)))
        ct_batch = tuple(range(len(own_batch)))
        precision = self.precision  # the other operand keeps its own, and the cotangent gets that of what it is for
        if isinstance(precision, tuple) and not is_left:
            precision = precision[::-1]
        numbers = (ct_sum, other_rest), (ct_batch, other_batch)
        (product,) = ctx.bind(DotGeneral(numbers, precision, self.preferred_element_type), ct, other)
        # Its axes are: batch; the operand's own; those contracted before, in the order of the other operand.
        by_other = tuple(own for _, own in sorted(zip(other_sum, own_sum, strict=True)))
        order = own_batch + own_rest + by_other
        product = permute(ctx, product, tuple(sorted(range(len(order)), key=order.__getitem__)))
        return product if ctx.aval(product).dtype == aval.dtype else convert(ctx, product, aval.dtype, aval.weak_type)


def _rest(ndim: int, summed: Axes, batch: Axes) -> Axes:
    return tuple(i for i in range(ndim) if i not in summed and i not in batch)


def _sizes(aval: ShapedArray, axes: Axes) -> Shape:
    return tuple(aval.shape[i] for i in axes)


def _kind(dtype: DType) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex numbers: what can hold the one can hold those before."""
    return sum(dtype in kinds for kinds in (NUMERIC, INEXACT, COMPLEXES))


def _bits(dtype: DType) -> int:
    """The width of a number, or of its real part."""
    return bits(real_dtype(dtype)) if _kind(dtype) else 1


#: Two to the power of this is above all numbers of the dtype.
_RANGE: Final[dict[DType, int]] = {
    **{dtype: math.frexp(finite_limits(dtype)[1])[1] for dtype in NARROW_FLOATS},
    FLOAT16: 16,
    BFLOAT16: 128,
    FLOAT32: 128,
    FLOAT64: 1024,
}


def _rank(dtype: DType) -> tuple[int, int, int, bool]:
    """The higher one is the product's: by kind, then range (bfloat16 is above float16), then width."""
    return _kind(dtype), _RANGE.get(real_dtype(dtype), 0), _bits(dtype), dtype not in UNSIGNED


@bounded(1024)
def product_dtypes(x: DType, y: DType, preferred: DType | None, name: str = "dot_general") -> tuple[DType, DType]:
    """The dtype of a product, and the dtype to multiply and add in, which is as exact as the operands and the result.

    >>> product_dtypes(FLOAT16, FLOAT16, None)
    (dtype('float16'), dtype('float32'))
    """
    for dtype in (x, y):
        check_dtype(name, dtype, SUPPORTED)
    wider = max(x, y, key=_rank)
    if x != y and _rank(x) == _rank(y):
        raise TypingError(
            f"{name}: none of {short_name(x)} and {short_name(y)} can hold the other's numbers. Convert one of them."
        )
    out = wider if preferred is None else preferred
    if out != wider:
        check_dtype(f"preferred_element_type of {name}", out, SUPPORTED)
        narrower = wider not in FLOATS and _bits(out) < _bits(wider)
        if narrower or _kind(out) < _kind(wider):
            raise TypingError(
                f"{name}: preferred_element_type {short_name(out)} can't hold products of {short_name(wider)}. "
                "Convert the result instead."
            )
    if wider in INEXACT or out in INEXACT:
        return out, np.promote_types(accumulator(wider), accumulator(out))
    return out, accumulator(out)


# The vocabulary.


def dot_general(
    ctx: Context[V],
    x: V,
    y: V,
    dimension_numbers: DimensionNumbers,
    precision: DotPrecision = None,
    preferred_element_type: DType | None = None,
) -> V:
    """Products summed over the contracting axes, for each element of the batch axes; see `DotGeneral`."""
    return ctx.bind(made_once(DotGeneral, dimension_numbers, precision, preferred_element_type), x, y)[0]


def dot(ctx: Context[V], x: V, y: V) -> V:
    """The matrix product of two matrices."""
    return ctx.bind(made_once(DotGeneral, MATMUL), x, y)[0]
