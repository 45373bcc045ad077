"""Updates by rows of stacks that loops have made, put in order row by row: a loop over the rows, as it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Var
from tinyjax.transforms.repeats import Run
from tinyjax.transforms.rows import Lazy

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
    start = 1 + max(maker.get(lazy.root(base).index, -1) for base in bases.values())
    tail = eqns[start:]
    if start * _MANY > len(tail) or any(eqn.primitive.effects and must_stay(eqn.primitive.effects) for eqn in tail):
        return None
    ranks = sorted({(base.aval.shape[0], at) for base, at in lazy.rows.values()})
    keys = _keys(tail, lazy, ranks)
    counts = Counter(keys)
    runs: list[Run] = []
    others = place = start
    rows = 0  # so many of a stack's have as many equations each
    for key in sorted(counts):
        _, row = divmod(key, len(ranks) + 1)
        if row:
            size, at = ranks[row - 1]
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
    return [*eqns[:start], *[tail[i] for i in order]], runs


def _keys(eqns: Sequence[Eqn], lazy: Lazy, ranks: Sequence[tuple[int, int]]) -> list[int]:
    """Where each equation goes: in a phase, first those that belong to no row, and then those of each of the `ranks`,
    which are the number of rows of a stack, and which one. What follows from several begins another phase."""
    width = len(ranks) + 1
    number = {rank: i for i, rank in enumerate(ranks, 1)}
    known = {index: number[base.aval.shape[0], at] for index, (base, at) in lazy.rows.items()}
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
