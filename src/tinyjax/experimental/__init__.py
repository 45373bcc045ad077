"""What programs import from `jax.experimental`, under its names."""

from tinyjax.api.host_callbacks import io_callback as io_callback
from tinyjax.experimental import checkify as checkify
from tinyjax.experimental import hijax as hijax
from tinyjax.experimental import jet as jet
from tinyjax.experimental import mesh_utils as mesh_utils
from tinyjax.experimental import multihost_utils as multihost_utils
from tinyjax.experimental import ode as ode
from tinyjax.experimental import pjit as pjit
from tinyjax.experimental import random as random
from tinyjax.experimental import shard_map as shard_map
from tinyjax.experimental import sparse as sparse

__all__ = [
    "checkify", "hijax", "io_callback", "jet", "mesh_utils", "multihost_utils", "ode", "pjit", "random", "shard_map",
    "sparse",
]  # fmt: skip


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
