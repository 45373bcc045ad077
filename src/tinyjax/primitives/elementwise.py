"""What all elementwise primitives share: typing, batching, and derivatives from one partial derivative an argument.

A scalar operand goes with an array of any shape; otherwise shapes must be equal. Nothing is promoted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeAlias, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEXES,
    FLOAT0,
    FLOATS,
    INEXACT,
    NUMERIC,
    DType,
    HostArray,
    Scalar,
    names_of,
    short_name,
)
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives.numpy_values import QUIET
from tinyjax.primitives.structure import broadcast_scalar, check_arity, constant_like, unbroadcast, with_leading_axis

V = TypeVar("V")
Dtypes: TypeAlias = frozenset[DType]
#: What computes the elements of a result: a function of NumPy, or of its arrays.
NumPyFunction: TypeAlias = Callable[..., HostArray | np.generic]


def check_dtype(name: str, dtype: DType, accepted: Dtypes) -> None:
    """A TypingError unless the primitive takes this dtype."""
    if dtype not in accepted:
        raise TypingError(f"{name} does not accept {short_name(dtype)} operands; it accepts {names_of(accepted)}")


def common_shape(name: str, avals: Sequence[ShapedArray]) -> Shape:
    """The shape of an elementwise result: that of all operands which aren't scalars."""
    shape: Shape = ()
    for aval in avals:
        if aval.shape and aval.shape != shape:
            if shape:
                shapes = ", ".join(str(aval.shape) for aval in avals)
                raise ShapeError(
                    f"{name} needs operands of equal shapes, or scalars; got {shapes}. Broadcast them first, or use "
                    "the operators and tinyjax.numpy, which do."
                )
            shape = aval.shape
    return shape


def common_dtype(name: str, avals: Sequence[ShapedArray]) -> DType:
    """The dtype that all operands have."""
    dtype = avals[0].dtype
    for aval in avals:
        if aval.dtype != dtype:
            raise TypingError(
                f"{name} requires arguments to have the same dtypes; got {', '.join(map(str, avals))}. Convert them "
                "first, or use the operators and tinyjax.numpy, which do."
            )
    return dtype


def elementwise_type(name: str, avals: Sequence[ShapedArray], dtype: DType) -> ShapedArray:
    """The type of an elementwise result: weak where all operands are, and bool never is."""
    if len(avals) == 1:
        (aval,) = avals
        return array_type(aval.shape, dtype, aval.weak_type and dtype != BOOL)
    weak = dtype != BOOL and all(aval.weak_type for aval in avals)
    return array_type(common_shape(name, avals), dtype, weak)


def batch_elementwise(
    ctx: Context[V], primitive: Primitive, axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
) -> tuple[Sequence[V], Sequence[int | None]]:
    """The batching rule of every elementwise primitive: align the mapped axes, then apply it."""
    avals = [ctx.aval(arg) for arg in args]
    shapes = [unmapped(aval.shape, at) for aval, at in zip(avals, axes, strict=True)]
    shape = max(shapes, key=len)
    mapped = {at for at in axes if at is not None}
    if len(mapped) == 1 and all(s == (() if at is None else shape) for s, at in zip(shapes, axes, strict=True)):
        outs = ctx.bind(primitive, *args)
        return outs, [next(iter(mapped))] * len(outs)
    if any(own and own != shape for own in shapes):  # which aligning could hide: an axis of size 1 would be repeated
        common_shape(primitive.name, [array_type(own, aval.dtype) for own, aval in zip(shapes, avals, strict=True)])
    aligned = [
        arg if at is None and own == () else with_leading_axis(ctx, arg, at, axis.size, shape)
        for arg, at, own in zip(args, axes, shapes, strict=True)
    ]
    outs = ctx.bind(primitive, *aligned)
    return outs, [0] * len(outs)


def unmapped(shape: Shape, at: int | None) -> Shape:
    """The shape without the mapped axis."""
    return shape if at is None else shape[:at] + shape[at + 1 :]


@frozen
class Elementwise(Primitive):
    """An elementwise primitive whose operands have one dtype, which decides the result's."""

    plain: ClassVar[bool] = True
    accepts: ClassVar[Dtypes]
    arity: ClassVar[int] = 1
    #: The value on NumPy arrays: a function of NumPy's, or of such functions.
    function: ClassVar[NumPyFunction]
    #: The same for floats and for complex numbers, where it is another one.
    of_floats: ClassVar[NumPyFunction | None] = None
    of_complex: ClassVar[NumPyFunction | None] = None

    def function_of(self, dtype: DType) -> NumPyFunction:
        """The value on NumPy arrays, for operands of this dtype."""
        cls = type(self)
        own = cls.of_floats if dtype in FLOATS else cls.of_complex if dtype in COMPLEXES else None
        return cls.function if own is None else own

    def result_dtype(self, dtype: DType) -> DType:
        """The dtype of the result for operands of this dtype."""
        return dtype

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, self.arity)
        dtype = common_dtype(self.name, avals)
        check_dtype(self.name, dtype, self.accepts)
        return (elementwise_type(self.name, avals, self.result_dtype(dtype)),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.asarray(QUIET.copy().run(self.function_of(args[0].dtype), *args)),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        # A subclass may say otherwise what its value is.
        own = type(self).evaluate is Elementwise.evaluate
        return self.function_of(avals[0].dtype) if own else super().host_function(*avals)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return batch_elementwise(ctx, self, axis, args, axes)


@frozen
class OneOperand(Elementwise):
    """Of one operand. An instance is also the function that applies it on a context: `neg(ctx, x)`."""

    def __call__(self, ctx: Context[V], x: V) -> V:
        return ctx.bind(self, x)[0]


@frozen
class TwoOperands(Elementwise):
    """Of two operands. An instance is also the function that applies it on a context: `add(ctx, x, y)`."""

    arity: ClassVar[int] = 2

    def __call__(self, ctx: Context[V], x: V, y: V) -> V:
        return ctx.bind(self, x, y)[0]


@frozen
class Smooth(OneOperand):
    """A subclass says what becomes of a tangent."""

    accepts: ClassVar[Dtypes] = INEXACT

    @abstractmethod
    def tangent(self, ctx: Context[V], t: V, x: V, y: V) -> V | Zero:
        """The tangent of the result at x, where y is the value at x and t the tangent of x."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        (y,) = ctx.bind(self, x)
        if isinstance(t, Zero):
            return [y], zero_tangents(ctx, [y])
        return [y], [self.tangent(ctx, t, x, y)]


@frozen
class Unary(Smooth):
    """A subclass gives `derivative`; the chain rule is here."""

    @abstractmethod
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        """The derivative at x, where y is the value at x."""

    @override
    def tangent(self, ctx: Context[V], t: V, x: V, y: V) -> V:
        return mul(ctx, t, self.derivative(ctx, x, y))


@frozen
class LinearUnary(OneOperand):
    """Linear in its one operand: its tangent is the primitive applied to the operand's tangent."""

    linear: ClassVar[Sequence[Sequence[int]]] = ((0,),)

    @abstractmethod
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        """The transpose of the primitive, applied to a cotangent of its result. The result has the operand's type."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, (t,) = ctx.bind(self, *primals), tangents
        tangent = ctx.aval(outs[0]).tangent
        if isinstance(t, Zero) or tangent.dtype == FLOAT0:
            return outs, [Zero(tangent)]
        return outs, ctx.bind(self, t)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None]
        return [self.transposed(ctx, ct, x.aval)]


@frozen
class Stepwise(Elementwise):
    """Constant between its jumps, or not a number at all: the derivative is zero everywhere."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs = ctx.bind(self, *primals)
        return outs, zero_tangents(ctx, outs)


@frozen
class Binary(TwoOperands):
    """A subclass says what a tangent of each operand contributes."""

    accepts: ClassVar[Dtypes] = INEXACT

    @abstractmethod
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        """What a tangent `t` of x contributes."""

    @abstractmethod
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        """What a tangent `t` of y contributes."""

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x, y), (tx, ty) = primals, tangents
        (out,) = ctx.bind(self, x, y)
        if not isinstance(tx, Zero):
            total = self.left(ctx, tx, x, y, out)
            if not isinstance(ty, Zero):
                total = add(ctx, total, self.right(ctx, ty, x, y, out))
        elif not isinstance(ty, Zero):
            total = self.right(ctx, ty, x, y, out)
        else:
            return [out], zero_tangents(ctx, [out])
        return [out], [broadcast_scalar(ctx, total, ctx.aval(out).shape)]


@final
@frozen
class Neg(LinearUnary):
    """The number with the other sign. Unsigned integers wrap around."""

    name: ClassVar[str] = "neg"
    accepts: ClassVar[Dtypes] = NUMERIC
    function: ClassVar[NumPyFunction] = np.negative

    @override
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        return neg(ctx, ct)


@frozen
class Additive(Binary):
    """A sum of its operands, up to sign: linear in both together."""

    linear: ClassVar[Sequence[Sequence[int]]] = ((0, 1),)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, y) = cotangents, args
        if isinstance(ct, Zero):
            return [None, None]
        return [
            unbroadcast(ctx, ct, x.aval.shape) if isinstance(x, UndefPrimal) else None,
            unbroadcast(ctx, self._signed(ctx, ct), y.aval.shape) if isinstance(y, UndefPrimal) else None,
        ]

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return t

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return self._signed(ctx, t)

    @abstractmethod
    def _signed(self, ctx: Context[V], t: V) -> V:
        """t with the sign of the second operand."""


@final
@frozen
class Add(Additive):
    """The sum. Integers wrap around."""

    name: ClassVar[str] = "add"
    accepts: ClassVar[Dtypes] = NUMERIC
    function: ClassVar[NumPyFunction] = np.add

    @override
    def _signed(self, ctx: Context[V], t: V) -> V:
        return t


@final
@frozen
class Sub(Additive):
    """The difference: the first operand less the second. Integers wrap around."""

    name: ClassVar[str] = "sub"
    accepts: ClassVar[Dtypes] = NUMERIC
    function: ClassVar[NumPyFunction] = np.subtract

    @override
    def _signed(self, ctx: Context[V], t: V) -> V:
        return neg(ctx, t)


@final
@frozen
class Mul(Binary):
    """The product. Integers wrap around."""

    linear: ClassVar[Sequence[Sequence[int]]] = ((0,), (1,))
    name: ClassVar[str] = "mul"
    accepts: ClassVar[Dtypes] = NUMERIC
    function: ClassVar[NumPyFunction] = np.multiply

    @override
    def left(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, t, y)

    @override
    def right(self, ctx: Context[V], t: V, x: V, y: V, out: V) -> V:
        return mul(ctx, x, t)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, y) = cotangents, args
        if isinstance(ct, Zero):
            return [None, None]
        if isinstance(x, UndefPrimal):
            if isinstance(y, UndefPrimal):
                raise LinearityError("mul is linear in each of its operands, but not in both together")
            return [unbroadcast(ctx, mul(ctx, ct, y), x.aval.shape), None]
        if isinstance(y, UndefPrimal):
            return [None, unbroadcast(ctx, mul(ctx, x, ct), y.aval.shape)]
        return [None, None]


neg: Final = Neg()
add: Final = Add()
sub: Final = Sub()
mul: Final = Mul()


def scale(ctx: Context[V], x: V, factor: Scalar) -> V:
    """x times a constant."""
    return mul(ctx, x, constant_like(ctx, x, factor))
