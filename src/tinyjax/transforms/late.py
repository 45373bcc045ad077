"""Equations that cost next to nothing, moved to where their results are read first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, final

from attrs import frozen

from tinyjax.contexts.rebuilding import DEPTH, QUICK
from tinyjax.ir.program import Eqn, Var
from tinyjax.primitives.elementwise import Elementwise
from tinyjax.primitives.shaping import Iota, Reshape, Squeeze
from tinyjax.primitives.structure import BroadcastInDim, Transpose
from tinyjax.transforms.rows import JOINING, Lazy

#: What has no fewer elements than its operand, so that there is no more to keep where it is applied later.
ARRANGING: Final = frozenset({BroadcastInDim, Iota, Reshape, Squeeze, Transpose})
#: What costs next to nothing.
_LIGHT: Final = ARRANGING | QUICK

#: A scalar that is read at so few places belongs to the layer that reads it first, and so does what is made of inputs.
_FEW: Final = 4
#: Where so many scalars follow from each other, each of which also follows from an array, they are a layer's: what is
#: known after each, as a loss that is added up.
_RUNNING: Final = 8
#: How many equations right before who reads them are put in order.
_STRETCH: Final = 12


def late(eqns: Sequence[Eqn], lazy: Lazy) -> list[Eqn]:
    """These equations in another order, in which each that only arranges its operand comes right before the first that
    reads it, and so does each that is quickly computed, of what is kept until about then anyway. Those which nobody
    reads stay at their places, and so do those whose results many read that no layer has made: a mask, say.

    A backward pass opens with such equations, about what the forward pass has kept of all layers. Among the others of
    their layer, they are part of its block: XLA makes them part of what reads them, and nothing is stacked.
    """
    first: dict[int, int] = {}  # the first place where a variable is read
    last: dict[int | tuple[int, int], int] = {}  # and the last one, of rows of each row
    makers = {out.index: eqn for eqn in eqns for out in eqn.outvars}
    roots = lazy.roots(eqns)
    rows = {index: (base.index, at) for index, (base, at) in lazy.rows.items()}
    readers = Counter(chain.from_iterable(map(set, roots)))
    light = [type(eqn.primitive) in _LIGHT for eqn in eqns]
    shared = _shared(eqns, roots, readers, light)
    outside = _made_of_nothing(eqns, roots)
    running = _running(eqns, roots)

    keeping = _Keeping(lazy, makers, readers, rows, last)
    keys: list[int] = []
    end = len(eqns)
    for at in range(end - 1, -1, -1):
        eqn = eqns[at]
        place = -1 if at in outside else at
        places = [first.get(out.index, at) for out in eqn.outvars]
        wanted = places[0] if len(places) == 1 else min(places, default=at)
        if (
            wanted > at
            and not shared[at]
            and at not in outside
            and at not in running
            and (
                type(eqn.primitive) in ARRANGING or (_quick(eqn) and 2 * keeping.longer(eqn, at, wanted) <= wanted - at)
            )
        ):
            place = wanted
        keys.append(place)
        # What is joined has come from where it is made: there, it is part of a block.
        read = -1 if type(eqn.primitive) in JOINING else place
        for root in roots[at]:
            if read < first.get(root, end):
                first[root] = read
        for atom in eqn.invars:
            if type(atom) is Var:
                index = atom.index
                part = rows[index] if index in rows else lazy.root(atom).index if index in lazy.eqns else index
                if read > last.get(part, -2):
                    last[part] = read
    keys.reverse()
    # Of those with one place, whoever is read comes before who reads; and what has its place there was last already.
    order = sorted(range(len(eqns)), key=keys.__getitem__)
    moving = [light[at] and not shared[at] and at not in outside for at in order]
    return _in_order_of_operands([eqns[at] for at in order], [roots[at] for at in order], moving)


@final
@frozen
class _Keeping:
    """How long values are kept: what makes them, how many read them, which rows they are, and where they are read last
    as far as that is known."""

    lazy: Lazy
    makers: Mapping[int, Eqn]
    readers: Mapping[int, int]
    rows: Mapping[int, tuple[int, int]]
    last: Mapping[int | tuple[int, int], int]

    def longer(self, eqn: Eqn, at: int, place: int, depth: int = 0) -> int:
        """For how many equations more operands are kept if this one moves there, from `at`, with those before it that
        are for it alone."""
        found = 0
        for atom in eqn.invars:
            if type(atom) is Var:
                var = self.lazy.root(atom) if atom.index in self.lazy.eqns else atom
                root, maker = var.index, self.makers.get(var.index)
                if maker is None or not var.aval.shape:
                    continue  # inputs are kept, and scalars take no memory
                if self.readers[root] == 1 and depth < DEPTH and type(maker.primitive) in _LIGHT:
                    found += self.longer(maker, at, place, depth + 1)
                else:
                    until = self.last.get(self.rows.get(atom.index, root), at)
                    if until < place:
                        found += place - max(at, until)
        return found


def _quick(eqn: Eqn) -> bool:
    primitive = eqn.primitive
    return type(primitive) in QUICK or (isinstance(primitive, Elementwise) and not eqn.outvars[0].aval.shape)


def _shared(
    eqns: Sequence[Eqn], roots: Sequence[Sequence[int]], readers: Mapping[int, int], light: Sequence[bool]
) -> list[bool]:
    """Which results belong to no layer, as they are read at many places: scalars, as what corrects moments is, and what
    next to nothing makes of inputs or of nothing, as masks and positions are."""
    made = set[int]()  # by others
    found: list[bool] = []
    for eqn, own, quick in zip(eqns, roots, light, strict=True):
        outside = quick and made.isdisjoint(own)
        if not outside:
            made.update([out.index for out in eqn.outvars])
        several = [out for out in eqn.outvars if readers.get(out.index, 0) > _FEW]
        found.append(bool(several) and (outside or not all(out.aval.shape for out in several)))
    return found


def _made_of_nothing(eqns: Sequence[Eqn], roots: Sequence[Sequence[int]]) -> frozenset[int]:
    """The equations that arrange a number or nothing, as few others do: what the first layer adds to, say, or begins
    with. They belong to no layer, as there would be one in each, if of another number: the time of each step."""
    found = [(at, eqn) for at, eqn in enumerate(eqns) if not roots[at] and type(eqn.primitive) in ARRANGING]
    keys = [(eqn.primitive, eqn.invars) for _, eqn in found]
    alike = Counter(keys)
    types = {key: (key[0], tuple([atom.aval for atom in key[1]])) for key in alike}
    kinds = Counter(types.values())
    few = {key for key, count in alike.items() if count <= _FEW and kinds[types[key]] <= _FEW}
    return frozenset(at for (at, _), key in zip(found, keys, strict=True) if key in few)


def _running(eqns: Sequence[Eqn], roots: Sequence[Sequence[int]]) -> frozenset[int]:
    """The equations of scalars that follow from each other, and each time from an array as well, as a loss does to
    which something is added: if they waited for who reads the last one, what they are made of would be kept until
    then."""
    places: dict[int, int] = {}
    made = set[int]()  # by other equations
    before: dict[int, int] = {}  # how often something has come to each
    after: dict[int, int] = {}  # and how often something comes after it
    comes = set[int]()
    for at, eqn in enumerate(eqns):
        out = eqn.outvars[0] if len(eqn.outvars) == 1 else None
        if out is None or out.aval.shape or not isinstance(eqn.primitive, Elementwise):
            made.update([each.index for each in eqn.outvars])
            continue
        places[out.index] = at
        own = set(roots[at])
        near = [count for count in [before[places[root]] for root in own if root in places] if count]
        if len(near) + len(made & own) > bool(near):
            comes.add(at)
        before[at] = max(near, default=0) + (at in comes)
    if max(before.values(), default=0) < _RUNNING:
        return frozenset()
    found: list[int] = []
    for at in sorted(before, reverse=True):
        own_after = after.get(at, 0)
        if before[at] + own_after >= _RUNNING:
            found.append(at)
        for root in roots[at]:
            i = places.get(root)
            if i is not None:
                after[i] = max(after.get(i, 0), own_after + (at in comes))
    return frozenset(found)


def _in_order_of_operands(eqns: Sequence[Eqn], roots: Sequence[Sequence[int]], light: Sequence[bool]) -> list[Eqn]:
    """These equations with those that cost next to nothing, and come right before the first that reads them, in the
    order in which that has them as operands: which of them came first before may differ from layer to layer."""
    maker = {out.index: at for at, eqn in enumerate(eqns) for out in eqn.outvars}
    first = [-1] * len(eqns)  # the first equation that reads what each makes
    for at in range(len(eqns) - 1, -1, -1):
        for root in roots[at]:
            i = maker.get(root)
            if i is not None:
                first[i] = at

    def operands(at: int) -> list[int]:
        return [maker.get(root, -1) for root in reversed(roots[at])]

    found: list[Eqn] = []
    crossed = set[int]()  # the places from which something has gone to the other side
    for at, eqn in enumerate(eqns):
        low = at
        while 0 < low > at - _STRETCH and low <= first[low - 1] <= at and light[low - 1]:
            low -= 1
        if at - low > 1 and low not in crossed:
            order: list[int] = []
            todo = [(i, False) for i in operands(at)]
            seen = set[int]()
            while todo:
                i, done = todo.pop()
                if done:
                    order.append(i)
                elif low <= i and i not in seen:
                    seen.add(i)
                    todo += [(i, True), *((j, False) for j in operands(i))]
            if len(order) == at - low:
                found[low:] = [eqns[i] for i in order]
                crossed.update(range(low + 1, at))
        found.append(eqn)
    return found
