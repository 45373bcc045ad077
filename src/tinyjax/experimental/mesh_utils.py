"""Devices in the order of a mesh: the names of `jax.experimental.mesh_utils`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyjax.api.devices import devices as all_devices
from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.shapes import as_shape
from tinyjax.meshes.device import OneDevice, plain_device
from tinyjax.tracebacks import filter_package

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[OneDevice] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> npt.NDArray[np.object_]:
    """The devices as an array of the shape of a mesh, for `Mesh`: in order, as those of CPUs and GPUs are all alike.

    Args:
      mesh_shape: the sizes of the axes.
      devices: the devices; None for all.
      contiguous_submeshes: for TPUs, as in JAX; here it says nothing.
      allow_split_physical_axes: for TPUs, as in JAX; here it says nothing.

    Raises:
      ShardingError: there are more devices, or fewer, than a mesh of that shape has.

    >>> create_device_mesh((1, 1), all_devices()[:1]).shape
    (1, 1)
    """
    found = _given(devices)
    sizes = as_shape(mesh_shape)
    if len(found) != math.prod(sizes):
        raise ShardingError(
            f"create_device_mesh: a mesh of the shape {sizes} has {math.prod(sizes)} devices, but there are "
            f"{len(found)}. Say which of them it is made of: create_device_mesh({sizes}, devices=...)"
        )
    return _array(found).reshape(sizes)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[OneDevice] | None = None,
    *,
    process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True,
    allow_split_physical_axes: bool = False,
) -> npt.NDArray[np.object_]:
    """The same for devices in groups between which the network is slower: the devices of each process.

    Along each axis of the mesh, groups come first, and the devices within a group next to each other.

    Args:
      mesh_shape: the sizes of the axes within a group.
      dcn_mesh_shape: how many groups there are along each axis.
      devices: the devices; None for all.
      process_is_granule: in JAX, whether groups are processes and not slices of TPUs; here they are always processes.
      should_sort_granules_by_key: whether groups are in the order of the processes' numbers, or as devices come.
      allow_split_physical_axes: for TPUs, as in JAX; here it says nothing.

    Raises:
      ShardingError: there are other groups, or other devices in one, than the shapes say.
      InputError: the shapes have different numbers of axes.

    >>> create_hybrid_device_mesh((1, 1), (1, 1), all_devices()[:1]).shape
    (1, 1)
    """
    inner, outer = as_shape(mesh_shape), as_shape(dcn_mesh_shape)
    if len(inner) != len(outer):
        raise InputError(f"create_hybrid_device_mesh: {inner} and {outer} are sizes of the same axes")
    groups: dict[int, list[OneDevice]] = {}
    for device in _given(devices):
        groups.setdefault(plain_device(device).process_index, []).append(device)
    if len(groups) != math.prod(outer):
        raise ShardingError(
            f"create_hybrid_device_mesh: {outer} is about {math.prod(outer)} processes, but there are devices of "
            f"{len(groups)}"
        )
    order = sorted(groups) if should_sort_granules_by_key else list(groups)
    blocks = [create_device_mesh(inner, groups[key]) for key in order]
    stacked = np.stack(blocks).reshape((*outer, *inner))
    n = len(inner)
    paired = stacked.transpose([axis for i in range(n) for axis in (i, n + i)])
    return paired.reshape([a * b for a, b in zip(outer, inner, strict=True)])


def _given(devices: Sequence[OneDevice] | None) -> list[OneDevice]:
    return list(all_devices() if devices is None else np.asarray(devices, object).ravel())


def _array(devices: Sequence[OneDevice]) -> npt.NDArray[np.object_]:
    found = np.empty(len(devices), object)
    found[:] = devices
    return found


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
