"""Meshes and shardings of JAX as ours: without devices, which programs don't hold."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax.extend.core import JaxprEqn
from jax.sharding import NamedSharding as JaxNamed
from jax.sharding import PartitionSpec as JaxSpec

from tinyjax.backend.shardings import spec_of
from tinyjax.contexts.staging import StagingContext
from tinyjax.ir.program import Atom
from tinyjax.meshes import AxisType, Mesh, NamedSharding
from tinyjax.registered.jax_meshes import constrained


def mesh_of(mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh) -> Mesh:
    """A mesh."""
    types = [AxisType[axis_type.name] for axis_type in mesh.axis_types]
    return Mesh(tuple(mesh.axis_sizes), tuple(map(str, mesh.axis_names)), types)


def plain(value: object) -> object:
    """A parameter that says something of a mesh or devices, as data; anything else as it is.

    What says only that an array is on one device, or says nothing, is None.
    """
    if isinstance(value, jax.sharding.Mesh | jax.sharding.AbstractMesh):
        return mesh_of(value)
    if isinstance(value, JaxSpec):
        return spec_of(value)
    if isinstance(value, JaxNamed):
        return NamedSharding(mesh_of(value.mesh), spec_of(value.spec))
    if isinstance(value, jax.Device | jax.sharding.SingleDeviceSharding):
        return None
    return None if type(value).__name__ == "UnspecifiedValue" else value


def lying(ctx: StagingContext, eqn: JaxprEqn, outs: Sequence[Atom]) -> Sequence[Atom]:
    """The results of an equation; where it says how they are to lie on a mesh, as constraints."""
    said = eqn.params.get("out_sharding", eqn.params.get("sharding"))
    asked = None if said is None else plain(said)
    if eqn.primitive.name == "sharding_constraint" or not isinstance(asked, NamedSharding) or not asked.spec.names:
        return outs
    return [constrained(ctx, out, asked) for out in outs]
