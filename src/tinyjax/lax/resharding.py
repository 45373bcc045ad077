"""How arrays lie on a mesh, said within a function: for XLA to divide the work accordingly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from tinyjax.errors import NoMeshError
from tinyjax.lax.explicit import lies_on
from tinyjax.lax.layouts import lying, trimmed
from tinyjax.lax.mesh_in_force import mesh_in_force, on_mesh_in_force
from tinyjax.meshes import NamedSharding, PartitionSpec, Sharding
from tinyjax.meshes.spec import axes_of, further, is_open
from tinyjax.propagation.specs import Open, parts_of
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array

T = TypeVar("T")


@overload
def with_sharding_constraint(x: ArrayLike, shardings: Sharding | PartitionSpec | None) -> Array: ...
@overload
def with_sharding_constraint(x: T, shardings: Any) -> T: ...
def with_sharding_constraint(x: Any, shardings: Any) -> Any:  # the user's trees
    """The tree of arrays, each of which lies on a mesh as its NamedSharding says.

    Within compiled functions XLA divides the work so; outside, arrays are moved, if the mesh has devices. Derivatives
    lie as the values do.

    Args:
      x: a tree of arrays.
      shardings: a tree of NamedShardings that is a prefix of it. A PartitionSpec is one on the mesh in force: see
        `set_mesh`. None is P() there: every device has all of the array.
        A SingleDeviceSharding is for outside of compiled functions: programs know of no devices.

    Raises:
      ShardingError: a ValueError, for an axis that isn't divided evenly, more parts than axes, or None without a mesh.
      TreeError: the tree of shardings is no prefix.

    Source: JAX's function of this name.

    >>> import numpy as np
    >>> from tinyjax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P
    >>> lies = NamedSharding(AbstractMesh((4,), ("x",)), P("x"))
    >>> with_sharding_constraint(np.arange(4.0), lies)
    Array([0., 1., 2., 3.], dtype=float64)
    """
    mesh = mesh_in_force()
    if (mesh is None or mesh.empty) and any(map(_is_none, tree.flatten(shardings, _is_none)[0])):
        raise NoMeshError(
            "with_sharding_constraint: a sharding is None, which is P() on the mesh in force, and there is none. Set "
            "one around it, with tinyjax.set_mesh(mesh): ..., or leave out what isn't to be constrained."
        )
    return _constrained("with_sharding_constraint", x, shardings, PartitionSpec(), _beside_explicit)


@overload
def reshard(xs: ArrayLike, out_shardings: Sharding | PartitionSpec) -> Array: ...
@overload
def reshard(xs: T, out_shardings: Any) -> T: ...
def reshard(xs: Any, out_shardings: Any) -> Any:  # the user's trees
    """The same as `with_sharding_constraint`, by the name that it has where axes of the mesh are Explicit.

    >>> import numpy as np
    >>> from tinyjax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P
    >>> reshard(np.arange(4.0), NamedSharding(AbstractMesh((4,), ("x",)), P("x")))
    Array([0., 1., 2., 3.], dtype=float64)
    """
    return _constrained("reshard", xs, out_shardings, None, _trimmed)


def _trimmed(what: str, leaf: object, sharding: object) -> object:
    return trimmed(sharding, as_array(leaf).aval.ndim)


def _beside_explicit(what: str, leaf: object, sharding: object) -> object:
    """What is said along Auto axes of a mesh that has Explicit ones, too: along these, the array lies as before."""
    if isinstance(sharding, PartitionSpec):
        sharding = on_mesh_in_force(f"{what}: the sharding", sharding)
    if not isinstance(sharding, NamedSharding) or not (sharding.mesh.auto_axes and sharding.mesh.explicit_axes):
        return sharding
    spec = sharding.spec
    if {*spec.names, *spec.unreduced, *spec.reduced}.intersection(sharding.mesh.explicit_axes):
        return sharding
    array = as_array(leaf)
    if isinstance(array, ConcreteArray) and array.evaluated:
        return sharding  # it is moved, as by device_put
    lies = lies_on(sharding.mesh, array, array.aval.ndim)
    if isinstance(lies, Open) or len(spec) > array.aval.ndim:
        return sharding
    said = [*spec.partitions, *[None] * (array.aval.ndim - len(spec))]
    parts = [
        further((*names, *axes_of(part))) if is_open(part) else (*names, *axes_of(part))
        for names, part in zip(parts_of(lies), said, strict=True)
    ]
    return sharding.with_spec(spec.update(parts))


def _constrained(
    what: str,
    x: Any,
    shardings: Any,
    default: PartitionSpec | None,
    whole: Callable[[str, object, object], object],
) -> Any:
    leaves, treedef = tree.flatten(x)
    paths = tree.paths(treedef)
    named, structure = tree.flatten(shardings, _is_none)
    parts = tree.up_to(what, structure, x, _is_none)
    named = [default if sharding is None else sharding for sharding in named]
    each = [sharding for sharding, part in zip(named, parts, strict=True) for _ in tree.flatten(part)[0]]
    for path, sharding in zip(paths, each, strict=True):
        if isinstance(sharding, NamedSharding) and sharding.mesh.empty:
            raise NoMeshError(
                f"{what}: x{path}: {sharding} has a mesh without axes, along which nothing lies. Make one by "
                "tinyjax.make_mesh, or leave the array as it is."
            )
    found = [
        lying(f"{what}: x{path}", leaf, whole(f"{what}: x{path}", leaf, sharding))
        for path, leaf, sharding in zip(paths, leaves, each, strict=True)
    ]
    return tree.unflatten(treedef, found)


def _is_none(x: object) -> bool:
    return x is None
