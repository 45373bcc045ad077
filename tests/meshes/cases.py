"""Meshes and specifications at random, of ours and of JAX's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import jax
import numpy as np
from hypothesis import strategies as st

import tinyjax as tj
from tinyjax.meshes import Mesh, NamedSharding, PartitionSpec
from tinyjax.meshes.spec import Part

NAMES: Final = ("x", "y", "z")
SIZES: Final = [(8,), (1,), (2, 4), (4, 2), (2, 2, 2), (8, 1), (1, 2, 2), (2, 1, 3)]


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    """A mesh of some of eight devices, in any order."""
    sizes = draw(st.sampled_from(SIZES))
    order = draw(st.permutations(range(8)))
    devices = np.array(tj.devices("cpu"), object)[list(order)]
    return Mesh(devices[: int(np.prod(sizes))].reshape(sizes), NAMES[: len(sizes)])


@st.composite
def parts(draw: st.DrawFn, names: Sequence[str], ndim: int) -> list[Part]:
    """Parts of a specification for at most so many axes, each name at most once."""
    found: list[Part] = []
    left = list(draw(st.permutations(names)))
    for _ in range(draw(st.integers(0, ndim))):
        count = draw(st.integers(0, min(2, len(left))))
        taken, left = left[:count], left[count:]
        found.append(None if not taken else taken[0] if len(taken) == 1 else tuple(taken))
    return found


@st.composite
def shardings(draw: st.DrawFn, ndim: int) -> NamedSharding:
    """A sharding of arrays with so many axes."""
    mesh = draw(meshes())
    return NamedSharding(mesh, PartitionSpec(*draw(parts(mesh.axis_names, ndim))))


def jax_mesh(mesh: Mesh) -> jax.sharding.Mesh:
    """The same of JAX's, with its devices."""
    by_id = {device.id: device for device in jax.devices("cpu")}
    ids = [by_id[number] for number in mesh.device_ids.ravel().tolist()]
    return jax.sharding.Mesh(np.array(ids, object).reshape(mesh.axis_sizes), mesh.axis_names)


def jax_spec(spec: PartitionSpec) -> jax.sharding.PartitionSpec:
    """The same of JAX's."""
    known = jax.sharding.PartitionSpec.UNCONSTRAINED
    found = [known if part is PartitionSpec.UNCONSTRAINED else part for part in spec.partitions]
    return jax.sharding.PartitionSpec(*found, unreduced=set(spec.unreduced), reduced=set(spec.reduced))


def jax_sharding(sharding: NamedSharding) -> jax.sharding.NamedSharding:
    """The same of JAX's."""
    return jax.sharding.NamedSharding(jax_mesh(sharding.mesh), jax_spec(sharding.spec))
