"""Which axes of a mesh groups of its devices are along."""

from __future__ import annotations

import math
from typing import TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.caching import bounded
from tinyjax.meshes import Mesh
from tinyjax.tools.partitioning.hlo import Groups

Axes: TypeAlias = tuple[str, ...]


@final
@frozen
class Along:
    """The axes of a mesh, those of size 1 left out, along which devices communicate. `whole`: each group has all of the
    devices along them; otherwise a part. `size` is how many are in a group."""

    axes: Axes
    whole: bool
    size: int


@bounded(64)
def coordinates(mesh: Mesh) -> Groups:
    """For each device, its place along each axis."""
    return np.indices(mesh.axis_sizes, np.int64).reshape(len(mesh.axis_sizes), -1).T


def along_groups(mesh: Mesh, groups: Groups) -> Along:
    """The axes that groups of partitions are along; empty groups are one of all, and what smaller ones lack is -1.

    >>> from tinyjax.meshes import AbstractMesh
    >>> along_groups(AbstractMesh((2, 2), ("x", "y")), np.array([[0, 2], [1, 3]]))
    Along(axes=('x',), whole=True, size=2)
    """
    return _along_groups(mesh, groups.tobytes(), int(groups.shape[-1])) if groups.size else _everywhere(mesh)


def _everywhere(mesh: Mesh) -> Along:
    return along_groups(mesh, np.arange(mesh.size, dtype=np.int64).reshape(1, -1))


@bounded(1024)
def _along_groups(mesh: Mesh, content: bytes, size: int) -> Along:
    groups = np.frombuffer(content, np.int64).reshape(-1, size)
    groups = np.where(groups < 0, groups[:, :1], groups)
    places = coordinates(mesh)[groups]  # by group, member, axis
    differ = (places != places[:, :1]).any(axis=1).any(axis=0)
    axes = tuple([name for name, moved in zip(mesh.axis_names, differ, strict=True) if moved])
    distinct = all(len(set(group)) == size for group in groups.tolist())
    whole = distinct and size == math.prod([mesh.shape[name] for name in axes])
    return Along(axes, whole, size)


def along_pairs(mesh: Mesh, pairs: Groups) -> Along:
    """The axes along which something is sent from the first to the second of each pair of partitions."""
    return _along_pairs(mesh, pairs.tobytes()) if pairs.size else Along((), True, 1)


@bounded(1024)
def _along_pairs(mesh: Mesh, content: bytes) -> Along:
    pairs = np.frombuffer(content, np.int64).reshape(-1, 2)
    places = coordinates(mesh)
    differ = (places[pairs[:, 0]] != places[pairs[:, 1]]).any(axis=0)
    axes = tuple([name for name, moved in zip(mesh.axis_names, differ, strict=True) if moved])
    return Along(axes, True, math.prod([mesh.shape[name] for name in axes]))
