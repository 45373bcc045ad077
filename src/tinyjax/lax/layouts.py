"""How results are to lie on a mesh: what `out_sharding` says."""

from __future__ import annotations

from typing import TypeAlias

from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.lax.mesh_in_force import mesh_in_force, on_mesh_in_force
from tinyjax.meshes import AbstractMesh, NamedSharding, PartitionSpec
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, as_array
from tinyjax.tracing.core import bind

#: As in JAX: None is as XLA likes.
OutSharding: TypeAlias = NamedSharding | PartitionSpec | None


def lying(what: str, leaf: object, sharding: object) -> Array:
    """An array, or what becomes one, which lies as a sharding says. `what` is for messages: what said it."""
    array = as_array(leaf)
    if sharding is None or array.aval.dtype == FLOAT0:
        return array
    if isinstance(sharding, PartitionSpec):
        sharding = on_mesh_in_force(f"{what}: the sharding", sharding)
    if not isinstance(sharding, NamedSharding):
        raise InputError(f"{what}: a sharding is NamedSharding(mesh, P('x', None)), got {sharding!r}")
    own = () if (mesh := mesh_in_force()) is None else mesh.manual_axes
    if both := [name for name in sharding.spec.names if name in own]:
        raise ShardingError(
            f"{what}: {sharding.spec} names the axis {both[0]!r} of the mesh, which is Manual here: within shard_map "
            "each device has its own part along it already. Name other axes."
        )
    sharding.check(array.aval.shape, what)
    if isinstance(array, ConcreteArray) and array.evaluated and sharding.has_devices:
        return array.to_device(sharding)
    left = AbstractMesh(sharding.mesh.axis_sizes, sharding.mesh.axis_names)  # whose axes are all left to XLA
    return bind(ShardingConstraint(NamedSharding(left, sharding.spec)), array)[0]


def laid_out(x: Array, sharding: OutSharding) -> Array:
    """A result, which lies as `out_sharding` says. A PartitionSpec is on the mesh in force, or on that on which it
    lies already."""
    if sharding is None:
        return x
    if isinstance(sharding, PartitionSpec) and mesh_in_force() is None and isinstance(x, ConcreteArray):
        lies = x.sharding
        if isinstance(lies, NamedSharding):
            sharding = lies.with_spec(sharding)
    return lying("out_sharding", x, sharding)
