"""What processes that work together tell each other: the names of `jax.experimental.multihost_utils`."""

from tinyjax.api.global_arrays import process_allgather
from tinyjax.api.local_arrays import global_array_to_host_local_array, host_local_array_to_global_array
from tinyjax.api.processes import assert_equal, broadcast_one_to_all, sync_global_devices

__all__ = [
    "assert_equal",
    "broadcast_one_to_all",
    "global_array_to_host_local_array",
    "host_local_array_to_global_array",
    "process_allgather",
    "sync_global_devices",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
