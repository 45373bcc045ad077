"""Functions of other languages in compiled programs, by the names of `jax.ffi`."""

from tinyjax.api.foreign import ffi_call
from tinyjax.interop.registering import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
)
from tinyjax.tracebacks import filter_package

__all__ = [
    "ffi_call",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
