"""Where a value enters a program or leaves it, as one of the type that is declared there."""

from __future__ import annotations

from typing import TypeVar

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.varying import without
from tinyjax.primitives.casts import cast, name_of
from tinyjax.primitives.conversion import convert

V = TypeVar("V")


def gathered(ctx: Context[V], cotangent: V, wanted: ShapedArray) -> V:
    """A cotangent that is to be of the type `wanted`, and may vary along more axes of a mesh: it is then what each
    device contributes, and their sum is the value's cotangent. Where that is a sum yet to be made, it isn't made."""
    own = ctx.aval(cotangent)
    if not own.axes:
        return cotangent
    from tinyjax.primitives.collectives import psum  # outside of meshes, nothing needs these
    from tinyjax.primitives.unreduced import unreduced_psum

    if more := without(own.varying, (*wanted.varying, *wanted.unreduced)):
        cotangent = psum(ctx, cotangent, name_of(more))
    more = without(own.unreduced, wanted.unreduced)
    return unreduced_psum(ctx, cotangent, name_of(more)) if more else cotangent


def fit(ctx: Context[V], x: V, wanted: ShapedArray) -> V:
    """A tangent or cotangent as one of the type `wanted`: as weak, and varying along the same axes of a mesh."""
    x = convert(ctx, x, ctx.aval(x).dtype, wanted.weak_type)
    return cast(ctx, gathered(ctx, x, wanted), wanted.axes)
