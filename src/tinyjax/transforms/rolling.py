"""One run of equal blocks as a loop: what a block takes from the one before, what differs, and what is shared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias, TypeVar, final
from typing import Literal as Literal_

from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.source import SourceInfo
from tinyjax.primitives.shaping import Iota
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.transforms.cse import MERGING
from tinyjax.transforms.rebuild import without_unread
from tinyjax.transforms.repeats import Run
from tinyjax.transforms.stacks import Item

T = TypeVar("T")


#: Makes the loop for a body that is applied again and again, which is asked of the first primitive in it: given the
#: body, how often, whether the rows are taken from the last to the first, how many constants and how many carries it
#: has. For all primitives it is a `scan`, which is further up.
LOOPING: Final[RuleTable[[Jaxpr, int, bool, int, int], Primitive]] = RuleTable(
    "Looping", name="tinyjax.transforms.LOOPING"
)
#: What costs less to compute in each block than to hand to it.
_CHEAP: Final = (BroadcastInDim, Iota)
#: Of arrays with more rows, a block is given the row that it reads.
_ROWS: Final = 64


@final
@frozen
class Slot:
    """A value within the body: which of its constants, carries or rows, or of what it computes."""

    kind: Literal_["const", "carry", "row", "own"]
    number: int


Ref: TypeAlias = "Slot | Literal"
#: An equation of the block, and which of its results.
Result: TypeAlias = tuple[int, int]


@final
@frozen
class Block:
    """A run, and what it is part of: the equations, by which of them (and which of its results) each variable is
    computed, -1 for none of them, the equations which are applied where their only result is read, and what the values
    from before the run are in the new program."""

    eqns: Sequence[Eqn]
    home: Mapping[int, tuple[int, int]]
    lazy: Mapping[int, Eqn]
    run: Run
    item: Callable[[Atom], Item]

    def operands(self, eqn: int, operand: int) -> list[Atom]:
        """What the blocks have as this operand of this equation."""
        run = self.run
        return [self.eqns[at].invars[operand] for at in range(run.start + eqn, run.stop, run.period)]

    def before(self, atom: Atom) -> int | None:
        """How many blocks before the last one a value is computed; None: in none."""
        place = -1 if isinstance(atom, Literal) else self.home[atom.index][0]
        if place < self.run.start:
            return None
        return self.run.count - 1 - (place - self.run.start) // self.run.period

    def result(self, var: Var) -> Result:
        """Which equation of its block computes a variable, and which of the results it is (or is made of)."""
        place, result = self.home[var.index]
        return (place - self.run.start) % self.run.period, result

    @cached_property
    def last(self) -> Sequence[Eqn]:
        """The equations of the last block."""
        return self.eqns[self.run.stop - self.run.period : self.run.stop]

    @cached_property
    def invariant(self) -> tuple[bool, ...]:
        """Which equations compute the same in each block."""
        found: list[bool] = []
        for j, eqn in enumerate(self.last):
            rule = MERGING.find(type(eqn.primitive))
            found.append(
                (rule is None or rule(eqn.primitive))
                and all(self._is_shared(j, i, found) for i in range(len(eqn.invars)))
            )
        return tuple(found)

    def _is_shared(self, j: int, i: int, known: Sequence[bool]) -> bool:
        atom = self.last[j].invars[i]
        before = self.before(atom)
        if before is None:
            return self.shared(self.operands(j, i))
        return before == 0 and isinstance(atom, Var) and known[self.result(atom)[0]]

    def shared(self, atoms: Sequence[Atom]) -> bool:
        """Whether what the blocks have as an operand is one value, of before the run."""
        if same_atom(atoms):
            return True
        if any(isinstance(atom, Literal) or self.before(atom) is not None for atom in atoms):
            return False
        # What another loop has found to be the same in all of its blocks is one value by now.
        first = self.item(atoms[0])
        return all(self.item(atom) == first for atom in atoms)


def same_atom(atoms: Sequence[Atom]) -> bool:
    """Whether they are all one value."""
    first = atoms[0]
    if isinstance(first, Var):
        return all(isinstance(atom, Var) and atom.index == first.index for atom in atoms)
    return all(atom is first or (isinstance(atom, Literal) and atom == first) for atom in atoms)


def place_among_results(eqn: Eqn, result: Atom) -> int:
    """Which of an equation's results a value is: variables are numbered as they are bound."""
    assert isinstance(result, Var)
    return result.index - eqn.outvars[0].index


def _take_alike(one: Eqn, other: Eqn) -> bool:
    return one.primitive == other.primitive and one.invars[0].aval == other.invars[0].aval


def atom_key(atom: Atom) -> int | Literal:
    return atom.index if isinstance(atom, Var) else atom


@final
class Body:
    """What one block computes, and what it takes from the one before, or as it is the next row of, or as all do."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._slots: dict[Hashable, Slot] = {}
        #: What feeds the slots: shared values, first values of carries (None: zeros), rows.
        self.consts: list[Var | Result] = []
        self.inits: list[Atom | None] = []
        self.rows: list[list[Atom]] = []
        self.types: dict[Slot, ShapedArray] = {}
        #: What each carry is after a block.
        self._carried: list[Var | Slot] = []
        self._found: dict[Hashable, Ref] = {}
        self._applied: dict[tuple[Primitive, Ref], list[Slot]] = {}
        self._records: list[tuple[Primitive, tuple[Ref, ...], tuple[Var, ...], SourceInfo | None]] = []
        self._count = 0
        for j, eqn in enumerate(block.last):
            if not block.invariant[j]:
                self._compute(j, eqn)

    # What a block reads.

    def _compute(self, j: int, eqn: Eqn) -> None:
        ins = tuple([self._operand(j, i, atom) for i, atom in enumerate(eqn.invars)])
        # The line of the first block is the one to show: what follows it are repetitions.
        source = self._block.eqns[self._block.run.start + j].source
        for o, slot in enumerate(self._record(eqn.primitive, ins, eqn.outvars, source)):
            self._found[j, o] = slot

    def _record(
        self, primitive: Primitive, ins: tuple[Ref, ...], outs: tuple[Var, ...], source: SourceInfo | None
    ) -> list[Slot]:
        self._records.append((primitive, ins, outs, source))
        slots = [Slot("own", self._count + i) for i in range(len(outs))]
        self._count += len(outs)
        return slots

    def _apply(self, lazy: Eqn, operand: Ref, place: int) -> Slot:
        """The result at this place of an equation that is applied where its results are read: all are made at once."""
        key = lazy.primitive, operand
        slots = self._applied.get(key)
        if slots is None:
            slots = self._applied[key] = self._record(lazy.primitive, (operand,), lazy.outvars, lazy.source)
        return slots[place]

    def _operand(self, j: int, i: int, atom: Atom) -> Ref:
        before = self._block.before(atom)
        if before is not None and isinstance(atom, Var):
            if before == 0:
                return self.own(atom)
            return self._carry(atom, self._block.operands(j, i)[:before])
        atoms = self._block.operands(j, i)
        if self._block.shared(atoms):
            return atom if isinstance(atom, Literal) else self._slot("const", atom.index, atom.aval, atom, self.consts)
        return self._taken(atoms) or self._from_before(atoms)

    def _from_before(self, atoms: Sequence[Atom]) -> Slot:
        """Values of before the run, one for each block."""
        atom = atoms[0]
        return self._slot("row", tuple(map(atom_key, atoms)), atom.aval, list(atoms), self.rows)

    def _taken(self, atoms: Sequence[Atom]) -> Slot | None:
        """What each block takes of an array of its own in the same way, a row say: it is given the array."""
        taking: list[Eqn] = []
        places: set[int] = set()
        for atom in atoms:
            eqn = self._block.lazy.get(atom.index) if isinstance(atom, Var) else None
            if eqn is None or (taking and not _take_alike(eqn, taking[0])):
                return None
            taking.append(eqn)
            places.add(place_among_results(eqn, atom))
        if len(places) > 1:
            return None
        inner = [eqn.invars[0] for eqn in taking]
        found = self._taken(inner)
        if found is None:
            of_its_own = all(isinstance(atom, Var) and atom.index not in self._block.lazy for atom in inner)
            if not of_its_own or len(set(inner)) < len(inner) or inner[0].aval.shape[:1] > (_ROWS,):
                return None
            found = self._from_before(inner)
        return self._apply(taking[0], found, places.pop())

    def _slot(
        self, kind: Literal_["const", "row"], key: Hashable, aval: ShapedArray, value: T, values: list[T]
    ) -> Slot:
        found = self._slots.get((kind, key))
        if found is None:
            found = self._slots[kind, key] = Slot(kind, len(values))
            self.types[found] = aval
            values.append(value)
        return found

    def _carry(self, var: Var, firsts: Sequence[Atom]) -> Slot:
        """A value of so many blocks before, which for the first blocks is one of these."""
        after: Var | Slot = var
        slot: Slot | None = None
        for first in reversed(firsts):
            key = "carry", self._block.result(var) if slot is None else slot, atom_key(first)
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = self._new_carry(var.aval, first, after)
            after = slot
        assert slot is not None
        return slot

    def _new_carry(self, aval: ShapedArray, init: Atom | None, after: Var | Slot) -> Slot:
        slot = Slot("carry", len(self.inits))
        self.types[slot] = aval
        self.inits.append(init)
        self._carried.append(after)
        return slot

    def own(self, var: Var) -> Ref:
        """A value that the block itself computes, given by the variable of any of the blocks."""
        result = self._block.result(var)
        found = self._found.get(result)
        if found is not None:
            return found
        lazy = self._block.lazy.get(var.index)
        if lazy is not None:
            operand = lazy.invars[0]
            found = self._apply(
                lazy, self.own(operand) if isinstance(operand, Var) else operand, place_among_results(lazy, var)
            )
        else:
            j, o = result
            eqn = self._block.last[j]
            if isinstance(eqn.primitive, _CHEAP):
                self._compute(j, eqn)
                return self._found[result]
            found = self._slot("const", result, eqn.outvars[o].aval, result, self.consts)
        self._found[result] = found
        return found

    # What a block hands on.

    def carried(self, var: Var, before: int = 0) -> Slot | None:
        """The carry that, after a block, is this value of so many blocks before it, if there is one."""
        result = self._block.result(var)
        found: dict[Slot, int] = {}
        for number, after in enumerate(self._carried):
            slot = Slot("carry", number)
            if isinstance(after, Slot):
                if after in found:
                    found[slot] = found[after] + 1
            elif self._block.result(after) == result:
                found[slot] = 0
            if found.get(slot) == before:
                return slot
        return None

    def hand_out(self, var: Var) -> Slot:
        """A carry that nothing reads but who wants the last one's value."""
        return self._new_carry(var.aval, None, var)

    def program(self, ys: Sequence[Ref]) -> Jaxpr:
        """The program of a block: from constants, carries and rows to carries, and what is stacked."""
        after = [self.own(each) if isinstance(each, Var) else each for each in self._carried]
        first = {"const": 0, "carry": len(self.consts)}
        first["row"] = first["carry"] + len(self.inits)
        first["own"] = first["row"] + len(self.rows)
        invars: list[Var | None] = [None] * first["own"]
        for slot, aval in self.types.items():
            at = first[slot.kind] + slot.number
            invars[at] = Var(at, aval)
        bound: list[Var] = [var for var in invars if var is not None]
        eqns: list[Eqn] = []

        def read(ref: Ref) -> Atom:
            return ref if isinstance(ref, Literal) else bound[first[ref.kind] + ref.number]

        n = len(bound)
        for primitive, ins, outs, source in self._records:
            new = tuple([Var(i, out.aval) for i, out in enumerate(outs, len(bound))])
            eqns.append(Eqn(primitive, tuple(map(read, ins)), new, source))
            bound += new
        outvars = tuple(map(read, [*after, *ys]))
        return without_unread(well_typed(Jaxpr(tuple(bound[:n]), tuple(eqns), outvars)))
