"""The one door to jaxlib: devices, buffers, compilation, execution. jax is imported at first need."""

from typing import TYPE_CHECKING

from tinyjax.backend.buffers import DeviceBuffer, RawBuffer, value_of_buffer, wait_for
from tinyjax.backend.executor import XlaExecutor, compile_program, execute
from tinyjax.backend.modules import compile_module
from tinyjax.backend.places import (
    DeviceLike,
    as_device,
    device_of,
    local_devices,
    move,
    process_count,
    process_index,
)
from tinyjax.backend.stages import Compiled, MemoryStats, Options, generic_text, hlo_text
from tinyjax.backend.store import MAX_BYTES, CompilationCache
from tinyjax.backend.transfer import (
    as_jax,
    block_until_ready,
    delete,
    device_put,
    dlpack_device,
    from_dlpack,
    from_jax,
    is_deleted,
    platform,
    to_dlpack,
    to_jax,
)
from tinyjax.meshes.device import HOST, TRACED, Device

if TYPE_CHECKING:
    from tinyjax.backend.dispatcher import Argument
    from tinyjax.backend.executable import Executable

__all__ = [
    "HOST",
    "MAX_BYTES",
    "TRACED",
    "Argument",
    "CompilationCache",
    "Compiled",
    "Device",
    "DeviceBuffer",
    "DeviceLike",
    "Executable",
    "MemoryStats",
    "Options",
    "RawBuffer",
    "XlaExecutor",
    "as_device",
    "as_jax",
    "block_until_ready",
    "compile_module",
    "compile_program",
    "delete",
    "device_of",
    "device_put",
    "dlpack_device",
    "execute",
    "from_dlpack",
    "from_jax",
    "generic_text",
    "hlo_text",
    "is_deleted",
    "local_devices",
    "move",
    "platform",
    "process_count",
    "process_index",
    "to_dlpack",
    "to_jax",
    "value_of_buffer",
    "wait_for",
]
