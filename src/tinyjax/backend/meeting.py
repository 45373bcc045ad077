"""Where a computation runs whose arguments are on different devices. Needs no jax at import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from tinyjax.backend.buffers import DeviceBuffer
from tinyjax.backend.layouts import Layout, input_label
from tinyjax.backend.places import is_committed, named_device
from tinyjax.errors import ShardingError
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Device

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
            raise ShardingError(
                f"{input_label(jaxpr, i, name)} is on {_shown(device)}, but {input_label(jaxpr, first, name)} on "
                f"{_shown(where)}. A computation runs on one device, or with arrays that lie on a mesh: move one of "
                "them by tinyjax.device_put(x, device)."
            )
    return decided[0][1] if decided else placed[0][1].device


def bound_where_arguments_are(layout: Layout, device: _jax.Device) -> Layout:
    """The layout of a program; on the device of its arguments, if it is for a mesh of one device that isn't said."""
    if layout.devices is None and layout.mesh.size == 1:
        return evolve(layout, devices=(named_device(device),))
    return layout


def check_devices(jaxpr: Jaxpr, args: Sequence[ConcreteValue], devices: Sequence[Device] | None, name: str) -> None:
    """A ShardingError if something has put an argument on one device of its own, and the program runs on several."""
    for i, arg in enumerate(args):
        data = arg.data
        if not isinstance(data, DeviceBuffer) or not is_committed(arg):
            continue
        if devices is not None and len(devices) == 1 and devices[0].id == data.device.id:
            continue
        where = "a mesh" if devices is None else f"{len(devices)} devices" if len(devices) > 1 else str(devices[0])
        raise ShardingError(
            f"{input_label(jaxpr, i, name)} is on {_shown(data.device)}, but {name!r} runs on {where}. Move it first, "
            "by tinyjax.device_put(x, sharding); arrays on the host, or on a device that nothing has chosen, are moved."
        )


def _shown(device: _jax.Device) -> str:
    return f"{device.platform}:{device.id}"
