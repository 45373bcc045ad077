"""Refs in functions that are linearized: what is written leaves, and states of Refs are unknown tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from typing_extensions import override

from tinyjax import refs
from tinyjax.contexts.cells import Cell, Cells
from tinyjax.tracing.array import Array

if TYPE_CHECKING:
    from tinyjax.refs.backward import BackwardState


@final
class Linearizing(Cells[Array]):
    """`enter` makes of the state in the frame around one with an unknown tangent, which is a further input of the
    derivative; its last one is a further result. `leave` takes an array out, which may have no tangent, and `primal`
    one whose tangent stays."""

    __slots__ = ("_enter", "_leave", "_primal", "states")

    def __init__(
        self,
        enter: Callable[[Array], Array],
        leave: Callable[[Array], Array],
        primal: Callable[[Array], Array],
    ) -> None:
        self._enter = enter
        self._leave = leave
        self._primal = primal
        self.states: dict[BackwardState, Array] = {}

    @override
    def inside(self, cell: Cell[Array]) -> Array | None:
        return self.states.get(cell) if isinstance(cell, refs.backward.BackwardState) else None

    @override
    def value(self, cell: Cell[Array], outside: Array) -> Array:
        if not isinstance(cell, refs.backward.BackwardState):
            return outside
        if cell not in self.states:
            self.states[cell] = self._enter(outside)
        return self.states[cell]

    @override
    def put(self, cell: Cell[Array], value: Array) -> Array:
        if not isinstance(cell, refs.backward.BackwardState):
            return self._leave(value)
        self.states[cell] = value
        return self._primal(value)
