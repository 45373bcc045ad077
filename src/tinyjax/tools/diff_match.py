"""Which equations of two programs correspond.

An equation is known by three things: what it computes from the inputs (the primitive, and what its operands compute),
what becomes of its outputs (the primitives that read them, what becomes of theirs, and so on to the program's outputs),
and what it looks like by itself (primitive and types). After one edit, the equations that don't depend on it still
compute the same, and those that do are still read in the same way, so all are recognised. What several edits leave
over is matched by what it looks like, ever less strictly. Equal keys become equal small integers, so nothing collides.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeAlias, final

from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.outline import holds_programs
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.traverse import record_values
from tinyjax.tools.diff_align import Pairs, align, stretches

#: Pairs of positions in two programs; None where there is none.
Slots: TypeAlias = tuple[tuple[int | None, int | None], ...]

#: How far a better counterpart of an equation is looked for among its neighbours.
_REACH: Final = 16
#: An equation has fewer than two to the power of this operands.
_OPERANDS: Final = 32


@final
@frozen
class Matching:
    """What corresponds: inputs, equations and outputs. Equations that correspond have equally many outputs."""

    inputs: Slots
    equations: Slots
    outputs: Slots

    def correspondence(self, x: Jaxpr, y: Jaxpr) -> dict[int, int]:
        """For the variables of y, by index, those of x that correspond."""
        return _correspondence(
            x,
            y,
            [(i, j) for i, j in self.inputs if i is not None and j is not None],
            [(i, j) for i, j in self.equations if i is not None and j is not None],
        )


def match_programs(x: Jaxpr, y: Jaxpr) -> Matching:
    """Aligns two programs."""
    if x is y or x == y:
        return Matching(_straight(len(x.invars)), _straight(len(x.eqns)), _straight(len(x.outvars)))
    numbering = _Numbering()
    outs_aligned = len(x.outvars) == len(y.outvars)
    left, right = (_Backward(jaxpr, numbering, outs_aligned) for jaxpr in (x, y))
    inputs = _match_inputs(x, y, left, right)
    fed = [(i, j) for i, j in inputs if i is not None and j is not None]
    computed = (
        _forward(x, numbering, {i: number for number, (i, _) in enumerate(fed)}, "x"),
        _forward(y, numbering, {j: number for number, (_, j) in enumerate(fed)}, "y"),
    )
    pairs = _match_equations(x, y, computed, (left.equations, right.equations))
    pairs = _settle(x, y, fed, pairs)
    corresponding = _correspondence(x, y, fed, pairs)
    return Matching(inputs, _slots(pairs, len(x.eqns), len(y.eqns)), _match_outputs(x, y, corresponding))


@final
class _Numbering:
    """Small integers for keys: equal ones for equal keys."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._shared: dict[int, int] = {}

    def __call__(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def shared(self, part: Primitive | ShapedArray | Literal) -> int:
        """The number of what many equations share. The programs keep it alive, so its id stays its own."""
        found = self._shared.get(id(part))
        if found is None:
            found = self._shared[id(part)] = self(part)
        return found


@final
class _Backward:
    """What becomes of each equation's outputs, and of each input, as numbers."""

    def __init__(self, jaxpr: Jaxpr, numbering: _Numbering, by_position: bool) -> None:
        shared = numbering.shared
        uses: dict[
            int, list[int]
        ] = {}  # by the number of the equation's key and the position, or of an output: below 0
        for position, atom in enumerate(jaxpr.outvars):
            if isinstance(atom, Var):
                uses.setdefault(atom.index, []).append(~position if by_position else -1)
        self.equations = [0] * len(jaxpr.eqns)
        for number in range(len(jaxpr.eqns) - 1, -1, -1):
            eqn = jaxpr.eqns[number]
            fates = tuple([(shared(var.aval), *sorted(uses.get(var.index, ()))) for var in eqn.outvars])
            key = self.equations[number] = numbering((shared(eqn.primitive), fates))
            for position, atom in enumerate(eqn.invars):
                if isinstance(atom, Var):
                    uses.setdefault(atom.index, []).append((key << _OPERANDS) + position)
        self.inputs = [numbering((shared(var.aval), *sorted(uses.get(var.index, ())))) for var in jaxpr.invars]


def _forward(jaxpr: Jaxpr, numbering: _Numbering, inputs: dict[int, int], side: str) -> list[int]:
    """What each equation computes. `inputs` numbers those that both programs have, by position."""
    shared = numbering.shared
    values: dict[int, int] = {}
    for position, var in enumerate(jaxpr.invars):
        number = inputs.get(position)
        values[var.index] = numbering(("in", side, position) if number is None else ("in", number, var.aval))
    found: list[int] = []
    for eqn in jaxpr.eqns:
        operands = tuple([values.get(a.index, -1) if isinstance(a, Var) else shared(a) for a in eqn.invars])
        types = tuple([shared(var.aval) for var in eqn.outvars])
        key = numbering((shared(eqn.primitive), operands, types))
        found.append(key)
        for position, var in enumerate(eqn.outvars):
            values[var.index] = key if len(eqn.outvars) == 1 else numbering((key, position))
    return found


def _match_inputs(x: Jaxpr, y: Jaxpr, left: _Backward, right: _Backward) -> Slots:
    """By position if there are equally many; otherwise by what becomes of them, and then by type."""
    n, m = len(x.invars), len(y.invars)
    if n == m:
        return _straight(n)
    pairs = _refine([], left.inputs, right.inputs)
    pairs = _refine(pairs, x.in_avals, y.in_avals)
    return _slots(pairs, n, m)


def _match_outputs(x: Jaxpr, y: Jaxpr, corresponding: dict[int, int]) -> Slots:
    n, m = len(x.outvars), len(y.outvars)
    if n == m:
        return _straight(n)
    left = [atom.index if isinstance(atom, Var) else atom for atom in x.outvars]
    right = [corresponding.get(atom.index) if isinstance(atom, Var) else atom for atom in y.outvars]
    return _slots(align(left, right), n, m)


def _match_equations(
    x: Jaxpr,
    y: Jaxpr,
    computed: tuple[list[int], list[int]],
    read: tuple[list[int], list[int]],
) -> Pairs:
    """Ever less strict keys, each between the pairs that those before have found."""
    pairs = align(list(zip(computed[0], read[0], strict=True)), list(zip(computed[1], read[1], strict=True)))
    for left, right in (computed, read):
        pairs = _refine(pairs, left, right)
    for key in (_look, _label, _name):
        pairs = _refine_by(pairs, x, y, key)
    for i, j, k, m in stretches(pairs, len(x.eqns), len(y.eqns)):
        if j - i == m - k == 1 and len(x.eqns[i].outvars) == len(y.eqns[k].outvars):
            pairs.append((i, k))
    return sorted(pairs)


def _refine(pairs: Pairs, left: Sequence[Hashable], right: Sequence[Hashable]) -> Pairs:
    """The pairs, and more between them by these keys."""
    found = list(pairs)
    for i, j, k, m in stretches(pairs, len(left), len(right)):
        found += [(i + v, k + w) for v, w in align(left[i:j], right[k:m])]
    return sorted(found)


def _refine_by(pairs: Pairs, x: Jaxpr, y: Jaxpr, key: Callable[[Eqn], Hashable]) -> Pairs:
    """The same, with keys that are made where they are needed."""
    found = list(pairs)
    for i, j, k, m in stretches(pairs, len(x.eqns), len(y.eqns)):
        left, right = ([key(eqn) for eqn in eqns] for eqns in (x.eqns[i:j], y.eqns[k:m]))
        found += [(i + v, k + w) for v, w in align(left, right)]
    return sorted(found)


def _look(eqn: Eqn) -> Hashable:
    """Primitive, literals and types."""
    return (
        eqn.primitive,
        tuple([a.aval if isinstance(a, Var) else a for a in eqn.invars]),
        tuple([var.aval for var in eqn.outvars]),
    )


def _label(eqn: Eqn) -> Hashable:
    """The primitive without the programs that it holds."""
    plain = tuple([(name, value) for name, value in record_values(eqn.primitive) if not holds_programs(value)])
    return eqn.primitive.name, plain, len(eqn.outvars)


def _name(eqn: Eqn) -> Hashable:
    """The name of the primitive."""
    return eqn.primitive.name, len(eqn.outvars)


def _settle(x: Jaxpr, y: Jaxpr, inputs: Pairs, pairs: Pairs) -> Pairs:
    """The pairs, but where the operands don't correspond, with a neighbour whose operands do, if there is one that has
    no counterpart: so that of equal equations the right one is taken."""
    corresponding = _correspondence(x, y, inputs, [])
    found: Pairs = []
    i = j = -1
    for number, (v, w) in enumerate(pairs):
        low = (i + 1, j + 1)
        i, j = v, w
        if not _same_use(x.eqns[v], y.eqns[w], corresponding):
            end = pairs[number + 1] if number + 1 < len(pairs) else (len(x.eqns), len(y.eqns))
            high = (min(end[0], v + _REACH), min(end[1], w + _REACH))
            others = (
                k for k in range(max(low[1], w - _REACH), high[1]) if _same_use(x.eqns[v], y.eqns[k], corresponding)
            )
            j = next(others, w)
            if j == w:
                others = (
                    k for k in range(max(low[0], v - _REACH), high[0]) if _same_use(x.eqns[k], y.eqns[w], corresponding)
                )
                i = next(others, v)
        found.append((i, j))
        for old, new in zip(x.eqns[i].outvars, y.eqns[j].outvars, strict=True):
            corresponding[new.index] = old.index
    return found


def _same_use(e: Eqn, f: Eqn, corresponding: dict[int, int]) -> bool:
    """Whether two equations apply the same primitive to operands that correspond."""
    if len(e.invars) != len(f.invars) or len(e.outvars) != len(f.outvars):
        return False
    for a, b in zip(e.invars, f.invars, strict=True):
        if not same_atom(a, b, corresponding):
            return False
    return e.primitive is f.primitive or e.primitive == f.primitive


def same_atom(old: Atom, new: Atom, corresponding: dict[int, int]) -> bool:
    """Whether an atom of the second program stands for the one of the first, where variables correspond so."""
    if isinstance(old, Var):
        return isinstance(new, Var) and corresponding.get(new.index) == old.index
    return old is new or old == new


def _correspondence(x: Jaxpr, y: Jaxpr, inputs: Pairs, equations: Pairs) -> dict[int, int]:
    found = {y.invars[j].index: x.invars[i].index for i, j in inputs}
    for i, j in equations:
        for old, new in zip(x.eqns[i].outvars, y.eqns[j].outvars, strict=True):
            found[new.index] = old.index
    return found


def _straight(length: int) -> Slots:
    return tuple([(i, i) for i in range(length)])


def _slots(pairs: Pairs, n: int, m: int) -> Slots:
    """All positions in two sequences of lengths n and m: in pairs, or alone; of those between two pairs, the first
    sequence's come first."""
    found: list[tuple[int | None, int | None]] = []
    i = j = 0
    for v, w in [*pairs, (n, m)]:
        found += [(k, None) for k in range(i, v)]
        found += [(None, k) for k in range(j, w)]
        if v < n:
            found.append((v, w))
        i, j = v + 1, w + 1
    return tuple(found)
