"""Meshes and how arrays lie on them: the names of `jax.sharding`."""

from tinyjax.api.axis_modes import auto_axes, explicit_axes
from tinyjax.api.mesh_context import get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from tinyjax.ir.duality import ManualAxisType
from tinyjax.lax.resharding import reshard
from tinyjax.meshes import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from tinyjax.meshes.sharding import make_single_device_sharding
from tinyjax.tracebacks import filter_package

filter_package(__name__, [make_single_device_sharding.__name__], home="")

__all__ = [
    "AbstractMesh",
    "AxisType",
    "ManualAxisType",
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_single_device_sharding",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
