"""How the arguments and results of a program lie on devices, decided before it is compiled. Needs no jax at import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, final

from attrs import evolve, frozen

from tinyjax.backend.embedding import Constants, passed
from tinyjax.caching import bounded
from tinyjax.errors import ShardingError
from tinyjax.ir.parameters import PLAIN_TYPES
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.traverse import nested_programs, record_values
from tinyjax.meshes import AxisType, Device, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from tinyjax.meshes.named import check_sums

if TYPE_CHECKING:
    from tinyjax.backend.stages import Options


@final
@frozen
class Asked:
    """What a caller says of how a program's inputs and outputs lie, and how it runs: None where it says nothing."""

    ins: tuple[Sharding | None, ...] = ()
    outs: tuple[Sharding | None, ...] = ()
    #: The mesh that is in force, with devices: where a program runs whose arguments and meshes don't say it.
    mesh: Mesh | None = None
    #: From how many bytes on it is warned of what every device has all of; None for never.
    warn_from: int | None = None
    #: XLA's options, and the device that the program runs on, if it is for one.
    options: Options = ()
    device: Device | None = None
    #: The devices that it runs on, in the order of its mesh, which hasn't any.
    devices: tuple[Device, ...] | None = None


@final
@frozen
class Layout:
    """How a program's inputs and outputs lie, on so many devices.

    The meshes within have no devices. `asked` says which inputs lie so because the caller said it, and not because the
    arguments do.
    """

    mesh: Mesh
    ins: tuple[NamedSharding, ...]
    #: None where XLA chooses.
    outs: tuple[NamedSharding | None, ...]
    asked: tuple[bool, ...]
    #: The devices in the order of the mesh; None if there are none yet.
    devices: tuple[Device, ...] | None
    #: Which results are on a single device, that of nobody's mesh.
    single: frozenset[int] = frozenset()

    @property
    def platform(self) -> str:
        """The platform of the devices."""
        return self.devices[0].platform if self.devices else "cpu"

    def without(self, constants: Constants) -> Layout:
        """The layout of the inputs that are left where some of the first ones are constants."""
        if not constants:
            return self
        return evolve(self, ins=tuple(passed(constants, self.ins)), asked=tuple(passed(constants, self.asked)))

    def bound(self, sharding: NamedSharding) -> NamedSharding:
        """A sharding with the devices."""
        return evolve(sharding, mesh=bound_mesh(sharding.mesh, self.devices or ()))


@final
@frozen
class Division:
    """How an array is divided: for each axis, the axes of the mesh, or parts of them, and into how many parts."""

    axes: tuple[tuple[str, ...], ...]
    blocks: tuple[int, ...]
    #: The axes of the mesh that are among them, whole or in part.
    names: frozenset[str] = frozenset()


@bounded(4096)
def bound_mesh(mesh: Mesh, devices: tuple[Device, ...]) -> Mesh:
    """The mesh with these devices, in order."""
    return Mesh.of_fields(
        {
            "axis_sizes": mesh.axis_sizes,
            "axis_names": mesh.axis_names,
            "axis_types": mesh.axis_types,
            "placed": devices,
        }
    )


def lay_out(jaxpr: Jaxpr, lie: Sequence[Sharding | None], asked: Asked | None, name: str) -> Layout | None:
    """How a program for arguments that `lie` so is laid out; None if it is for one device.

    What isn't said is replicated. A ShardingError names the argument that can't lie so, or isn't where the others are.
    """
    asked = asked or Asked()
    given = list(asked.ins) or [None] * len(lie)
    lying = [own if sharding is None else sharding for sharding, own in zip(given, lie, strict=True)]
    inner = program_mesh(jaxpr)
    if all(said is None for said in (*lying, *asked.outs, inner, asked.mesh)):
        return None
    labels = input_labels(jaxpr, name)[: len(lie)]
    named = [(label, as_named(found)) for label, found in zip(labels, lying, strict=True) if found is not None]
    results = [None if sharding is None else as_named(sharding) for sharding in asked.outs]
    named += [(f"result {i} of {name!r}", found) for i, found in enumerate(results) if found is not None]
    if inner is not None:
        named.append((f"a mesh within {name!r}", NamedSharding(inner, PartitionSpec())))
    force = asked.mesh  # which says where to run what lies nowhere yet
    if force is not None and all(found.mesh.placed is None and found.mesh.size == force.size for _, found in named):
        named.insert(0, ("the mesh in force", NamedSharding(force, PartitionSpec())))
    mesh = named[0][1].mesh
    devices = _devices(named)
    replicated = NamedSharding(mesh.abstract_mesh, PartitionSpec())
    ins = []
    for i, (label, sharding, own) in enumerate(zip(labels, given, lie, strict=True)):
        aval = jaxpr.in_avals[i]
        if sharding is not None:
            chosen = as_named(sharding)
            if own is not None and own.num_devices > 1 and not _alike(own, chosen, aval.ndim, devices):
                lies, wanted = told_apart(own, chosen)
                raise ShardingError(
                    f"{label} lies as {lies}, but in_shardings says {wanted}. Move it first, by "
                    "tinyjax.device_put(x, sharding), or leave it out of in_shardings: then its own counts."
                )
        else:
            chosen = replicated if own is None else as_named(own)
        if chosen.spec.open:
            raise ShardingError(
                f"{label}: in_shardings says how arguments lie, so {chosen.spec} can't leave that open. "
                "P.UNCONSTRAINED is for with_sharding_constraint."
            )
        chosen.check(aval.shape, label)
        check_sums(label, chosen)
        ins.append(_canonical(chosen))
    for i, result in enumerate(results):
        if result is not None:
            result.check(jaxpr.out_avals[i].shape, f"result {i} of {name!r}")
            check_sums(f"result {i} of {name!r}", result)
    outs = tuple([None if result is None else result.abstract for result in results])  # spelled as it was asked for
    explicit = next((found.mesh for _, found in named if found.mesh.explicit_axes), None)
    said = (*lie, *asked.ins, *asked.outs)
    named_mesh = any(isinstance(found, NamedSharding) for found in said) or inner or force
    single = {
        i
        for i, result in enumerate(asked.outs or (None,) * len(jaxpr.outvars))
        if isinstance(result, SingleDeviceSharding)
        or (result is None and not named_mesh and mesh.size == 1 and explicit is None)
    }
    outs = outs or (None,) * len(jaxpr.outvars)
    if explicit is not None:
        from tinyjax.backend.explicit import explicit_results  # few programs need it

        outs = explicit_results(jaxpr, tuple(ins), outs, explicit.abstract_mesh)
        mesh = mesh.update_axis_types(dict.fromkeys(mesh.explicit_axes, AxisType.Auto))  # for what is left to XLA
    return Layout(
        mesh.abstract_mesh,
        tuple(ins),
        outs,
        tuple([sharding is not None for sharding in given]),
        devices,
        frozenset(single),
    )


def on_devices(layout: Layout | None, devices: tuple[Device, ...], name: str) -> Layout | None:
    """The layout of a program, or of one for a single device, on these devices. A ShardingError if it is for another
    number of them, or if its arguments lie on others."""
    count = 1 if layout is None else layout.mesh.size
    if len(devices) != count:
        raise ShardingError(
            f"compile: {name!r} is for {count} device{'s' * (count > 1)}, but device_assignment has {len(devices)}: "
            f"{_shown(devices)}"
        )
    if layout is None or layout.devices == devices:
        return layout
    if layout.devices is not None:
        raise ShardingError(
            f"compile: device_assignment is {_shown(devices)}, but {name!r} was lowered for what lies on "
            f"{_shown(layout.devices)}. Lower it for types that lie on a mesh without devices: "
            "NamedSharding(mesh.abstract_mesh, P('x'))."
        )
    return evolve(layout, devices=devices)


def input_label(jaxpr: Jaxpr, i: int, name: str) -> str:
    """What to call one of the inputs."""
    return input_labels(jaxpr, name)[i]


def input_labels(jaxpr: Jaxpr, name: str) -> list[str]:
    """What to call the inputs of a program in messages. What a function closes over comes before its arguments, which
    have names."""
    names = jaxpr.input_names
    last = max([i for i, called in enumerate(names) if called], default=-1)
    return [
        f"argument {called or i} of {name!r}" if called or i > last else f"an array that {name!r} closes over"
        for i, called in enumerate(names)
    ]


def as_named(sharding: Sharding) -> NamedSharding:
    """A sharding by names; one device is a mesh without axes along which anything is divided."""
    if isinstance(sharding, NamedSharding):
        return sharding
    if isinstance(sharding, SingleDeviceSharding):
        return NamedSharding(Mesh([sharding.device], ("device",)), PartitionSpec(), memory_kind=sharding.memory_kind)
    raise ShardingError(f"a sharding is a NamedSharding or a SingleDeviceSharding, not {sharding!r}")


def _canonical(sharding: NamedSharding) -> NamedSharding:
    """The sharding without devices, and without parts that say nothing."""
    return evolve(sharding.abstract, spec=sharding.spec.stripped)


def told_apart(one: Sharding, other: Sharding) -> tuple[str, str]:
    """Two shardings, in words that differ: with their devices, if these are all that does."""
    if str(one) != str(other):
        return str(one), str(other)
    first, second = (f"{each} on {', '.join(map(str, each.flat_devices))}" for each in (one, other))
    return first, second


def _alike(own: Sharding, chosen: NamedSharding, ndim: int, devices: tuple[Device, ...] | None) -> bool:
    if chosen.mesh.placed is None and devices is not None and chosen.mesh.size == len(devices):
        chosen = evolve(chosen, mesh=bound_mesh(chosen.mesh, devices))
    return own.is_equivalent_to(chosen, ndim)


def _devices(named: Sequence[tuple[str, NamedSharding]]) -> tuple[Device, ...] | None:
    """The devices that all of these are on: in the order of the first; None if none has any."""
    first, one = named[0]
    for label, sharding in named[1:]:
        if sharding.mesh.size != one.mesh.size:
            raise ShardingError(
                f"{label} lies on {sharding.mesh.size} devices ({sharding.mesh}), but {first} on {one.mesh.size} "
                f"({one.mesh}). All that a program takes, gives and holds lies on the same devices: move one of "
                "them by tinyjax.device_put(x, sharding)."
            )
    placed = [(label, sharding.mesh.placed) for label, sharding in named if sharding.mesh.placed is not None]
    if not placed:
        return None
    where, devices = placed[0]
    for label, others in placed[1:]:
        if set(others) != set(devices):
            raise ShardingError(
                f"{label} is on the devices {_shown(others)}, but {where} on {_shown(devices)}. Move one of them by "
                "tinyjax.device_put(x, sharding)."
            )
    return devices


def _shown(devices: Sequence[Device]) -> str:
    names = [str(device) for device in devices]
    return ", ".join(names if len(names) <= 4 else [*names[:2], "...", names[-1]])


@bounded(4096)
def program_mesh(jaxpr: Jaxpr) -> Mesh | None:
    """The first mesh that a program holds, at any depth; None if there is none."""
    return next((mesh for program in nested_programs(jaxpr) for mesh in _meshes(program)), None)


def _meshes(jaxpr: Jaxpr) -> Iterator[Mesh]:
    for eqn in jaxpr.eqns:
        for _, value in record_values(eqn.primitive):
            if type(value) is tuple or type(value) in PLAIN_TYPES:
                continue  # as most are
            if isinstance(value, NamedSharding):
                yield value.mesh
            elif isinstance(value, Mesh) and not value.empty:
                yield value
