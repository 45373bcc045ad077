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

    __slots__ = ("lies",)

    def __init__(self, inner: Frame, mesh: Mesh | None, lies: Sequence[Lies] = ()) -> None:
        super().__init__(inner)
        self.mesh: Mesh | None = mesh
        self.lies: Sequence[Lies] = lies


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
