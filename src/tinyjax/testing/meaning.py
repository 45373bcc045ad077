"""Laws of what keeps a program's meaning: passes, compilation, division in two, batching."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from tinyjax.backend import execute
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, INEXACT, KEYS, HostArray
from tinyjax.ir.merging import merged
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.traverse import nested_programs
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.typecheck import typecheck
from tinyjax.ir.value import ConcreteValue
from tinyjax.testing.differences import BrokenError, close, same_bits
from tinyjax.testing.forms import valid
from tinyjax.testing.subjects import Subject, chosen, residuals_of, run
from tinyjax.transforms.batch import batch
from tinyjax.transforms.cse import cse
from tinyjax.transforms.dce import dce
from tinyjax.transforms.fold_constants import fold_constants
from tinyjax.transforms.hoist_constants import hoist_constants
from tinyjax.transforms.inline import inline
from tinyjax.transforms.partial_eval import PartialEvaluation, partial_eval
from tinyjax.transforms.pipeline import optimize
from tinyjax.transforms.reroll import reroll
from tinyjax.transforms.simplify import simplify

#: None of these changes a bit of what a program computes.
PASSES: Final[dict[str, Callable[[ClosedJaxpr], ClosedJaxpr]]] = {
    "dce": dce,
    "cse": cse,
    "inline": inline,
    "fold_constants": fold_constants,
    "simplify": simplify,
    "hoist_constants": hoist_constants,
    "optimize": optimize,
    "reroll": reroll,
}
#: The size of mapped axes.
SIZE: Final = 3


def keeps(name: str) -> Callable[[Subject], None]:
    """The law of a pass: the program is valid afterwards, has the same type and computes the same."""

    def law(subject: Subject) -> None:
        program = subject.program
        changed = PASSES[name](program)
        valid(changed, f"what {name} makes of it")
        before, after = typecheck(program), typecheck(changed)
        if before != after:
            raise BrokenError(f"{name} changes its type from {before} to {after}")
        if not program.jaxpr.effects:
            same_bits(run(changed, subject.args), subject.outs, f"the outputs after {name}")
        if changed.jaxpr.effects != program.jaxpr.effects:
            raise BrokenError(f"{name} changes its effects from {program.jaxpr.effects} to {changed.jaxpr.effects}")

    return law


def compiled(subject: Subject) -> None:
    """Lowered and compiled, it computes what evaluation does."""
    program = subject.program
    args = [ConcreteValue(arg.copy(), aval) for arg, aval in zip(subject.args, program.in_avals, strict=True)]
    found = execute(program.jaxpr, [*program.consts, *args], "law")
    close([np.asarray(out.data) for out in found], subject.outs, "the outputs, compiled", subject.rounding)


def divisions(subject: Subject) -> Iterator[tuple[bool, ...]]:
    """Which inputs are unknown: none, all, each alone for a few, all others, and some at random."""
    n = len(subject.args)
    found = [(False,) * n, (True,) * n]
    for i in range(min(n, 3)):
        alone = tuple(j == i for j in range(n))
        found += [alone, tuple(not mark for mark in alone)]
    found += [tuple(bool(mark) for mark in subject.rng(1).integers(0, 2, n)) for _ in range(2)]
    yield from dict.fromkeys(found)


def partial_evaluation(subject: Subject) -> None:
    """The two parts, one after the other, are the program, whatever is unknown, and whatever is left for later."""
    program = subject.program
    # On the host a mesh is one more axis of arrays: what has it, and what has none yet, is summed in another order.
    compare = close if any(_maps_a_mesh(jaxpr) for jaxpr in nested_programs(program.jaxpr)) else same_bits
    for unknown, forced in itertools.product(divisions(subject), (False, True)):
        force = [forced] * len(program.out_avals)
        parts = partial_eval(program, unknown, force_unknown=force)
        what = f"with inputs unknown as in {unknown}{', and all outputs of the second part' if forced else ''}"
        valid(parts.known, f"the known part, {what},")
        valid(parts.staged, f"the staged part, {what},")
        _types_of_parts(program, parts, what)
        if forced and not all(parts.unknown_out):
            raise BrokenError(f"the staged part lacks outputs that it was to return: it has {parts.unknown_out}")
        if program.jaxpr.effects:
            continue
        if not any(unknown) and any(parts.unknown_out) and not forced:
            raise BrokenError(f"everything is known, and yet these outputs are not: {parts.unknown_out}")
        outs = run(parts.known, chosen(subject.args, [not mark for mark in unknown]))
        count = parts.unknown_out.count(False)
        residuals = residuals_of(parts.residuals, outs[count:], subject.args)
        later = run(parts.staged, [*residuals, *chosen(subject.args, unknown)])
        both = merged(parts.unknown_out, later, outs[:count])
        compare(both, subject.outs, f"the outputs of the two parts, {what}")


def _maps_a_mesh(jaxpr: Jaxpr) -> bool:
    return any(isinstance(eqn.primitive, ShardMap) for eqn in jaxpr.eqns)


def _types_of_parts(program: ClosedJaxpr, parts: PartialEvaluation[ClosedJaxpr], what: str) -> None:
    """The first part returns its outputs and residuals, the second takes these; weak marks don't count."""
    marks = parts.unknown_out
    made = [residual.aval for residual in parts.residuals if residual.input is None]
    taken = [residual.aval for residual in parts.residuals]
    for part, avals, expected in (
        ("takes", parts.known.in_avals, _kept(program.in_avals, parts.unknown_in, False)),
        ("returns", parts.known.out_avals, [*_kept(program.out_avals, marks, False), *made]),
        ("later takes", parts.staged.in_avals, [*taken, *_kept(program.in_avals, parts.unknown_in, True)]),
        ("later returns", parts.staged.out_avals, _kept(program.out_avals, marks, True)),
    ):
        if not all_match(avals, expected):
            raise BrokenError(f"divided {what}, it {part} {listed(avals)}, expected {listed(expected)}")
    for residual in parts.residuals:
        if residual.input is not None and residual.aval != program.in_avals[residual.input]:
            raise BrokenError(f"a residual is said to be input {residual.input}, and {residual.aval}, {what}")


def _kept(avals: Sequence[ShapedArray], marks: Sequence[bool], mark: bool) -> list[ShapedArray]:
    return [aval for aval, each in zip(avals, marks, strict=True) if each is mark]


def _batch_of(arg: HostArray, rng: np.random.Generator) -> list[HostArray]:
    """As many arrays like this one as are in a batch."""
    if arg.dtype == BOOL:
        return [arg, ~arg, arg]
    if arg.dtype in INEXACT:
        noise = [np.asarray(rng.normal(size=arg.shape)) / 4 for _ in range(SIZE)]
        return [arg, *(np.asarray(arg + each).astype(arg.dtype) for each in noise[1:])]
    if arg.dtype in KEYS:
        return [arg, (arg.reshape(-1).view(np.uint32) ^ np.uint32(1)).view(arg.dtype).reshape(arg.shape), arg]
    return [arg, np.asarray(arg ^ np.ones((), arg.dtype)).astype(arg.dtype), arg]


def batches(subject: Subject) -> Iterator[tuple[tuple[int | None, ...], list[HostArray], list[list[HostArray]]]]:
    """Where the mapped axes are, the arguments with them, and the arguments of each element of the batch."""
    rng = subject.rng(2)
    n = len(subject.args)
    mapped = dict.fromkeys([(True,) * n, *(tuple(j == i for j in range(n)) for i in range(min(n, 3)))])
    for marks in mapped if n else ():
        axes = tuple(
            int(rng.integers(0, arg.ndim + 1)) if mark else None for arg, mark in zip(subject.args, marks, strict=True)
        )
        rows = [[arg] * SIZE if at is None else _batch_of(arg, rng) for arg, at in zip(subject.args, axes, strict=True)]
        stacked = [row[0] if at is None else np.stack(row, at) for row, at in zip(rows, axes, strict=True)]
        yield axes, stacked, [[row[i] for row in rows] for i in range(SIZE)]


def batching(subject: Subject) -> None:
    """Mapped over axes of its inputs, it computes what a loop would."""
    program = subject.program
    for axes, stacked, each in batches(subject):
        found = batch(program, BatchAxis(SIZE), axes)
        valid(found.jaxpr, f"the program mapped over {axes}")
        placed = batch(program, BatchAxis(SIZE), axes, [0] * len(program.out_avals))
        valid(placed.jaxpr, f"the program mapped over {axes}, with its outputs' axes first,")
        if program.jaxpr.effects:
            continue
        looped = [run(program, args) for args in each]
        expected = [np.stack([row[i] for row in looped]) for i in range(len(program.out_avals))]
        close(run(placed.jaxpr, stacked), expected, f"the outputs mapped over {axes}", subject.rounding)
        outs = [
            np.broadcast_to(out, (SIZE, *out.shape)) if at is None else np.moveaxis(out, at, 0)
            for out, at in zip(run(found.jaxpr, stacked), found.out_axes, strict=True)
        ]
        close(outs, expected, f"the outputs mapped over {axes}, with axes where they fall,", subject.rounding)
