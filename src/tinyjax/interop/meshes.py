"""How JAX applies what is about meshes: `shard_map`, casts of what varies, and how values lie.

Programs hold no devices. JAX runs them on those of the mesh that it is told (`jax.set_mesh`), or else on its first
ones; where it has too few, it computes on one device what all would have computed.
"""

from __future__ import annotations

import jax
from jax import lax
from jax.sharding import AxisType as JaxAxisType

from tinyjax.backend.shardings import jax_spec
from tinyjax.control.shard_map import ShardMap
from tinyjax.control.sums_made import has_sums, with_sums_made
from tinyjax.interop.jax_context import TO_JAX, Args, Function, JaxContext, jax_cast
from tinyjax.ir.traverse import nested_programs
from tinyjax.meshes import Mesh
from tinyjax.primitives.casts import Cast, PReduced, PVary, ReducedVaryCast, VaryUnreducedCast
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.unreduced import AllGatherReduced, UnreducedPSum, UnreducedReduceScatter


@TO_JAX.register(ShardMap)
def _shard_map(primitive: ShardMap, ctx: JaxContext, args: Args) -> Args:
    mesh = _mesh(primitive.mesh)
    if mesh is None:
        return primitive.expand(ctx, args)
    if has_sums(primitive):  # which JAX knows of along Explicit axes only; here they are all left to XLA
        primitive = with_sums_made(primitive)
    run = ctx.runner(primitive.jaxpr, "shard_map")
    mapped: Function = jax.shard_map(
        lambda *parts: tuple(run(*parts)),
        mesh=mesh,
        in_specs=tuple(map(jax_spec, primitive.in_specs)),
        out_specs=tuple(map(jax_spec, primitive.out_specs)),
        axis_names=frozenset(primitive.manual_axes),
        check_vma=primitive.check_vma,
    )
    if any(isinstance(eqn.primitive, ShardMap) for inner in nested_programs(primitive.jaxpr) for eqn in inner.eqns):
        mapped = jax.jit(mapped)  # otherwise JAX divides what is divided already, unless it compiles
    return mapped(*args)


def _mesh(mesh: Mesh) -> jax.sharding.Mesh | jax.sharding.AbstractMesh | None:
    """The mesh as JAX has it here: that of the context, if it is one like it, or of the first devices; None if there
    are too few of them."""
    around = jax.sharding.get_abstract_mesh()
    if tuple(zip(around.axis_names, around.axis_sizes, strict=True)) == mesh.shape_tuple:
        return around
    if jax.device_count() < mesh.size:
        return None
    return jax.make_mesh(
        mesh.axis_sizes, mesh.axis_names, (JaxAxisType.Auto,) * mesh.ndim, devices=jax.devices()[: mesh.size]
    )


@TO_JAX.register(PVary)
def _pvary(primitive: PVary, ctx: JaxContext, args: Args) -> Args:
    return [ctx.varied(args[0], primitive.axes)]


def _cast(primitive: Cast, ctx: JaxContext, args: Args) -> Args:
    return [jax_cast(primitive, args[0])]


TO_JAX[PReduced] = TO_JAX[ReducedVaryCast] = TO_JAX[VaryUnreducedCast] = _cast


@TO_JAX.register(UnreducedPSum)
def _unreduced_psum(primitive: UnreducedPSum, ctx: JaxContext, args: Args) -> Args:
    return [lax.psum(args[0], primitive.axis_name)]


@TO_JAX.register(UnreducedReduceScatter)
def _unreduced_reduce_scatter(primitive: UnreducedReduceScatter, ctx: JaxContext, args: Args) -> Args:
    at = primitive.scatter_dimension
    return [lax.psum_scatter(args[0], primitive.axis_name, scatter_dimension=at, tiled=True)]


@TO_JAX.register(AllGatherReduced)
def _all_gather_reduced(primitive: AllGatherReduced, ctx: JaxContext, args: Args) -> Args:
    at = primitive.all_gather_dimension
    return [lax.all_gather(args[0], primitive.axis_name, axis=at, tiled=True, to="reduced")]


@TO_JAX.register(ShardingConstraint)
def _sharding_constraint(primitive: ShardingConstraint, ctx: JaxContext, args: Args) -> Args:
    mesh = _mesh(primitive.sharding.mesh)
    if mesh is None:
        return args
    sharding = jax.sharding.NamedSharding(mesh, jax_spec(primitive.sharding.spec))
    if JaxAxisType.Explicit in mesh.axis_types:
        return [jax.sharding.reshard(args[0], sharding)]
    return [lax.with_sharding_constraint(args[0], sharding)]
