"""The mesh in force: the one that specifications are about which don't name one. The innermost frame has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, final

from typing_extensions import override

from tinyjax.contexts.watching import Watcher
from tinyjax.control.manual import NamedAxis
from tinyjax.errors import ShardingError
from tinyjax.ir.primitive import Primitive
from tinyjax.meshes import Mesh, NamedSharding, PartitionSpec
from tinyjax.tracing.array import Array
from tinyjax.tracing.captured import Intake
from tinyjax.tracing.concrete import active_frame, enterable
from tinyjax.tracing.frames import Entered, Frame, Opened, in_force

R = TypeVar("R")


@final
class MeshFrame(Entered):
    """The frame within, with another mesh."""

    __slots__ = ()

    def __init__(self, inner: Frame, mesh: Mesh | None) -> None:
        enterable(self)
        self.alive: bool = True
        self.parent: Frame = inner
        self.mesh: Mesh | None = mesh
        self.level: int = inner.level
        self.base: Frame = inner.base
        self.axes: tuple[tuple[NamedAxis, Frame], ...] = inner.axes
        self.watcher: Watcher | None = inner.watcher
        self.intake: Intake | None = inner.intake

    @override
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        return in_force(self.parent).bind(primitive, args)

    @override
    def open(self, run: Opened[R]) -> R:
        return in_force(self.parent).open(run)


def mesh_in_force() -> Mesh | None:
    """The innermost mesh that was set; None if there is none. Axes that are a `shard_map`'s own are Manual there."""
    return active_frame().mesh


def enter_mesh(mesh: Mesh | None) -> MeshFrame:
    """Sets a mesh until `leave_mesh`, or until the frame is left: `with enter_mesh(mesh):`."""
    return MeshFrame(active_frame(), mesh).__enter__()


def leave_mesh() -> None:
    """Takes back the innermost mesh that was set."""
    frame = active_frame()
    while not isinstance(frame, MeshFrame):
        frame = frame.parent
    frame.__exit__()


def on_mesh_in_force(what: str, spec: PartitionSpec) -> NamedSharding:
    """How a specification divides along the mesh in force. `what` is for messages: what said it.

    A ShardingError if no mesh is in force, or if it hasn't the axes.
    """
    mesh = mesh_in_force()
    if mesh is None or mesh.empty:
        raise ShardingError(
            f"{what} is {spec}, which doesn't say of which mesh. Write NamedSharding(mesh, {spec}), or set a mesh "
            "around it: with tinyjax.set_mesh(mesh): ..."
        )
    return NamedSharding(mesh, spec)
