"""Other dtypes for the same values or the same bits, and the identities that transformations see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.caching import bounded
from tinyjax.errors import ParameterError, ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    FLOATS,
    INEXACT,
    INTEGERS,
    KEYS,
    MOVABLE,
    SUPPORTED,
    DType,
    HostArray,
    as_dtype,
    bits,
    short_name,
)
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import kernels, numpy_values
from tinyjax.primitives.elementwise import Dtypes, LinearUnary, NumPyFunction, OneOperand, Stepwise, check_dtype
from tinyjax.primitives.structure import check_arity, check_elements, move_axis

V = TypeVar("V")
#: What has bits that can be read as another dtype.
BIT_PATTERNS: Final = INTEGERS | FLOATS


def array_dtype(dtype: npt.DTypeLike) -> DType:
    """A dtype that arrays can have; a TypingError for others."""
    found = as_dtype(dtype)
    if found in KEYS:
        raise TypingError(
            "numbers don't become keys by conversion: tinyjax.random.wrap_key_data makes keys of their words"
        )
    if found not in SUPPORTED:
        raise TypingError(f"arrays of dtype {short_name(found)} are not supported")
    return found


@final
@frozen
class ConvertElementType(LinearUnary):
    """The operand with another dtype, or another weak mark.

    Floats become the nearest integer towards zero that the dtype has (nan becomes 0), and integers wrap around.
    Whatever isn't zero is True; in any other real dtype complex numbers lose their imaginary part.
    """

    new_dtype: DType = field(converter=array_dtype)
    weak_type: bool = False
    name: ClassVar[str] = "convert_element_type"

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0,),) if self.new_dtype in INEXACT else ()

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        check_dtype(self.name, avals[0].dtype, SUPPORTED)
        return (array_type(avals[0].shape, self.new_dtype, self.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (numpy_values.convert(args[0], self.new_dtype),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.conversion(avals[0], self.new_dtype)

    @override
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        return convert(ctx, ct, operand.dtype, operand.weak_type)


@final
@frozen
class BitcastConvertType(Stepwise, OneOperand):
    """The operand's bits, read as another dtype.

    Where that is narrower, the parts of an element are a new last axis, lowest bits first; where it is wider, the last
    axis holds the parts of an element, and disappears.
    """

    new_dtype: DType = field(converter=array_dtype)
    name: ClassVar[str] = "bitcast_convert_type"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,) = avals
        if x.dtype == self.new_dtype:
            return (x.strengthen(),)
        check_dtype(self.name, x.dtype, BIT_PATTERNS)
        if self.new_dtype not in BIT_PATTERNS:
            raise TypingError(f"{self.name} does not read bits as {short_name(self.new_dtype)}")
        old, new = bits(x.dtype), bits(self.new_dtype)
        shape = x.shape
        if old > new:
            shape = (*shape, old // new)
        elif old < new:
            if not shape or shape[-1] * old != new:
                target = short_name(self.new_dtype)
                raise ShapeError(f"{self.name}: to read {x} as {target}, its last axis must have size {new // old}")
            shape = shape[:-1]
        return (array_type(shape, self.new_dtype),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (numpy_values.bitcast(args[0], self.new_dtype),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        return kernels.bitcast(avals[0], self.new_dtype)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        if ctx.aval(args[0]).ndim == 1:
            check_elements(self, [ctx.aval(args[0])], axes)
        return ctx.bind(self, move_axis(ctx, args[0], axes[0] or 0, 0)), [0]


@final
@frozen
class ReducePrecision(LinearUnary):
    """Floats rounded to what a format with these numbers of bits can hold; the dtype stays."""

    exponent_bits: int
    mantissa_bits: int
    name: ClassVar[str] = "reduce_precision"
    accepts: ClassVar[Dtypes] = FLOATS

    @override
    def __attrs_post_init__(self) -> None:
        Primitive.__attrs_post_init__(self)
        bits = (self.exponent_bits, self.mantissa_bits)
        if {type(number) for number in bits} != {int} or bits[0] < 1 or bits[1] < 0:
            raise ParameterError(
                f"{self.name} needs at least 1 bit for the exponent and 0 for the mantissa; "
                f"got {bits[0]!r} and {bits[1]!r}"
            )

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (numpy_values.reduce_precision(args[0], self.exponent_bits, self.mantissa_bits),)

    @override
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        return ctx.bind(self, ct)[0]


@final
@frozen
class Copy(LinearUnary):
    """The operand, in memory of its own."""

    name: ClassVar[str] = "copy"
    accepts: ClassVar[Dtypes] = MOVABLE
    function: ClassVar[NumPyFunction] = np.array

    @override
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        return ctx.bind(self, ct)[0]


@final
@frozen
class StopGradient(Stepwise, OneOperand):
    """The operand, as a constant to differentiation."""

    name: ClassVar[str] = "stop_gradient"
    accepts: ClassVar[Dtypes] = MOVABLE
    function: ClassVar[NumPyFunction] = numpy_values.identity


copy: Final = Copy()
stop_gradient: Final = StopGradient()


@bounded(256, typed=True)
def conversion(dtype: DType, weak: bool) -> ConvertElementType:
    """The primitive that converts to this type."""
    return ConvertElementType(dtype, weak)


# The vocabulary.


def convert(ctx: Context[V], x: V, dtype: DType, weak: bool = False) -> V:
    """x with this dtype and weak mark; x itself if it has them."""
    aval = ctx.aval(x)
    if aval.dtype == dtype and aval.weak_type == weak:
        return x
    return ctx.bind(conversion(dtype, weak), x)[0]
