"""What takes rows out of stacks and puts them into stacks: equations that are applied where their results are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from attrs import field, frozen

from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.shapes import inserted
from tinyjax.primitives.shaping import Reshape, Squeeze
from tinyjax.primitives.slicing import Concatenate, Slice
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum

#: Numbers of results above this are those of equations that are applied where they are read.
_FAR: Final = 1 << 20
#: What joins arrays.
JOINING: Final = frozenset({Concatenate, Stack})
#: What may only give another shape to the elements of its operand.
RESHAPING: Final = frozenset({BroadcastInDim, Reshape, Squeeze})
#: What may take rows, or drop or add an axis of size 1.
_OF_ROWS: Final = RESHAPING | {Slice, ReduceSum, Unstack}


@final
@frozen
class Lazy:
    """Equations of one operand that have no place of their own, by what they bind, and by position.

    `rows`: those results which are rows of the leading axis of something, and which ones.
    """

    eqns: Mapping[int, Eqn]
    positions: frozenset[int]
    rows: Mapping[int, tuple[Var, int]]
    #: By the identity of equations, which are kept for it.
    _roots: dict[int, tuple[Eqn, Sequence[int]]] = field(init=False, factory=dict, eq=False, repr=False)

    def root(self, var: Var) -> Var:
        """What a variable is made of."""
        eqn = self.eqns.get(var.index)
        while eqn is not None:
            operand = eqn.invars[0]
            assert isinstance(operand, Var)
            var = operand
            eqn = self.eqns.get(var.index)
        return var

    def roots(self, eqns: Iterable[Eqn]) -> list[Sequence[int]]:
        """The variables that the operands of these equations are made of."""
        eqns_of, known = self.eqns, self._roots
        if not eqns_of:
            return [[atom.index for atom in eqn.invars if type(atom) is Var] for eqn in eqns]
        found: list[Sequence[int]] = []
        for eqn in eqns:
            before = known.get(id(eqn))
            if before is None:
                before = known[id(eqn)] = (
                    eqn,
                    [
                        self.root(atom).index if atom.index in eqns_of else atom.index
                        for atom in eqn.invars
                        if type(atom) is Var
                    ],
                )
            found.append(before[1])
        return found

    def joined(self, eqn: Eqn) -> list[tuple[Atom, bool]] | None:
        """What an equation stacks, if that is what it does; and whether that has a leading axis of size 1 already."""
        if type(eqn.primitive) is Stack and eqn.primitive.axis == 0:
            return [(atom, False) for atom in eqn.invars]
        if not _joins(eqn) or len(eqn.invars) < 2:
            return None
        found: list[tuple[Atom, bool]] = []
        for atom in eqn.invars:
            part = self.eqns.get(atom.index) if isinstance(atom, Var) else None
            if part is not None and expands(part):
                found.append((part.invars[0], False))
            elif atom.aval.shape[0] == 1:
                found.append((atom, True))
            else:
                return None
        return found

    def homes(self, jaxpr: Jaxpr, eqns: Sequence[Eqn]) -> dict[int, tuple[int, int]]:
        """For each variable, which of these equations computes it, or what it is made of, and a number that tells apart
        its results, and what is made of them in different ways."""
        found = {var.index: (-1, 0) for var in jaxpr.invars}
        for i, eqn in enumerate(eqns):
            for o, out in enumerate(eqn.outvars):
                found[out.index] = i, o
        codes: dict[tuple[int, Primitive, int], int] = {}
        for index, eqn in self.eqns.items():
            operand = eqn.invars[0]
            assert isinstance(operand, Var)
            place, result = found[operand.index]
            row = self.rows[index][1] if len(eqn.outvars) > 1 else 0
            found[index] = place, codes.setdefault((result, eqn.primitive, row), _FAR + len(codes))
        return found


def takes_apart(eqn: Eqn) -> bool:
    """Whether an equation takes all rows of the leading axis of something."""
    return type(eqn.primitive) is Unstack and eqn.primitive.axis == 0


def row_of(eqn: Eqn, axis: int = 0) -> int | None:
    """Which row along an axis an equation takes, as an array with one of size 1; None: it does something else."""
    primitive = eqn.primitive
    if type(primitive) is not Slice or not {1}.issuperset(primitive.strides or ()):
        return None
    shape = eqn.invars[0].aval.shape
    starts, limits = primitive.start_indices, primitive.limit_indices
    if len(shape) <= axis or shape[axis] < 2 or limits[axis] != starts[axis] + 1:
        return None
    others = all(i == axis or (starts[i] == 0 and limits[i] == size) for i, size in enumerate(shape))
    return starts[axis] if others else None


def drops(eqn: Eqn, axis: int = 0) -> bool:
    """Whether it only drops this axis."""
    primitive, shape = eqn.primitive, eqn.invars[0].aval.shape
    if type(primitive) is Squeeze:
        return primitive.dimensions == (axis,)
    if type(primitive) is ReduceSum:  # of one row, as where a stack is differentiated
        return primitive.axes == (axis,) and shape[axis] == 1
    return type(primitive) is Reshape and shape == inserted(primitive.new_sizes, axis, 1)


def expands(eqn: Eqn, axis: int = 0) -> bool:
    """Whether it only adds this axis."""
    primitive, shape = eqn.primitive, eqn.invars[0].aval.shape
    if type(primitive) is BroadcastInDim:
        others = tuple(i for i in range(len(shape) + 1) if i != axis)
        return primitive.shape == inserted(shape, axis, 1) and primitive.broadcast_dimensions == others
    return type(primitive) is Reshape and primitive.new_sizes == inserted(shape, axis, 1)


def reshapes(eqn: Eqn) -> bool:
    """Whether it only gives another shape to the elements of an operand."""
    operand, primitive = eqn.invars[0] if eqn.invars else None, eqn.primitive
    if type(primitive) not in RESHAPING or not isinstance(operand, Var):
        return False
    return operand.aval.size == eqn.outvars[0].aval.size


def readers_of(jaxpr: Jaxpr, made: Iterable[Eqn]) -> dict[int, list[Eqn | None]]:
    """The equations that read each variable which these make; None is the program, which returns it."""
    readers: dict[int, list[Eqn | None]] = {out.index: [] for eqn in made for out in eqn.outvars}
    for eqn in jaxpr.eqns if readers else ():
        for atom in eqn.invars:
            if type(atom) is Var and atom.index in readers:
                readers[atom.index].append(eqn)
    for atom in jaxpr.outvars:
        if isinstance(atom, Var) and atom.index in readers:
            readers[atom.index].append(None)
    return readers


def find_lazy(jaxpr: Jaxpr) -> Lazy:
    """The equations that take rows and nothing else needs, and those which only make rows for stacks."""
    taking: list[tuple[int, Eqn, int]] = []
    making: list[tuple[int, Eqn]] = []
    apart: list[tuple[int, Eqn]] = []
    for i, eqn in enumerate(jaxpr.eqns):
        if type(eqn.primitive) in _OF_ROWS and len(eqn.invars) == 1 and isinstance(eqn.invars[0], Var):
            row = row_of(eqn)
            if row is not None:
                taking.append((i, eqn, row))
            elif drops(eqn) or expands(eqn):
                making.append((i, eqn))
            elif takes_apart(eqn):
                apart.append((i, eqn))
    if not taking and not making and not apart:
        return Lazy({}, frozenset(), {})
    readers = readers_of(jaxpr, [*(eqn for _, eqn, _ in taking), *(eqn for _, eqn in making if expands(eqn))])
    found: dict[int, tuple[int, Eqn]] = {}
    rows: dict[int, tuple[Var, int]] = {}
    for i, eqn, row in taking:
        out = eqn.outvars[0].index
        if all(reader is not None and drops(reader) for reader in readers.get(out, ())):
            found[out] = i, eqn
            base = eqn.invars[0]
            assert isinstance(base, Var)
            rows[out] = base, row
    dropping: dict[int, tuple[Var, int]] = {}
    for i, eqn in apart:
        base = eqn.invars[0]
        assert isinstance(base, Var)
        found.update((out.index, (i, eqn)) for out in eqn.outvars)
        dropping.update((out.index, (base, row)) for row, out in enumerate(eqn.outvars))
    for i, eqn in making:
        operand, out = eqn.invars[0], eqn.outvars[0].index
        assert isinstance(operand, Var)
        if operand.index in rows and drops(eqn):
            dropping[out] = rows[operand.index]
            found[out] = i, eqn
        elif expands(eqn) and all(_joins(reader) for reader in readers.get(out, ())):
            found[out] = i, eqn
    ordered = sorted(found.items(), key=lambda each: each[1][0])
    return Lazy({out: eqn for out, (_, eqn) in ordered}, frozenset(i for i, _ in found.values()), dropping)


def _joins(eqn: Eqn | None) -> bool:
    return eqn is not None and type(eqn.primitive) is Concatenate and eqn.primitive.dimension == 0
