"""Arrays on the devices of several processes, made of what each process has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tinyjax import backend
from tinyjax.errors import InputError, ShapeError, ShardingError, UnexpectedTracedError
from tinyjax.ir.dtypes import HostArray, as_dtype, short_name
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.ir.value import ConcreteValue
from tinyjax.lax.mesh_in_force import on_mesh_in_force
from tinyjax.meshes import Device, Index, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from tinyjax.meshes.device import OneDevice
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array


@filtered
def make_array_from_callback(
    shape: int | Sequence[int],
    sharding: Sharding | PartitionSpec | OneDevice,
    data_callback: Callable[[Index], ArrayLike],
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """An array of which each process makes the parts that its devices have.

    Args:
      shape: that of the whole array.
      sharding: how it lies on devices: a sharding, a PartitionSpec on the mesh in force or a device.
      data_callback: gives the part at an index, which is a tuple of slices. It is called once for each part that
        devices of this process have. Of a sum yet to be made, the first devices have what it gives, and others zeros.
      dtype: that of the parts, which must be given if this process has none.

    Raises:
      ShardingError: the array can't lie so.
      ShapeError: a part has another shape than its place.
      InputError: a part has another dtype than the others.

    >>> import numpy as np
    >>> from tinyjax import P, NamedSharding, make_mesh
    >>> whole = np.arange(8.0)
    >>> x = make_array_from_callback(
    ...     (8,), NamedSharding(make_mesh((1,), "x"), P("x")), lambda index: whole[index]
    ... )
    >>> x.sum()
    Array(28., dtype=float64)
    """
    sizes = as_shape(shape)
    lies = _sharding("make_array_from_callback", sharding)
    places = _places("make_array_from_callback", lies)
    indices = lies.devices_indices_map(sizes)
    terms = dict(zip(lies.flat_devices, lies.partial_sums().tolist(), strict=True))
    made: dict[tuple[str, bool], ConcreteValue] = {}
    parts: list[ConcreteValue] = []
    for device in places:
        key = str(indices[device]), terms[device] > 0
        if key not in made:
            found = _concrete("make_array_from_callback", data_callback(indices[device]))
            made[key] = ConcreteValue.of(np.zeros(found.aval.shape, found.aval.dtype)) if terms[device] else found
        parts.append(made[key])
    return _assembled("make_array_from_callback", sizes, lies, places, parts, dtype)


@filtered
def make_array_from_single_device_arrays(
    shape: int | Sequence[int],
    sharding: Sharding,
    arrays: Sequence[ArrayLike],
    *,
    dtype: npt.DTypeLike | None = None,
) -> Array:
    """The array whose parts these arrays are: one on each device of this process, in any order. Nothing is copied.

    Raises:
      ShardingError: the array can't lie so, or a device has no part, or several.
      ShapeError: a part has another shape than its place.
      InputError: a part has another dtype than the others.

    >>> import numpy as np
    >>> from tinyjax import P, NamedSharding, device_put, make_mesh
    >>> mesh = make_mesh((1,), "x")
    >>> parts = [device_put(np.arange(4.0), device) for device in mesh.local_devices]
    >>> make_array_from_single_device_arrays((4,), NamedSharding(mesh, P("x")), parts)
    Array([0., 1., 2., 3.], dtype=float64)
    """
    what = "make_array_from_single_device_arrays"
    sizes = as_shape(shape)
    places = _places(what, sharding)
    found: dict[object, ConcreteValue] = {}
    for array in arrays:
        value = _concrete(what, array)
        place = backend.place_of(value)
        if place in found or place not in places:
            problem = "has several parts" if place in found else "isn't one of the sharding in this process"
            raise ShardingError(f"{what}: each device has one part, but {place} {problem}: {sharding}")
        found[place] = value
    missing = [str(place) for place in places if place not in found]
    if missing:
        raise ShardingError(f"{what}: there are no parts for {', '.join(missing)}")
    return _assembled(what, sizes, sharding, places, [found[place] for place in places], dtype)


@filtered
def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """An array of what each process has of it; or a tree of such arrays.

    Along an axis where `local_data` is as large as the whole array, each process has all of it; along others it has
    the parts of its own devices, in order. With one process, this is `device_put`.

    Args:
      sharding: how the array lies on devices: a sharding, a PartitionSpec on the mesh in force or a device; or a tree
        of these, a prefix of `local_data`.
      local_data: what this process has: a NumPy array, or a tree of them.
      global_shape: the shape of the whole array; None, also for an axis, if it follows from the local one and the
        sharding. Or a tree of shapes, whose leaves are tuples.

    Raises:
      ShardingError: the array can't lie so.
      ShapeError: the local data is neither all of the array nor what the devices of this process have of it.

    >>> import numpy as np
    >>> from tinyjax import P, NamedSharding, make_mesh
    >>> sharding = NamedSharding(make_mesh((1,), "x"), P("x"))
    >>> make_array_from_process_local_data(sharding, np.arange(4.0)).sharding == sharding
    True
    """
    leaves, treedef = tree.flatten(local_data)
    named, structure = tree.flatten(sharding)
    spread = [
        place
        for place, part in zip(
            named, tree.up_to("make_array_from_process_local_data", structure, local_data), strict=True
        )
        for _ in tree.flatten(part)[0]
    ]
    shapes: list[object] = [global_shape] * len(leaves)
    if not _is_shape(global_shape):
        shapes = tree.up_to("make_array_from_process_local_data", treedef, global_shape, _is_shape)
    made = [_of_local(place, leaf, shape) for place, leaf, shape in zip(spread, leaves, shapes, strict=True)]
    return tree.unflatten(treedef, made)


def _sharding(what: str, place: object) -> Sharding:
    """A sharding, or what a specification on the mesh in force is, or a device."""
    if isinstance(place, PartitionSpec):
        return on_mesh_in_force(f"{what}: the sharding", place)
    if isinstance(place, OneDevice):
        return SingleDeviceSharding(place)
    if not isinstance(place, Sharding):
        raise InputError(f"{what}: the sharding is a NamedSharding, not {place!r}")
    return place


def _is_shape(x: object) -> bool:
    return x is None or (isinstance(x, tuple | list) and all(n is None or isinstance(n, SupportsIndex) for n in x))


def _of_local(place: object, data: object, global_shape: object) -> Array:
    what = "make_array_from_process_local_data"
    sharding = _sharding(what, place)
    local = _concrete(what, data)
    places = _places(what, sharding)
    ndim = local.aval.ndim
    given = global_shape if isinstance(global_shape, tuple | list) else [None] * ndim
    if len(given) != ndim:
        raise ShapeError(f"{what}: the local data has the shape {local.shape}, the whole array can't have {given}")
    here = [device in set(places) for device in sharding.flat_devices]
    rows, terms = sharding.coordinates(ndim)[here], sharding.partial_sums()[here]
    counts = sharding.blocks(ndim)
    own = [sorted({int(block) for block in rows[:, axis]}) for axis in range(ndim)]
    inferred = [
        size * count // max(len(blocks), 1) for size, count, blocks in zip(local.shape, counts, own, strict=True)
    ]
    shape = tuple([size if chosen is None else int(chosen) for size, chosen in zip(inferred, given, strict=True)])
    block = sharding.shard_shape(shape)
    for axis in range(ndim):
        parts = block[axis] * len(own[axis])
        if local.shape[axis] not in (shape[axis], parts):
            raise ShapeError(
                f"{what}: axis {axis} of the whole array has the size {shape[axis]}, of which devices of this process "
                f"have {parts}; the local data has {local.shape[axis]}: it must be one of these"
            )

    def part(row: Sequence[int], term: int) -> ConcreteValue:
        if term:  # of a sum yet to be made, of which the first devices have all
            return ConcreteValue.of(np.zeros(block, local.dtype))
        index = []
        for axis, at in enumerate(row):
            start = at if local.shape[axis] == shape[axis] else own[axis].index(at)
            index.append(slice(start * block[axis], (start + 1) * block[axis]))
        return ConcreteValue.of(np.asarray(local)[tuple(index)])

    made = [part(row, term) for row, term in zip(rows.tolist(), terms.tolist(), strict=True)]
    return _assembled(what, shape, sharding, places, made, local.dtype)


@filtered
def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """What all processes have, as NumPy arrays, on each of them; or a tree of such arrays. Every process must call it.

    An array that is spread over processes is gathered. Of others each process has its own: they are stacked along a new
    first axis or, if `tiled`, joined along the first one they have.

    Raises:
      ShardingError: an array is spread over processes, and `tiled` is false: it can't be stacked.

    >>> import numpy as np
    >>> process_allgather(np.arange(3.0), tiled=True)
    array([0., 1., 2.])
    """
    return tree.map_leaves(lambda leaf: _gathered(_concrete("process_allgather", leaf), tiled), in_tree)


def _gathered(value: ConcreteValue, tiled: bool) -> HostArray:
    sharding = backend.sharding_of_value(value)
    if backend.is_spread(value):
        if not tiled:
            raise ShardingError(
                "process_allgather: an array that is spread over processes is gathered as it is: write tiled=True"
            )
        if not isinstance(sharding, NamedSharding):
            raise ShardingError(f"process_allgather: an array that is spread over processes has no names: {sharding}")
        return backend.whole(backend.put_on(value, sharding.with_spec(PartitionSpec())))
    own = np.asarray(value)
    stacked = own[None] if own.ndim == 0 or not tiled else own
    count = backend.process_count()
    if count == 1:
        return own if tiled else stacked
    devices = np.array(backend.all_devices(), object).reshape(count, -1)
    mesh = Mesh(devices, ("processes", "local_devices"))
    spread = _of_local(NamedSharding(mesh, PartitionSpec("processes")), stacked, None)
    return backend.whole(backend.put_on(_concrete("process_allgather", spread), NamedSharding(mesh, PartitionSpec())))


def _places(what: str, sharding: object) -> list[Device]:
    """The devices of this process, in order."""
    if not isinstance(sharding, Sharding):
        raise InputError(f"{what}: the sharding is a NamedSharding, not {sharding!r}")
    own = sharding.addressable_devices
    return [device for device in sharding.flat_devices if device in own]


def _concrete(what: str, x: object) -> ConcreteValue:
    array = as_array(x)
    if not isinstance(array, ConcreteArray):
        raise UnexpectedTracedError(
            f"{what} takes arrays with elements, not one that is being traced: call it outside of jit"
        )
    return array.value


def _assembled(
    what: str,
    shape: Shape,
    sharding: Sharding,
    places: Sequence[Device],
    parts: Sequence[ConcreteValue],
    dtype: npt.DTypeLike | None,
) -> Array:
    block = sharding.shard_shape(shape)
    if dtype is not None:
        chosen = as_dtype(dtype)
    else:
        if not parts:
            raise ShardingError(f"{what}: this process has no parts that would say the dtype: pass dtype")
        chosen = parts[0].dtype
    for device, part in zip(places, parts, strict=True):
        if part.shape != block:
            raise ShapeError(
                f"{what}: of the shape {shape}, each device has a part of shape {block}, got {part.shape} for {device}"
            )
        if part.dtype != chosen:
            raise ShardingError(
                f"{what}: all parts have the dtype {short_name(chosen)}, got {short_name(part.dtype)} for {device}"
            )
    return ConcreteArray(backend.assemble(shape, chosen, sharding, places, parts))
