"""Frames: contexts in use. What they are, apart from the arrays that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from typing_extensions import override

from tinyjax.contexts.cells import Cells
from tinyjax.contexts.watching import Watcher
from tinyjax.control.manual import NamedAxis
from tinyjax.errors import AxisNameError
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.meshes import Mesh
from tinyjax.primitives.defaults import Defaults
from tinyjax.tracing.captured import Intake

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

V = TypeVar("V")
R_co = TypeVar("R_co", covariant=True)


class Transformed(Protocol):
    """The function that a frame belongs to, for messages."""

    @property
    def label(self) -> str:
        """Its name, where it is defined, and the transformation."""

    def name_input(self, position: int) -> str:
        """What it calls the n-th leaf of its arguments."""


class Frame(ABC):
    """A context in use, and its place among those that enclose it. `level` counts them.

    A frame is in force from when it is entered until it is ended, once for all. The context variable that holds the
    innermost one can't say that by itself: tasks and threads copy it, and outlive what started them.
    """

    __slots__ = ("alive", "axes", "base", "cells", "defaults", "intake", "level", "mesh", "parent", "watcher")

    #: Whether its transformation is still in progress.
    alive: bool
    #: The frame that encloses it. The outermost one is its own parent.
    parent: Frame
    level: int
    #: The nearest enclosing frame that interprets operations on constants too: evaluation or staging. Once that has
    #: ended, its own `base` goes on to the next one further out.
    base: Frame
    #: The named axes in scope, innermost last, each with the frame that maps it.
    axes: tuple[tuple[NamedAxis, Frame], ...]
    #: Who watches what is applied here and in the frames within.
    watcher: Watcher | None
    #: How the user's arrays come into a program that is staged here.
    intake: Intake | None
    #: What becomes of cells outside; None: nothing that is traced here is put into one.
    cells: Cells[Array] | None
    #: The mesh that specifications are about which don't name one.
    mesh: Mesh | None
    #: What functions take that aren't told otherwise; None: as outside of all blocks.
    defaults: Defaults | None

    @abstractmethod
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        """Applies a primitive to arrays of this frame and of frames further out."""

    @abstractmethod
    def open(self, run: Opened[R_co]) -> R_co:
        """Calls `run` with this frame, whose type of values is known inside."""

    def function_of(self, context: object) -> Transformed | None:
        """The function whose transformation has this context: that of a frame from this one outwards, if there is
        one."""
        return None if self.parent is self else self.parent.function_of(context)

    def end(self) -> None:
        """Takes the frame out of force, in every task and thread. It refers to itself no more, so it needs no garbage
        collector."""
        self.alive = False
        self.base, self.axes, self.cells = self.parent.base, self.parent.axes, None


def in_force(frame: Frame) -> Frame:
    """The nearest frame, from this one outwards, that hasn't ended."""
    while not frame.alive:
        frame = frame.parent
    return frame


def outwards(frame: Frame) -> Iterator[Frame]:
    """The frame and those that enclose it, without the outermost one."""
    while frame.parent is not frame:
        yield frame
        frame = frame.parent


def base_in_force(frame: Frame) -> Frame:
    """The nearest frame, from this one outwards, that interprets operations on constants too, and hasn't ended."""
    base = frame.base
    while not base.alive:  # this is a transformation over one that has ended
        base = base.base
    return base


class Entered(Frame):
    """A frame that is the innermost one in a `with` block, and is ended with it.

    Write `with frame, frame:`. It is then left twice, which does no harm, and it is left for certain when an interrupt
    comes at the very moment of leaving.
    """

    __slots__ = ("_token", "_variable")

    #: What holds the innermost frame, and what takes it back to the one before.
    _variable: ContextVar[Frame]
    _token: Token[Frame] | None

    def __enter__(self) -> Self:
        try:
            if self._token is None:
                self._token = self._variable.set(self)
            return self
        except BaseException:  # an interrupt, and nobody leaves what wasn't entered
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.end()
        if self._token is not None:
            with suppress(RuntimeError):  # an interrupt came right after this, the first time
                self._variable.reset(self._token)
            self._token = None


class OpenFrame(Frame, Generic[V]):
    """A frame together with the type of its context's values."""

    __slots__ = ()

    context: Context[V]

    @abstractmethod
    def wrap(self, value: V) -> Array:
        """A value of the context as an array."""

    def read(self, x: Array) -> V:
        """An array of this frame, or of one further out, as a value of the context."""
        return x.into(self.context)

    @override
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        context = self.context
        outs = context.bind(primitive, *[arg.into(context) for arg in args])
        return tuple(map(self.wrap, outs))

    @override
    def open(self, run: Opened[R_co]) -> R_co:
        return run(self)


def named_axis(axes: Sequence[tuple[NamedAxis, Frame]], name: str) -> tuple[NamedAxis, Frame]:
    """The innermost of these axes with this name; an AxisNameError if there is none."""
    for axis, frame in reversed(axes):
        if axis.name == name:
            return axis, frame
    found = ", ".join(repr(axis.name) for axis, _ in axes) or "none"
    raise AxisNameError(
        f"unbound axis name: {name!r}. Axes in scope: {found}. Bind it with vmap(..., axis_name={name!r}) or shard_map."
    )


class Opened(Protocol[R_co]):
    """A function that works for frames of every type of values."""

    def __call__(self, frame: OpenFrame[V], /) -> R_co: ...
