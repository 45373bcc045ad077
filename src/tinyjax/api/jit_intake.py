"""What becomes of the arguments of a jitted function, of what it closes over, and of the equation that a call is within
transformations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeGuard

from tinyjax import backend
from tinyjax.api.jit_shardings import JitShardings
from tinyjax.backend.trees import flattener
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.primitive import Primitive
from tinyjax.lax.placing import elements_of
from tinyjax.meshes import Device, NamedSharding, PartitionSpec, Sharding
from tinyjax.prepared.jitted import Intake
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ROOT, ConcreteArray, active_frame, as_array, top_frame
from tinyjax.tracing.core import Tracer
from tinyjax.tracing.intake import host_type
from tinyjax.tracing.programs import Traced


def _bind(primitive: Primitive, arrays: Sequence[Array]) -> Sequence[Array] | None:
    frame = top_frame(arrays)
    return None if frame is ROOT else frame.bind(primitive, arrays)


INTAKE: Final = Intake(ConcreteArray, (ConcreteArray, Tracer), flattener, as_array, host_type, _bind)


def brought(traced: Traced, arguments: Iterable[Array], said: JitShardings | None) -> tuple[Array, ...]:
    """What a function closes over, where it is said to run, or where something has put its arguments, or on the mesh
    that is in force, or that its program is for: as constants of that, these arrays don't decide where it runs.
    Themselves, if nothing is said, or if they are there."""
    captured = traced.captured
    if not any(map(is_put, captured)):
        return captured
    place: Sharding | Device | None = None if said is None else said.place
    if place is None:
        values = [elements_of(x) for x in arguments]
        places = [backend.place_of(value) for value in values if value is not None and backend.is_committed(value)]
        place = next((place for place in places if isinstance(place, Sharding)), places[0] if places else None)
        place = place or backend.mesh_place(traced.jaxpr, [x.value for x in captured if is_put(x)], active_frame().mesh)
    if place is None:
        return captured
    where = _devices(place)
    to = NamedSharding(place.mesh, PartitionSpec()) if isinstance(place, NamedSharding) else place
    elsewhere = [
        is_put(x) and _devices(backend.place_of(x.value)) != where and x.aval.dtype != FLOAT0 for x in captured
    ]
    if not any(elsewhere):
        return captured
    return tuple([x.to_device(to) if move else x for x, move in zip(captured, elsewhere, strict=True)])


def is_put(x: Array) -> TypeGuard[ConcreteArray]:
    """Whether something has put an array where it is."""
    return isinstance(x, ConcreteArray) and backend.is_committed(x.value)


def _devices(place: Sharding | Device) -> frozenset[Device]:
    return frozenset([place] if isinstance(place, Device) else place.flat_devices)
