"""Arrays of several processes, made of the array that each has on its own mesh, and such arrays of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyjax.api.global_arrays import make_array_from_single_device_arrays
from tinyjax.api.transfer import device_put
from tinyjax.errors import InputError, UnexpectedTracedError
from tinyjax.meshes import Mesh, NamedSharding, PartitionSpec
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, as_array


@filtered
def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:  # the user's trees
    """The tree of arrays of which each process has given its part: along axes of the mesh that the specification names
    they are put together, in the order of the processes. Along others all must give the same.

    Args:
      local_inputs: a tree of arrays. One that is on devices of several processes stays as it is.
      global_mesh: the mesh, of which the devices of this process are a block.
      pspecs: a tree of PartitionSpecs, a prefix of `local_inputs`: how the arrays are divided.

    Raises:
      ShardingError: an array can't lie so, or the devices of this process are no block of the mesh.
      TreeError: the tree of specifications is no prefix.

    Source: JAX's function of this name.

    >>> import numpy as np
    >>> from tinyjax import P, make_mesh
    >>> host_local_array_to_global_array(np.arange(4.0), make_mesh((1,), "x"), P("x")).sharding.spec
    P('x',)
    """

    def spread(array: ConcreteArray, spec: PartitionSpec) -> Array:
        if not array.is_fully_addressable:
            return array
        own, whole = NamedSharding(global_mesh.local_mesh, spec), NamedSharding(global_mesh, spec)
        parts = device_put(array, own).addressable_shards
        sizes = zip(array.shape, own.blocks(array.ndim), whole.blocks(array.ndim), strict=True)
        shape = tuple([size // here * everywhere for size, here, everywhere in sizes])
        return make_array_from_single_device_arrays(
            shape, whole, [part.data for part in parts if part.data is not None]
        )

    return _each("host_local_array_to_global_array", local_inputs, pspecs, spread)


@filtered
def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:  # the user's trees
    """The tree of what this process has of arrays: on the mesh of its own devices, as if there were no others.

    Args:
      global_inputs: a tree of arrays. One that is on devices of this process only stays as it is.
      global_mesh: the mesh, of which the devices of this process are a block.
      pspecs: a tree of PartitionSpecs, a prefix of `global_inputs`: how the arrays are divided. What lies otherwise is
        moved first, for which every process must call this.

    Raises:
      ShardingError: an array can't lie so, or the devices of this process are no block of the mesh.
      TreeError: the tree of specifications is no prefix.

    Source: JAX's function of this name.

    >>> import numpy as np
    >>> from tinyjax import P, make_mesh
    >>> global_array_to_host_local_array(np.arange(4.0), make_mesh((1,), "x"), P("x"))
    Array([0., 1., 2., 3.], dtype=float64)
    """

    def taken(array: ConcreteArray, spec: PartitionSpec) -> Array:
        if array.is_fully_addressable:
            return array
        own, whole = NamedSharding(global_mesh.local_mesh, spec), NamedSharding(global_mesh, spec)
        parts = device_put(array, whole).addressable_shards
        block = whole.shard_shape(array.shape)
        shape = tuple([size * count for size, count in zip(block, own.blocks(array.ndim), strict=True)])
        return make_array_from_single_device_arrays(shape, own, [part.data for part in parts if part.data is not None])

    return _each("global_array_to_host_local_array", global_inputs, pspecs, taken)


def _each(what: str, x: Any, pspecs: Any, convert: Callable[[ConcreteArray, PartitionSpec], Array]) -> Any:
    leaves, treedef = tree.flatten(x)
    named, structure = tree.flatten(pspecs, _is_none)
    parts = tree.up_to(what, structure, x, _is_none)
    specs = [spec for spec, part in zip(named, parts, strict=True) for _ in tree.flatten(part)[0]]
    made = []
    for leaf, spec in zip(leaves, specs, strict=True):
        if not isinstance(spec, PartitionSpec):
            raise InputError(f"{what}: pspecs has PartitionSpecs, such as P() for what is not divided, not {spec!r}")
        array = as_array(leaf)
        if not isinstance(array, ConcreteArray):
            raise UnexpectedTracedError(
                f"{what} takes arrays with elements, not one that is being traced: call it outside of jit"
            )
        made.append(convert(array, spec))
    return tree.unflatten(treedef, made)


def _is_none(x: object) -> bool:
    return x is None
