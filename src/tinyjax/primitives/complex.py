"""Complex numbers and their parts. All linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, FLOAT32, FLOAT64, DType, complex_dtype, real_dtype
from tinyjax.ir.primitive import Outputs, UndefPrimal, Zero
from tinyjax.primitives import complex_values, numpy_values
from tinyjax.primitives.elementwise import Dtypes, LinearUnary, NumPyFunction, TwoOperands, neg
from tinyjax.primitives.structure import broadcast_scalar, constant_like, unbroadcast

V = TypeVar("V")
#: What the parts of a complex number can be.
PARTS: Final = frozenset({FLOAT32, FLOAT64})


@final
@frozen
class Real(LinearUnary):
    """The real part of a complex number, as a floating number of half its width."""

    name: ClassVar[str] = "real"
    accepts: ClassVar[Dtypes] = COMPLEXES
    function: ClassVar[NumPyFunction] = np.real

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return real_dtype(dtype)

    @override
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        return complex_(ctx, ct, constant_like(ctx, ct, 0))


@final
@frozen
class Imag(LinearUnary):
    """The imaginary part of a complex number, as a floating number of half its width."""

    name: ClassVar[str] = "imag"
    accepts: ClassVar[Dtypes] = COMPLEXES
    function: ClassVar[NumPyFunction] = np.imag

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return real_dtype(dtype)

    @override
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        # Cotangents pair with tangents by the real part of their product, without a conjugate.
        return complex_(ctx, constant_like(ctx, ct, 0), neg(ctx, ct))


@final
@frozen
class Conj(LinearUnary):
    """The complex conjugate. Of a float it is the complex number with no imaginary part."""

    name: ClassVar[str] = "conj"
    accepts: ClassVar[Dtypes] = COMPLEXES | PARTS
    function: ClassVar[NumPyFunction] = numpy_values.conj

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return dtype if dtype in COMPLEXES else complex_dtype(dtype)

    @override
    def transposed(self, ctx: Context[V], ct: V, operand: ShapedArray) -> V:
        return conj(ctx, ct) if operand.dtype in COMPLEXES else real(ctx, ct)


@final
@frozen
class Complex(TwoOperands):
    """The complex number with these two parts."""

    name: ClassVar[str] = "complex"
    accepts: ClassVar[Dtypes] = PARTS
    function: ClassVar[NumPyFunction] = complex_values.of_parts

    @override
    def result_dtype(self, dtype: DType) -> DType:
        return complex_dtype(dtype)

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((0, 1),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, (tx, ty) = ctx.bind(self, *primals), tangents
        aval = ctx.aval(outs[0])
        if not isinstance(tx, Zero):
            t = complex_(ctx, tx, constant_like(ctx, tx, 0) if isinstance(ty, Zero) else ty)
        elif not isinstance(ty, Zero):
            t = complex_(ctx, constant_like(ctx, ty, 0), ty)
        else:
            return outs, [Zero(aval.tangent)]
        return outs, [broadcast_scalar(ctx, t, aval.shape)]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, y) = cotangents, args
        if isinstance(ct, Zero):
            return [None, None]
        return [
            unbroadcast(ctx, real(ctx, ct), x.aval.shape) if isinstance(x, UndefPrimal) else None,
            unbroadcast(ctx, imag(ctx, neg(ctx, ct)), y.aval.shape) if isinstance(y, UndefPrimal) else None,
        ]


# The vocabulary.

real: Final = Real()
imag: Final = Imag()
conj: Final = Conj()
complex_: Final = Complex()
