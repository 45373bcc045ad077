"""Moving trees of arrays between the host and a device."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from tinyjax import backend
from tinyjax.errors import ChoiceError, ShardingError
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.value import ConcreteValue
from tinyjax.lax.layouts import lying
from tinyjax.lax.mesh_in_force import on_mesh_in_force
from tinyjax.lax.placing import elements_of, there_and_back
from tinyjax.meshes import NamedSharding, PartitionSpec, Sharding
from tinyjax.meshes.memory import Space
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ROOT, ConcreteArray, active_frame, as_array
from tinyjax.tracing.core import Tracer

T = TypeVar("T")


@runtime_checkable
class Copied(Protocol):
    """What can be copied to the host in advance."""

    def copy_to_host_async(self) -> None: ...


@overload
def device_put(
    x: ArrayLike, device: Any = None, *, src: Any = None, donate: bool = False, may_alias: bool | None = None
) -> Array: ...
@overload
def device_put(x: T, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> T: ...
@filtered
def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:  # the user's tree; and a tree of devices
    """The tree with all arrays on devices. Within a function that is compiled all stays where it is, in the memory that
    it is in, or lies as a NamedSharding says: see `lax.with_sharding_constraint`.

    Args:
      x: a tree of arrays.
      device: a Device, its name such as "cpu:0", one of jax's or a sharding of jax's on one device; "host" is where
        NumPy's arrays are. It may also be a sharding, say a NamedSharding of a mesh with devices, which says what part
        of an array each device has, or a PartitionSpec on the mesh in force (`set_mesh`); or a `memory.Space`, which
        is another memory of the devices where the array is. With None,
        arrays on devices stay there, and others are put on the default one. Or a tree of these, a prefix of `x`.
      src: where the arrays are, in the same forms. They know that themselves; it is there for programs for JAX.
      donate: whether an array is given up, so that its memory can be used for others; it can't be used afterwards. Or
        a tree of these, a prefix of `x`.
      may_alias: whether an array that is there already is returned as it is; with False, it is copied. None is the
        contrary of `donate`. Or a tree of these, a prefix of `x`.

    Raises:
      TreeError: a tree of devices, or of choices, is no prefix of `x`.
      ChoiceError: there is no such device.
      ShardingError: an array can't be divided so.
      InputError: an array is to be given up and to be returned as it is.

    >>> import numpy as np
    >>> device_put({"a": np.ones(2), "b": np.zeros(2)}, {"a": "cpu:0", "b": "host"})["b"].device
    Device('host')
    """
    leaves, treedef = tree.flatten(x)
    places = _places(device, x)
    _places(src, x)
    given_up = _spread(donate, x)
    kept = _spread(may_alias, x)

    staged = active_frame().base is not ROOT  # for the program to have, as what is being traced

    def put(leaf: object, place: Any, donated: object, aliased: object) -> Array:
        if donated and aliased:
            raise ChoiceError(
                "device_put: an array that is donated can't be returned as it is, too: leave out may_alias"
            )
        array = as_array(leaf)
        if staged:
            return lying("device_put", array, place) if isinstance(place, NamedSharding | PartitionSpec) else array
        if not isinstance(array, ConcreteArray):
            found = elements_of(array)
            if isinstance(place, Space) and found is not None:
                place = _in_memory(found, place)
            return array if place is None else there_and_back(array, _checked(place))
        moved = _moved(array, place)
        shared = moved is array or moved.value is array.value
        if shared and (donated or aliased is False):
            moved = ConcreteArray(array.value if array.value.on_host else backend.copied(array.value))
        if donated:
            array.delete()
        return moved

    each = zip(leaves, places, given_up, kept, strict=True)
    return tree.unflatten(treedef, [put(*found) for found in each])


def _moved(array: ConcreteArray, place: Any) -> ConcreteArray:
    if isinstance(place, Space):
        place = _in_memory(array.value, place)
    value = backend.device_put(array.value) if place is None else backend.move(array.value, _checked(place))
    return array if value is array.value else ConcreteArray(value)


def _in_memory(value: ConcreteValue, space: Space) -> Sharding:
    """As the value lies on devices, or would, in another memory there."""
    return ConcreteArray(backend.device_put(value)).sharding.with_memory_kind(space.kind)


def _checked(place: Any) -> backend.Device | Sharding:
    if isinstance(place, PartitionSpec):
        place = on_mesh_in_force("device_put: the place", place)
    if isinstance(place, NamedSharding) and place.spec.open:
        raise ShardingError(
            f"device_put: the place says how an array lies, so {place.spec} can't leave that open: write None in the "
            "place of P.UNCONSTRAINED"
        )
    return place if isinstance(place, Sharding) else backend.as_device(place)


def _places(device: object, x: object) -> list[Any]:
    """For each leaf of a tree, the place that is said for it."""
    one = device is None or isinstance(device, backend.Device | Sharding | PartitionSpec | Space | str)
    if one or tree.is_leaf(tree.flatten(device)[1]):
        return [device] * len(tree.flatten(x)[0])
    return _spread(device, x)


def _spread(choices: object, x: object) -> list[Any]:
    """For each leaf of a tree, what a prefix of it has in its place."""
    if choices is None or isinstance(choices, bool):
        return [choices] * len(tree.flatten(x)[0])
    named, structure = tree.flatten(choices, _is_none)
    parts = tree.up_to("device_put", structure, x, _is_none)
    return [choice for choice, part in zip(named, parts, strict=True) for _ in tree.flatten(part)[0]]


def _is_none(x: object) -> bool:
    return x is None


@overload
def device_get(x: ArrayLike) -> HostArray: ...
@overload
def device_get(x: T) -> T: ...
@filtered
def device_get(x: Any) -> Any:  # the user's tree
    """The tree with all arrays as NumPy arrays. What is being traced stays as it is; so do Python's numbers, and
    whatever isn't an array."""
    return tree.map_leaves(_on_host, x)


def _on_host(leaf: object) -> object:
    if isinstance(leaf, Tracer) or not hasattr(leaf, "__array__"):
        return leaf
    return np.asarray(as_array(leaf))


@filtered
def copy_to_host_async(x: T) -> T:
    """Begins to copy all arrays of the tree to the host, for `device_get` to find them there later, and whatever else
    can do so by a method of this name. Returns the tree itself.

    >>> import tinyjax as tj
    >>> tj.device_get(tj.copy_to_host_async({"x": tj.device_put(2.0)}))
    {'x': array(2.)}
    """
    for leaf in tree.flatten(x)[0]:
        if isinstance(leaf, Copied) and not isinstance(leaf, Tracer):
            leaf.copy_to_host_async()
    return x


@filtered
def block_until_ready(x: T) -> T:
    """Waits until all arrays of the tree are computed. Returns the tree itself."""
    buffers = []
    stacks: dict[int, ConcreteArray] = {}  # for each, one of the arrays that are its rows
    for leaf in tree.flatten(x)[0]:
        if isinstance(leaf, ConcreteArray) and leaf.buffer is not None:
            buffers.append(leaf.buffer)
        elif isinstance(leaf, ConcreteArray) and leaf.row is not None:
            stacks[id(leaf.row.stack)] = leaf
        elif isinstance(leaf, Array):
            leaf.block_until_ready()
    backend.wait_for(buffers)
    for row in stacks.values():
        row.block_until_ready()
    return x
