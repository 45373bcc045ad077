"""Loops that compute again what follows from less, where one loop has kept it in stacks for another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, final

from attrs import evolve, frozen

from tinyjax.contexts.rebuilding import QUICK
from tinyjax.control.scan import Scan
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.primitives.arithmetic import Div
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.exponential import Rsqrt, Sqrt
from tinyjax.primitives.shaping import Iota, Reshape, Squeeze, expand_dims, squeeze
from tinyjax.primitives.slicing import Slice, slice_in_dim
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.transforms.cse import cse
from tinyjax.transforms.minimal_cut import minimal_cut
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, read, without_unread

#: What XLA computes along with what reads it. (Exponentials and the like it computes once.)
_CHEAP: Final = QUICK | {BroadcastInDim, Constant, ConvertElementType, Div, Iota, Reshape, Rsqrt, Sqrt, Squeeze}
#: Of how many rows it is computed outside of loops, at most: the first and the last, say, which are not in the others.
_ROWS: Final = 4


def remade(jaxpr: Jaxpr) -> Jaxpr:
    """The program whose loops keep as few bytes for later ones as they can, which compute the rest of it again.

        { lambda ; a:f64[9,3]. let b:f64[9,3] c:f64[9,3] = scan[… jaxpr={ lambda ; a:f64[3]. let b:f64[3] = exp a;
            c:f64[3] = mul b 2.0; d:f64[3] = mul b b in (c, d) }] a; d:f64[9,3] = scan[… jaxpr={ lambda ; a:f64[3]
            b:f64[3]. let c:f64[3] = add a b in (c,) }] b c in (d,) }
        { lambda ; a:f64[9,3]. let b:f64[9,3] = scan[… jaxpr={ lambda ; a:f64[3]. let b:f64[3] = exp a in (b,) }] a;
            c:f64[9,3] = scan[… jaxpr={ lambda ; a:f64[3]. let b:f64[3] = mul a 2.0; c:f64[3] = mul a a;
            d:f64[3] = add b c in (d,) }] b in (c,) }

    Without a loop, XLA does so: it makes what is quickly computed part of what reads it.
    """
    return bottom_up(jaxpr, _remade)


def _remade(jaxpr: Jaxpr) -> Jaxpr:
    first = -1
    while True:
        loops = [at for at, eqn in enumerate(jaxpr.eqns) if type(eqn.primitive) is Scan]
        plans = (_plan(jaxpr, at) for at in loops[:-1] if at > first)  # the last one keeps nothing for later ones
        plan = next((plan for plan in plans if plan is not None), None)
        if plan is None:
            return jaxpr
        jaxpr, first = _Applied(jaxpr, plan).result, plan.first


@final
@frozen
class _Given:
    """Where a value of a loop's body is outside: the constant, or the stack of which it is a row."""

    atom: Atom
    constant: bool


@final
@frozen
class _Plan:
    """What the loop at `first` keeps for later ones, `takers`, which go through its rows from an offset on. `gone` are
    its stacks that only those read, or somebody row by row, and the values of its body that are their rows; `instead`
    are the takers' operands that are parts of these stacks, and the same values. `kept` take their place, from which
    those `made` follow; `there` says where the kept ones are that are no new stacks."""

    first: int
    body: Jaxpr
    takers: Mapping[int, int]
    gone: Mapping[int, Atom]
    instead: Mapping[int, Atom]
    kept: Sequence[Var]
    made: frozenset[int]
    there: Mapping[int, _Given]


@final
class _Applied:
    """A program in which later loops compute what the first one doesn't keep."""

    def __init__(self, jaxpr: Jaxpr, plan: _Plan) -> None:
        self._plan = plan
        self._ctx = Rebuilding(jaxpr.invars, jaxpr.names)
        self._env: dict[int, Atom] = dict(enumerate(jaxpr.invars))
        #: Where what is kept is in the new program; parts of stacks there; and values of single positions.
        self._given: dict[int, _Given] = {}
        self._parts: dict[tuple[Atom, int, int], Atom] = {}
        self._rows: dict[int, dict[int, Atom]] = {}
        for at, eqn in enumerate(jaxpr.eqns):
            self._ctx.cursor.source = eqn.source
            operand = eqn.invars[0] if eqn.invars else None
            gone = plan.gone.get(operand.index) if isinstance(operand, Var) else None
            rows = _rows_of(eqn)
            if at == plan.first:
                self._keep(eqn)
            elif at in plan.takers:
                self._make(eqn, plan.takers[at])
            elif eqn.outvars and eqn.outvars[0].index in plan.instead:
                continue
            elif gone is None or rows is None:
                outs = self._ctx.again(eqn, read(self._env, eqn.invars))
                if rows is not None:
                    self._parts.setdefault((read(self._env, eqn.invars)[0], *rows), outs[0])
                _bind(self._env, eqn, outs)
            else:
                row = read(self._values(rows[0]), (gone,))[0]
                self._env[eqn.outvars[0].index] = expand_dims(self._ctx, row, (0,))
        self.result: Jaxpr = without_unread(self._ctx.finish(read(self._env, jaxpr.outvars)))

    def _keep(self, eqn: Eqn) -> None:
        """The first loop, which returns after its other results what is kept."""
        plan, scan = self._plan, _scan(eqn)
        new = [var for var in plan.kept if var.index not in plan.there]
        stay = [j for j, out in enumerate(eqn.outvars) if out.index not in plan.gone]
        outs = (*(plan.body.outvars[j] for j in stay), *new)
        body = without_unread(Jaxpr(plan.body.invars, plan.body.eqns, outs))
        avals = [*(eqn.outvars[j].aval for j in stay), *(scan.stacked(var.aval) for var in new)]
        found = self._ctx.emit(evolve(scan, jaxpr=body), read(self._env, eqn.invars), avals, eqn.source)
        self._env.update(zip([eqn.outvars[j].index for j in stay], found[: len(stay)], strict=True))
        self._given.update(
            {index: evolve(where, atom=read(self._env, (where.atom,))[0]) for index, where in plan.there.items()}
        )
        for var, stack in zip(new, found[len(stay) :], strict=True):
            self._given[var.index] = _Given(stack, False)

    def _part(self, stack: Atom, first: int, stop: int) -> Atom:
        """Some rows of a stack, taken once."""
        if (first, stop) == (0, stack.aval.shape[0]):
            return stack
        if (stack, first, stop) not in self._parts:
            self._parts[stack, first, stop] = slice_in_dim(self._ctx, stack, first, stop, 1, 0)
        return self._parts[stack, first, stop]

    def _values(self, at: int) -> Mapping[int, Atom]:
        """The values of the first loop's body at one position, in the program around it."""
        if at not in self._rows:
            values = self._rows[at] = {}
            for index, where in self._given.items():
                row = where.atom if where.constant else squeeze(self._ctx, self._part(where.atom, at, at + 1), (0,))
                values[index] = row
            self._follow(self._ctx, values)
        return self._rows[at]

    def _follow(self, ctx: Rebuilding, values: dict[int, Atom]) -> None:
        """Adds what follows from what is kept."""
        for eqn in self._plan.body.eqns:
            if eqn.outvars and eqn.outvars[0].index in self._plan.made:
                _bind(values, eqn, ctx.again(eqn, read(values, eqn.invars)))

    def _make(self, eqn: Eqn, offset: int) -> None:
        """A later loop, which is given what is kept, and begins with what follows from it."""
        plan, scan = self._plan, _scan(eqn)
        (consts, carries, xs), types = scan.operands(eqn.invars), scan.operands(scan.jaxpr.invars)
        now: dict[Atom, Var] = {}  # constants of the new loop, and what the body calls them
        rows: dict[Atom, Var] = {}
        for atom, var in zip(consts, types[0], strict=True):
            now.setdefault(read(self._env, (atom,))[0], var)
        for atom, var in zip(xs, types[2], strict=True):
            if not (isinstance(atom, Var) and atom.index in plan.instead):
                rows.setdefault(read(self._env, (atom,))[0], var)
        places: dict[int, Atom] = {}
        for var in plan.kept:
            where = self._given[var.index]
            places[var.index] = atom = (
                where.atom if where.constant else self._part(where.atom, offset, offset + scan.length)
            )
            (now if where.constant else rows).setdefault(atom, var)
        avals = [var.aval for group in (now.values(), types[1], rows.values()) for var in group]
        inner = Rebuilding([Var(i, aval) for i, aval in enumerate(avals)])
        inner.cursor.source = eqn.source
        middle, end = len(now), len(now) + len(carries)
        constant: dict[Atom, Atom] = dict(zip(now, inner.invars, strict=False))
        row: dict[Atom, Atom] = dict(zip(rows, inner.invars[end:], strict=True))
        values: dict[int, Atom] = {
            var.index: (constant if self._given[var.index].constant else row)[places[var.index]] for var in plan.kept
        }
        self._follow(inner, values)
        env: dict[int, Atom] = dict(zip([var.index for var in types[1]], inner.invars[middle:end], strict=True))
        for atom, var in zip(consts, types[0], strict=True):
            env[var.index] = constant[read(self._env, (atom,))[0]]
        for atom, var in zip(xs, types[2], strict=True):
            gone = plan.instead.get(atom.index) if isinstance(atom, Var) else None
            env[var.index] = row[read(self._env, (atom,))[0]] if gone is None else read(values, (gone,))[0]
        for each in scan.jaxpr.eqns:
            _bind(env, each, inner.again(each, read(env, each.invars)))
        body = without_unread(inner.finish(read(env, scan.jaxpr.outvars)))
        loop = evolve(scan, jaxpr=body, num_consts=middle)
        operands = (*now, *read(self._env, carries), *rows)
        _bind(self._env, eqn, self._ctx.emit(loop, operands, [out.aval for out in eqn.outvars], eqn.source))


def _plan(jaxpr: Jaxpr, first: int) -> _Plan | None:
    """What the loop at this place is to keep for later ones, if that is less than it does."""
    maker = jaxpr.eqns[first]
    one = _scan(maker)
    if must_stay(one.effects):
        return None
    body = cse(one.jaxpr)
    stacks = list(zip(one.results(maker.outvars)[1], one.results(body.outvars)[1], strict=True))
    uses = _Uses(jaxpr, one.length)
    gone = {stack.index: y for stack, y in stacks if uses.note(stack)}
    wanted = {y.index: y for y in _vars(gone.values())}
    if not uses.takers or len(wanted) < 2:
        return None
    ins, outside = one.operands(body.invars), one.operands(maker.invars)
    there = {var.index: _Given(atom, True) for var, atom in zip(ins[0], outside[0], strict=True)}
    there.update({var.index: _Given(atom, False) for var, atom in zip(ins[2], outside[2], strict=True)})
    for stack, y in stacks:
        if isinstance(y, Var) and stack.index not in gone:
            there.setdefault(y.index, _Given(stack, False))
    cheap = {eqn.outvars[0].index: eqn for eqn in body.eqns if type(eqn.primitive) in _CHEAP}
    costs: dict[int, int] = {}
    operands: dict[int, list[int] | None] = {}
    variables: dict[int, Var] = {}
    todo = list(wanted.values())
    while todo:
        var = todo.pop()
        if var.index in costs:
            continue
        variables[var.index] = var
        where = there.get(var.index)
        found = list(_vars(cheap[var.index].invars)) if where is None and var.index in cheap else None
        operands[var.index] = None if found is None else [each.index for each in found]
        costs[var.index] = 2 * var.aval.nbytes + 2 if where is None else uses.cost(where)
        todo += found or []
    cut = minimal_cut(costs, operands, wanted)
    if sum(costs[index] for index in cut) >= sum(costs[index] for index in wanted):
        return None
    made: set[int] = set()
    left = list(wanted)
    while left:
        index = left.pop()
        if index not in cut and index not in made:
            made.add(index)
            left += operands[index] or []
    kept = tuple([variables[index] for index in sorted(cut)])
    found_there = {index: there[index] for index in sorted(cut) if index in there}
    instead = {index: gone[stack] for index, stack in uses.parts.items() if stack in gone}
    return _Plan(first, body, uses.takers, gone, instead, kept, frozenset(made), found_there)


@final
class _Uses:
    """Who reads the stacks of a loop: later loops, from an offset on, or equations that take single rows."""

    def __init__(self, jaxpr: Jaxpr, length: int) -> None:
        self._jaxpr, self._length = jaxpr, length
        self._readers: dict[int, list[tuple[int, int]]] = {}  # by variable: the equation (-1: none), and the operand
        for at, eqn in enumerate(jaxpr.eqns):
            for place, atom in enumerate(eqn.invars):
                if isinstance(atom, Var):
                    self._readers.setdefault(atom.index, []).append((at, place))
        for atom in _vars(jaxpr.outvars):
            self._readers.setdefault(atom.index, []).append((-1, 0))
        #: The loops, and from which row on each reads; and which stack an operand of theirs is part of.
        self.takers: dict[int, int] = {}
        self.parts: dict[int, int] = {}
        self._slices = {eqn.outvars[0].index: (eqn.invars[0], *rows) for eqn in jaxpr.eqns if (rows := _rows_of(eqn))}

    def note(self, stack: Var) -> bool:
        """Whether a stack is read by such loops alone, but for a few rows; if so, they are noted."""
        found: list[tuple[int, int, int]] = []  # the loop, its offset, and its operand
        single = set[tuple[int, int]]()
        for at, place in self._readers.get(stack.index, ()):
            if at >= 0 and self._goes_through(at, place, self._length):
                found.append((at, 0, stack.index))
                continue
            rows = _rows_of(self._jaxpr.eqns[at]) if at >= 0 else None
            if rows is None:
                return False
            out = self._jaxpr.eqns[at].outvars[0].index
            if rows[1] - rows[0] > 1:
                readers = self._readers.get(out, ())
                if not all(i >= 0 and self._goes_through(i, k, rows[1] - rows[0]) for i, k in readers):
                    return False
                found += [(i, rows[0], out) for i, _ in readers]
            else:
                single.add(rows)
        if len(single) > _ROWS:
            return False
        offsets = dict(self.takers)
        if any(offsets.setdefault(at, offset) != offset for at, offset, _ in found):
            return False
        self.takers = offsets
        for _, _, operand in found:
            self.parts[operand] = stack.index
        return True

    def cost(self, where: _Given) -> int:
        """What it costs that the loops read this: next to nothing, or the bytes of each row that has to be copied."""
        found = 0
        for at, offset in self.takers.items():
            eqn, length = self._jaxpr.eqns[at], _scan(self._jaxpr.eqns[at]).length
            if where.constant or length == self._length:
                found = max(found, int(where.atom not in eqn.invars))
            elif (where.atom, offset, offset + length) not in [
                self._slices.get(var.index) for var in _vars(eqn.invars)
            ]:
                found = 2 * where.atom.aval.nbytes // self._length + 1
        return found

    def _goes_through(self, at: int, place: int, length: int) -> bool:
        scan = self._jaxpr.eqns[at].primitive
        if not isinstance(scan, Scan) or must_stay(scan.effects):
            return False
        return scan.length == length and place >= scan.num_consts + scan.num_carry


def _rows_of(eqn: Eqn) -> tuple[int, int] | None:
    """Which rows an equation takes of its operand, if that is all it does."""
    primitive = eqn.primitive
    if type(primitive) is not Slice or primitive.strides is not None:
        return None
    low, high, shape = primitive.start_indices, primitive.limit_indices, eqn.invars[0].aval.shape
    return None if not shape or any(low[1:]) or high[1:] != shape[1:] else (low[0], high[0])


def _scan(eqn: Eqn) -> Scan:
    assert isinstance(eqn.primitive, Scan)
    return eqn.primitive


def _vars(atoms: Iterable[Atom]) -> Iterator[Var]:
    return (atom for atom in atoms if isinstance(atom, Var))


def _bind(env: dict[int, Atom], eqn: Eqn, outs: Sequence[Atom]) -> None:
    env.update(zip([var.index for var in eqn.outvars], outs, strict=True))
