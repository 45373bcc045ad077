"""Loops that are given stacks of layers, and return stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from attrs import evolve

from tinyjax.control.scan import Scan
from tinyjax.ir.program import Atom, Jaxpr, Var
from tinyjax.primitives.stacking import stack
from tinyjax.primitives.structure import Transpose
from tinyjax.transforms.border import Bordered, bordered
from tinyjax.transforms.layered import STACKING
from tinyjax.transforms.rebuild import Rebuilding, without_unread
from tinyjax.transforms.stacks import Item, Row, Stacks

#: What a border has in the place of inputs: a stack of these, or one.
Place: TypeAlias = "tuple[int, ...] | int"


@STACKING.register(Scan)
def _scan(scan: Scan) -> Jaxpr | None:
    """Its constants, carries and arrays are stacked as its body stacks them; stacks of slices along their second axis,
    which is moved to the front outside."""
    sizes = (scan.num_consts, scan.num_carry, len(scan.jaxpr.invars) - scan.num_consts - scan.num_carry)
    kinds = [kind for kind, size in enumerate(sizes) for _ in range(size)]
    border = bordered(scan.jaxpr, kinds=kinds)
    if border is None:
        return None
    places = [place if isinstance(place, tuple) else (place,) for place in border.inputs]
    counts = [sum(kinds[place[0]] == kind for place in places) for kind in (0, 1)]
    carries = border.inputs[counts[0] : counts[0] + counts[1]]
    ys = _stacked_ys(scan, border)
    loop = evolve(scan, jaxpr=_body(scan, border, carries, ys), num_consts=counts[0], num_carry=counts[1])
    return _around(scan, loop, border, carries, ys)


def _stacked_ys(scan: Scan, border: Bordered) -> dict[int, bool]:
    """The results of the program for stacks that belong to what the loop returns slice by slice: whether it returns
    them as they are, as it does if most of their rows are wanted."""
    rows: dict[int, set[int]] = {}
    for number, row in border.results[scan.num_carry :]:
        rows.setdefault(number, set()).update(() if row is None else (row,))
    outs = border.program.outvars
    return {number: bool(at) and 2 * len(at) > outs[number].aval.shape[0] for number, at in rows.items()}


def _items(border: Bordered, outs: Sequence[Atom], numbers: Sequence[int]) -> list[Item]:
    """What these results of the whole program are, given those of the program for stacks."""
    items: list[Item] = []
    for number, row in [border.results[i] for i in numbers]:
        out = outs[number]
        items.append(out if row is None or not isinstance(out, Var) else Row(out, row))
    return items


def _body(scan: Scan, border: Bordered, carries: Sequence[Place], ys: dict[int, bool]) -> Jaxpr:
    ctx = Rebuilding(border.program.invars)
    outs = ctx.applied(border.program, ctx.invars)
    stacks = Stacks(ctx)
    after: list[Atom] = []
    for place in carries:
        if isinstance(place, tuple):
            aval = scan.jaxpr.invars[place[0]].aval
            after.append(stacks.stacked(_items(border, outs, [i - scan.num_consts for i in place]), aval))
        else:
            after.append(stacks.alone(_items(border, outs, [place - scan.num_consts])[0]))
    whole = [outs[number] for number, stacked in ys.items() if stacked]
    alone = [stacks.alone(item) for item in _items(border, outs, _alone(scan, border, ys))]
    return without_unread(ctx.finish([*after, *whole, *alone]))


def _alone(scan: Scan, border: Bordered, ys: dict[int, bool]) -> list[int]:
    """The results that the loop returns slice by slice and not in a stack."""
    return [i for i in range(scan.num_carry, len(border.results)) if not ys[border.results[i][0]]]


def _around(scan: Scan, loop: Scan, border: Bordered, carries: Sequence[Place], ys: dict[int, bool]) -> Jaxpr:
    """What makes the stacks, has the loop run over them, and takes the rows of its results."""
    consts, carry, xs = scan.operands(scan.jaxpr.in_avals)
    avals = [*consts, *carry, *map(scan.stacked, xs)]
    ctx = Rebuilding([Var(i, aval) for i, aval in enumerate(avals)])
    operands: list[Atom] = []
    for place in border.inputs:
        if not isinstance(place, tuple):
            operands.append(ctx.invars[place])
            continue
        stack = _stack(ctx, [ctx.invars[i] for i in place])
        scanned = place[0] >= scan.num_consts + scan.num_carry
        operands.append(_swapped(ctx, stack) if scanned else stack)
    outs = list(ctx.bind(loop, *operands))
    results: dict[int, Item] = {}
    for place, out in zip(carries, outs, strict=False):
        for at, i in enumerate(place if isinstance(place, tuple) else (place,)):
            results[i - scan.num_consts] = Row(out, at) if isinstance(place, tuple) else out
    after = iter(outs[len(carries) :])
    swapped = {number: _swapped(ctx, next(after)) for number, stacked in ys.items() if stacked}
    for i, (number, row) in enumerate(border.results):
        if i >= scan.num_carry and number in swapped and row is not None:
            results[i] = Row(swapped[number], row)
    results.update(zip(_alone(scan, border, ys), after, strict=True))
    stacks = Stacks(ctx)
    types = scan.type_of(*avals)
    return ctx.finish([ctx.converted(stacks.alone(results[i]), aval) for i, aval in enumerate(types)])


def _stack(ctx: Rebuilding, atoms: Sequence[Var]) -> Atom:
    aval = atoms[0].aval
    return ctx.converted(stack(ctx, atoms, 0), aval.of_shape((len(atoms), *aval.shape)))


def _swapped(ctx: Rebuilding, stack: Atom) -> Var:
    (found,) = ctx.bind(Transpose((1, 0, *range(2, stack.aval.ndim))), stack)
    return found
