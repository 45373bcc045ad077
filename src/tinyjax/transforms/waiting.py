"""Updates that wait for all gradients, as for a norm by which these are clipped: put in order tensor by tensor."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, final

from tinyjax.ir.program import Eqn

#: Where the tensor is made that something follows from, which row of a stack it is, and of which one.
_Rank: TypeAlias = tuple[int, int, int]
#: The rank of what is computed of nothing that the equations before have made.
_NONE: Final = (-1, 0, 0)
_NO_ROWS: Final[Mapping[int, int]] = MappingProxyType({})
#: The level of what waits for scalars that are made of tensors.
_WAITING: Final = 3


def by_tensor(
    eqns: Sequence[Eqn],
    operands: Sequence[Collection[int]],
    order: Sequence[int],
    start: int,
    free: Collection[int],
    rows: Mapping[int, Mapping[int, int]],
    wide: Sequence[bool],
) -> list[int]:
    """The positions of these equations in this order, up to `start`; and then in one in which what follows from one
    tensor stays together, in the order in which the tensors are made.

        { lambda ; a:f64[3] b:f64[3]. let c:f64[3] = cos b; d:f64[3] = cos a; e:f64[3] = mul 0.1 c;
            f:f64[3] = mul 0.1 d; g:f64[3] = sub b e; h:f64[3] = sub a f in (g, h) }
        { lambda ; a:f64[3] b:f64[3]. let c:f64[3] = cos b; d:f64[3] = cos a; e:f64[3] = mul 0.1 c; g:f64[3] = sub b e;
            f:f64[3] = mul 0.1 d; h:f64[3] = sub a f in (g, h) }

    A step computes moments of all tensors, then what corrects them, and so on: as loops, these would hand stacks of all
    tensors to each other. And the tensors' names may be in another order than the layers. Scalars come before what
    reads them. What is computed of inputs alone, which are the positions in `free`, comes along with who reads it.
    `wide` says of each whether what it makes is no scalar.
    """
    tail = order[start:]
    maker = {out.index: i for i in tail for out in eqns[i].outvars}
    near = {i: [maker[index] for index in operands[i] if index in maker] for i in tail}
    before = {out.index: at for at, i in enumerate(order[:start]) for out in eqns[i].outvars}
    levels = _levels(near, tail, wide, free)
    ranks: dict[int, _Rank] = {}
    groups = Groups()
    for i in tail:
        own = rows.get(i, _NO_ROWS)
        level, rank = levels[i], _NONE
        early = level < _WAITING
        for index in operands[i]:
            if index in before:
                rank = max(rank, (before[index], own.get(index, 0), index))
        for j in near[i]:
            if early or wide[j]:
                rank = max(rank, ranks[j])
            if (levels[j] == level and wide[i] and wide[j]) or (early and levels[j]):
                groups.join(i, j)
        ranks[i] = rank
    group = {i: groups.of(i) for i in tail}
    first: dict[int, tuple[_Rank, int]] = {}
    for at, i in enumerate(tail):
        known = first.get(group[i], (_NONE, at))
        first[group[i]] = max(known[0], ranks[i]), known[1]

    keys: dict[int, tuple[int, _Rank, int]] = {}
    wanted: dict[int, set[tuple[int, _Rank, int]]] = {}  # with what those are read which go with who reads them
    for i in reversed(tail):
        level = levels[i]
        if not level:  # with who reads it, if that is one
            found = wanted.get(i, set())
            keys[i] = min(found) if len(found) == 1 else (-1, _NONE, 0)
        elif level < _WAITING:  # with the scalars that are made of the tensor
            keys[i] = 0, *first[group[i]]
        else:
            keys[i] = (level, *first[group[i]]) if wide[i] else (level, _NONE, 0)
        for j in near[i]:
            if not levels[j]:
                wanted.setdefault(j, set()).add(keys[i])
    return [*order[:start], *sorted(tail, key=keys.__getitem__)]


def _levels(
    near: Mapping[int, Sequence[int]], tail: Sequence[int], wide: Sequence[bool], free: Collection[int]
) -> dict[int, int]:
    """Even ones for scalars, odd ones for others: each is higher than those of what it reads of the other kind, which
    is `near`."""
    found: dict[int, int] = {}
    for i in tail:
        kind = 1 if wide[i] else 0
        needed = max([found[j] for j in near[i]], default=kind)
        found[i] = needed if needed % 2 == kind else needed + 1
    wanted: dict[int, int] = {}  # the lowest level of what reads a result that is computed of inputs alone
    for i in reversed(tail):
        if i in wanted:
            found[i] = max(found[i], wanted[i])
        for j in near[i]:
            if j in free and wide[j]:
                level = found[i] if found[i] % 2 else found[i] - 1
                wanted[j] = min(wanted.get(j, level), level)
    return found


@final
class Groups:
    """Sets of equations that are joined two by two."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def of(self, i: int) -> int:
        """The one that stands for all of a set."""
        known = self._above
        while (above := known.get(i)) is not None:
            further = known.get(above)
            if further is not None:  # so that no path stays long
                known[i] = further
            i = above
        return i

    def join(self, i: int, j: int) -> None:
        """Makes one set of the two that these are in."""
        a, b = self.of(i), self.of(j)
        if a != b:
            self._above[a] = b
