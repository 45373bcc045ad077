"""Refs that rules of `custom_vjp` functions read or write when a gradient is pulled back.

Programs have no Refs, and pulling back runs a program backwards. So what such a Ref holds is threaded through it: the
function takes and returns a state, whose value nobody reads, and whose *cotangent* is what the Ref holds. Going
backwards, it enters where the function ends, and each rule gets what the rules that ran before it have left. Who pulls
back hands in what the Ref holds, and has it hold what comes out. Everywhere else a state is one more cell: loops carry
it, branches and compiled functions take and return it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np
from typing_extensions import override

from tinyjax.arrays.arithmetic import add, bitwise_and, imag, left_shift, real, right_shift
from tinyjax.arrays.elementwise import apply, convert
from tinyjax.contexts.cells import Cell, Cells
from tinyjax.errors import RefError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, COMPLEX128, FLOAT64, INT64, INTEGERS, UINT64
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.complex import complex_
from tinyjax.primitives.conversion import conversion
from tinyjax.refs.ref import AnyRef, Ref, frames_to, held
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import active_frame, as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.frames import outwards


class LentAwayError(RefError):
    """The state of a Ref that stands for an argument is asked for outside of the function: by one who runs it."""


@final
class BackwardState(Cell[Array]):
    """The state for a Ref: see above. `state_of` makes it."""

    __slots__ = ("aval", "ref")

    aval: ShapedArray

    def __init__(self, ref: Ref) -> None:
        self.ref: Ref = ref
        self.aval = _state_type(ref.aval)

    @property
    @override
    def lasting(self) -> bool:
        return self.ref.lasting or self.ref.place is not None

    @override
    def current(self) -> Array:
        home = self.ref.home
        frames = frames_to(home.parent if self._is_lent else home, self.ref.aval)
        return held(self, _nothing(self.aval), frames)

    @override
    def store(self, value: Array) -> None:
        home = self.ref.home
        for frame in frames_to(home.parent if self._is_lent else home, self.ref.aval):
            found = None if frame.cells is None else frame.cells.put(self, value)
            if found is None:  # from here nothing leaves: it stays what it was, and who needs it will notice
                return
            value = found

    @property
    def _is_lent(self) -> bool:
        """Whether the Ref stands for an argument: then its state is an input of the function, as it has one outside."""
        if self.ref.place is None:
            return False
        home = self.ref.home
        if not home.alive or all(frame is not home for frame in outwards(active_frame())):
            raise LentAwayError(f"the derivative of a function uses a Ref of type {self.ref.aval}, which it was lent")
        return True

    def hand_in(self) -> Array:
        """What the Ref holds, as a cotangent."""
        return _as_state(self.ref.current())

    def take_out(self, cotangent: Array) -> None:
        """The Ref holds what comes out of a pull-back from then on."""
        self.ref.store(_as_held(cotangent, self.ref.aval))


def state_of(ref: Ref) -> BackwardState:
    """The state for a Ref, which is made once."""
    if ref.state is None:
        ref.state = BackwardState(ref)
    return ref.state


def state_for(cell: Cell[Array], function: object, refs: Sequence[AnyRef]) -> Cell[Array]:
    """A cell of a function that `lending` has made; in the place of the state of a Ref that it was lent, the state of
    that Ref itself, of these."""
    if isinstance(cell, BackwardState) and (place := cell.ref.place) is not None and place[0] is function:
        lent = refs[place[1]]
        if not isinstance(lent, Ref):
            raise RefError(
                f"a derivative rule uses a part of a Ref of type {lent.whole.aval} that was passed to a function which "
                "is traced. Pass the Ref itself, and take the part in the rule: ref.at[index]."
            )
        return state_of(lent)
    return cell


@final
class Backward(Cells[Array]):
    """Cells in a `bwd` rule that is staged: each Ref is an input, after the others, and a result, after the others."""

    __slots__ = ("_argument", "values")

    def __init__(self, argument: Callable[[ShapedArray], Array]) -> None:
        self._argument = argument
        self.values: dict[Ref, Array] = {}

    @override
    def inside(self, cell: Cell[Array]) -> Array | None:
        if not isinstance(cell, Ref):  # the state of a rule within the rule: nothing is pulled back through it here
            return _nothing(cell.aval)
        if cell not in self.values:
            self.values[cell] = _as_held(self._argument(_state_type(cell.aval)), cell.aval)
        return self.values[cell]

    @override
    def value(self, cell: Cell[Array], outside: Array) -> Array:
        return outside

    @override
    def put(self, cell: Cell[Array], value: Array) -> None:
        if isinstance(cell, Ref):
            self.inside(cell)  # it is an input, too
            self.values[cell] = value

    def results(self) -> list[Array]:
        """What the Refs hold at the end, as cotangents."""
        return list(map(_as_state, self.values.values()))


@final
class LeavingRefs(Cells[Array]):
    """What is put into a Ref leaves the frame, or may not: `leave` says so. A state stays what it is: whoever needs it
    finds that it hasn't moved."""

    __slots__ = ("_leave",)

    def __init__(self, leave: Callable[[Array], Array]) -> None:
        self._leave = leave

    @override
    def value(self, cell: Cell[Array], outside: Array) -> Array:
        return outside

    @override
    def put(self, cell: Cell[Array], value: Array) -> Array | None:
        return None if isinstance(cell, BackwardState) else self._leave(value)


def _nothing(aval: ShapedArray) -> Array:
    """The value of a state, which nobody reads."""
    return as_array(ConcreteValue.of(np.zeros(aval.shape, aval.dtype)))


def _state_type(aval: ShapedArray) -> ShapedArray:
    """A type that has cotangents, and in which nothing of a value is lost."""
    if has_tangent(aval):
        return aval.strengthen()
    if aval.dtype not in INTEGERS and aval.dtype != BOOL:
        raise RefError(f"a rule of a custom_vjp function uses a Ref of type {aval}, which must hold numbers")
    return ShapedArray(aval.shape, COMPLEX128 if aval.dtype in (INT64, UINT64) else FLOAT64)


def _as_state(x: Array) -> Array:
    """What a Ref holds, as a cotangent of its state: of 64-bit integers two halves."""
    if has_tangent(x.aval):
        return bind(conversion(x.dtype, False), x)[0] if x.aval.weak_type else x
    if x.dtype not in (INT64, UINT64):
        return convert(x, FLOAT64)
    x = bind(conversion(x.dtype, False), x)[0] if x.aval.weak_type else x
    low, high = bitwise_and(x, as_array(np.array(2**32 - 1, x.dtype))), right_shift(x, as_array(np.array(32, x.dtype)))
    return apply(complex_, convert(high, FLOAT64), convert(low, FLOAT64))


def _as_held(state: Array, aval: ShapedArray) -> Array:
    """The same backwards."""
    if aval.dtype not in (INT64, UINT64):
        return state if aval == state.aval else bind(conversion(aval.dtype, aval.weak_type), state)[0]
    high, low = convert(real(state), aval.dtype), convert(imag(state), aval.dtype)
    found = add(left_shift(high, as_array(np.array(32, aval.dtype))), low)
    return bind(conversion(aval.dtype, True), found)[0] if aval.weak_type else found
