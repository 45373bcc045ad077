"""The part of a mesh on which a lowered program communicates itself, and shardings as Shardy writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

import numpy as np
from attrs import frozen

from tinyjax.errors import LoweringError
from tinyjax.ir.dtypes import HostArray
from tinyjax.meshes.mesh import AbstractMesh, Mesh
from tinyjax.meshes.named import NamedSharding
from tinyjax.meshes.spec import PartitionSpec, axes_of, is_open

if TYPE_CHECKING:
    from tinyjax.primitives.grouping import IndexGroups

#: The first device of a mesh, by itself, as a mesh that nobody else has.
FIRST: Final = AbstractMesh((1,), ("first device",))


@final
@frozen
class ManualMesh:
    """A mesh within `shard_map`, and the axes that are manual there, those of enclosing ones included."""

    mesh: Mesh
    axes: tuple[str, ...]

    def groups(self, names: Sequence[str], index_groups: IndexGroups | None = None) -> HostArray:
        """The partitions that differ in these axes only, a row for each group, in the order of the names.

        With `index_groups`, each of these rows in groups of its elements; what smaller ones lack is -1.
        """
        mesh = self.mesh
        if missing := [name for name in names if name not in mesh.axis_names]:
            raise LoweringError(f"the mesh {mesh} of the enclosing shard_map has no axis {missing[0]!r}")
        numbers = np.arange(mesh.size).reshape(mesh.axis_sizes)
        last = [mesh.axis_names.index(name) for name in names]
        numbers = np.moveaxis(numbers, last, range(numbers.ndim - len(last), numbers.ndim))
        size = int(np.prod([mesh.shape[name] for name in names], dtype=np.int64))
        rows: HostArray = numbers.reshape(-1, size)
        if index_groups is None:
            return rows
        if (count := sum(map(len, index_groups))) != size:
            raise LoweringError(
                f"axis_index_groups of {count} elements are along {', '.join(names)}, which have {size}"
            )
        longest = max(map(len, index_groups))
        places = np.array([[*row, *[size] * (longest - len(row))] for row in index_groups], np.int64)
        return np.pad(rows, ((0, 0), (0, 1)), constant_values=-1)[:, places].reshape(-1, longest)


def spec_text(
    symbol: str, spec: PartitionSpec, ndim: int, axes: Sequence[str] | None = None, whole: Sequence[str] = ()
) -> str:
    """A sharding of an array with so many axes: `<@mesh, [{"x"}, {}]>`.

    `axes` are those of the mesh that are meant, where XLA may divide along the others; None: all of them. Along `whole`
    it mustn't where it chooses.
    """
    parts = []
    for i in range(ndim):
        part = spec.partitions[i] if i < len(spec.partitions) else None
        names = [f'"{name}"' for name in axes_of(part) if axes is None or name in axes]
        if is_open(part) or axes is not None:
            names.append("?")
        parts.append(f"{{{', '.join(names)}}}")
    text = f"<@{symbol}, [{', '.join(parts)}]"
    for what, named in (("replicated", whole if spec.open else ()), ("unreduced", sorted(spec.unreduced))):
        if named:
            text += f", {what}={{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in named)}}}"
    return f"{text}>"


def sharding_text(symbol: str, sharding: NamedSharding, ndim: int) -> str:
    """The same on the mesh of a sharding, along whose Explicit axes XLA has no choice."""
    spec, mesh = sharding.spec, sharding.mesh
    named = {*spec.names, *spec.unreduced}
    return spec_text(symbol, spec, ndim, whole=[name for name in mesh.explicit_axes if name not in named])


def mesh_text(mesh: Mesh) -> str:
    """The axes of a mesh: `<["x"=4, "y"=2]>`."""
    if mesh == FIRST:
        return "<[], device_ids=[0]>"
    axes = ", ".join([f'"{name}"={size}' for name, size in mesh.shape_tuple])
    return f"<[{axes}]>"
