"""How arrays lie on a mesh, said within a function: for XLA to divide the work accordingly."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from tinyjax.lax.layouts import lying, trimmed
from tinyjax.lax.mesh_in_force import mesh_in_force
from tinyjax.meshes import PartitionSpec, Sharding
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

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
        `set_mesh`. None is P() there, every device has all of the array; where no mesh is in force, it says nothing.
        A SingleDeviceSharding is for outside of compiled functions: programs know of no devices.

    Raises:
      ShardingError: a ValueError, for an axis that isn't divided evenly, or more parts than axes.
      TreeError: the tree of shardings is no prefix.

    Source: JAX's function of this name.

    >>> import numpy as np
    >>> from tinyjax.sharding import AbstractMesh, NamedSharding, PartitionSpec as P
    >>> lies = NamedSharding(AbstractMesh((4,), ("x",)), P("x"))
    >>> with_sharding_constraint(np.arange(4.0), lies)
    Array([0., 1., 2., 3.], dtype=float64)
    """
    mesh = mesh_in_force()
    return _constrained("with_sharding_constraint", x, shardings, PartitionSpec() if mesh and not mesh.empty else None)


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
    return _constrained("reshard", xs, out_shardings, None, trim=True)


def _constrained(what: str, x: Any, shardings: Any, default: PartitionSpec | None, trim: bool = False) -> Any:
    leaves, treedef = tree.flatten(x)
    paths = tree.paths(treedef)
    named, structure = tree.flatten(shardings, _is_none)
    parts = tree.up_to(what, structure, x, _is_none)
    named = [default if sharding is None else sharding for sharding in named]
    each = [sharding for sharding, part in zip(named, parts, strict=True) for _ in tree.flatten(part)[0]]
    if trim:
        each = [trimmed(sharding, as_array(leaf).aval.ndim) for leaf, sharding in zip(leaves, each, strict=True)]
    return tree.unflatten(
        treedef, [lying(f"{what}: x{path}", *found) for path, *found in zip(paths, leaves, each, strict=True)]
    )


def _is_none(x: object) -> bool:
    return x is None
