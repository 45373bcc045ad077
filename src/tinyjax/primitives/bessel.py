"""Modified Bessel functions of the first kind, times exp(-|x|), so that they don't overflow."""

from __future__ import annotations

from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOATS, HostArray
from tinyjax.primitives import numpy_values
from tinyjax.primitives.arithmetic import abs_, reciprocal
from tinyjax.primitives.comparison import gt
from tinyjax.primitives.elementwise import Dtypes, NumPyFunction, Unary, add, mul, sub
from tinyjax.primitives.numpy_values import resolution
from tinyjax.primitives.rounding import sign
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import constant_like

V = TypeVar("V")


def _i0e(x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return np.where(np.isinf(x), 0, special.i0e(x)).astype(x.dtype)


def _i1e(x: numpy_values.Floats) -> HostArray:
    from scipy import special

    return np.copysign(np.where(np.isinf(x), 0, special.i1e(x)), x).astype(x.dtype)


@final
@frozen
class BesselI0e(Unary):
    """exp(-|x|) times the modified Bessel function of order 0."""

    name: ClassVar[str] = "bessel_i0e"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_i0e)

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        return sub(ctx, bessel_i1e(ctx, x), mul(ctx, sign(ctx, x), y))


@final
@frozen
class BesselI1e(Unary):
    """exp(-|x|) times the modified Bessel function of order 1."""

    name: ClassVar[str] = "bessel_i1e"
    accepts: ClassVar[Dtypes] = FLOATS
    function: ClassVar[NumPyFunction] = numpy_values.widened(_i1e)

    @override
    def derivative(self, ctx: Context[V], x: V, y: V) -> V:
        """Near 0, where y / x would be 0 / 0, it is 1/2."""
        least = constant_like(ctx, x, resolution(ctx.aval(x).dtype))
        far = gt(ctx, abs_(ctx, x), least)
        safe = select(ctx, far, x, least)
        slope = sub(ctx, bessel_i0e(ctx, safe), mul(ctx, y, add(ctx, sign(ctx, safe), reciprocal(ctx, safe))))
        return select(ctx, far, slope, constant_like(ctx, x, 0.5))


# The vocabulary.

bessel_i0e: Final = BesselI0e()
bessel_i1e: Final = BesselI1e()
