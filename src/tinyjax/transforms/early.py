"""Equations that can be applied long before they are, moved to where the last of their operands is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain, groupby
from typing import Final, final

from tinyjax.caching import bounded
from tinyjax.contexts.rebuilding import DEPTH
from tinyjax.ir.effects import must_stay
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.traverse import inner_programs
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.elementwise import Elementwise
from tinyjax.primitives.structure import Reduction
from tinyjax.transforms.added_on_the_way import long_sums
from tinyjax.transforms.late import ARRANGING
from tinyjax.transforms.rows import JOINING, Lazy
from tinyjax.transforms.scalar_sums import joins_scalars
from tinyjax.transforms.waiting import by_tensor

#: At most so many equations follow from one that moves, one after the other.
_LENGTH: Final = 32
#: And it moves before so many others at least: the order within a block is as good as another one.
_FAR: Final = 8
#: What is made of a tensor and read at so few places belongs to the layer that reads it first; what is read at more, as
#: a mask is, to none.
_FEW: Final = 4
#: More equations that go to one place are updates of several tensors.
_MANY: Final = 64
#: The rank of what follows from several rows.
_SEVERAL: Final = 1 << 62
#: Where what is read by equations at several places goes: before all of them.
_BEFORE: Final = -1


def early(eqns: Sequence[Eqn], lazy: Lazy, results: Sequence[Atom]) -> list[Eqn]:
    """These equations in another order, in which those which are for `results` of the program alone come right after
    what they read.

        { lambda ; a:f64[3] b:f64[3]. let c:f64[3] = cos a; …; d:f64[3] = cos b; …; e:f64[3] = sub a c;
            f:f64[3] = sub b d in (e, f) }
        { lambda ; a:f64[3] b:f64[3]. let c:f64[3] = cos a; d:f64[3] = sub a c; …; e:f64[3] = cos b; …;
            f:f64[3] = sub b e in (d, f) }

    A step of training computes the gradient for all layers, and then what becomes of all weights. Each update is part
    of the block that computes the gradient it is of here: a loop of these gives new weights, and keeps no gradients.
    What is computed of inputs alone goes where it is read, if that is one place. What nobody reads stays where it is.
    """
    return _Early(eqns, lazy, results).ordered()


@final
class _Early:
    """Where equations may go. A place is the position of the equation that they come after."""

    def __init__(self, eqns: Sequence[Eqn], lazy: Lazy, results: Sequence[Atom]) -> None:
        self._eqns = eqns
        self._results = {lazy.root(atom).index for atom in results if isinstance(atom, Var)}
        self._operands = list(map(set, lazy.roots(eqns)))
        self._outs = [[out.index for out in eqn.outvars] for eqn in eqns]
        #: Of what equations read: which row of it, where they read rows.
        self._rows: dict[int, dict[int, int]] = {}
        rows = lazy.rows
        for i, eqn in enumerate(eqns) if rows else ():
            for atom in eqn.invars:
                if type(atom) is Var and atom.index in rows:
                    base, at = rows[atom.index]
                    own = self._rows.setdefault(i, {})
                    own[base.index] = max(at, own.get(base.index, 0))
        self._maker = {out: i for i, outs in enumerate(self._outs) for out in outs}
        #: The equations that make stacks of which rows are read: loops, say.
        self._stacking = {self._maker[base.index] for base, _ in lazy.rows.values() if base.index in self._maker}
        #: Whether what each makes is no scalar.
        self._wide = [any(out.aval.shape for out in eqn.outvars) for eqn in eqns]
        #: The equations from which no result follows, though they read something.
        self._unread = set[int]()
        #: The equations that add a term to a sum of many, but for the last term.
        self._adding: Set[int] = self._links(lazy, results)
        self._moves: Sequence[bool] = self._movable()
        #: The equations that compute something of inputs alone, quickly or for results of the program alone: how many
        #: of them one after the other.
        self._free: dict[int, int] = {}
        for i, eqn in enumerate(eqns):
            depth = self._depth(i, eqn)
            if depth is not None and i not in self._unread:
                self._free[i] = depth
        #: What these make.
        self._freely_made: set[int] = {out for i in self._free for out in self._outs[i]}
        #: The equations that make stacks of scalars.
        self._joining: frozenset[int] = frozenset([i for i, eqn in enumerate(eqns) if joins_scalars(eqn)])

    def _links(self, lazy: Lazy, results: Sequence[Atom]) -> Set[int]:
        def reads() -> Mapping[int, int]:
            reading = chain(self._eqns, {id(eqn): eqn for eqn in lazy.eqns.values()}.values())
            atoms = chain(results, chain.from_iterable(eqn.invars for eqn in reading))
            return Counter(atom.index for atom in atoms if type(atom) is Var)

        return {i for links in long_sums(self._eqns, reads) for i in links[:-1]}

    def _depth(self, i: int, eqn: Eqn) -> int | None:
        depth = 1
        for index in self._operands[i]:
            maker = self._maker.get(index)
            if maker is not None:
                known = self._free.get(maker)
                if known is None:
                    return None
                if self._wide[maker]:  # scalars are kept
                    depth = max(depth, known + 1)
        if not self._wide[i]:  # a step of a schedule, say, which may be a call
            return None if must_stay(eqn.primitive.effects) else depth
        kind = type(eqn.primitive)
        quick = depth <= DEPTH and (_by_elements(kind) or _scales(eqn))
        return depth if quick or (self._moves[i] and (_by_elements(kind) or issubclass(kind, Reduction))) else None

    def ordered(self) -> list[Eqn]:
        """The equations in their new order."""
        n = len(self._eqns)
        places = self._places()
        readers: dict[int, set[int]] = {}  # where results are read that are computed of inputs alone
        stacked = set[int]()  # the scalars in stacks, which are made where they are
        for i in range(n - 1, -1, -1):
            if i in self._free:
                found = set[int]().union(*[readers.get(out, ()) for out in self._outs[i]])
                alone = len(found) == 1 or self._free[i] > DEPTH or (len(found) <= _FEW and self._of_a_tensor(i))
                later = alone and stacked.isdisjoint(self._outs[i])
                if found and (later or min(found) < i):
                    places[i] = min(found) if alone else _BEFORE
            if i in self._joining:
                stacked |= self._operands[i]
            for index in self._operands[i] & self._freely_made:
                readers.setdefault(index, set()).add(places[i])
        self._terms_to_layers(places)
        # Of those with one place, whoever is read comes before who reads.
        order = sorted(range(n), key=places.__getitem__)
        rank = self._ranks(order, places) if self._stacking else {}
        if rank:
            order.sort(key=lambda i: (places[i], rank.get(i, _BEFORE)))
        start = n
        while start and self._updates(order[start - 1]):
            start -= 1
        # But not with the end alone of what follows from the last row.
        if start and 0 <= rank.get(order[start - 1], _SEVERAL) < _SEVERAL:
            while start < n and rank.get(order[start]) == rank[order[start - 1]]:
                start += 1
        for first, stop in self._together(order[:start], places):  # what they read comes before, or is among them
            order[first:stop] = self._by_tensor(order[first:stop], 1)
        return [self._eqns[i] for i in self._by_tensor(order, start)]

    def _by_tensor(self, order: Sequence[int], start: int) -> list[int]:
        return by_tensor(self._eqns, self._operands, order, start, self._free, self._rows, self._wide)

    def _together(self, order: Sequence[int], places: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Where updates of many tensors come after one equation, from that one on: some gradients are made of the same
        array."""
        stop = 0
        for place, group in groupby(order, key=places.__getitem__):
            found = list(group)
            stop += len(found)
            if len(found) > _MANY and place in found and place not in self._stacking:
                yield stop - len(found) + found.index(place), stop

    def _ranks(self, order: Sequence[int], places: Sequence[int]) -> dict[int, int]:
        """Of what comes after a loop of whose stacks rows are read: from which row it follows. What is for several of
        them comes first, and what follows from several of them last."""
        rank: dict[int, int] = {}
        for i in order:
            if places[i] in self._stacking and i not in self._free and i != places[i]:
                own = self._rows.get(i, {})
                near = set[int]()
                for index in self._operands[i]:
                    j = self._maker.get(index, -1)
                    if j in rank:
                        near.add(rank[j])
                    if j in self._stacking:
                        near.add(own.get(index, _SEVERAL))
                rank[i] = near.pop() if len(near) == 1 else _SEVERAL
        wanted: dict[int, set[int]] = {}  # the ranks of what reads a result
        for i in reversed(order):
            if i in self._free and places[i] in self._stacking:
                found = set[int]().union(*[wanted.get(out, ()) for out in self._outs[i]])
                rank[i] = found.pop() if len(found) == 1 else _BEFORE
            # The loop itself reads what comes before it, whoever else does.
            for index in self._operands[i] & self._freely_made if i in rank or i in self._stacking else ():
                wanted.setdefault(index, set()).add(rank.get(i, _BEFORE))
        return rank

    def _of_a_tensor(self, i: int) -> bool:
        """Whether an equation's only operand is an array that is an input: weights that are converted, say."""
        own = self._operands[i]
        # Looked up, as `isdisjoint` would go through all of the mapping.
        return len(own) == 1 and self._wide[i] and not any(index in self._maker for index in own)

    def _terms_to_layers(self, places: list[int]) -> None:
        """Moves what is made of inputs for terms of a sum, as their squares are for a penalty, to where a layer reads
        these inputs: the terms are in the order of names, and there each is part of a block."""
        if not self._joining:
            return
        joined: dict[int, bool] = {}  # whether all that reads a result is such a sum, or for one; of a scalar: anything
        scalars = {out.index for eqn in self._eqns for out in eqn.outvars if not out.aval.shape}
        for i in range(len(self._eqns) - 1, -1, -1):
            outs = self._outs[i]
            stack = i in self._joining and outs[0] in joined  # of which something is made
            term = stack or (i in self._free and all(joined.get(out, False) for out in outs))
            for index in self._operands[i]:
                scalar = index in scalars
                joined[index] = joined.get(index, False) or term if scalar else joined.get(index, True) and term
        if True not in joined.values():
            return
        terms = {i for i in self._free if all(joined.get(out, False) for out in self._outs[i])}
        first: dict[tuple[int, int], int] = {}  # where an input, or a row of it, is read for something else
        for i, operands in enumerate(self._operands):
            if i not in terms and places[i] != _BEFORE:
                for index in operands:
                    if index not in self._maker:
                        row = self._row(i, index)
                        first[row] = min(places[i], first.get(row, places[i]))
        numbers = set[int]()  # the terms that are made of no inputs, of zeros say
        for i in sorted(terms):
            makers = [self._maker[index] for index in self._operands[i] if index in self._maker]
            rows = [self._row(i, index) for index in self._operands[i] if index not in self._maker]
            if not rows and numbers.issuperset(makers):
                numbers.add(i)
                continue
            made = [places[j] for j in makers if j not in numbers]
            read = [first[row] for row in rows if row in first]
            place = max([*read, *made], default=places[i])
            if len(read) == len(rows) and place < places[i]:
                places[i] = place
        for i in sorted(terms, reverse=True):
            for index in self._operands[i]:
                if (maker := self._maker.get(index)) in numbers:
                    places[maker] = min(places[maker], places[i])

    def _row(self, i: int, index: int) -> tuple[int, int]:
        """A variable that an equation reads, and which row of it, if it is one; -1 is all."""
        return index, self._rows.get(i, {}).get(index, -1)

    def _updates(self, i: int) -> bool:
        """Whether an equation may be part of an update: it treats each element by itself, or its result is a scalar. A
        backward pass has others in each layer."""
        if i in self._free:
            return True
        if not self._moves[i] and i not in self._unread:
            return False
        eqn = self._eqns[i]
        if _by_elements(type(eqn.primitive)) or not self._wide[i] or i in self._joining:
            return True
        programs = list(inner_programs([eqn]))
        return bool(programs) and all(map(_of_an_update, programs))

    def _places(self) -> list[int]:
        """Where each equation is if those move that can."""
        places = list(range(len(self._eqns)))
        stayed = [0] * len(self._eqns)  # how many before each stay where they are
        count = 0
        for i, moves in enumerate(self._moves):
            stayed[i] = count
            if i in self._free:
                continue
            if moves:
                place = -1
                for index in self._operands[i]:
                    maker = self._maker.get(index, i)
                    if places[maker] > place and maker != i and maker not in self._free:
                        place = places[maker]
                place = i if place < 0 else place
                if count - stayed[place] > _FAR or place in self._stacking:
                    places[i] = place
                    continue
            count += 1
        # What nobody reads is left where it is, whatever goes to and fro there.
        following = len(places)
        for i in range(len(places) - 1, -1, -1):
            if i in self._unread:
                places[i] = min(following, len(places) - 1)
            elif i not in self._free and places[i] == i:
                following = i
        return places

    def _movable(self) -> list[bool]:
        """Which equations can move: those for results of the program, with all that follows from them, and those whose
        results are scalars, which cost nothing to keep."""
        found: list[bool] = [False] * len(self._eqns)
        length: dict[int, int] = {}  # of what follows from a variable
        wide = set[int]()  # variables from which results follow that are no scalars
        read = set(self._results)
        for i in range(len(self._eqns) - 1, -1, -1):
            eqn = self._eqns[i]
            operands, outs, effects = self._operands[i], self._outs[i], eqn.primitive.effects
            stays = bool(effects) and must_stay(effects)
            if not stays and operands and read.isdisjoint(outs):
                self._unread.add(i)
                continue
            read |= operands
            after, updates = 1, not wide.isdisjoint(outs)
            if self._wide[i]:
                for out in eqn.outvars:
                    if out.aval.shape:
                        known = length.get(out.index)
                        if known is None:
                            updates = True
                        elif known >= after:
                            # A sum of many terms is as long as one, so that none of them is unlike the others.
                            after = known + (i not in self._adding)
            if updates:
                wide |= operands
            kind = type(eqn.primitive)
            # What ends in scalars alone, as the last layer does before a loss, is no update unless it goes by elements.
            moves = updates or _by_elements(kind) or issubclass(kind, Reduction) or kind in JOINING
            found[i] = moves and after <= _LENGTH and not stays
            after = after if found[i] else _LENGTH
            for index in operands:
                if after > length.get(index, 0):
                    length[index] = after
        return found


@bounded(4096)
def _by_elements(kind: type[Primitive]) -> bool:
    """Whether primitives of a class treat each element by itself, or only arrange them."""
    return issubclass(kind, Elementwise) or kind in ARRANGING


def _scales(eqn: Eqn) -> bool:
    """Whether it is a product with a scalar, as in the gradient of an inner product."""
    return isinstance(eqn.primitive, DotGeneral) and not all(atom.aval.shape for atom in eqn.invars)


def _of_an_update(jaxpr: Jaxpr) -> bool:
    """Whether a program, a branch say, may be part of an update: it has no products of matrices."""
    return all(_by_elements(type(eqn.primitive)) or isinstance(eqn.primitive, Reduction) for eqn in jaxpr.eqns)
