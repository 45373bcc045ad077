"""Meshes and how arrays lie on them: the names of `jax.sharding`."""

from tinyjax.meshes import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

__all__ = ["AbstractMesh", "AxisType", "Mesh", "NamedSharding", "PartitionSpec", "Sharding", "SingleDeviceSharding"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
