"""What XLA is told when it compiles a program for one device. Imports jaxlib: to be imported at first need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jaxlib import _jax

from tinyjax.backend.early import without_jax

if TYPE_CHECKING:
    from tinyjax.backend.stages import Options

#: Options that XLA takes apart from the others.
_APART: Final = (
    "exec_time_optimization_effort",
    "memory_fitting_effort",
    "optimization_level",
    "memory_fitting_level",
)
#: There is no profile of earlier runs, and none is to be looked for.
_NO_PROFILE: Final = -1
#: How much XLA tries to make do with less memory: what jax calls O2.
_MEMORY_EFFORT: Final = 29


def one_device(device: _jax.Device, options: Options = ()) -> _jax.CompileOptions:
    """The options for a program that runs on one device: what jax tells XLA, and then these.

    A RuntimeError for an option that XLA doesn't have may come now, or when something is compiled.
    """
    if not without_jax():
        from jax._src import compiler

        overrides: dict[str, Any] = dict(options)  # Any: jax 0.10 says they are all strings
        return compiler.get_compile_options(
            num_replicas=1,
            num_partitions=1,
            device_assignment=np.array([[device.id]]),
            env_options_overrides=overrides or None,
            backend=device.client,
        )
    # The same as jax's, as it is when nothing has been set.
    made = _jax.CompileOptions()
    made.num_replicas = made.num_partitions = 1
    made.device_assignment = _jax.DeviceAssignment.create(np.array([[device.id]], np.int32))
    made.profile_version = _NO_PROFILE
    build = made.executable_build_options
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    build.memory_fitting_level = _MEMORY_EFFORT
    build.debug_options.xla_detailed_logging = True
    for name, value in options:
        if name in _APART:
            setattr(build, name, value)
    made.env_option_overrides = [option for option in options if option[0] not in _APART]
    return made
