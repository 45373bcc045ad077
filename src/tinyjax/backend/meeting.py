"""Where a computation runs whose arguments are on different devices. Needs no jax at import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from tinyjax.backend.buffers import DeviceBuffer
from tinyjax.backend.layouts import Asked, Layout, bound_mesh, input_label, lay_out, program_mesh
from tinyjax.backend.places import all_devices, is_committed, named_device, place_of
from tinyjax.errors import ShardingError
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Device, Mesh, NamedSharding, PartitionSpec
from tinyjax.meshes.device import HOST, TRACED
from tinyjax.meshes.sharding import Sharding, SingleDeviceSharding

if TYPE_CHECKING:
    from jaxlib import _jax


def meeting_place(jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str) -> _jax.Device:
    """The device to which arguments that are each on one device go: that of those which something has put where they
    are, or else of the first. A ShardingError if these are on several."""
    placed = [(i, arg.data) for i, arg in enumerate(args) if isinstance(arg.data, DeviceBuffer)]
    decided = [(i, data.device) for i, data in placed if is_committed(args[i])]
    for i, device in decided[1:]:
        first, where = decided[0]
        if device is not where:
            raise _apart(jaxpr, (i, _shown(device)), (first, _shown(where)), name)
    return decided[0][1] if decided else placed[0][1].device


def bound_where_arguments_are(layout: Layout, device: _jax.Device) -> Layout:
    """The layout of a program; on the device of its arguments, if it is for a mesh of one device that isn't said."""
    if layout.devices is None and layout.mesh.size == 1:
        return evolve(layout, devices=(named_device(device),))
    return layout


def mesh_place(jaxpr: Jaxpr, held: Sequence[ConcreteValue], force: Mesh | None) -> NamedSharding | None:
    """All devices of the mesh on which a program runs: the one in force, or the one that it is for, with the devices of
    what it closes over (`held`), or else the first. None if it is for no mesh."""
    if force is not None and force.placed is not None and not force.empty:
        return NamedSharding(force, PartitionSpec())
    mesh = program_mesh(jaxpr)
    if mesh is None or mesh.size == 1:
        return None
    found = next((place.flat_devices for x in held if isinstance(place := place_of(x), Sharding)), all_devices())
    return None if len(found) < mesh.size else NamedSharding(bound_mesh(mesh, found[: mesh.size]), PartitionSpec())


def told_where(
    jaxpr: Jaxpr, lie: Sequence[Sharding | None], asked: Asked | None, name: str
) -> tuple[Device | None, list[Sharding | None]]:
    """The device on which arguments lie, if they lie on one that isn't a mesh and nothing else says where a program
    runs; and how those lie that lie on meshes. A ShardingError if it can't run where arguments are."""
    alone = [(i, found.device) for i, found in enumerate(lie) if isinstance(found, SingleDeviceSharding)]
    on_mesh = [None if isinstance(found, SingleDeviceSharding) else found for found in lie]
    alone = [(i, device) for i, device in alone if device.platform not in (HOST.platform, TRACED.platform)]
    if not alone or (asked is not None and asked.device is not None):
        return None, on_mesh
    layout = lay_out(jaxpr, on_mesh, asked, name)
    if layout is not None and layout.mesh.size > 1:
        raise _elsewhere(jaxpr, *alone[0], f"{layout.mesh.size} devices", name)
    said = None if layout is None or layout.devices is None else layout.devices[0]
    if said is not None:
        given = () if asked is None else asked.ins
        for i, device in alone:
            if device != said and (not given or given[i] is None):  # else it is moved
                raise _elsewhere(jaxpr, i, device, str(said), name)
        return None, on_mesh
    first, where = alone[0]
    for i, device in alone[1:]:
        if device != where:
            raise _apart(jaxpr, (i, str(device)), (first, str(where)), name)
    return where, on_mesh


def check_devices(jaxpr: Jaxpr, args: Sequence[ConcreteValue], devices: Sequence[Device] | None, name: str) -> None:
    """A ShardingError if something has put an argument on one device of its own, and the program runs on several."""
    for i, arg in enumerate(args):
        data = arg.data
        if not isinstance(data, DeviceBuffer) or not is_committed(arg):
            continue
        if devices is not None and len(devices) == 1 and devices[0].id == data.device.id:
            continue
        where = "a mesh" if devices is None else f"{len(devices)} devices" if len(devices) > 1 else str(devices[0])
        raise _elsewhere(jaxpr, i, _shown(data.device), where, name)


def _apart(jaxpr: Jaxpr, one: tuple[int, str], other: tuple[int, str], name: str) -> ShardingError:
    return ShardingError(
        f"{input_label(jaxpr, one[0], name)} is on {one[1]}, but {input_label(jaxpr, other[0], name)} on "
        f"{other[1]}. A computation runs on one device, or with arrays that lie on a mesh: move one of "
        "them by tinyjax.device_put(x, device)."
    )


def _elsewhere(jaxpr: Jaxpr, i: int, device: object, where: str, name: str) -> ShardingError:
    return ShardingError(
        f"{input_label(jaxpr, i, name)} is on {device}, but {name!r} runs on {where}. Move it first, by "
        "tinyjax.device_put(x, sharding); arrays on the host, or on a device that nothing has chosen, are moved."
    )


def _shown(device: _jax.Device) -> str:
    return f"{device.platform}:{device.id}"
