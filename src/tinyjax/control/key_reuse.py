"""Keys of random numbers that a program uses twice, so that it draws the same numbers twice.

Each key of an array has a number, which moves with it. Random bits and `split` use a key up. What is computed of the
same in the same way has the same number: the same index taken twice, or the same number folded in. Branches exclude
each other, and a loop is gone through twice, so that what it uses again and again is seen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.control.call import Calling
from tinyjax.control.checkpoint import Checkpoint
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INTEGERS, KEYS, UINT32
from tinyjax.ir.holding import AnyProgram, checked
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal
from tinyjax.ir.traverse import nested_programs, subjaxprs
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.dynamic import DynamicSlice
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.keys import RandomBits, RandomClone, RandomFoldIn, RandomSplit, RandomUnwrap, RandomWrap
from tinyjax.primitives.shaping import Reshape, Rev, Squeeze
from tinyjax.primitives.slicing import Concatenate, Slice
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import BroadcastInDim, Transpose
from tinyjax.stack import with_room

#: Larger arrays of keys are followed as one.
_LIMIT: Final = 1 << 12
#: Loops within so many loops are gone through once.
_DEEP: Final = 6
_MOVING: Final = (Slice, Reshape, Squeeze, Rev, Concatenate, Stack, Unstack, BroadcastInDim, Transpose)
_USING: Final = (RandomBits, RandomSplit)
#: Where in the description of keys the position of one of them is told.
_AT: Final = "\0"
_Ids: TypeAlias = npt.NDArray[np.int64]


@final
@frozen
class KeyUse:
    """Where a key is used up: by which primitive, and the user's line, if it is known."""

    primitive: str
    line: str
    #: The line without the transformations that have made this of it.
    place: str = ""

    @override
    def __str__(self) -> str:
        return f"{self.primitive} at {self.line}" if self.line else self.primitive


@final
@frozen(repr=False)
class KeyReuse(Record):
    """A key that is used twice: what it comes from, such as "argument key", and both uses."""

    key: str
    first: KeyUse
    second: KeyUse

    @override
    def __str__(self) -> str:
        again = "the same line, again" if self.first == self.second else str(self.second)
        return f"{self.key} is used by {self.first}, and then by {again}"


@final
@frozen
class _Fact:
    """What is known of a value: the numbers of its elements, or of all of them together; its elements, if known."""

    ids: _Ids = field(eq=False)
    known: npt.NDArray[np.int64] | None = field(default=None, eq=False)

    @property
    def name(self) -> Hashable:
        return (self.ids.shape, self.ids.tobytes())


def key_reuse(program: AnyProgram) -> tuple[KeyReuse, ...]:
    """The keys that a program uses twice, each with both uses: by random bits, which samplers draw, or by `split`.

    What can't be told, such as which key is taken at a computed position, is no reuse.

    >>> from tinyjax import make_jaxpr, random
    >>> program = make_jaxpr(lambda key: random.normal(key) + random.uniform(key))(random.key(0))
    >>> [reuse.key for reuse in key_reuse(program)]
    ['argument key']
    """
    closed = checked(program, "key_reuse")
    jaxpr = closed.jaxpr
    if not _uses_keys(jaxpr):
        return ()
    walk = _Walk()
    facts = []
    for var, name in zip(jaxpr.invars, jaxpr.input_names, strict=True):
        shown = f"argument {name}{_AT}" if name else f"input {var.index}{_AT} of the program"
        fact = walk.fresh(var.aval, shown)
        elements = np.asarray(closed.consts[var.index].data) if var.index < len(closed.consts) else None
        whole = elements is not None and elements.dtype in INTEGERS and elements.size <= _LIMIT
        facts.append(_Fact(fact.ids, elements.astype(np.int64)) if whole and elements is not None else fact)
    walk.run(jaxpr, facts)
    return tuple(walk.found)


@remembered
def _uses_keys(jaxpr: Jaxpr) -> bool:
    """Whether something within the program uses a key up."""
    return any(isinstance(eqn.primitive, _USING) for inner in nested_programs(jaxpr) for eqn in inner.eqns)


@remembered
def reuse_notes(jaxpr: Jaxpr) -> tuple[str, ...]:
    """What there is to say of a program that is there: the keys that it uses twice."""
    return tuple(f"{reuse}: see tinyjax.tools.check_key_reuse" for reuse in key_reuse(jaxpr))


@final
class _Walk:
    """The keys met so far."""

    __slots__ = ("_again", "_loops", "_numbers", "_places", "_wrapped", "found", "used")

    def __init__(self) -> None:
        #: The numbers of what is computed of what, and for a number what it comes from.
        self._numbers: dict[Hashable, int] = {}
        self._places: dict[int, str] = {}
        #: The keys that words are those of.
        self._wrapped: dict[tuple[int, ...], int] = {}
        #: How many loops there are around what is looked at.
        self._loops = 0
        #: Within what is computed once more: the same use of a key there is meant.
        self._again = False
        self.used: dict[int, KeyUse] = {}
        self.found: list[KeyReuse] = []

    def number(self, what: Hashable, place: str) -> int:
        found = self._numbers.setdefault(what, len(self._numbers))
        self._places.setdefault(found, place)
        return found

    def fresh(self, aval: ShapedArray, place: str, what: Hashable = None) -> _Fact:
        """A value that nothing is known of; the same for the same `what`."""
        origin = len(self._numbers) if what is None else what
        shape = aval.shape if _followed(aval) else ()
        ids = np.empty(shape, np.int64)
        for at in np.ndindex(shape):
            where = f"[{', '.join(map(str, at))}]" if at else ""
            ids[at] = self.number((origin, at), place.replace(_AT, where))
        return _Fact(ids)

    def use(self, ids: _Ids, by: KeyUse) -> None:
        for number in ids.ravel().tolist():
            first = self.used.setdefault(number, by)
            if first is not by and not (self._again and first.place == by.place):
                self._report(number, first, by)
        repeated, counts = np.unique(ids, return_counts=True)
        for number in repeated[counts > 1].tolist():
            self._report(number, by, by)

    def _report(self, number: int, first: KeyUse, second: KeyUse) -> None:
        reuse = KeyReuse(self._places[number], first, second)
        if all((old.first, old.second) != (first, second) for old in self.found):
            self.found.append(reuse)

    def run(self, jaxpr: Jaxpr, facts: Sequence[_Fact]) -> list[_Fact]:
        """What is known of the results. However deep programs nest, there is room on the stack."""
        return with_room(lambda: self._run(jaxpr, facts))

    def _run(self, jaxpr: Jaxpr, facts: Sequence[_Fact]) -> list[_Fact]:
        known = dict(zip(jaxpr.invars, facts, strict=True))

        def read(atom: Atom) -> _Fact:
            if isinstance(atom, Literal):
                whole = atom.aval.dtype in INTEGERS and abs(int(atom.value.real)) < 2**62
                elements = np.asarray(int(atom.value.real), np.int64) if whole else None
                return _Fact(self.fresh(atom.aval, "a constant", atom).ids, elements)
            return known[atom]

        for eqn in jaxpr.eqns:
            known.update(zip(eqn.outvars, self._apply(eqn, [read(atom) for atom in eqn.invars]), strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _apply(self, eqn: Eqn, facts: list[_Fact]) -> Sequence[_Fact]:
        primitive = eqn.primitive
        if isinstance(primitive, Cond | Scan | While) and not _uses_keys_within(primitive):
            return self._computed(primitive, eqn, facts)
        if isinstance(primitive, Checkpoint):
            outside, self._again = self._again, True
            outs = self.run(primitive.jaxpr, facts)
            self._again = outside
            return outs
        if isinstance(primitive, Calling | CustomCall):
            return self.run(primitive.jaxpr, facts)
        if isinstance(primitive, Cond):
            return self._branches(primitive, eqn, facts)
        if isinstance(primitive, Scan):
            return self._scan(primitive, eqn, facts)
        if isinstance(primitive, While):
            return self._while(primitive, eqn, facts)
        if isinstance(primitive, _USING):
            self.use(
                facts[0].ids,
                KeyUse(primitive.name, _line(eqn), "" if eqn.source is None else str(eqn.source.untransformed)),
            )
        moved = self._moved(primitive, eqn, facts)
        return self._computed(primitive, eqn, facts) if moved is None else [moved]

    def _moved(self, primitive: Primitive, eqn: Eqn, facts: Sequence[_Fact]) -> _Fact | None:
        """Of keys, or their words, that are put elsewhere as they are."""
        first, aval = facts[0] if facts else None, eqn.outvars[0].aval if eqn.outvars else None
        if first is None or aval is None or not (_followed(aval) and _followed(eqn.invars[0].aval)):
            return None
        if isinstance(primitive, _MOVING) and all(_followed(atom.aval) for atom in eqn.invars):
            return _Fact(np.asarray(primitive.evaluate(*[fact.ids for fact in facts])[0]))
        places = [fact.known for fact in facts[1:] if fact.known is not None]
        if isinstance(primitive, DynamicSlice | Gather) and len(places) == len(facts) - 1:
            return _Fact(np.asarray(primitive.evaluate(first.ids, *places)[0]))
        if isinstance(primitive, RandomUnwrap):
            count = aval.shape[-1]
            words = [[self.number(("word", key, i), self._places[key]) for i in range(count)]
                     for key in first.ids.ravel().tolist()]  # fmt: skip
            self._wrapped.update(zip(map(tuple, words), first.ids.ravel().tolist(), strict=True))
            return _Fact(np.asarray(words, np.int64).reshape(aval.shape))
        if isinstance(primitive, RandomWrap):
            rows = [tuple(row) for row in first.ids.reshape(-1, first.ids.shape[-1]).tolist()]
            keys = [self._wrapped.get(row) for row in rows]
            wrapped = [
                self.number(("wrapped", row), re.sub(r"\[0\]|, 0(?=\])", "", self._places[row[0]]))
                if key is None
                else key
                for key, row in zip(keys, rows, strict=True)
            ]
            return _Fact(np.asarray(wrapped, np.int64).reshape(aval.shape))
        return None

    def _computed(self, primitive: Primitive, eqn: Eqn, facts: Sequence[_Fact]) -> list[_Fact]:
        """The same of the same operands, but for copies that are meant to be used again."""
        names: Hashable = tuple(fact.name for fact in facts)
        what: Hashable = (primitive, names)
        if isinstance(primitive, RandomClone) or primitive.effects:
            what = len(self._numbers)
        elif isinstance(primitive, Constant):
            elements = np.asarray(primitive.value.data)
            if elements.dtype in INTEGERS and elements.size <= _LIMIT:
                return [_Fact(self.fresh(eqn.outvars[0].aval, "a constant", what).ids, elements.astype(np.int64))]
        elif isinstance(primitive, RandomFoldIn) and facts[0].ids.shape == facts[1].ids.shape == ():
            what = ("folded", int(facts[0].ids), int(facts[1].ids))
        line = _line(eqn)
        made = f"the key{_AT} that {primitive.name} makes" + (f" at {line}" if line else "")
        outs = [self.fresh(var.aval, made, (what, i)) for i, var in enumerate(eqn.outvars)]
        known = [fact.known for fact in facts]
        given = [each for each in known if each is not None]
        aval = eqn.outvars[0].aval if len(outs) == 1 else None
        small = aval is not None and aval.dtype in INTEGERS and aval.size <= _LIMIT and primitive.plain
        if aval is not None and small and facts and len(given) == len(facts):
            operands = [each.astype(atom.aval.dtype) for each, atom in zip(given, eqn.invars, strict=True)]
            return [_Fact(outs[0].ids, np.asarray(primitive.evaluate(*operands)[0]).astype(np.int64))]
        return outs

    def _branches(self, primitive: Cond, eqn: Eqn, facts: Sequence[_Fact]) -> list[_Fact]:
        """One of them runs: what any of them uses is used afterwards."""
        index, *operands = facts
        if index.known is not None:
            branch = min(max(int(index.known), 0), len(primitive.branches) - 1)
            return self.run(primitive.branches[branch], operands)
        before, after = self.used, dict(self.used)
        results = []
        for jaxpr in primitive.branches:
            self.used = dict(before)
            results.append(self.run(jaxpr, operands))
            after = {**self.used, **after}
        self.used = after
        return [self._joined(eqn, i, outs) for i, outs in enumerate(zip(*results, strict=True))]

    def _joined(self, eqn: Eqn, i: int, outs: Sequence[_Fact]) -> _Fact:
        """What is the same in each case, or something else."""
        line = _line(eqn)
        made = f"the key that {eqn.primitive.name} gives" + (f" at {line}" if line else "")
        same = len({out.name for out in outs}) == 1
        return _Fact(outs[0].ids) if same else self.fresh(eqn.outvars[i].aval, made)

    def _rounds(self) -> int:
        """How often a loop is gone through: twice, unless so many are around it that this takes its time."""
        return 2 if self._loops < _DEEP else 1

    def _within_loop(self, jaxpr: Jaxpr, facts: Sequence[_Fact]) -> list[_Fact]:
        self._loops += 1
        outs = self.run(jaxpr, facts)
        self._loops -= 1
        return outs

    def _scan(self, primitive: Scan, eqn: Eqn, facts: Sequence[_Fact]) -> list[_Fact]:
        n, m = primitive.num_consts, primitive.num_consts + primitive.num_carry
        consts, carry, arrays = facts[:n], list(facts[n:m]), facts[m:]
        line, outs = _line(eqn), []
        for step in range(min(primitive.length, self._rounds())):
            at = primitive.length - 1 - step if primitive.reverse else step
            rows = [
                _Fact(np.asarray(fact.ids[at])) if fact.ids.ndim else self.fresh(var.aval, f"the key of scan at {line}")
                for fact, var in zip(arrays, primitive.jaxpr.invars[m:], strict=True)
            ]
            outs = self._within_loop(primitive.jaxpr, [*consts, *carry, *rows])
            carry = outs[: m - n]
            for fact, row in zip(arrays, rows, strict=True):
                if step == 1 and fact.ids.ndim:  # the others are used as this one is
                    self._used_alike(fact.ids, row.ids)
        # After one more step, or none, keys that are handed on are others; those that stay the same are the same.
        begun = facts[n:m]
        ended = [
            self._joined(eqn, i, [old, new] if primitive.length > 1 else [new])
            for i, (old, new) in enumerate(zip(begun, carry, strict=True))
        ]
        return [*ended, *(self.fresh(var.aval, f"the keys of scan at {line}") for var in eqn.outvars[m - n :])]

    def _used_alike(self, ids: _Ids, row: _Ids) -> None:
        for number, rest in zip(row.ravel().tolist(), np.moveaxis(ids, 0, -1).reshape(row.size, -1), strict=True):
            if number in self.used:
                for other in rest.tolist():
                    self.used.setdefault(other, self.used[number])

    def _while(self, primitive: While, eqn: Eqn, facts: Sequence[_Fact]) -> list[_Fact]:
        n = primitive.cond_nconsts
        m = n + primitive.body_nconsts
        tested, consts, carry = facts[:n], facts[n:m], list(facts[m:])
        for _ in range(self._rounds()):
            # What a loop counts with is another number in each step.
            carry = [_Fact(fact.ids) for fact in carry]
            self._within_loop(primitive.cond_jaxpr, [*tested, *carry])
            carry = self._within_loop(primitive.body_jaxpr, [*consts, *carry])
        return [self._joined(eqn, i, pair) for i, pair in enumerate(zip(facts[m:], carry, strict=True))]


def _uses_keys_within(primitive: Primitive) -> bool:
    return any(map(_uses_keys, subjaxprs(primitive)))


def _followed(aval: ShapedArray) -> bool:
    """Whether its elements are followed one by one: small arrays of keys, or of what may be their words."""
    return (aval.dtype in KEYS or aval.dtype == UINT32) and math.prod(aval.shape) <= _LIMIT


def _line(eqn: Eqn) -> str:
    return "" if eqn.source is None else str(eqn.source)
