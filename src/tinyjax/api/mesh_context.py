"""The mesh in force: the one that specifications are about which don't name one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator
from typing import Final, TypeVar, final

from typing_extensions import override

from tinyjax.errors import InputError, ShardingError
from tinyjax.lax.mesh_in_force import MeshFrame, enter_mesh, mesh_in_force, stand
from tinyjax.meshes import Mesh
from tinyjax.tracebacks import filtered
from tinyjax.tracing.concrete import active_frame, is_outside

F = TypeVar("F", bound=Callable[..., object])
_NO_MESH: Final = Mesh((), ())


@final
class MeshContext(AbstractContextManager[None], ContextDecorator):
    """A mesh that is in force within `with` blocks, and within calls of functions that this decorates."""

    def __init__(self, mesh: Mesh | None, within: bool) -> None:
        self._mesh = mesh
        self._within = within
        self._entered: list[MeshFrame] = []
        self._standing: MeshFrame | None = None

    def stand(self) -> MeshContext:
        """Puts the mesh in force from now on. The next `with` block of this ends that."""
        _check_outside()
        self._standing = stand(self._mesh)
        return self

    @override
    @filtered
    def __enter__(self) -> None:
        standing, self._standing = self._standing, None
        if standing is not None and active_frame() is standing:
            standing.standing = False
            self._entered.append(standing)
            return
        if self._within:
            _check_within(self._mesh)
        else:
            _check_outside()
        self._entered.append(enter_mesh(self._mesh))

    @override
    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__()

    @override
    def __call__(self, func: F) -> F:
        standing, self._standing = self._standing, None
        if standing is not None:  # it is for calls of the function
            standing.__exit__()
        return super().__call__(func)


@filtered
def set_mesh(mesh: Mesh | None) -> MeshContext:
    """Has a mesh in force, either in a block, `with set_mesh(mesh):`, or from now on: `set_mesh(mesh)`. None: no mesh.

    Then a PartitionSpec says enough wherever a sharding is asked for, `shard_map` needs no mesh, and compiled
    functions run on its devices if their arguments aren't on others. A function that was traced under another mesh is
    traced again. It is in force in this thread or task only, until another one is set. Source: `jax.set_mesh`.

    Raises:
      ShardingError: a ValueError; the block is within a function that is being transformed, for which see
        `sharding.use_abstract_mesh`, or axes of the mesh are Manual.
      InputError: a TypeError, for what is no Mesh.

    >>> import numpy as np
    >>> from tinyjax.sharding import AbstractMesh, PartitionSpec as P
    >>> from tinyjax import lax, shard_map
    >>> with set_mesh(AbstractMesh((4,), ("x",))):
    ...     shard_map(lambda a: lax.psum(a, "x"), in_specs=P("x"), out_specs=P())(np.arange(4.0))
    Array([6.], dtype=float64)
    """
    _check_mesh("set_mesh", mesh)
    if mesh is not None and mesh.manual_axes:
        raise ShardingError(
            f"set_mesh: along the axes {mesh.manual_axes} of {mesh} each device has its own part, which only shard_map "
            "can begin. Give it a mesh whose axes are Auto or Explicit."
        )
    return MeshContext(mesh, within=False).stand()


@filtered
def use_abstract_mesh(mesh: Mesh) -> MeshContext:
    """Has a mesh without devices in force in a `with` block, which may also be within a function being transformed.

    Raises:
      ShardingError: a ValueError; a mesh with another number of devices is in force.
      InputError: a TypeError, for what is no Mesh.

    >>> from tinyjax.sharding import AbstractMesh
    >>> with use_abstract_mesh(AbstractMesh((4, 2), ("x", "y"))):
    ...     print(get_abstract_mesh())
    Mesh('x': 4, 'y': 2)
    """
    _check_mesh("use_abstract_mesh", mesh)
    return MeshContext(mesh.abstract_mesh, within=True)


@filtered
def get_mesh() -> Mesh:
    """The mesh that `set_mesh` has put in force; an empty one if there is none.

    A ShardingError within functions that are being transformed: programs hold meshes without devices.

    >>> get_mesh().empty
    True
    """
    if not is_outside(active_frame()):
        raise ShardingError(
            "get_mesh: a function that is being transformed knows of no devices; tinyjax.sharding.get_abstract_mesh() "
            "gives it the mesh without them."
        )
    return mesh_in_force() or _NO_MESH


@filtered
def get_abstract_mesh() -> Mesh:
    """The mesh in force, without devices; an empty one if there is none. Within `shard_map` the axes that are its own
    are Manual.

    >>> import numpy as np
    >>> from tinyjax.sharding import AbstractMesh, PartitionSpec as P
    >>> from tinyjax import shard_map
    >>> def f(x):
    ...     print(get_abstract_mesh())
    ...     return x
    >>> mesh = AbstractMesh((2, 1), ("x", "y"))
    >>> y = shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(np.arange(2.0))
    Mesh('x': 2, 'y': 1, axis_types=(Manual, Auto))
    """
    mesh = mesh_in_force()
    return _NO_MESH if mesh is None else mesh.abstract_mesh


def _check_mesh(what: str, mesh: object) -> None:
    if mesh is not None and not isinstance(mesh, Mesh):
        raise InputError(f"{what} takes a Mesh, not {mesh!r}")


def _check_outside() -> None:
    if not is_outside(active_frame()):
        raise ShardingError(
            "set_mesh is for outside of functions that are being transformed, as programs know of no devices. Set the "
            "mesh around the call, or write `with tinyjax.sharding.use_abstract_mesh(mesh):` here."
        )


def _check_within(mesh: Mesh | None) -> None:
    outer = mesh_in_force()
    if outer and mesh and not outer.empty and not mesh.empty and outer.size != mesh.size:
        raise ShardingError(
            f"use_abstract_mesh: {outer} is in force, and {mesh} has another number of devices. A program runs on all "
            "devices of one mesh."
        )
