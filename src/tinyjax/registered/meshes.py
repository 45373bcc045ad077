"""Meshes and shardings among parameters: their classes, and how they are read as we write them and as JAX does."""

from __future__ import annotations

from collections.abc import Mapping

from tinyjax.errors import ParameterError
from tinyjax.ir.text.registry import STANDARD, Member, Record, build
from tinyjax.meshes import AxisType, Device, Mesh, NamedSharding, PartitionSpec, Unconstrained
from tinyjax.meshes.device import device_named
from tinyjax.meshes.spec import UNCONSTRAINED, Further, further

STANDARD.add(AxisType, Device, Further, Mesh, NamedSharding, PartitionSpec, Unconstrained)


@STANDARD.read_record_by("Mesh", "AbstractMesh")
def _mesh(fields: Mapping[str, object]) -> object:
    """`Mesh('x': 4, 'y': 2, axis_types=(Auto, Explicit), devices=('cpu:0', ...))`."""
    if "axis_sizes" in fields:
        return build(Mesh, fields)
    axes = fields.get("", ())
    pairs = [item.fields[0] for item in axes if isinstance(item, Record)] if isinstance(axes, tuple) else []
    names, sizes = tuple([name for name, _ in pairs]), tuple([size for _, size in pairs])
    kept = {"axis_sizes": sizes, "axis_names": names, "axis_types": (AxisType.Auto,) * len(names), "placed": None}
    for name, value in fields.items():
        if name == "axis_types" and isinstance(value, tuple):
            kept[name] = tuple(map(_axis_type, value))
        elif name == "devices" and isinstance(value, tuple):
            kept["placed"] = tuple([device_named(str(item)) for item in value])
        elif name not in ("", "device_kind", "num_cores", "platform"):  # what JAX knows of abstract devices
            raise ParameterError(f"a Mesh has no parameter {name!r}")
    return build(Mesh, kept)


def _axis_type(written: object) -> object:
    if isinstance(written, str) and written in AxisType.__members__:
        return AxisType[written]
    return written


@STANDARD.read_record_by("P", "PartitionSpec")
def _spec(fields: Mapping[str, object]) -> object:
    """`P('x', None, ('y', 'z'), unreduced={'w'})`; `P.UNCONSTRAINED`, which JAX writes without the `P`."""
    if "partitions" in fields:
        return build(PartitionSpec, fields)
    parts = fields.get("", ())
    found = tuple([_part(part) for part in parts]) if isinstance(parts, tuple) else ()
    named = {name: value for name, value in fields.items() if name}
    return build(PartitionSpec, {"partitions": found, **named})


def _part(written: object) -> object:
    if written in (UNCONSTRAINED.name, Member("P", UNCONSTRAINED.name)):
        return UNCONSTRAINED
    if isinstance(written, tuple) and written and _part(written[-1]) is UNCONSTRAINED:
        return further(written[:-1])
    return written
