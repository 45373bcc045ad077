"""Meshes of the devices that there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

import numpy as np

from tinyjax.api.devices import devices as all_devices
from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.shapes import Shape
from tinyjax.meshes import AxisType, Device, Mesh
from tinyjax.meshes.device import OneDevice, plain_device
from tinyjax.tracebacks import filtered


@overload
def make_mesh(
    axis_sizes: Sequence[int],
    axis_names: str | Sequence[str],
    axis_types: AxisType | Sequence[AxisType] | None = None,
    *,
    devices: Sequence[OneDevice] | None = None,
) -> Mesh: ...
@overload
def make_mesh(
    *,
    axis_shapes: Sequence[int],
    axis_names: str | Sequence[str],
    axis_types: AxisType | Sequence[AxisType] | None = None,
    devices: Sequence[OneDevice] | None = None,
) -> Mesh: ...
@filtered
def make_mesh(
    axis_sizes: Sequence[int] | None = None,
    axis_names: str | Sequence[str] | None = None,
    axis_types: AxisType | Sequence[AxisType] | None = None,
    *,
    devices: Sequence[OneDevice] | None = None,
    axis_shapes: Sequence[int] | None = None,
) -> Mesh:
    """A mesh of the first devices of the default platform, or of those that are given.

    Args:
      axis_sizes: the sizes of the axes.
      axis_names: a name for each axis.
      axis_types: an AxisType for each axis; Explicit if None, as in JAX.
      devices: what the mesh is made of, in order; more than needed may be given.
      axis_shapes: what `axis_sizes` is called by JAX 0.10.

    Raises:
      ShardingError: a ValueError, if there are fewer devices than the mesh has places; for other reasons see `Mesh`.

    >>> mesh = make_mesh((1, 1), ("x", "y"))
    >>> mesh.shape_tuple, mesh.devices.shape
    ((('x', 1), ('y', 1)), (1, 1))
    """
    given = axis_shapes if axis_sizes is None else axis_sizes
    if given is None or axis_names is None or (axis_sizes is not None and axis_shapes is not None):
        raise InputError('make_mesh takes the sizes of the axes, once, and their names: make_mesh((4, 2), ("x", "y"))')
    sizes = _sizes(given)
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    found: list[Device] = list(map(plain_device, all_devices() if devices is None else devices))
    size = math.prod(sizes)
    if size > len(found):
        raise ShardingError(
            f"a mesh of the sizes {sizes} takes {size} devices, but there are {len(found)}. To lower or compile "
            f"programs for it, tinyjax.sharding.AbstractMesh({sizes}, {names}) needs no devices; a computer has as "
            f"many CPU devices as XLA_FLAGS=--xla_force_host_platform_device_count={size} says when it starts."
        )
    if axis_types is None:
        axis_types = (AxisType.Explicit,) * len(names)
    placed = np.empty(size, object)
    placed[:] = found[:size]
    return Mesh(placed.reshape(sizes), names, axis_types)


def _sizes(axis_sizes: Sequence[int]) -> Shape:
    from operator import index

    try:
        return tuple(map(index, axis_sizes))
    except TypeError:
        raise ShardingError(
            f"the sizes of a mesh are a sequence of integers such as (4, 2), not {axis_sizes!r}"
        ) from None
