"""The mesh in force: the one that specifications are about which don't name one. The innermost frame has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from tinyjax.errors import NoMeshError
from tinyjax.lax.within import Within
from tinyjax.meshes import Mesh, NamedSharding, PartitionSpec
from tinyjax.propagation.specs import Lies
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.frames import Frame


@final
class MeshFrame(Within):
    """The frame within, with another mesh. `lies` says how the arguments of the function that is staged next lie along
    its Explicit axes."""

    __slots__ = ("lies", "standing")

    def __init__(self, inner: Frame, mesh: Mesh | None, lies: Sequence[Lies] = ()) -> None:
        super().__init__(inner)
        self.mesh: Mesh | None = mesh
        #: Whether it is in force until another one is set, without a block.
        self.standing: bool = False
        self.lies: Sequence[Lies] = lies

    def replaced(self) -> Frame:
        """The frame around it, for what stands there in its place. What was in force before it is no longer kept,
        or all that replaced each other would be."""
        self._token = None
        return self.parent


def stand(mesh: Mesh | None) -> MeshFrame:
    """Puts a mesh in force from now on, outside of functions that are transformed, in place of one that stands already;
    until the frame is left, or a block that began before."""
    outer = active_frame()
    if isinstance(outer, MeshFrame) and outer.standing:
        outer = outer.replaced()
    frame = MeshFrame(outer, mesh).__enter__()
    frame.standing = True
    return frame


def mesh_in_force() -> Mesh | None:
    """The innermost mesh that was set; None if there is none. Axes that are a `shard_map`'s own are Manual there."""
    return active_frame().mesh


def enter_mesh(mesh: Mesh | None, lies: Sequence[Lies] = ()) -> MeshFrame:
    """Sets a mesh until `leave_mesh`, or until the frame is left: `with enter_mesh(mesh):`."""
    return MeshFrame(active_frame(), mesh, lies).__enter__()


def leave_mesh() -> None:
    """Takes back the innermost mesh that was set."""
    frame = active_frame()
    while not isinstance(frame, MeshFrame):
        frame = frame.parent
    frame.__exit__()


def on_mesh_in_force(what: str, spec: PartitionSpec) -> NamedSharding:
    """How a specification divides along the mesh in force. `what` is for messages: what said it.

    A NoMeshError if no mesh is in force, and a ShardingError if it hasn't the axes.
    """
    mesh = mesh_in_force()
    if mesh is None or mesh.empty:
        raise NoMeshError(
            f"{what} is {spec}, which doesn't say of which mesh. Write NamedSharding(mesh, {spec}), or set a mesh "
            "around it: with tinyjax.set_mesh(mesh): ..."
        )
    return NamedSharding(mesh, spec)
