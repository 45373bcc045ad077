"""Programs compiled for a mesh whose devices aren't there: to be looked at, not to be run. Imports jax: to be imported
at first need."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn, final

import jax
import numpy as np
from jax._src import compiler
from jaxlib import _jax, xla_client

from tinyjax.backend.executable import load
from tinyjax.backend.layouts import Layout
from tinyjax.backend.loaded import Loaded
from tinyjax.backend.process import PROCESS
from tinyjax.backend.result_shardings import chosen_by_xla, is_open
from tinyjax.backend.stages import Options
from tinyjax.errors import ShardingError
from tinyjax.hlo.lowering import LoweredModule
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import NamedSharding


@lru_cache(maxsize=2)
def _devices(count: int) -> tuple[_jax.Device, ...]:
    """CPU devices on which nothing is run."""
    client = xla_client.make_cpu_client(num_devices=count)
    return tuple(client.devices())


def compile_planned(
    module: LoweredModule, name: str, out_avals: Sequence[ShapedArray], layout: Layout, options: Options = ()
) -> PlannedExecutable:
    """Compiles a module for as many CPU devices as the mesh has places; an XlaError if that fails."""
    PROCESS.check(f"To compile {name!r}")
    devices = _devices(layout.mesh.size)
    overrides: dict[str, Any] = dict(options)  # Any: jax 0.10 says they are all strings
    compile_options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=np.array([[device.id for device in devices]]),
        env_options_overrides=overrides or None,
        backend=devices[0].client,
    )
    build = compile_options.executable_build_options
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = True
    build.allow_spmd_sharding_propagation_to_output = [is_open(sharding) for sharding in layout.outs] or [False]
    loaded = load(module.text, name, devices, compile_options, module.host_calls, None)
    mesh = jax.sharding.AbstractMesh(layout.mesh.axis_sizes, layout.mesh.axis_names)
    return PlannedExecutable(loaded, layout, chosen_by_xla(loaded, layout, mesh, out_avals, layout.ins))


@final
class PlannedExecutable(Loaded):
    """A program compiled for devices that aren't there."""

    __slots__ = ("in_shardings", "layout", "out_shardings")

    def __init__(self, loaded: _jax.LoadedExecutable, layout: Layout, out_shardings: tuple[NamedSharding, ...]) -> None:
        super().__init__(loaded)
        self.layout: Layout = layout
        self.in_shardings: tuple[NamedSharding, ...] = layout.ins
        self.out_shardings: tuple[NamedSharding, ...] = out_shardings

    def __call__(self, args: Sequence[ConcreteValue], name: str) -> NoReturn:
        raise ShardingError(
            f"{name!r} was compiled for {self.layout.mesh}, of which there are no devices here: it can be looked at, "
            "but not run. Make a mesh of the devices that there are by tinyjax.make_mesh."
        )
