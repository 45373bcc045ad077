"""Blocks in which functions are run otherwise: by Python instead of being compiled, or at once instead of being staged.

Each is a frame within the innermost one, which ends with the block: in this thread or task only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, final

from attrs import evolve
from typing_extensions import override

from tinyjax.contexts.watching import Watcher
from tinyjax.control.manual import NamedAxis
from tinyjax.deferred import PRECISION
from tinyjax.ir.dtypes import KEY, DType
from tinyjax.ir.primitive import Primitive
from tinyjax.meshes import Mesh
from tinyjax.prepared.functions import BY_PYTHON
from tinyjax.primitives.contractions import DotPrecision
from tinyjax.primitives.defaults import PLAIN, Defaults
from tinyjax.tracing.array import Array
from tinyjax.tracing.captured import Intake
from tinyjax.tracing.concrete import ROOT, active_frame, enterable, innermost
from tinyjax.tracing.frames import Entered, Frame, Opened, in_force, outwards
from tinyjax.tracing.programs import Traced

R = TypeVar("R")
#: What becomes of a function that has been staged.
Rewrite: TypeAlias = Callable[[Traced], Traced]


class Within(Entered):
    """A frame within another one, in which operations are what they are there."""

    __slots__ = ()

    def __init__(self, inner: Frame) -> None:
        enterable(self)
        self.alive: bool = True
        self.parent: Frame = inner
        self.mesh: Mesh | None = inner.mesh
        self.defaults: Defaults | None = inner.defaults
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


@final
class Interpreted(Within):
    """The frame within, in which Python runs functions that would be compiled, or no longer does."""

    __slots__ = ("by_python",)

    def __init__(self, inner: Frame, by_python: bool) -> None:
        super().__init__(inner)
        self.by_python: bool = by_python


@final
class Rewriting(Within):
    """The frame within, in which functions are staged and rewritten before they are differentiated; None: they are not,
    or no longer."""

    __slots__ = ("rewrite",)

    def __init__(self, inner: Frame, rewrite: Rewrite | None) -> None:
        super().__init__(inner)
        self.rewrite: Rewrite | None = rewrite


@final
class Defaulting(Within):
    """The frame within, in which functions take these if they aren't told otherwise."""

    __slots__ = ()

    def __init__(self, inner: Frame, defaults: Defaults) -> None:
        super().__init__(inner)
        self.defaults: Defaults | None = None if defaults == PLAIN else defaults


@final
class AtOnce(Within):
    """The frame within, in which operations on arrays that have elements are computed, not staged."""

    __slots__ = ()

    def __init__(self, inner: Frame) -> None:
        super().__init__(inner)
        self.base: Frame = ROOT
        self.intake: Intake | None = None


def precise(inner: Frame, precision: DotPrecision) -> Defaulting:
    """The frame within, in which products are computed like this if they don't say how."""
    return Defaulting(inner, evolve(inner.defaults or PLAIN, precision=precision))


def keyed(inner: Frame, keys: DType | None) -> Defaulting:
    """The frame within, in which keys have this dtype if they aren't told which."""
    return Defaulting(inner, evolve(inner.defaults or PLAIN, keys=keys))


def defaults_in_force() -> Defaults:
    """What functions take that aren't told otherwise."""
    return active_frame().defaults or PLAIN


def precision_in_force() -> DotPrecision:
    """How products are computed that don't say so themselves."""
    return defaults_in_force().precision


def keys_in_force() -> DType:
    """The dtype of keys that are made of integers or of words, if nobody says which."""
    return defaults_in_force().keys or KEY


PRECISION.hand(precision_in_force)


def runs_by_python() -> bool:
    """Whether functions that are given to `jit`, loops and conditionals are to be run by Python."""
    if innermost() is ROOT:
        return False
    for frame in outwards(active_frame()):
        if isinstance(frame, Interpreted):
            return frame.by_python
    return False


BY_PYTHON.hand(runs_by_python)


def rewriting_in_force() -> Rewrite | None:
    """What becomes of the programs of functions before they are differentiated; None: they aren't staged first."""
    if innermost() is not ROOT:
        for frame in outwards(active_frame()):
            if isinstance(frame, Rewriting):
                return frame.rewrite
    return None


def known(x: Array) -> bool:
    """Whether Python can decide by a scalar."""
    return x.concrete() is not None
