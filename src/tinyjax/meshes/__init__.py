"""Shardings as data: meshes, how arrays lie on them, and the names of devices. Nothing here asks for a device."""

from tinyjax.exports import publish
from tinyjax.meshes.device import HOST as HOST
from tinyjax.meshes.device import TRACED as TRACED
from tinyjax.meshes.device import Device as Device
from tinyjax.meshes.device import OneDevice as OneDevice
from tinyjax.meshes.mesh import AbstractMesh as AbstractMesh
from tinyjax.meshes.mesh import AxisType as AxisType
from tinyjax.meshes.mesh import Mesh as Mesh
from tinyjax.meshes.named import NamedSharding as NamedSharding
from tinyjax.meshes.sharding import Index as Index
from tinyjax.meshes.sharding import Sharding as Sharding
from tinyjax.meshes.sharding import SingleDeviceSharding as SingleDeviceSharding
from tinyjax.meshes.spec import UNCONSTRAINED as UNCONSTRAINED
from tinyjax.meshes.spec import P as P
from tinyjax.meshes.spec import PartitionSpec as PartitionSpec
from tinyjax.meshes.spec import Unconstrained as Unconstrained

publish(__name__)
