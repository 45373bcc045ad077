"""Where a value enters a program or leaves it, as one of the type that is declared there."""

from __future__ import annotations

from typing import TypeVar

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.varying import without
from tinyjax.primitives.collectives import psum, pvary
from tinyjax.primitives.conversion import convert

V = TypeVar("V")


def gathered(ctx: Context[V], cotangent: V, declared: ShapedArray) -> V:
    """The cotangent of a value of the type `declared`, of which it may vary along more axes of a mesh: it is then what
    each device contributes, and their sum is the value's cotangent."""
    varying = ctx.aval(cotangent).varying
    more = without(varying, declared.varying) if varying else ()
    return psum(ctx, cotangent, more[0] if len(more) == 1 else more) if more else cotangent


def fit(ctx: Context[V], x: V, declared: ShapedArray) -> V:
    """A tangent or cotangent of a value of the type `declared`: as weak as that, and varying along the same axes of a
    mesh."""
    x = convert(ctx, x, ctx.aval(x).dtype, declared.weak_type)
    return pvary(ctx, gathered(ctx, x, declared), declared.varying)
