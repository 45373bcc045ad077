"""Updates by rows of stacks that loops have made, put in order row by row: a loop over the rows, as it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Var
from tinyjax.ir.traverse import inner_programs
from tinyjax.transforms.repeats import Run
from tinyjax.transforms.rows import Lazy
from tinyjax.transforms.waiting import Groups

#: So many times as many equations belong to rows as to none, at least: then it doesn't matter where the others are.
_MANY: Final = 2


def by_row(eqns: Sequence[Eqn], lazy: Lazy) -> tuple[list[Eqn], list[Run]] | None:
    """These equations in another order, and what may be loops in it: up to the last that makes a stack of which rows
    are read, as they are; then those that follow from each row together, in the order of the rows. None: too many
    others are there, or not as many for each row.

        { lambda ; a:f64[2,3] b:f64[3] c:f64[3]. let d:f64[2,3] = cos a; e:f64[3] f:f64[3] = unstack[axis=0] d;
            g:f64[3] = mul 0.1 e; h:f64[3] = mul 0.1 f; i:f64[3] = sub b g; j:f64[3] = sub c h in (i, j) }
        { lambda ; a:f64[2,3] b:f64[3] c:f64[3]. let d:f64[2,3] = cos a; e:f64[3] f:f64[3] = unstack[axis=0] d;
            g:f64[3] = mul 0.1 e; i:f64[3] = sub b g; h:f64[3] = mul 0.1 f; j:f64[3] = sub c h in (i, j) }

    A step of training computes the gradients of all layers by a loop, and then what becomes of each tensor. What
    follows from several rows, as a norm of all gradients does, comes after these, and before what follows from it in
    turn. What one row alone needs comes with that, moments that decay for instance.
    """
    if not lazy.rows:
        return None
    maker = {out.index: i for i, eqn in enumerate(eqns) for out in eqn.outvars}
    bases = {base.index: base for base, _ in lazy.rows.values()}
    made = {index: maker.get(lazy.root(base).index, -1) for index, base in bases.items()}
    start = 1 + max(made.values())
    tail = eqns[start:]
    if start * _MANY > len(tail) or any(eqn.primitive.effects and must_stay(eqn.primitive.effects) for eqn in tail):
        return None
    group = _groups(tail, lazy, _loops(eqns, lazy, maker, made))
    ranks = sorted({(group[base.index], base.aval.shape[0], at) for base, at in lazy.rows.values()})
    keys = _keys(tail, lazy, ranks, group)
    counts = Counter(keys)
    runs: list[Run] = []
    others = place = start
    rows = 0  # so many of a stack's have as many equations each
    for key in sorted(counts):
        _, row = divmod(key, len(ranks) + 1)
        if row:
            _, size, at = ranks[row - 1]
            if at != rows or (rows and counts[key] != counts[key - 1]):
                return None
            rows = (rows + 1) % size
            if not rows:
                period = counts[key]
                runs.append(Run(place + period - period * size, period, size))
        elif rows:
            return None
        else:
            others += counts[key]
        place += counts[key]
    if rows or others * _MANY > len(tail):
        return None
    order = sorted(range(len(tail)), key=keys.__getitem__)
    if not _in_order_of_stacks(tail, lazy, order, runs, start):
        stacks = _stacks(tail, lazy, keys, len(ranks) + 1)
        order.sort(key=lambda i: (keys[i], stacks[i]))
    return [*eqns[:start], *[tail[i] for i in order]], runs


def _in_order_of_stacks(eqns: Sequence[Eqn], lazy: Lazy, order: Sequence[int], runs: Sequence[Run], start: int) -> bool:
    """Whether rows of the same stacks are read by the same equation of each block. Otherwise, those of each block are
    in the order of names, where `layer_100` comes before `layer_99`."""
    rows = lazy.rows
    for run in runs:
        for j in range(run.start - start, run.start - start + run.period):
            first = eqns[order[j]].invars
            for at, atom in enumerate(first):
                base = rows.get(atom.index) if type(atom) is Var else None
                if base is not None:
                    for i in order[j + run.period : run.stop - start : run.period]:
                        other = eqns[i].invars[at] if len(eqns[i].invars) == len(first) else None
                        row = rows.get(other.index) if type(other) is Var else None
                        if row is None or row[0].index != base[0].index:
                            return False
    return True


def _stacks(eqns: Sequence[Eqn], lazy: Lazy, keys: Sequence[int], width: int) -> list[int]:
    """For each equation that belongs to a row, the last of the stacks that it follows from; for those which follow from
    none, the first of what reads them."""
    of: dict[int, int] = {}
    for index, eqn in lazy.eqns.items():
        base, near = lazy.rows.get(index), eqn.invars[0]
        if base is not None:
            of[index] = base[0].index
        elif isinstance(near, Var) and near.index in of:
            of[index] = of[near.index]
    found: list[int] = []
    for key, eqn in zip(keys, eqns, strict=True):
        own = [of[atom.index] for atom in eqn.invars if type(atom) is Var and atom.index in of] if key % width else []
        found.append(max(own, default=-1))
        of.update((out.index, found[-1]) for out in eqn.outvars)
    wanted: dict[int, int] = {}
    for i in range(len(eqns) - 1, -1, -1):
        if keys[i] % width:
            if found[i] < 0:
                found[i] = min([wanted[out.index] for out in eqns[i].outvars if out.index in wanted], default=-1)
            for atom in eqns[i].invars:
                if type(atom) is Var:
                    wanted[atom.index] = min(found[i], wanted.get(atom.index, found[i]))
    return found


def _loops(eqns: Sequence[Eqn], lazy: Lazy, maker: Mapping[int, int], made: Mapping[int, int]) -> Mapping[int, int]:
    """For each stack, the position of the loop that it is of, which may be arranged or converted since; -1: of none."""
    if len(set(made.values())) == 1:
        return made
    loops = [i for i in range(1 + max(made.values())) if any(inner_programs([eqns[i]]))]

    def found(i: int) -> int:
        while i not in loops:
            near = [atom for atom in eqns[i].invars if isinstance(atom, Var)] if i >= 0 else []
            if len(near) != 1:
                return max([at for at in loops if at < i], default=-1)
            i = maker.get(lazy.root(near[0]).index, -1)
        return i

    return {index: found(i) for index, i in made.items()}


def _groups(eqns: Sequence[Eqn], lazy: Lazy, made: Mapping[int, int]) -> Mapping[int, int]:
    """For each stack, a number that says of which loop it is: those where something follows from rows of both, as from
    those of a loop and of another one which is its derivative, are one. Each has its updates by itself."""
    if len(set(made.values())) == 1:
        return made
    groups = Groups()
    known: dict[int, int] = {}
    for index, eqn in lazy.eqns.items():
        base, near = lazy.rows.get(index), eqn.invars[0]
        if base is not None:
            known[index] = made[base[0].index]
        elif isinstance(near, Var) and near.index in known:
            known[index] = known[near.index]
    for eqn in eqns:
        found = {known[atom.index] for atom in eqn.invars if type(atom) is Var and atom.index in known}
        if found:
            first = min(found)
            for other in found:
                groups.join(first, other)
            known.update((out.index, first) for out in eqn.outvars)
    return {index: groups.of(maker) for index, maker in made.items()}


def _keys(
    eqns: Sequence[Eqn], lazy: Lazy, ranks: Sequence[tuple[int, int, int]], group: Mapping[int, int]
) -> list[int]:
    """Where each equation goes: in a phase, first those that belong to no row, and then those of each of the `ranks`,
    which are the `group` of a stack, the number of its rows, and which one. What follows from several begins another
    phase."""
    width = len(ranks) + 1
    number = {rank: i for i, rank in enumerate(ranks, 1)}
    known = {index: number[group[base.index], base.aval.shape[0], at] for index, (base, at) in lazy.rows.items()}
    # What has no place of its own is where what it is made of is.
    of = {index: eqn.invars[0] for index, eqn in lazy.eqns.items() if index not in known}
    made = {index: _without(of, index) for index in of}
    keys: list[int] = []
    free = set[int]()  # what follows from no row
    near: dict[int, list[int]] = {}  # what equations read of that
    for i, eqn in enumerate(eqns):
        key = 0
        for atom in eqn.invars:
            if type(atom) is Var:
                index = atom.index
                if index in made:
                    index = made[index]
                other = known.get(index, 0)
                if index in free:
                    near.setdefault(i, []).append(index)
                elif other and other != key:
                    if key:
                        key = _key(eqn, known, made, width)
                        break
                    key = other
        keys.append(key)
        for out in eqn.outvars:
            if key:
                known[out.index] = key
            else:
                free.add(out.index)
    wanted: dict[int, int] = {}  # with what these are read: 0 if with several
    for i in range(len(keys) - 1, -1, -1):
        key = keys[i]
        if not key:
            found = {wanted[out.index] for out in eqns[i].outvars if out.index in wanted}
            if len(found) == 1:
                (key,) = found
                key = keys[i] = key if key % width else 0
        for index in near.get(i, ()):
            other = wanted.get(index, key)
            wanted[index] = min(key, other) if key % width == other % width else 0
    return keys


def _key(eqn: Eqn, known: Mapping[int, int], made: Mapping[int, int], width: int) -> int:
    """Where an equation goes that reads what follows from several rows, or from some in another phase."""
    operands = [made.get(atom.index, atom.index) for atom in eqn.invars if type(atom) is Var]
    found = [known.get(index, 0) for index in operands]
    rows = {key % width for key in found} - {0}
    if len(rows) > 1:
        return max([key // width + (key % width > 0) for key in found]) * width
    return max(found) // width * width + sum(rows)


def _without(lazy: Mapping[int, Atom], index: int) -> int:
    """What a variable is made of by equations that have no place of their own."""
    while (operand := lazy.get(index)) is not None:
        assert isinstance(operand, Var)
        index = operand.index
    return index
