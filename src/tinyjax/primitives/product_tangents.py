"""Tangents of products of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from tinyjax.ir.context import Context
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.slicing import pad, slice_in_dim
from tinyjax.primitives.structure import permute

V = TypeVar("V")


def product_tangent(ctx: Context[V], x: V, t: V, axes: Sequence[int]) -> V:
    """The tangent of the product of x along some axes. Multiplies numbers together with their tangents, half of them
    with the other half, until one is left.

    Nothing is divided, so zeros are no exception, and the tangent can be differentiated again.
    """
    aval = ctx.aval(x)
    kept = tuple(i for i in range(aval.ndim) if i not in axes)
    shape = tuple(aval.shape[i] for i in kept)
    size = math.prod(aval.shape[i] for i in axes)
    x, t = (reshape(ctx, permute(ctx, v, (*axes, *kept)), (size, *shape)) for v in (x, t))
    missing = ((0, 1, 0), *[(0, 0, 0)] * len(shape))
    while size > 1:
        if size % 2:
            x, t = pad(ctx, x, missing, 1), pad(ctx, t, missing, 0)
        half = size = (size + 1) // 2
        (x0, t0), (x1, t1) = ([slice_in_dim(ctx, v, start, start + half, 1, 0) for v in (x, t)] for start in (0, half))
        x, t = mul(ctx, x0, x1), add(ctx, mul(ctx, t0, x1), mul(ctx, x0, t1))
    return reshape(ctx, t, shape)
