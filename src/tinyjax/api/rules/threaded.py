"""`custom_vjp` functions that use Refs, as one equation: see `tinyjax.api.rules.cells` for its operands and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from attrs import frozen

from tinyjax.api.rules.applications import Call
from tinyjax.api.rules.cases import Asked
from tinyjax.api.rules.cells import Layout
from tinyjax.api.rules.programs import Program, with_all_cells, with_common_captures
from tinyjax.api.rules.vjp_cases import StagedBackward, StagedCase, unknown
from tinyjax.contexts.cells import Cell
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.branches import with_types
from tinyjax.control.carry import rearranged
from tinyjax.control.custom_derivatives import CustomVjp
from tinyjax.control.recursion import Refusal, VjpCase, refusal_for
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.tangents import cotangent_avals, has_tangent, tangent_avals
from tinyjax.refs.backward import BackwardState, state_of
from tinyjax.refs.ref import Ref
from tinyjax.tracing.array import Array


@final
@frozen(eq=False)
class StagedRules:
    """The programs of a function, which uses `cells`, and of its rules; None: these are left out."""

    function: Program
    cells: tuple[Cell[Array], ...]
    out_avals: tuple[ShapedArray, ...]
    cases: Asked[StagedCase] | None

    @property
    def case(self) -> StagedCase | None:
        """The rules for when everything moves."""
        found = () if self.cases is None else self.cases.found
        return next((case for case in found if all(case.given)), None)

    @property
    def refused(self) -> tuple[Refusal, ...]:
        return () if self.cases is None else self.cases.refused

    @property
    def backward(self) -> StagedBackward | None:
        found = () if self.case is None else self.case.backwards.found
        return found[0] if found else None

    @property
    def read(self) -> tuple[Cell[Array], ...]:
        """The cells that the function and `fwd` use."""
        return self.cells if self.case is None else tuple(dict.fromkeys([*self.cells, *self.case.cells]))

    @property
    def uses_cells(self) -> bool:
        found = () if self.cases is None else self.cases.found
        bwds = [each for case in found for each in case.backwards.found]
        return bool(self.cells) or any(case.cells for case in found) or any(bwd.cells or bwd.own for bwd in bwds)


def threaded(
    call: Call, rules: StagedRules, captured: Sequence[Array], optimize_remat: bool
) -> tuple[CustomVjp, tuple[Array, ...], Layout]:
    """The equation, what it captures, and its other operands."""
    case, backward = rules.case, rules.backward
    used, after = rules.read, () if backward is None else backward.cells
    states = [cell for cell in used if isinstance(cell, BackwardState)]
    states += [state for cell in after if isinstance(cell, Ref) and (state := state_of(cell)) not in states]
    own = [cell for cell in used if cell in call.refs]
    closed = [cell for cell in used if cell not in own and not isinstance(cell, BackwardState)]
    cells = [*closed, *own, *states]

    programs = [rules.function]
    programs += [] if case is None else [case.fwd]
    programs += [] if backward is None else [backward.program]
    (function, *others), captured = with_common_captures(programs, captured)
    function = with_all_cells(function, rules.cells, cells)
    fwd = with_all_cells(others[0], case.cells, cells) if case is not None else None

    k, a, outs, n = len(captured), len(call.arrays), len(rules.out_avals), len(cells)
    forwards = [each for each in (function, fwd) if each is not None]
    kept = [i for i, cell in enumerate(cells) if isinstance(cell, BackwardState) or _writes(forwards, i - n)]
    order = range(k + a + n)
    ins = (*order[:k], *order[k + a : k + a + len(closed)], *order[k : k + a], *order[k + a + len(closed) :])
    written = [cells[i] for i in kept[: len(kept) - len(states)]]
    layout = Layout(tuple(closed), tuple(own), tuple(written), tuple(states))

    def arranged(jaxpr: Jaxpr) -> Jaxpr:
        last, more = len(jaxpr.outvars) - n, range(outs, len(jaxpr.outvars) - n)
        return rearranged(jaxpr, ins, (*range(outs), *[last + i for i in kept], *more))

    function = arranged(function)
    if fwd is None or case is None:
        return _finished(call, function, None, None, (), layout, k, rules.refused, optimize_remat), captured, layout
    fwd = with_types(arranged(fwd), [*function.out_avals, *case.residuals])
    front = [*function.in_avals[: k + len(closed)], *case.residuals, *cotangent_avals(function.out_avals)]
    taken = function.in_avals[k + len(closed) :]
    if backward is None:  # as far as anyone can tell, it returns a cotangent for everything
        marks, refused = tuple(map(has_tangent, taken)), case.backwards.refused
        bwd = unknown(front, cotangent_avals(taken))
        return _finished(call, function, fwd, bwd, marks, layout, k, refused, optimize_remat, True), captured, layout
    marks = (*backward.returned, *[cell in backward.own for cell in own], *[True] * len(states))
    bwd = _backward(others[1], backward, layout, front, k, len(case.residuals), len(cotangent_avals(rules.out_avals)))
    bwd = with_types(bwd, [aval.cotangent for aval, mark in zip(taken, marks, strict=True) if mark])
    return _finished(call, function, fwd, bwd, marks, layout, k, (), optimize_remat), captured, layout


def _writes(programs: Sequence[Jaxpr], place: int) -> bool:
    """Whether one of the programs returns another value for a cell than it takes."""
    return any(jaxpr.outvars[place] != jaxpr.invars[place] for jaxpr in programs)


def _backward(
    jaxpr: Jaxpr,
    found: StagedBackward,
    layout: Layout,
    front: Sequence[ShapedArray],
    captured: int,
    residuals: int,
    cotangents: int,
) -> Jaxpr:
    """`bwd` with all that it takes: of what is closed over, of cotangents of what is written, and of states it may
    read none."""
    states = [state_of(cell) for cell in found.cells if isinstance(cell, Ref)]
    at = [layout.states.index(state) for state in states]
    own = [found.own.index(cell) for cell in layout.own if isinstance(cell, Ref) and cell in found.own]
    count = len(layout.states)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        first = captured + len(layout.closed)
        last = ins[len(ins) - count :]
        given = [*ins[:captured], *ins[first : first + residuals + cotangents], *[last[i] for i in at]]
        outs = interpret(ctx, jaxpr, given)
        n = sum(found.returned)
        for i, atom in zip(at, outs[n + len(found.own) :], strict=True):
            last[i] = atom
        return [*outs[:n], *[outs[n + i] for i in own], *last]

    return stage(front, run)


def _finished(
    call: Call,
    function: Jaxpr,
    fwd: Jaxpr | None,
    bwd: Jaxpr | None,
    returned: tuple[bool, ...],
    layout: Layout,
    captured: int,
    refused: tuple[Refusal, ...],
    optimize_remat: bool,
    refuses: bool = False,
) -> CustomVjp:
    """`refuses`: `fwd` is there, but `bwd` has been refused."""
    special, moving = None, tangent_avals(function.in_avals[captured + len(layout.closed) :])
    cases = cotangent_avals(function.out_avals) if refuses else moving
    refused = tuple([refusal_for(each, (True,) * len(cases)) for each in refused])
    if refuses and fwd is not None and bwd is not None:
        special, refused = (VjpCase((True,) * len(moving), fwd, bwd, returned, (), refused),), ()
    return CustomVjp(
        call.name,
        function,
        fwd,
        bwd,
        returned,
        captured + len(layout.closed),
        special,
        refused or None,
        optimize_remat or None,
        len(layout.states) or None,
    )
