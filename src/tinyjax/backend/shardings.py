"""Shardings of ours as jax's and back, and putting arrays on several devices. Imports jax: to be imported at first
need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax.sharding import NamedSharding as JaxNamed
from jax.sharding import PartitionSpec as JaxSpec
from jax.sharding import SingleDeviceSharding as JaxSingle
from jaxlib import _jax

from tinyjax.backend.buffers import RawBuffer, ShardedBuffer, StoredBuffer, value_of_buffer
from tinyjax.backend.devices import JaxType, jax_type, shown_type, to_device
from tinyjax.backend.handlers import is_foreign
from tinyjax.backend.layouts import Asked
from tinyjax.backend.process import PROCESS
from tinyjax.backend.refusals import refusal
from tinyjax.caching import bounded
from tinyjax.errors import ChoiceError, DeviceError, ShardingError, UnsupportedError
from tinyjax.ir.dtypes import CARRIERS, DType, HostArray
from tinyjax.ir.program import Jaxpr, Var
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Device, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from tinyjax.meshes.device import plain_device
from tinyjax.meshes.mesh import AxisType
from tinyjax.meshes.sharding import USUAL_KIND
from tinyjax.meshes.spec import UNCONSTRAINED, Part, axes_of

if TYPE_CHECKING:
    import numpy.typing as npt


@bounded(4096)
def device_of_jax(device: Device) -> _jax.Device:
    """The device as jax has it, of this process or another; a DeviceError if there is none such."""
    try:
        for found in jax.devices(device.platform):
            if found.id == device.id:
                known: _jax.Device = found
                return known
    except RuntimeError:  # no such platform
        pass
    raise DeviceError(f"there is no device {device} here")


@bounded(1024)
def jax_mesh(mesh: Mesh) -> jax.sharding.Mesh:
    """A mesh of ours, with devices, as jax's."""
    devices = np.empty(mesh.size, object)
    devices[:] = [device_of_jax(device) for device in mesh.flat_devices]
    types = tuple([jax.sharding.AxisType[axis_type.name] for axis_type in mesh.axis_types])
    return jax.sharding.Mesh(devices.reshape(mesh.axis_sizes), mesh.axis_names, types)


@bounded(4096)
def jax_sharding(sharding: Sharding) -> jax.sharding.Sharding:
    """A sharding of ours, with devices, as jax's: the same object for equal ones. A ChoiceError if the devices haven't
    that kind of memory."""
    kind = None if sharding.memory_kind == USUAL_KIND else sharding.memory_kind  # jax knows what is usual
    try:
        if isinstance(sharding, SingleDeviceSharding):
            return JaxSingle(device_of_jax(sharding.device), memory_kind=kind)
        if isinstance(sharding, NamedSharding):
            return JaxNamed(jax_mesh(sharding.mesh), jax_spec(sharding.spec), memory_kind=kind)
    except ValueError as error:
        if kind is None:  # such as sums along axes that are left to XLA
            raise ShardingError(f"{sharding}: {error}") from error
        raise ChoiceError(f"{sharding}: {error}") from error
    raise UnsupportedError(f"{sharding!r} has no counterpart in jax")


def jax_spec(spec: PartitionSpec) -> JaxSpec:
    """A specification as jax has it."""
    parts = [JaxSpec.UNCONSTRAINED if part is UNCONSTRAINED else axes_of(part) or None for part in spec.partitions]
    return JaxSpec(*parts, unreduced=spec.unreduced, reduced=spec.reduced)


@bounded(4096)
def sharding_of(sharding: jax.sharding.Sharding) -> Sharding:
    """A sharding of jax's as ours; an UnsupportedError for a kind that we lack."""
    found = known_sharding(sharding)
    if found is None:
        raise UnsupportedError(
            f"a sharding of jax's that has names, or is of one device, is known here; not {sharding!r}"
        )
    return found


def known_sharding(sharding: jax.sharding.Sharding) -> Sharding | None:
    """The same; None for a kind that we lack."""
    if isinstance(sharding, JaxNamed) and isinstance(sharding.mesh, jax.sharding.Mesh):
        return NamedSharding(mesh_of(sharding.mesh), spec_of(sharding.spec), memory_kind=_memory_kind(sharding))
    if isinstance(sharding, JaxSingle):
        (device,) = sharding.device_set
        return SingleDeviceSharding(plain_device(device), memory_kind=_memory_kind(sharding))
    return None


def _memory_kind(sharding: jax.sharding.Sharding) -> str | None:
    """The kind of memory of the devices; None for the default one."""
    kind = sharding.memory_kind
    usual = {device.default_memory().kind for device in list(sharding.addressable_devices)[:1]}
    return None if kind in (usual or {"device", "unpinned_host"}) else kind


@bounded(1024)
def mesh_of(mesh: jax.sharding.Mesh) -> Mesh:
    """A mesh of jax's as ours."""
    types = [AxisType[axis_type.name] for axis_type in mesh.axis_types]
    return Mesh(mesh.devices, [str(name) for name in mesh.axis_names], types)


def spec_of(spec: JaxSpec) -> PartitionSpec:
    """A specification of jax's as ours."""
    parts: list[Part] = [UNCONSTRAINED if part is JaxSpec.UNCONSTRAINED else part for part in spec.partitions]
    return PartitionSpec(*parts, unreduced=spec.unreduced, reduced=spec.reduced)


def put(value: ConcreteValue, sharding: Sharding, what: str = "the array") -> ConcreteValue:
    """The value where a sharding with devices says; itself if it lies so. A ShardingError, which calls it `what`, if it
    can't lie so."""
    data = value.data
    if PROCESS.group is not None and isinstance(data, np.ndarray) and PROCESS.group.is_open:
        processes = {device.process_index for device in jax_sharding(sharding).device_set}
        if len(processes) > 1 and PROCESS.group.index in processes:
            from tinyjax.backend.processes.agreement import check_same

            sharding.check(value.aval.shape, what)
            check_same(PROCESS.group, sorted(processes), data, what)
    array = place(value, sharding, what)
    return value if isinstance(data, StoredBuffer) and data.array is array else value_of_buffer(array, value.aval)


def place(value: ConcreteValue, sharding: Sharding, what: str = "the array") -> RawBuffer:
    """The same without anything around it."""
    data, shape = value.data, value.aval.shape
    sharding.check(shape, what)
    to = jax_sharding(sharding)
    if not isinstance(data, StoredBuffer):
        return put_host(np.asarray(data), sharding)
    data.check_alive()
    array = data.array
    if array.sharding is to or array.sharding == to:
        return array
    if isinstance(data, ShardedBuffer) or not sharding.is_fully_replicated:
        if array.sharding.is_equivalent_to(to, len(shape)):
            return made_of(shape, array.dtype, sharding, [shard.data for shard in array.addressable_shards])
        own = known_sharding(array.sharding)
        if isinstance(own, NamedSharding) and own.flat_devices == sharding.flat_devices:
            return _moved_by_xla(value, own, sharding)
        if not array.is_fully_addressable:
            raise data.out_of_reach()
        host: HostArray = np.asarray(data)
        return put_host(host, sharding)
    return _put_shards(jax_type(shape, array.dtype), sharding, [array] * len(to.addressable_devices))


def _moved_by_xla(value: ConcreteValue, own: Sharding, sharding: Sharding) -> RawBuffer:
    """The same array otherwise divided among the same devices: a program that does nothing else."""
    from tinyjax.backend.executor import execute

    aval = array_type(value.aval.shape, value.aval.dtype)
    x = Var(0, aval)
    identity = Jaxpr((x,), (), (x,))
    asked = Asked((own,), (sharding,))
    values = [ConcreteValue(value.data, aval)]
    (moved,) = execute.executable(identity, values, "reshard", asked=asked)(values, "reshard")
    data = moved.data
    if not isinstance(data, StoredBuffer):
        raise TypeError("a program on devices has its results there")
    return data.array


def put_host(array: HostArray, sharding: Sharding) -> RawBuffer:
    """A NumPy array on the devices of a sharding: each gets its part."""
    if array.dtype in CARRIERS:
        array = array.view(CARRIERS[array.dtype])
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    to = jax_sharding(sharding)
    shape = array.shape
    if sharding.is_fully_replicated:
        return _put_shards(jax_type(shape, array.dtype), sharding, [array.copy() for _ in to.addressable_devices])
    own = to.addressable_devices
    # Copies of their own, which jaxlib may use as they are.
    parts = [
        np.zeros_like(array[index]) if term else array[index].copy()
        for device, index, term in zip(_order(sharding), sharding.indices(shape), sharding.partial_sums(), strict=True)
        if device in own
    ]
    return _put_shards(jax_type(shape, array.dtype), sharding, parts)


def _order(sharding: Sharding) -> Sequence[_jax.Device]:
    return [device_of_jax(device) for device in sharding.flat_devices]


def _put_shards(aval: JaxType, sharding: Sharding, parts: Sequence[HostArray | RawBuffer]) -> RawBuffer:
    if PROCESS.forked:
        PROCESS.check(f"To put an array of type {shown_type(aval)} on devices")
    to = jax_sharding(sharding)
    own = to.addressable_devices
    devices = [device for device in _order(sharding) if device in own]
    try:
        return _jax.batched_device_put(aval, to, list(parts), devices, True, enable_x64=True)
    except RuntimeError as error:
        if is_foreign(error):
            raise
        raise refusal(f"an array of type {shown_type(aval)} could not be moved to {to}: {error}", error) from error


def sum_of_terms(array: RawBuffer) -> HostArray | None:
    """The sum on the host, for an array of whose devices some have terms of one; None for others, and if terms are on
    devices of other processes."""
    if not (isinstance(array.sharding, JaxNamed) and array.sharding.spec.unreduced and array.is_fully_addressable):
        return None
    own = sharding_of(array.sharding)
    terms = {shard.device: shard.data for shard in array.addressable_shards}
    found = np.zeros(array.shape, array.dtype)
    seen: set[tuple[int, ...]] = set()
    places = zip(_order(own), own.coordinates(array.ndim).tolist(), own.partial_sums().tolist(), strict=True)
    for (device, block, term), index in zip(places, own.indices(array.shape), strict=True):
        if (*block, term) not in seen:
            seen.add((*block, term))
            found[index] += np.asarray(terms[device])
    return found


def assemble(
    shape: Shape, dtype: DType, sharding: Sharding, places: Sequence[Device], parts: Sequence[ConcreteValue]
) -> ConcreteValue:
    """The value whose parts these are, on these devices of this process; each is put there if it isn't."""
    aval = array_type(shape, dtype)
    arrays: list[RawBuffer] = []
    for place_, part in zip(places, parts, strict=True):
        data = to_device(part, device_of_jax(place_)).data
        if isinstance(data, StoredBuffer):
            data.check_alive()
            arrays.append(data.array)
    return value_of_buffer(made_of(shape, CARRIERS.get(dtype, dtype), sharding, arrays), aval)


def made_of(shape: tuple[int, ...], dtype: npt.DTypeLike, sharding: Sharding, shards: Sequence[RawBuffer]) -> RawBuffer:
    """The array whose shards, each on its device, these are: in the order of the devices of this process."""
    return _jax.ArrayImpl(
        jax_type(shape, np.dtype(dtype)), jax_sharding(sharding), list(shards), True, _skip_checks=True
    )
