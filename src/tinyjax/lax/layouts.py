"""How results are to lie on a mesh: what `out_sharding` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from attrs import evolve

from tinyjax import primitives
from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.varying import without
from tinyjax.lax.mesh_in_force import mesh_in_force, on_mesh_in_force
from tinyjax.lax.placing import is_evaluated, mesh_of, placed
from tinyjax.meshes import AbstractMesh, AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding
from tinyjax.meshes.named import check_sums, named_sharding
from tinyjax.meshes.sharding import USUAL_KIND
from tinyjax.primitives.casts import casts
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, as_array
from tinyjax.tracing.core import bind

#: As in JAX: None is as XLA likes.
OutSharding: TypeAlias = NamedSharding | PartitionSpec | None


def lying(what: str, leaf: object, sharding: object) -> Array:
    """An array, or what becomes one, which lies as a sharding says. `what` is for messages: what said it."""
    array = as_array(leaf)
    if sharding is None or array.aval.dtype == FLOAT0:
        return array
    if isinstance(sharding, PartitionSpec):
        sharding = on_mesh_in_force(f"{what}: the sharding", sharding)
    if isinstance(sharding, SingleDeviceSharding):
        return _on_one_device(what, array, sharding)
    if not isinstance(sharding, NamedSharding):
        raise InputError(f"{what}: a sharding is NamedSharding(mesh, P('x', None)), got {sharding!r}")
    own = () if (mesh := mesh_in_force()) is None else mesh.manual_axes
    if both := [name for name in sharding.spec.names if name in own]:
        raise ShardingError(
            f"{what}: {sharding.spec} names the axis {both[0]!r} of the mesh, which is Manual here: within shard_map "
            "each device has its own part along it already. Name other axes."
        )
    _check_sums(what, sharding, own)
    sharding.check(array.aval.shape, what)
    if sharding.mesh.empty:  # as types say that are on no mesh
        return array
    evaluated = is_evaluated()
    if evaluated and not sharding.has_devices:
        sharding = _placed(sharding, array)
    if evaluated and sharding.has_devices:
        if isinstance(array, ConcreteArray):
            return array.to_device(sharding.padded(array.aval.ndim))
        return placed(array, sharding)
    left = AbstractMesh(sharding.mesh.axis_sizes, sharding.mesh.axis_names)  # whose axes are all left to XLA
    return bind(primitives.resharding.ShardingConstraint(NamedSharding(left, sharding.spec)), array)[0]


def _check_sums(what: str, sharding: NamedSharding, own: Sequence[str]) -> None:
    """A ShardingError for sums along axes along which the program doesn't say how arrays lie."""
    for name in sorted(sharding.spec.unreduced | sharding.spec.reduced):
        if name in own:
            raise ShardingError(
                f"{what}: {sharding.spec} is about the axis {name!r} of the mesh, which is Manual here. In shard_map, "
                f"lax.pcast(x, {name!r}, to='unreduced') says that devices have terms of a sum, or to='reduced'."
            )
    check_sums(what, sharding)


def _on_one_device(what: str, array: Array, sharding: SingleDeviceSharding) -> Array:
    if isinstance(array, ConcreteArray) and array.evaluated:
        return array.to_device(sharding)
    if is_evaluated():
        return placed(array, sharding)
    raise ShardingError(
        f"{what}: {sharding} names a device, but {array.aval} is being traced, and programs know of no devices. Say it "
        "of arguments or results, by jit(f, in_shardings=..., out_shardings=...), or move them by device_put around "
        "the call."
    )


def _placed(sharding: NamedSharding, array: Array) -> NamedSharding:
    """The sharding on the devices of the mesh that it is about, if it is the one in force, or that of the array."""
    for mesh in (mesh_in_force(), mesh_of([array])):
        if mesh is not None and mesh.placed is not None and mesh.shape_tuple == sharding.mesh.shape_tuple:
            return evolve(sharding, mesh=mesh.update(axis_types=sharding.mesh.axis_types))
    return sharding


def laid_out(x: Array, sharding: OutSharding) -> Array:
    """A result, which lies as `out_sharding` says. A PartitionSpec is on the mesh in force, or on that on which it
    lies already."""
    if sharding is None:
        return x
    if isinstance(sharding, NamedSharding) and sharding.memory_kind not in (None, USUAL_KIND) and not is_evaluated():
        raise ShardingError(
            f"out_sharding: {sharding} names a kind of memory, which a function that is being traced knows nothing of. "
            "Say it of results, by jit(f, out_shardings=...), or move them by device_put around the call."
        )
    if isinstance(sharding, PartitionSpec) and mesh_in_force() is None and isinstance(x, ConcreteArray):
        lies = x.sharding
        if isinstance(lies, NamedSharding):
            sharding = lies.with_spec(sharding)
    return lying("out_sharding", x, trimmed(sharding, x.aval.ndim))


def trimmed(sharding: object, ndim: int) -> object:
    """A sharding without parts that divide nothing, and for which an array has no axis."""
    spec = sharding.spec if isinstance(sharding, NamedSharding) else sharding
    if not isinstance(spec, PartitionSpec) or any(part is not None for part in spec.partitions[ndim:]):
        return sharding
    kept = spec.update(spec.partitions[:ndim])
    return sharding.with_spec(kept) if isinstance(sharding, NamedSharding) else kept


def varying_as(x: Array, aval: ShapedArray) -> Array:
    """An array that varies at least along the axes of a mesh along which values of a type do."""
    for kind in casts(x.aval.axes, aval.varying):
        (x,) = bind(kind, x)
    return x


# Explicit axes.


def own_sharding(leaf: object) -> NamedSharding | None:
    """How an array lies that is on several devices, or a type says that one does."""
    if isinstance(leaf, ConcreteArray):
        return named_sharding(leaf) if leaf.value.on_several else None
    return None if isinstance(leaf, Array) else named_sharding(leaf)


def left_to_xla(x: Array, kept: Sequence[str] = ()) -> Array:
    """The array on its mesh with Auto axes in the place of Explicit ones, but for those that are kept, as a sum that is
    made; itself if there are none."""
    own = own_sharding(x) if isinstance(x, ConcreteArray) else None
    if own is None or not (left := without(own.mesh.explicit_axes, kept)):
        return x
    mesh = own.mesh.update_axis_types(dict.fromkeys(left, AxisType.Auto))
    return x.to_device(evolve(own, mesh=mesh, spec=own.spec.made))
