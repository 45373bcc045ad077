"""Values that are rows of stacked arrays, as long as nobody needs them alone; and stacks of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEYS
from tinyjax.ir.program import Atom, Literal, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.shaping import expand_dims, reshape, rev, squeeze
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.structure import broadcast_in_dim
from tinyjax.primitives.unreduced import cast
from tinyjax.transforms.rebuild import Rebuilding


@final
@frozen
class Row:
    """The value at position `at` of the leading axis of a variable of the new program."""

    stack: Var
    at: int


Item: TypeAlias = Atom | Row
_Place: TypeAlias = tuple[int, int]


@final
class Stacks:
    """What is known of stacks in a program that grows: which rows they have, and which values are rows of which."""

    def __init__(self, ctx: Rebuilding) -> None:
        self._ctx = ctx
        self._vars: dict[int, Var] = {}
        #: Rows that are also there by themselves; and the other way round.
        self._alone: dict[_Place, Atom] = {}
        self._places: dict[Atom, list[_Place]] = {}
        #: What values are that have the elements of others in another shape.
        self._reshaped: dict[Atom, Atom] = {}

    def note_reshaped(self, atom: Atom, of: Atom) -> None:
        """Says that a value has the elements of another one, in order."""
        self._reshaped[atom] = of

    def note(self, stack: Var, at: int, atom: Atom) -> None:
        """Says that a row of a stack is this value."""
        self._vars[stack.index] = stack
        self._alone[stack.index, at] = atom
        if isinstance(atom, Var):
            self._places.setdefault(atom, []).append((stack.index, at))

    def alone(self, item: Item) -> Atom:
        """The value by itself: where it is only a row yet, it is taken out of its stack."""
        if not isinstance(item, Row):
            return item
        known = self._alone.get((item.stack.index, item.at))
        if known is None:
            known = squeeze(self._ctx, slice_in_dim(self._ctx, item.stack, item.at, item.at + 1, 1, 0), (0,))
            self.note(item.stack, item.at, known)
        return known

    def places(self, item: Item) -> Sequence[_Place]:
        """Where in stacks a value is."""
        if isinstance(item, Row):
            self._vars[item.stack.index] = item.stack
            return [(item.stack.index, item.at)]
        return self._places.get(item, ()) if isinstance(item, Var) else ()

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
        if len(parts) == 1 and parts[0][2] > 1:
            return 0 if self._is_whole(*parts[0]) else 1
        return len(parts) + 1

    def stacked(self, items: Sequence[Item], aval: ShapedArray) -> Atom:
        """The stack of values of this type: one that is there already, if there is."""
        literals = [item for item in items if isinstance(item, Literal)]
        if len(literals) == len(items) and aval.dtype not in KEYS:
            numbers = np.array([literal.value for literal in literals], aval.dtype)
            numbers.flags.writeable = False
            wanted, source = aval.of_shape((len(items),)), self._ctx.cursor.source
            value = ConcreteValue(numbers, wanted.varying_over(()))
            (numbered,) = self._ctx.emit(Constant(value), (), [value.aval], source)
            if not wanted.axes:
                return numbered
            # A literal may vary, but a constant is the same on all devices. (Terms of a sum that are all zero are one.)
            return cast(self._ctx, cast(self._ctx, numbered, wanted.unreduced), wanted.axes)
        ctx = self._ctx
        if all(item == items[0] for item in items):  # zeros to start with, say
            one = broadcast_in_dim(ctx, self.alone(items[0]), (len(items), *aval.shape), tuple(range(1, aval.ndim + 1)))
            return ctx.converted(one, aval.of_shape((len(items), *aval.shape)))
        originals = [self._reshaped.get(item) for item in items if not isinstance(item, Row) and not self.places(item)]
        wholes = [atom for atom in originals if atom is not None]
        if len(wholes) == len(items) and len({atom.aval for atom in wholes}) == 1:
            whole = reshape(ctx, self.stacked(wholes, wholes[0].aval), (len(items), *aval.shape))
            return ctx.converted(whole, aval.of_shape((len(items), *aval.shape)))
        joined: list[Atom] = []
        at = 0
        for stack, first, count, step in self._parts(items):
            if stack < 0:
                joined.append(expand_dims(ctx, self.alone(items[at]), (0,)))
            elif self._is_whole(stack, first, count, step):
                joined.append(self._vars[stack])
            else:
                low = min(first, first + step * (count - 1))
                part = slice_in_dim(ctx, self._vars[stack], low, low + count, 1, 0)
                joined.append(part if step == 1 else rev(ctx, part, (0,)))
            at += count
        found = ctx.converted(concatenate(ctx, joined, 0), aval.of_shape((len(items), *aval.shape)))
        if isinstance(found, Var) and len(joined) > 1:
            for i, item in enumerate(items):
                if not isinstance(item, Row):
                    self.note(found, i, item)
        return found

    def _is_whole(self, stack: int, first: int, count: int, step: int) -> bool:
        return step == 1 and first == 0 and count == self._vars[stack].aval.shape[0]

    def _parts(self, items: Sequence[Item]) -> list[tuple[int, int, int, int]]:
        """The values as parts of stacks that are there, as long ones as possible: the stack, the first row, how many,
        and the step from one to the next. Where a value is by itself, the part is one row of no stack."""
        parts: list[tuple[int, int, int, int]] = []
        places = [frozenset(self.places(item)) for item in items]
        at = 0
        while at < len(items):
            best = (-1, 0, 1, 1)
            for stack, first in sorted(places[at]):
                if best[0] < 0 and self._is_whole(stack, first, 1, 1):
                    best = stack, first, 1, 1
                for step in (1, -1):
                    count = 1
                    while at + count < len(items) and (stack, first + step * count) in places[at + count]:
                        count += 1
                    if count > best[2]:
                        best = stack, first, count, step
            parts.append(best)
            at += best[2]
        return parts


def place_of(item: Item) -> tuple[int, int]:
    """Where a value is in a stack: a key that brings the rows of each stack together."""
    return (item.stack.index, item.at) if isinstance(item, Row) else (-1, 0)


def row_bytes(items: Sequence[Item]) -> int:
    """How many bytes of these values are rows of stacks."""
    return sum(item.stack.aval.nbytes // item.stack.aval.shape[0] for item in items if isinstance(item, Row))
