"""Values that are rows of stacked arrays, as long as nobody needs them alone; and stacks of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEYS, HostArray
from tinyjax.ir.program import Atom, Literal, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.casts import cast
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.shaping import expand_dims, reshape, rev, squeeze
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.stacking import stack as stack_of
from tinyjax.primitives.stacking import unstack
from tinyjax.primitives.structure import broadcast_in_dim
from tinyjax.transforms.rebuild import Rebuilding


@final
@frozen
class Row:
    """The value at position `at` of the leading axis of a variable of the new program."""

    stack: Var
    at: int


Item: TypeAlias = Atom | Row
_Place: TypeAlias = tuple[int, int]
#: In how many stacks values may be in turn.
_TURNS: Final = 6
#: How often they must be in turn to be taken together.
_ROUNDS: Final = 3


@final
@frozen
class _Rows:
    """Some rows of a stack: the first one, and the step from one to the next. Of no stack: a value by itself, which may
    be there several times."""

    stack: int
    first: int
    step: int


@final
@frozen
class _Part:
    """Values that are `count` rows of each of these, in turn if there are several."""

    turns: tuple[_Rows, ...]
    count: int

    @property
    def size(self) -> int:
        return self.count * len(self.turns)


_ALONE: Final = _Part((_Rows(-1, 0, 1),), 1)


@final
class Stacks:
    """What is known of stacks in a program that grows: which rows they have, and which values are rows of which."""

    def __init__(self, ctx: Rebuilding) -> None:
        self._ctx = ctx
        self._vars: dict[int, Var] = {}
        #: Rows that are also there by themselves; and the other way round.
        self._alone: dict[_Place, Atom] = {}
        self._places: dict[int, list[_Place]] = {}
        #: What variables are that have the elements of others in another shape.
        self._reshaped: dict[int, Atom] = {}
        #: The elements of arrays that are spelled out.
        self._known: dict[int, HostArray] = {}

    def note_reshaped(self, var: Var, of: Atom) -> None:
        """Says that a value has the elements of another one, in order."""
        self._reshaped[var.index] = of

    def note_known(self, var: Var, value: ConcreteValue) -> None:
        """Says which elements a value has."""
        if value.on_host and value.aval.dtype not in KEYS:
            self._known[var.index] = np.asarray(value.data)

    def note(self, stack: Var, at: int, atom: Atom) -> None:
        """Says that a row of a stack is this value."""
        self._vars[stack.index] = stack
        self._alone[stack.index, at] = atom
        if isinstance(atom, Var):
            self._places.setdefault(atom.index, []).append((stack.index, at))

    def alone(self, item: Item) -> Atom:
        """The value by itself: where it is only a row yet, it is taken out of its stack."""
        if not isinstance(item, Row):
            return item
        known = self._alone.get((item.stack.index, item.at))
        if known is None:
            known = squeeze(self._ctx, slice_in_dim(self._ctx, item.stack, item.at, item.at + 1, 1, 0), (0,))
            self.note(item.stack, item.at, known)
        return known

    def take_apart(self, items: Sequence[Item]) -> None:
        """Takes all rows at once out of those stacks most of whose rows are wanted by themselves."""
        wanted: dict[int, set[int]] = {}
        for item in items:
            if isinstance(item, Row) and (item.stack.index, item.at) not in self._alone:
                self._vars[item.stack.index] = item.stack
                wanted.setdefault(item.stack.index, set()).add(item.at)
        for index, rows in wanted.items():
            whole = self._vars[index]
            if len(rows) > 1 and 2 * len(rows) > whole.aval.shape[0]:
                for at, atom in enumerate(unstack(self._ctx, whole, 0)):
                    if at in rows:
                        self.note(whole, at, atom)

    def places(self, item: Item) -> Sequence[_Place]:
        """Where in stacks a value is."""
        if isinstance(item, Row):
            self._vars[item.stack.index] = item.stack
            return [(item.stack.index, item.at)]
        return self._places.get(item.index, ()) if isinstance(item, Var) else ()

    def direction(self, items: Sequence[Item]) -> int:
        """1 if values follow each other in a stack that is there, -1 if they do so the other way round, else 0."""
        first, second = self.places(items[0]), self.places(items[1])
        for stack, at in first:
            if (stack, at + 1) in second:
                return 1
            if (stack, at - 1) in second:
                return -1
        return 0

    def new(self, items: Sequence[Item]) -> int:
        """How many equations it takes to stack values."""
        if all(isinstance(item, Literal) for item in items) or all(item == items[0] for item in items):
            return 1
        parts = self._parts(items)
        if len(parts) > 1 and self._elements(items):
            return 1
        if len(parts) == 1 and parts[0].size > 1:
            return 0 if self._is_whole(parts[0]) else _cost(parts[0])
        return sum(map(_cost, parts)) + 1

    def spared(self, lists: Iterable[Sequence[Item]], inputs: int) -> int:
        """How many equations it takes to have these values by themselves that are rows of stacks, as the first so many
        inputs are that other loops read: as stacks, they are there."""
        items = list(chain.from_iterable(lists))
        rows = {(item.stack.index, item.at) for item in items if isinstance(item, Row)}
        given = {item.index for item in items if isinstance(item, Var) and item.index < inputs}
        return 2 * (len(rows.difference(self._alone)) + len(given.intersection(self._places)))

    def stacked(self, items: Sequence[Item], aval: ShapedArray) -> Atom:
        """The stack of values of this type: one that is there already, if there is."""
        literals = [item for item in items if isinstance(item, Literal)]
        if len(literals) == len(items) and aval.dtype not in KEYS:
            return self._spelled_out(np.array([literal.value for literal in literals], aval.dtype), aval)
        ctx = self._ctx
        if all(item == items[0] for item in items):  # zeros to start with, say
            one = broadcast_in_dim(ctx, self.alone(items[0]), (len(items), *aval.shape), tuple(range(1, aval.ndim + 1)))
            return ctx.converted(one, aval.of_shape((len(items), *aval.shape)))
        originals = [
            self._reshaped.get(item.index) for item in items if isinstance(item, Var) and not self.places(item)
        ]
        wholes = [atom for atom in originals if atom is not None]
        if len(wholes) == len(items) and len({atom.aval for atom in wholes}) == 1:
            whole = reshape(ctx, self.stacked(wholes, wholes[0].aval), (len(items), *aval.shape))
            return ctx.converted(whole, aval.of_shape((len(items), *aval.shape)))
        parts = self._parts(items)
        if len(parts) > 1 and (elements := self._elements(items)):
            return self._noted(self._spelled_out(np.stack(elements), aval), items)
        if len(parts) == len(items) and all(part.turns == _ALONE.turns for part in parts):
            found = stack_of(ctx, list(map(self.alone, items)), 0)
            return self._noted(ctx.converted(found, aval.of_shape((len(items), *aval.shape))), items)
        joined: list[Atom] = []
        at = 0
        for part in parts:
            joined.append(self._repeated(items[at], part.count) if part.turns == _ALONE.turns else self._taken(part))
            at += part.size
        found = ctx.converted(concatenate(ctx, joined, 0), aval.of_shape((len(items), *aval.shape)))
        return self._noted(found, items) if len(joined) > 1 else found

    def _noted(self, stack: Atom, items: Sequence[Item]) -> Atom:
        if isinstance(stack, Var):
            for i, item in enumerate(items):
                if not isinstance(item, Row):
                    self.note(stack, i, item)
        return stack

    def _elements(self, items: Sequence[Item]) -> Sequence[HostArray]:
        """The elements of arrays that are spelled out; nothing if some aren't."""
        known = [self._known[item.index] for item in items if isinstance(item, Var) and item.index in self._known]
        return known if len(known) == len(items) else ()

    def _spelled_out(self, elements: HostArray, aval: ShapedArray) -> Atom:
        """A stack of values of this type, which has these elements."""
        elements.flags.writeable = False
        wanted = aval.of_shape(elements.shape)
        value = ConcreteValue(elements, wanted.varying_over(()))
        (found,) = self._ctx.emit(Constant(value), (), [value.aval], self._ctx.cursor.source)
        if not wanted.axes:
            return found
        # A literal may vary, but a constant is the same on all devices. (Terms of a sum that are all zero are one.)
        return cast(self._ctx, cast(self._ctx, found, wanted.unreduced), wanted.axes)

    def _repeated(self, item: Item, count: int) -> Atom:
        """A stack of so many of one value."""
        atom = self.alone(item)
        if count == 1:
            return expand_dims(self._ctx, atom, (0,))
        return broadcast_in_dim(self._ctx, atom, (count, *atom.aval.shape), tuple(range(1, atom.aval.ndim + 1)))

    def _taken(self, part: _Part) -> Atom:
        """Some rows of stacks that are there, as a stack."""
        if self._is_whole(part):
            return self._vars[part.turns[0].stack]
        ctx = self._ctx
        found: list[Atom] = []
        for rows in part.turns:
            last = rows.first + rows.step * (part.count - 1)
            low, high = sorted((rows.first, last))
            taken = slice_in_dim(ctx, self._vars[rows.stack], low, high + 1, abs(rows.step), 0)
            found.append(taken if rows.step > 0 else rev(ctx, taken, (0,)))
        if len(found) == 1:
            return found[0]
        pairs = concatenate(ctx, [expand_dims(ctx, each, (1,)) for each in found], 1)
        return reshape(ctx, pairs, (part.size, *pairs.aval.shape[2:]))

    def _is_whole(self, part: _Part) -> bool:
        rows = part.turns[0]
        own = len(part.turns) == 1 and rows.step == 1 and rows.first == 0
        return own and part.count == self._vars[rows.stack].aval.shape[0]

    def _parts(self, items: Sequence[Item]) -> list[_Part]:
        """The values as parts of stacks that are there, as long ones as possible."""
        parts: list[_Part] = []
        places = [frozenset(self.places(item)) for item in items]
        at = 0
        while at < len(items):
            count = 1
            while at + count < len(items) and items[at + count] == items[at]:
                count += 1
            best = _Part(_ALONE.turns, count)
            for stack, first in sorted(places[at]):
                one = _Part((_Rows(stack, first, 1),), 1)
                if best == _ALONE and self._is_whole(one):
                    best = one
            best = max(best, _longest(places, at, 1), key=lambda part: part.size)
            # Kinds of layers in turn: their rows are in stacks of their own.
            for turns in range(2, _TURNS + 1):
                if not places[at] or best.size >= turns:
                    break
                found = [_longest(places, at + turn, turns) for turn in range(turns) if at + turn < len(items)]
                count = min(part.count for part in found)
                if len(found) == turns and count >= _ROUNDS:
                    best = _Part(tuple([part.turns[0] for part in found]), count)
            parts.append(best)
            at += best.size
        return parts


def _cost(part: _Part) -> int:
    """How many equations it takes to have it as a stack."""
    return 1 if len(part.turns) == 1 else 2 * len(part.turns) + 2


def _longest(places: Sequence[frozenset[_Place]], at: int, every: int) -> _Part:
    """The longest part of one stack that begins with a value, of which only some of the following are looked at."""
    best = _ALONE
    following = places[at + every] if at + every < len(places) else frozenset()
    for stack, first in sorted(places[at]):
        for step in sorted({to - first for other, to in following if other == stack and to != first}, reverse=True):
            count = 1
            while at + count * every < len(places) and (stack, first + step * count) in places[at + count * every]:
                count += 1
            if count > best.count:
                best = _Part((_Rows(stack, first, step),), count)
    return best


def place_of(item: Item) -> tuple[int, int]:
    """Where a value is in a stack: a key that brings the rows of each stack together, and what is there repeatedly."""
    if isinstance(item, Row):
        return item.stack.index, item.at
    return -1, item.index if isinstance(item, Var) else -1


def row_bytes(items: Sequence[Item]) -> int:
    """How many bytes of these values are rows of stacks."""
    return sum(item.stack.aval.nbytes // item.stack.aval.shape[0] for item in items if isinstance(item, Row))
