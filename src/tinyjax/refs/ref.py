"""`Ref`: a cell that holds an array, which is read and written by indexing.

A Ref is never a value of a program. While a function is staged, what a Ref from outside holds is an input of the
program, and what it holds at the end a result: whoever applies the program hands in the one and stores the other. So
reading and writing are the indexing of arrays, `x[index]` and `x.at[index].set(value)`, and programs stay pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeAlias, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.arrays import index_keys
from tinyjax.arrays.basic_indexing import Index
from tinyjax.arrays.elementwise import broadcast_to, convert
from tinyjax.arrays.promotion import result_type
from tinyjax.contexts.cells import Cell
from tinyjax.errors import RefError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.typed import Typed
from tinyjax.primitives.conversion import stop_gradient
from tinyjax.primitives.windows import GatherScatterMode
from tinyjax.tracebacks import filter_class
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ROOT, ConcreteArray, active_frame, as_array
from tinyjax.tracing.core import TraceFrame, bind
from tinyjax.tracing.frames import Frame, outwards

if TYPE_CHECKING:
    from tinyjax.meshes import Sharding
    from tinyjax.refs.backward import BackwardState


@final
@filter_class
class Ref(Cell[Array]):
    """A cell that holds an array of one type: `new_ref(x)` makes one. `ref[index]` reads, `ref[index] = value` writes,
    and `ref[...]` is all of it. Source: `jax.Ref`.

    A Ref has an identity: two are equal only if they are one. It is no array: nothing but reading and writing is done
    with it. A function may write to Refs that it takes or closes over, also within `jit`, loops and branches.

    >>> import numpy as np
    >>> from tinyjax import jit
    >>> count = Ref(np.zeros(3))
    >>> @jit
    ... def step():
    ...     count[1] += 1.0
    >>> step(), step()
    (None, None)
    >>> count
    Ref([0., 2., 0.], dtype=float64)
    """

    __slots__ = ("__weakref__", "_frame", "_freed", "_lent", "_value", "aval", "detached", "place", "state")

    aval: ShapedArray
    _freed: str
    #: Whether what is written to it is cut off from derivatives.
    detached: bool
    #: Who has put it in the place of an argument, and of which of those that it lends.
    place: tuple[object, int] | None
    #: What stands for it in programs whose derivative reads or writes it, once there is such a thing.
    state: BackwardState | None

    def __init__(self, init_val: ArrayLike, detached: bool = False, place: tuple[object, int] | None = None) -> None:
        value = as_array(init_val)
        self.aval = value.aval
        self._value: Array = value
        self._frame: Frame = _home(active_frame())
        self._freed = ""
        self._lent = False
        self.detached, self.place, self.state = detached, place, None

    @property
    def sharding(self) -> Sharding:
        """How that lies on devices."""
        return self.current().sharding

    def unsafe_buffer_pointer(self) -> int:
        """Where what it holds begins in memory, until something else is written."""
        return self.current().unsafe_buffer_pointer()

    def __getitem__(self, index: Index) -> Array:
        value = self.current()
        index_keys.parse(value, index, strict=True)
        return value[index]

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        current = self.current()
        given, mode = _fitting(current, index, value)
        if index is Ellipsis:
            self.store(convert(broadcast_to(given, self.shape), self.dtype, self.weak_type))
        else:
            self.store(current.at[index].set(given, mode=mode))

    def addupdate(self, x: ArrayLike, idx: Index = ...) -> None:
        """Adds to what it holds at an index: positions that an index has twice get both."""
        current = self.current()
        given, mode = _fitting(current, idx, x)
        self.store(current.at[idx].add(given, mode=mode))

    @property
    def whole(self) -> Ref:
        """Itself, as it is no part of another."""
        return self

    @property
    def at(self) -> At:
        """`ref.at[index]` is what a Ref holds at an index, to be read and written as a Ref is.

        >>> import numpy as np
        >>> ref = Ref(np.zeros(5))
        >>> ref.at[1:4][0] += 7.0
        >>> ref
        Ref([0., 7., 0., 0., 0.], dtype=float64)
        """
        return At(self)

    @property
    @override
    def lasting(self) -> bool:
        return self._frame is ROOT

    @override
    def current(self) -> Array:
        return held(self, self._held(), frames_to(self._frame, self.aval))

    @override
    def store(self, value: Array) -> None:
        self._held()
        if self.detached:
            (value,) = bind(stop_gradient, value)
        found = put(self, value, frames_to(self._frame, self.aval))
        if found is not None:
            self._value = found

    @property
    def home(self) -> Frame:
        """The transformation that it was made in, or evaluation."""
        return self._frame

    @property
    def made_here(self) -> bool:
        """Whether it was made in the innermost transformation."""
        return _home(active_frame()) is self._frame

    def _held(self) -> Array:
        """What it holds where it was made; a RefError if it can't be used."""
        if self._freed or not self._frame.alive:
            what = self._freed or "made in a function whose transformation has ended, which has let it out"
            raise RefError(f"a Ref of type {self.aval} is used that was {what}")
        if self._lent:
            raise RefError(
                f"a Ref of type {self.aval} is passed to a function that closes over it, too. Use only the argument in "
                "it, or don't pass it."
            )
        return self._value

    def free(self, how: str) -> Array:
        """What it holds at last: it can't be used from then on."""
        value = self._held()
        if not self.made_here:
            raise RefError(
                f"a Ref of type {self.aval} is {how} in another function than the one that made it. Read it there, "
                "ref[...], or return from that function first."
            )
        self._freed = f"{how} before"
        return value

    @contextmanager
    def lent(self) -> Iterator[None]:
        """It can't be used in the block, as an argument has its place."""
        self._lent = True
        try:
            yield
        finally:
            self._lent = False

    def __jax_array__(self) -> NoReturn:
        raise RefError(
            f"a Ref of type {self.aval} stands where an array is needed: read it, ref[...]. A function that is "
            "transformed can't return one, nor can a loop carry one: they may close over it."
        )

    @override
    def __repr__(self) -> str:
        if self._freed or not self._frame.alive or self._lent:
            return f"Ref({self.aval}, {self._freed or 'out of reach'})"
        held = self.current()
        if not isinstance(held, ConcreteArray):
            return f"Ref({held})"
        first, *rest = repr(held).splitlines()
        return "\n".join([f"Ref{first.removeprefix('Array')}", *[line.removeprefix("  ") for line in rest]])


@final
@filter_class
@frozen
class At:
    """What `ref.at` is: it takes an index."""

    ref: AnyRef

    def __getitem__(self, index: Index) -> Part:
        return Part(self.ref, index)


@final
@filter_class
@frozen
class Part(Typed):
    """A part of what a Ref holds: reading and writing it is reading and writing the Ref. A function that takes one has
    a Ref of its own there, and what that holds at the end is written to the part."""

    ref: AnyRef
    index: Index = field(eq=False)

    @property
    @override
    def aval(self) -> ShapedArray:
        return self.current().aval

    @property
    def whole(self) -> Ref:
        """The Ref that it is a part of."""
        return self.ref.whole

    @property
    def detached(self) -> bool:
        """Whether what is written to it is cut off from derivatives."""
        return self.whole.detached

    @property
    def at(self) -> At:
        """Parts of the part."""
        return At(self)

    def __getitem__(self, index: Index) -> Array:
        return self.ref[self.index][index]

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        held = self.ref[self.index]
        given, mode = _fitting(held, index, value)
        self.ref[self.index] = held.at[index].set(given, mode=mode)

    def addupdate(self, x: ArrayLike, idx: Index = ...) -> None:
        """Adds to what it holds at an index: positions that an index has twice get both."""
        held = self.ref[self.index]
        given, mode = _fitting(held, idx, x)
        self.ref[self.index] = held.at[idx].add(given, mode=mode)

    def current(self) -> Array:
        """What it holds."""
        return self.ref[self.index]

    def store(self, value: Array) -> None:
        """Replaces that."""
        self.ref[self.index] = value

    def lent(self) -> AbstractContextManager[None]:
        """The Ref can't be used in the block, as an argument has the place of a part of it."""
        return self.whole.lent()

    def __jax_array__(self) -> NoReturn:
        self.whole.__jax_array__()


#: What can be read and written: a Ref, or a part of one.
AnyRef: TypeAlias = Ref | Part


def _fitting(held: Array, index: Index, value: ArrayLike) -> tuple[Array, GatherScatterMode | None]:
    """What is to be written at an index of what a Ref holds, where it loses nothing; and how. As in JAX, a computed
    position that is out of range is moved to where it is read, too, but what has such positions in an array isn't
    written."""
    if isinstance(value, AnyRef):
        raise RefError(f"a Ref holds an array, and no {value!r}. Write what that holds, value[...].")
    given = as_array(value)
    entries = index_keys.parse(held, index, strict=True).entries
    if result_type([held.aval.strengthen(), given.aval])[0] != held.dtype:
        raise RefError(
            f"a value of type {given.aval} is written to a Ref that holds {held.aval}, where it would lose "
            f'something. Convert it: value.astype("{held.dtype}").'
        )
    positions = [entry for entry in entries if isinstance(entry, Array | np.ndarray)]
    computed = any(isinstance(entry, Array) for entry in positions)
    moved = computed and not any(entry.ndim for entry in positions)
    return given, GatherScatterMode.CLIP if moved else None


def _home(frame: Frame) -> Frame:
    """The transformation that a frame is part of, or evaluation."""
    return next((outer for outer in outwards(frame) if isinstance(outer, TraceFrame)), ROOT)


def frames_to(home: Frame, aval: ShapedArray) -> list[Frame]:
    """The transformations in progress from here to where a Ref was made, innermost first."""
    found: list[Frame] = []
    for frame in outwards(active_frame()):
        if frame is home:
            return found
        if isinstance(frame, TraceFrame):
            found.append(frame)
    if home is ROOT:
        return found
    raise RefError(
        f"a Ref of type {aval} is used outside of the function that made it, which is still being transformed"
    )


def held(cell: Cell[Array], outside: Array, frames: Sequence[Frame]) -> Array:
    """What a cell holds in the first of these frames, which holds `outside` around the last one."""
    value, count = outside, len(frames)
    for i, frame in enumerate(frames):
        known = None if frame.cells is None else frame.cells.inside(cell)
        if known is not None:
            value, count = known, i
            break
    for frame in reversed(frames[:count]):
        value = value if frame.cells is None else frame.cells.value(cell, value)
    return value


def put(cell: Cell[Array], value: Array, frames: Sequence[Frame]) -> Array | None:
    """Puts a value of the first of these frames into a cell: what is put into it around the last one, if anything."""
    for frame in frames:
        found = _unchanged(frame, value) if frame.cells is None else frame.cells.put(cell, value)
        if found is None:
            return None
        value = found
    return value


def _unchanged(frame: Frame, value: Array) -> Array:
    """An array that is put into a cell outside of a frame which doesn't trace it; a RefError if it does."""
    if frame.base is frame or (value.frame is not None and value.frame.level >= frame.level):
        function = frame.function.label if isinstance(frame, TraceFrame) else "a transformation"
        raise RefError(
            f"{function} writes to a Ref that was made outside, which can't be done from there. Return the value, and "
            "write it after the call; or make the Ref inside."
        )
    return value
