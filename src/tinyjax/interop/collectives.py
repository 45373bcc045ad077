"""How JAX has the elements along a named axis tell each other something."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import lax

from tinyjax.interop.jax_context import TO_JAX, Args, JaxContext
from tinyjax.primitives.collectives import AxisIndex, PMax, PMin, PSum, ReducingCollective
from tinyjax.primitives.exchanges import AllGather, AllToAll, PPermute, ReduceScatter


def _reduced(
    primitive: ReducingCollective,
    among: Callable[..., jax.Array],
    along: Callable[..., jax.Array],
    args: Args,
) -> Args:
    (x,), groups = args, primitive.axis_index_groups
    try:
        return [among(x, primitive.axis_name, axis_index_groups=groups)]
    except NotImplementedError:  # JAX has no groups where types say what varies, but to gather
        if groups is None or len({*map(len, groups)}) > 1:
            raise
    return [along(lax.all_gather(x, primitive.axis_name, axis_index_groups=groups), (0,))]


@TO_JAX.register(PSum)
def _psum(primitive: PSum, ctx: JaxContext, args: Args) -> Args:
    return _reduced(primitive, lax.psum, lax.reduce_sum, args)


@TO_JAX.register(PMax)
def _pmax(primitive: PMax, ctx: JaxContext, args: Args) -> Args:
    return _reduced(primitive, lax.pmax, lax.reduce_max, args)


@TO_JAX.register(PMin)
def _pmin(primitive: PMin, ctx: JaxContext, args: Args) -> Args:
    return _reduced(primitive, lax.pmin, lax.reduce_min, args)


@TO_JAX.register(AllGather)
def _all_gather(primitive: AllGather, ctx: JaxContext, args: Args) -> Args:
    return [
        lax.all_gather(
            args[0],
            primitive.axis_name,
            axis=primitive.all_gather_dimension,
            tiled=True,
            axis_index_groups=primitive.axis_index_groups,
        )
    ]


@TO_JAX.register(ReduceScatter)
def _reduce_scatter(primitive: ReduceScatter, ctx: JaxContext, args: Args) -> Args:
    dimension = primitive.scatter_dimension
    return [
        lax.psum_scatter(
            args[0],
            primitive.axis_name,
            scatter_dimension=dimension,
            tiled=True,
            axis_index_groups=primitive.axis_index_groups,
        )
    ]


@TO_JAX.register(AllToAll)
def _all_to_all(primitive: AllToAll, ctx: JaxContext, args: Args) -> Args:
    return [
        lax.all_to_all(
            args[0],
            primitive.axis_name,
            primitive.split_axis,
            primitive.concat_axis,
            tiled=True,
            axis_index_groups=primitive.axis_index_groups,
        )
    ]


@TO_JAX.register(PPermute)
def _ppermute(primitive: PPermute, ctx: JaxContext, args: Args) -> Args:
    return [lax.ppermute(args[0], primitive.axis_name, primitive.perm)]


@TO_JAX.register(AxisIndex)
def _axis_index(primitive: AxisIndex, ctx: JaxContext, args: Args) -> Args:
    return [lax.axis_index(primitive.axis_name)]
