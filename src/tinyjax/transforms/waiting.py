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
    """
    tail = order[start:]
    maker = {out.index: i for i in tail for out in eqns[i].outvars}
    scalar = {i: not any(out.aval.shape for out in eqns[i].outvars) for i in tail}
    before = {out.index: at for at, i in enumerate(order[:start]) for out in eqns[i].outvars}
    levels = _levels(operands, tail, maker, scalar, free)
    ranks: dict[int, _Rank] = {}
    groups = Groups()
    for i in tail:
        near = [maker[index] for index in operands[i] if index in maker]
        own = rows.get(i, _NO_ROWS)
        made = [(before[index], own.get(index, 0), index) for index in operands[i] if index in before]
        early = levels[i] < _WAITING
        ranks[i] = max([*made, *[ranks[j] for j in near if early or not scalar[j]]], default=_NONE)
        for j in near:
            if (levels[j] == levels[i] and not scalar[i] and not scalar[j]) or (early and levels[j]):
                groups.join(i, j)
    first: dict[int, tuple[_Rank, int]] = {}
    for at, i in enumerate(tail):
        known = first.get(groups.of(i), (_NONE, at))
        first[groups.of(i)] = max(known[0], ranks[i]), known[1]

    keys: dict[int, tuple[int, _Rank, int]] = {}
    wanted: dict[int, set[tuple[int, _Rank, int]]] = {}  # with what a variable is read
    for i in reversed(tail):
        if not levels[i]:  # with who reads it, if that is one
            found = set[tuple[int, _Rank, int]]().union(*[wanted.get(out.index, ()) for out in eqns[i].outvars])
            keys[i] = min(found) if len(found) == 1 else (-1, _NONE, 0)
        elif levels[i] < _WAITING:  # with the scalars that are made of the tensor
            keys[i] = 0, *first[groups.of(i)]
        else:
            keys[i] = (levels[i], _NONE, 0) if scalar[i] else (levels[i], *first[groups.of(i)])
        for index in operands[i]:
            wanted.setdefault(index, set()).add(keys[i])
    return [*order[:start], *sorted(tail, key=keys.__getitem__)]


def _levels(
    operands: Sequence[Collection[int]],
    tail: Sequence[int],
    maker: Mapping[int, int],
    scalar: Mapping[int, bool],
    free: Collection[int],
) -> dict[int, int]:
    """Even ones for scalars, odd ones for others: each is higher than those of what it reads of the other kind."""
    found: dict[int, int] = {}
    for i in tail:
        kind = 0 if scalar[i] else 1
        needed = max([found[maker[index]] for index in operands[i] if index in maker], default=kind)
        found[i] = needed if needed % 2 == kind else needed + 1
    wanted: dict[int, int] = {}  # the lowest level of what reads a result
    for i in reversed(tail):
        if i in free and not scalar[i]:
            found[i] = max(found[i], wanted.get(i, found[i]))
        for index in operands[i]:
            if index in maker:
                level = found[i] if found[i] % 2 else found[i] - 1
                wanted[maker[index]] = min(wanted.get(maker[index], level), level)
    return found


@final
class Groups:
    """Sets of equations that are joined two by two."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def of(self, i: int) -> int:
        """The one that stands for all of a set."""
        while i in self._above:
            above = self._above[i]
            if above in self._above:  # so that no path stays long
                self._above[i] = self._above[above]
            i = above
        return i

    def join(self, i: int, j: int) -> None:
        """Makes one set of the two that these are in."""
        a, b = self.of(i), self.of(j)
        if a != b:
            self._above[a] = b
