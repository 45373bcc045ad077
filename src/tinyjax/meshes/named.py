"""Shardings by names of mesh axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.caching import bounded
from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.parameters import Spelled
from tinyjax.ir.shapes import Shape
from tinyjax.meshes.device import Device
from tinyjax.meshes.mesh import AbstractMesh, AxisType, Mesh
from tinyjax.meshes.sharding import USUAL_KIND, Sharding, check_blocks, kind_of_memory
from tinyjax.meshes.spec import PartitionSpec

if TYPE_CHECKING:
    import numpy.typing as npt


@final
@frozen(repr=False, cache_hash=True)
class NamedSharding(Sharding, Spelled):
    """How an array lies on a mesh: which of its axes are divided along which axes of the mesh.

    Args:
      mesh: the mesh, with or without devices.
      spec: a PartitionSpec with axes of the mesh, each at most once.
      memory_kind: a kind of memory of the devices, "device", "pinned_host" or "unpinned_host"; None for the first.

    Raises:
      ShardingError: a ValueError, for an axis that the mesh doesn't have, or one that occurs twice; for sums along axes
        that aren't Explicit, if the mesh has devices: programs, whose meshes have none, don't say of which kind axes
        are, and those who take a sharding check it.
      ChoiceError: a ValueError, for another kind of memory.
      InputError: a TypeError, for what is no Mesh, and no PartitionSpec.

    >>> sharding = NamedSharding(Mesh((4, 2), ("x", "y")), PartitionSpec("x"))
    >>> sharding
    NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=P('x',))
    >>> sharding.shard_shape((8, 6))
    (2, 6)
    """

    mesh: Mesh
    spec: PartitionSpec
    memory_kind: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        mesh, spec = self.mesh, self.spec
        if not isinstance(mesh, Mesh):
            raise InputError(f"the mesh of a NamedSharding is a sharding.Mesh, not {mesh!r}")
        if not isinstance(spec, PartitionSpec):
            raise InputError(f"the spec of a NamedSharding is a PartitionSpec, such as P('x', None), not {spec!r}")
        object.__setattr__(self, "memory_kind", kind_of_memory(self.memory_kind, mesh.placed is not None))
        names = spec.names
        check_names(mesh, spec)
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ShardingError(f"a mesh axis can divide an array once, but {spec} has {twice!r} twice")
        if mesh.placed is not None:
            check_sums("NamedSharding", self)
        if spec.open and mesh.axis_types and AxisType.Auto not in mesh.axis_types:
            raise ShardingError(f"{spec}: P.UNCONSTRAINED is for meshes with Auto axes, and {mesh} has none")

    @classmethod
    @override
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:  # checked against the fields' types before
        return cls(**fields)

    @property
    @override
    def flat_devices(self) -> tuple[Device, ...]:
        return self.mesh.flat_devices

    @property
    @override
    def num_devices(self) -> int:
        return self.mesh.size

    @property
    @override
    def has_devices(self) -> bool:
        return self.mesh.placed is not None

    @property
    @override
    def is_fully_replicated(self) -> bool:
        if self.mesh.size == 1:
            return True
        sizes = self.mesh.shape
        return not self.spec.unreduced and all(sizes[name] == 1 for name in self.spec.names)

    @property
    def replicated_axes(self) -> frozenset[str]:
        """The axes of the mesh along which nothing is divided."""
        return frozenset(self.mesh.axis_names) - {*self.spec.names, *self.spec.unreduced, *self.spec.reduced}

    @override
    def blocks(self, ndim: int) -> tuple[int, ...]:
        sizes = self.mesh.shape
        counts = [math.prod([sizes[name] for name in names]) for names in self.spec.axes[:ndim]]
        return (*counts, *(1,) * (ndim - len(counts)))

    @override
    def coordinates(self, ndim: int) -> npt.NDArray[np.int64]:
        found = np.zeros((self.mesh.size, ndim), np.int64)
        for axis, names in enumerate(self.spec.axes[:ndim]):
            found[:, axis] = self._along(names)
        return found

    @override
    def partial_sums(self) -> npt.NDArray[np.int64]:
        return self._along([name for name in self.mesh.axis_names if name in self.spec.unreduced])

    def _along(self, names: tuple[str, ...] | list[str]) -> npt.NDArray[np.int64]:
        """For each device, its place along some mesh axes, of which the first varies slowest."""
        sizes = self.mesh.axis_sizes
        places = np.indices(sizes).reshape(len(sizes), -1)
        found = np.zeros(self.mesh.size, np.int64)
        for name in names:
            axis = self.mesh.axis_names.index(name)
            found = found * sizes[axis] + places[axis]
        return found

    @override
    def check(self, shape: Shape, what: str) -> None:
        check_blocks(shape, self.spec.axes, self.mesh.shape, self.spec, what)

    def update(
        self, *, mesh: Mesh | None = None, spec: PartitionSpec | None = None, memory_kind: str | None = None
    ) -> NamedSharding:
        """The sharding with these in the place of its own."""
        return NamedSharding(
            self.mesh if mesh is None else mesh,
            self.spec if spec is None else spec,
            memory_kind=self.memory_kind if memory_kind is None else memory_kind,
        )

    def with_spec(self, spec: PartitionSpec | tuple[str | tuple[str, ...] | None, ...]) -> NamedSharding:
        """The same mesh with another specification."""
        return evolve(self, spec=spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec))

    def padded(self, ndim: int) -> NamedSharding:
        """The same for an array of so many axes: on a mesh with Explicit axes the specification then has a part for
        each axis."""
        parts = self.spec.partitions
        if not self.mesh.explicit_axes or len(parts) >= ndim:
            return self
        return self.with_spec(self.spec.update([*parts, *[None] * (ndim - len(parts))]))

    @override
    def with_memory_kind(self, kind: str | None) -> NamedSharding:
        return evolve(self, memory_kind=kind)

    @property
    def abstract(self) -> NamedSharding:
        """The same on the mesh without devices, which is what programs hold."""
        return self if self.mesh.placed is None else evolve(self, mesh=self.mesh.abstract_mesh)

    @override
    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec}{self._kind()})"

    @override
    def spelled(self) -> str:
        return f"NamedSharding(mesh={self.mesh.spelled()}, spec={self.spec.spelled()}{self._kind()})"

    def _kind(self) -> str:
        return "" if self.memory_kind in (None, USUAL_KIND) else f", memory_kind={self.memory_kind!r}"


def check_names(mesh: Mesh, spec: PartitionSpec) -> None:
    """A ShardingError for a mesh axis that isn't there."""
    for name in (*spec.names, *sorted(spec.unreduced | spec.reduced)):
        if name not in mesh.axis_names:
            has = ", ".join(map(repr, mesh.axis_names)) or "none"
            raise ShardingError(f"{spec}: the mesh has no axis {name!r}; its axes are {has}")


def check_sums(what: str, sharding: NamedSharding) -> None:
    """A ShardingError for sums yet to be made along axes along which the program doesn't say how arrays lie."""
    for name in sorted(sharding.spec.unreduced | sharding.spec.reduced):
        if name not in sharding.mesh.explicit_axes:
            raise ShardingError(
                f"{what}: {sharding.spec} is about a sum along {name!r}, which must be an Explicit axis of a mesh, as "
                f"along these only it is known what is done with it; it is one of {sharding.mesh}. make_mesh makes "
                f"Explicit axes, and Mesh(..., axis_types=(AxisType.Explicit,) * {sharding.mesh.ndim})"
            )


@bounded(64)
def on_no_mesh(ndim: int) -> NamedSharding:
    """How an array lies that is on no mesh: none of its axes is divided along one of the empty mesh."""
    return NamedSharding(AbstractMesh((), ()), PartitionSpec(*[None] * ndim))


def named_sharding(x: object) -> NamedSharding | None:
    """How an array or a type says that it lies on a mesh, if it says so by names of axes."""
    found = getattr(x, "sharding", None)
    return found if isinstance(found, NamedSharding) and not found.mesh.empty else None
