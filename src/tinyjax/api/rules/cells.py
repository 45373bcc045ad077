"""Refs in `custom_vjp` functions and their rules: what their programs take and return for them.

What the function and `fwd` read and write are operands and results, as for any other program. What `bwd` reads and
writes is so when a gradient is pulled back, and goes by the cotangents of states: see `tinyjax.refs.backward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn, final

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.cells import Cell, Cells
from tinyjax.primitives.conversion import stop_gradient
from tinyjax.refs.backward import BackwardState
from tinyjax.tracing.array import Array
from tinyjax.tracing.core import bind


class TouchesCells(BaseException):
    """A function or rule that Python runs writes to a cell, or its `bwd` reads one: so it has to be a program."""


@final
class ByPython(Cells[Array]):
    """Cells where Python runs a function or a rule, which may read them unless it is `bwd`."""

    __slots__ = ("_reads",)

    def __init__(self, reads: bool = True) -> None:
        self._reads = reads

    @override
    def value(self, cell: Cell[Array], outside: Array) -> Array:
        if not self._reads:
            raise TouchesCells
        return outside

    @override
    def put(self, cell: Cell[Array], value: Array) -> NoReturn:
        raise TouchesCells


@final
@frozen
class Layout:
    """The cells of a function's programs. Operands: what it captures, what `closed` hold, its arguments, what those of
    its arguments hold that are Refs (`own`), `states`. Results: its own, what `written` hold then, `states`."""

    closed: tuple[Cell[Array], ...] = ()
    own: tuple[Cell[Array], ...] = ()
    written: tuple[Cell[Array], ...] = ()
    states: tuple[BackwardState, ...] = ()

    def operands(self, captured: Sequence[Array], arrays: Sequence[Array]) -> list[Array]:
        """All operands, as they are now."""
        last = (cell.current() for cell in (*self.own, *self.states))
        return [*captured, *[cell.current() for cell in self.closed], *arrays, *last]

    def store(self, outs: Sequence[Array]) -> Sequence[Array]:
        """The function's results, once cells hold what they are to hold. A rule says nothing of derivatives of what is
        written, so it has none."""
        cells: tuple[Cell[Array], ...] = (*self.written, *self.states)
        n = len(outs) - len(cells)
        for i, (cell, value) in enumerate(zip(cells, outs[n:], strict=True)):
            cell.store(bind(stop_gradient, value)[0] if i < len(self.written) else value)
        return outs[:n]


NOTHING: Final = Layout()
