"""The one door to jaxlib: devices, buffers, compilation, execution. jax is imported at first need."""

from typing import TYPE_CHECKING

from tinyjax.backend.buffers import DeviceBuffer, RawBuffer, value_of_buffer, wait_for
from tinyjax.backend.executor import XlaExecutor, compile_program, execute
from tinyjax.backend.layouts import Asked, Division, Layout, lay_out
from tinyjax.backend.modules import compile_module
from tinyjax.backend.places import (
    DeviceLike,
    all_devices,
    as_device,
    is_committed,
    local_devices,
    move,
    place_of,
    process_count,
    process_index,
    sharding_of_value,
    shards,
)
from tinyjax.backend.stages import (
    Compiled,
    MemoryStats,
    Options,
    Partitioned,
    divided_results,
    generic_text,
    hlo_text,
    partitioned,
)
from tinyjax.backend.store import MAX_BYTES, CompilationCache
from tinyjax.backend.transfer import (
    as_jax,
    assemble,
    block_until_ready,
    copied,
    delete,
    device_put,
    dlpack_device,
    from_dlpack,
    from_jax,
    is_deleted,
    is_ready,
    is_spread,
    platform,
    put_on,
    size_on_devices,
    start_copy_to_host,
    to_dlpack,
    to_jax,
    whole,
)
from tinyjax.meshes.device import HOST, TRACED, Device

if TYPE_CHECKING:
    from tinyjax.backend.dispatcher import Argument
    from tinyjax.backend.executor import AnyExecutable

__all__ = [
    "HOST",
    "MAX_BYTES",
    "TRACED",
    "AnyExecutable",
    "Argument",
    "Asked",
    "CompilationCache",
    "Compiled",
    "Device",
    "DeviceBuffer",
    "DeviceLike",
    "Division",
    "Layout",
    "MemoryStats",
    "Options",
    "Partitioned",
    "RawBuffer",
    "XlaExecutor",
    "all_devices",
    "as_device",
    "as_jax",
    "assemble",
    "block_until_ready",
    "compile_module",
    "compile_program",
    "copied",
    "delete",
    "device_put",
    "divided_results",
    "dlpack_device",
    "execute",
    "from_dlpack",
    "from_jax",
    "generic_text",
    "hlo_text",
    "is_committed",
    "is_deleted",
    "is_ready",
    "is_spread",
    "lay_out",
    "local_devices",
    "move",
    "partitioned",
    "place_of",
    "platform",
    "process_count",
    "process_index",
    "put_on",
    "sharding_of_value",
    "shards",
    "size_on_devices",
    "start_copy_to_host",
    "to_dlpack",
    "to_jax",
    "value_of_buffer",
    "wait_for",
    "whole",
]
