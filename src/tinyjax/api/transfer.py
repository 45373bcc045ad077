"""Moving trees of arrays between the host and a device."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import numpy as np

from tinyjax import backend
from tinyjax.ir.dtypes import HostArray
from tinyjax.lax.mesh_in_force import on_mesh_in_force
from tinyjax.meshes import PartitionSpec, Sharding
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array

T = TypeVar("T")


@overload
def device_put(x: ArrayLike, device: Any = None) -> Array: ...
@overload
def device_put(x: T, device: Any = None) -> T: ...
@filtered
def device_put(x: Any, device: Any = None) -> Any:  # the user's tree; and a tree of devices
    """The tree with all arrays on a device: the default one, or `device`. What is being traced stays as it is.

    `device` is a Device, its name such as "cpu:0", one of jax's or a sharding of jax's on one device; "host" is where
    NumPy's arrays are. It may also be a sharding, say a NamedSharding of a mesh with devices, which says what part of
    an array each device has, or a PartitionSpec on the mesh in force (`set_mesh`). Or it is a tree of these, a prefix
    of `x`, where None is the default device.

    Raises:
      TreeError: the tree of devices is no prefix of `x`.
      ChoiceError: there is no such device.
      ShardingError: an array can't be divided so.

    >>> import numpy as np
    >>> device_put({"a": np.ones(2), "b": np.zeros(2)}, {"a": "cpu:0", "b": "host"})["b"].device
    Device('host')
    """
    leaves, treedef = tree.flatten(x)
    places = [device] * len(leaves)
    if not (device is None or isinstance(device, backend.Device | Sharding | PartitionSpec | str)) and not tree.is_leaf(
        tree.flatten(device)[1]
    ):
        named, structure = tree.flatten(device, _is_none)
        parts = tree.up_to("device_put", structure, x, _is_none)
        places = [place for place, part in zip(named, parts, strict=True) for _ in tree.flatten(part)[0]]

    def put(leaf: object, place: Any) -> Array:
        array = as_array(leaf)
        if not isinstance(array, ConcreteArray):
            return array
        if isinstance(place, PartitionSpec):
            place = on_mesh_in_force("device_put: the place", place)
        if isinstance(place, Sharding):
            return ConcreteArray(backend.put_on(array.value, place))
        if place is None:
            return ConcreteArray(backend.device_put(array.value))
        return array.to_device(place)

    return tree.unflatten(treedef, [put(leaf, place) for leaf, place in zip(leaves, places, strict=True)])


def _is_none(x: object) -> bool:
    return x is None


@overload
def device_get(x: ArrayLike) -> HostArray: ...
@overload
def device_get(x: T) -> T: ...
@filtered
def device_get(x: Any) -> Any:  # the user's tree
    """The tree with all arrays as NumPy arrays; a ConcretizationError if one is being traced."""
    return tree.map_leaves(lambda leaf: np.asarray(as_array(leaf)), x)


@filtered
def block_until_ready(x: T) -> T:
    """Waits until all arrays of the tree are computed. Returns the tree itself."""
    buffers = []
    for leaf in tree.flatten(x)[0]:
        if isinstance(leaf, ConcreteArray) and leaf.buffer is not None:
            buffers.append(leaf.buffer)
        elif isinstance(leaf, Array):
            leaf.block_until_ready()
    backend.wait_for(buffers)
    return x
