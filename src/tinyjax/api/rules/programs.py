"""The rules of a function as programs, which all take the same values that they close over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tinyjax.contexts.cells import Cell, Staged
from tinyjax.contexts.staging import Staged as Finished
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.value import ConcreteValue
from tinyjax.refs.backward import Backward
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import activate
from tinyjax.tracing.frames import Transformed

#: A program, and what feeds its first inputs.
Program: TypeAlias = tuple[Jaxpr, tuple[Array, ...]]


def stage_rule(
    function: Transformed, avals: Sequence[ShapedArray], run: Callable[[list[Array]], Sequence[Array]]
) -> Program:
    """The program of a function of arrays, and the values that it closes over, which feed the first inputs."""
    context = StagingContext()
    with activate(context, function) as frame, frame:
        outs = [frame.read(array) for array in run([frame.wrap(context.argument(aval)) for aval in avals])]
    return captured_arrays(context.finish(outs))


def stage_with_cells(
    function: Transformed,
    avals: Sequence[ShapedArray],
    run: Callable[[list[Array]], Sequence[Array]],
    backward: bool = False,
) -> tuple[Program, tuple[Cell[Array], ...]]:
    """The same, where the function reads and writes cells, and these: what they hold before and after are the last
    inputs and results. `backward`: as states, which are there when a gradient is pulled back."""
    context = StagingContext()
    with activate(context, function) as frame, frame:

        def argument(aval: ShapedArray) -> Array:
            return frame.wrap(context.argument(aval))

        if backward:
            refs = Backward(argument)
            frame.cells = refs
            outs = [*run(list(map(argument, avals)))]
            outs, cells = [*outs, *refs.results()], tuple[Cell[Array], ...](refs.values)
        else:
            cells_here = Staged[Array](argument)
            frame.cells = cells_here
            outs = [*run(list(map(argument, avals)))]
            outs, cells = [*outs, *cells_here.values.values()], tuple(cells_here.values)
        atoms = list(map(frame.read, outs))
    return captured_arrays(context.finish(atoms)), cells


def captured_arrays(staged: Finished) -> Program:
    """A program, and what it closes over as arrays."""
    captured = [ConcreteArray(value) if isinstance(value, ConcreteValue) else value for value in staged.captured]
    return staged.jaxpr, tuple(value for value in captured if isinstance(value, Array))


def with_common_captures(
    programs: Sequence[Program], first: Sequence[Array] = ()
) -> tuple[list[Jaxpr], tuple[Array, ...]]:
    """The programs with the same leading inputs: these, then everything else that one of them closes over."""
    captured: list[Array] = list(first)
    positions: list[list[int]] = []
    for _, own in programs:
        places: list[int] = []
        for array in own:
            place = next((i for i, known in enumerate(captured) if _same_array(known, array)), len(captured))
            if place == len(captured):
                captured.append(array)
            places.append(place)
        positions.append(places)
    if not captured:
        return [jaxpr for jaxpr, _ in programs], ()
    avals = [array.aval for array in captured]
    widened = [_widened(jaxpr, places, avals) for (jaxpr, _), places in zip(programs, positions, strict=True)]
    return widened, tuple(captured)


def with_all_cells(jaxpr: Jaxpr, own: Sequence[Cell[Array]], cells: Sequence[Cell[Array]]) -> Jaxpr:
    """A program whose last inputs and results are what its `own` cells hold, with those of all these cells."""
    if tuple(own) == tuple(cells):
        return jaxpr
    ins, outs = len(jaxpr.invars) - len(own), len(jaxpr.outvars) - len(own)
    at = [cells.index(cell) for cell in own]

    def run(ctx: StagingContext, atoms: list[Atom]) -> Sequence[Atom]:
        last = list(atoms[ins:])
        found = interpret(ctx, jaxpr, [*atoms[:ins], *[last[i] for i in at]])
        for i, atom in zip(at, found[outs:], strict=True):
            last[i] = atom
        return [*found[:outs], *last]

    return stage([*jaxpr.in_avals[:ins], *[cell.aval for cell in cells]], run)


def _same_array(x: Array, y: Array) -> bool:
    """Whether two captured values are one. Arrays with elements are copied where they are captured, if they might be
    written to, so it is the elements that count."""
    if isinstance(x, ConcreteArray) and isinstance(y, ConcreteArray):
        return x.value.data is y.value.data or (x.aval == y.aval and x.value == y.value)
    return x is y


def _widened(jaxpr: Jaxpr, positions: Sequence[int], captured: Sequence[ShapedArray]) -> Jaxpr:
    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return interpret(ctx, jaxpr, [*(ins[i] for i in positions), *ins[len(captured) :]])

    return stage([*captured, *jaxpr.in_avals[len(positions) :]], run)
