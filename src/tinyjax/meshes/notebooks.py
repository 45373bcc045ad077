"""What notebooks show of meshes and shardings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Final

from tinyjax.ir.printing.display import MOST, Block, Note, page, table
from tinyjax.meshes.mesh import Mesh
from tinyjax.meshes.named import NamedSharding
from tinyjax.meshes.sharding import Sharding

#: Of a mesh so many columns are shown.
_COLUMNS: Final = 32


def mesh_blocks(mesh: Mesh) -> Iterator[Block]:
    """A mesh for notebooks: its devices, of which the last axis goes across."""
    yield Note(repr(mesh))
    if mesh.ndim == 0:
        return
    names, sizes = mesh.axis_names, mesh.axis_sizes
    last, shown = sizes[-1], min(sizes[-1], _COLUMNS)
    more = ["\N{HORIZONTAL ELLIPSIS}"] if shown < last else []
    head = [*names[:-1], f"{names[-1]} = 0", *map(str, range(1, shown)), *more]
    places = itertools.islice(itertools.product(*[range(size) for size in sizes[:-1]]), MOST)
    rows = [
        [*map(str, place), *[_named(mesh, i * last + column) for column in range(shown)], *more]
        for i, place in enumerate(places)
    ]
    yield from table(head, rows)
    if (left := math.prod(sizes[:-1]) - len(rows)) > 0:
        yield Note(f"({left:,} more rows)")
    if mesh.placed is None:
        yield Note("places on the mesh, which has no devices yet")


def _named(mesh: Mesh, number: int) -> str:
    return str(number if mesh.placed is None else mesh.placed[number])


def sharding_blocks(sharding: Sharding) -> Iterator[Block]:
    """A sharding for notebooks: what becomes of the axes of an array, and the mesh."""
    yield Note(repr(sharding))
    if not isinstance(sharding, NamedSharding):
        return
    sizes = sharding.mesh.shape
    rows = [
        (f"axis {axis}", " and ".join(f"{name!r} ({sizes[name]})" for name in names) or "not divided")
        for axis, names in enumerate(sharding.spec.axes)
    ]
    same = [f"{name!r} ({sizes[name]})" for name in sharding.mesh.axis_names if name in sharding.replicated_axes]
    yield from table(("of an array", "divided along"), [*rows, ("replicated along", " and ".join(same) or "nothing")])
    yield from mesh_blocks(sharding.mesh)


def html_of_blocks(blocks: Iterator[Block]) -> str:
    """What a notebook shows."""
    return page(block.html for block in blocks)
