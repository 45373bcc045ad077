"""Loops over what another loop has stacked, as part of that loop."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import compress
from typing import Final, final

from attrs import frozen

from tinyjax.control.carry import groups
from tinyjax.control.scan import Scan
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.traverse import nested_programs
from tinyjax.primitives.shaping import Rev
from tinyjax.primitives.slicing import Concatenate, Pad, Slice
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import Reduction
from tinyjax.transforms.late import ARRANGING
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, read, without_unread

#: What takes rows from stacks, and puts them together.
_PLACING: Final = ARRANGING | {Concatenate, Pad, Rev, Slice, Stack, Unstack}


def fused(jaxpr: Jaxpr) -> Jaxpr:
    """The program with loops made part of the one whose stacks they go through, where each iteration needs no more of
    that than its own.

        { lambda ; a:f64[9,3] b:f64[9,3]. let c:f64[9,3] = scan[… jaxpr={ lambda ; a:f64[3]. let b:f64[3] = exp a
            in (b,) }] a; d:f64[9,3] = scan[… jaxpr={ lambda ; a:f64[3] b:f64[3]. let c:f64[3] = sub a b in (c,) }] b c
            in (d,) }
        { lambda ; a:f64[9,3] b:f64[9,3]. let c:f64[9,3] = scan[… jaxpr={ lambda ; a:f64[3] b:f64[3].
            let c:f64[3] = exp a; d:f64[3] = sub b c in (d,) }] a b in (c,) }

    So what becomes of weights is computed beside their gradients, and no stack of gradients is there.
    """
    return bottom_up(jaxpr, _fused)


def computes_of_rows(jaxpr: Jaxpr) -> bool:
    """Whether something is computed of rows that a loop has stacked which goes through another one's stacks, as loops
    back do: of all gradients, say, which have to be there together for it. What is computed of a whole stack isn't
    meant, nor what waits for the whole loop, as updates do for a norm of all gradients: these are there without loops,
    too. Nor are other layers, which are given a row or all of them: an encoder's loop back by the decoder's, say."""
    return any(map(_computes_of_rows, nested_programs(jaxpr)))


def _computes_of_rows(jaxpr: Jaxpr) -> bool:
    stacks = set[int]()  # of all loops
    back = set[int]()  # of those that go through such stacks
    rows = set[int]()  # of the latter
    waiting = set[int]()  # what follows from the whole of a loop back, or from all rows
    layers = set[int]()  # what loops that hand arrays on follow from
    for eqn in reversed(jaxpr.eqns):
        if _hands_on(eqn) or not layers.isdisjoint(out.index for out in eqn.outvars):
            layers.update(var.index for var in _vars(eqn.invars))
    for eqn in jaxpr.eqns:
        read_here = {var.index for var in _vars(eqn.invars)}
        made = {out.index for out in eqn.outvars}
        loop = eqn.primitive if isinstance(eqn.primitive, Scan) else None
        through = {var.index for var in _vars(loop.operands(eqn.invars)[2])} if loop else set[int]()
        if not waiting.isdisjoint(read_here):
            waiting |= made
        elif _hands_on(eqn):
            if not back.isdisjoint(read_here - through):
                waiting |= made
        elif not back.isdisjoint(through) or (not rows.isdisjoint(read_here) and not _places(eqn)):
            if layers.isdisjoint(made):
                return True
        elif not rows.isdisjoint(read_here) or (
            not back.isdisjoint(read_here) and isinstance(eqn.primitive, Slice | Unstack)
        ):
            (rows if eqn.outvars[0].aval.size > 1 else waiting).update(made)  # numbers may be there together
        elif not back.isdisjoint(read_here):
            (back if _places(eqn) else waiting).update(made)
        if loop:
            ys = {out.index for out in loop.results(eqn.outvars)[1]}
            if not stacks.isdisjoint(through):
                back |= ys - waiting
                waiting |= made - ys
            stacks |= ys
    return False


def _hands_on(eqn: Eqn) -> bool:
    """Whether it is a loop whose iterations hand arrays on, as those of layers and their derivatives do: such as go
    through what others have kept, or give to theirs. Updates don't."""
    loop = eqn.primitive
    return isinstance(loop, Scan) and any(aval.size > 1 for aval in loop.operands(loop.jaxpr.in_avals)[1])


def _places(eqn: Eqn) -> bool:
    """Whether rows are only taken from a stack, or put together: also as a sum along axes of size 1, which is the
    transpose of what makes rows."""
    if isinstance(eqn.primitive, Reduction):
        return eqn.outvars[0].aval.size == eqn.invars[0].aval.size
    return type(eqn.primitive) in _PLACING


def _fused(jaxpr: Jaxpr) -> Jaxpr:
    at = 0
    while at < len(jaxpr.eqns):
        pair = _Pair.of(jaxpr, at) if type(jaxpr.eqns[at].primitive) is Scan else None
        if pair is None:
            at += 1
        else:
            jaxpr = pair.joined(jaxpr)
    return jaxpr


def _last_loop(jaxpr: Jaxpr) -> int:
    """The position of the last loop; -1: there is none."""
    return next((at for at in range(len(jaxpr.eqns) - 1, -1, -1) if type(jaxpr.eqns[at].primitive) is Scan), -1)


def _scan(eqn: Eqn) -> Scan:
    assert isinstance(eqn.primitive, Scan)
    return eqn.primitive


def _vars(atoms: Sequence[Atom]) -> Iterator[Var]:
    return (atom for atom in atoms if isinstance(atom, Var))


@final
@frozen
class _Pair:
    """The loop at `first`, and the one at `second`, which goes through its stacks. What depends on the first one, and
    is needed by the second one only as rows of these, comes `after` both."""

    first: int
    second: int
    after: frozenset[int]

    @staticmethod
    def of(jaxpr: Jaxpr, first: int) -> _Pair | None:
        """The first loop after this one that can be part of it."""
        one = jaxpr.eqns[first]
        scan = _scan(one)
        if must_stay(scan.effects):
            return None
        stacks = {out.index for out in scan.results(one.outvars)[1]}
        made = {out.index for out in one.outvars}
        after = set[int]()
        # What comes after the last loop, as what takes rows of the stacks, isn't looked at.
        for at in range(first + 1, _last_loop(jaxpr) + 1):
            eqn = jaxpr.eqns[at]
            if must_stay(eqn.primitive.effects):
                return None
            read_here = {var.index for var in _vars(eqn.invars)}
            if not made.isdisjoint(read_here):
                if isinstance(eqn.primitive, Scan) and _fits(scan, eqn, eqn.primitive, stacks, made):
                    return _Pair(first, at, frozenset(after))
                after.add(at)
                made.update(out.index for out in eqn.outvars)
        return None

    def joined(self, jaxpr: Jaxpr) -> Jaxpr:
        """The program with one loop in the place of both."""
        ctx = Rebuilding(jaxpr.invars, jaxpr.names)
        env: dict[int, Atom] = dict(enumerate(jaxpr.invars))
        for at in range(self.second):
            if at != self.first and at not in self.after:
                _again(ctx, env, jaxpr.eqns[at])
        one, two = jaxpr.eqns[self.first], jaxpr.eqns[self.second]
        others = (jaxpr.outvars, *(eqn.invars for at, eqn in enumerate(jaxpr.eqns) if at != self.second))
        both = _Both(one, two, {var.index for atoms in others for var in _vars(atoms)})
        ins = (*both.consts, *both.starts, *both.rows)
        outs = ctx.emit(both.loop(), read(env, ins), [var.aval for var in both.results], one.source)
        env.update(zip([var.index for var in both.results], outs, strict=True))
        for at in (*sorted(self.after), *range(self.second + 1, len(jaxpr.eqns))):
            _again(ctx, env, jaxpr.eqns[at])
        return without_unread(ctx.finish(read(env, jaxpr.outvars)))


@final
class _Both:
    """The loop that does what two do: its constants, first carries, and arrays that are gone through, the same ones
    once; and what it returns, of the stacks of the first loop those that are `wanted`."""

    def __init__(self, one: Eqn, two: Eqn, wanted: Collection[int]) -> None:
        self._loops = _scan(one), _scan(two)
        self._operands = [scan.operands(eqn.invars) for scan, eqn in zip(self._loops, (one, two), strict=True)]
        (last, self._stacks), (more, ys) = [
            scan.results(eqn.outvars) for scan, eqn in zip(self._loops, (one, two), strict=True)
        ]
        self._kept = [stack.index in wanted for stack in self._stacks]
        (consts, starts, rows), (consts_, starts_, rows_) = self._operands
        self.consts: list[Atom] = list(dict.fromkeys([*consts, *consts_]))
        self.starts: list[Atom] = [*starts, *starts_]
        self.rows: list[Atom] = list(dict.fromkeys([*rows, *(atom for atom in rows_ if atom not in self._stacks)]))
        self.results: list[Var] = [*last, *more, *compress(self._stacks, self._kept), *ys]

    def loop(self) -> Scan:
        """The loop itself."""
        one, two = self._loops
        types: dict[Atom, ShapedArray] = {}  # of what is gone through: one row of it
        for scan, operands in zip(self._loops, self._operands, strict=True):
            types.update(zip(operands[2], scan.operands(scan.jaxpr.in_avals)[2], strict=True))
        avals = [*(atom.aval for atom in self.consts), *(atom.aval for atom in self.starts), *map(types.get, self.rows)]
        ctx = Rebuilding([Var(i, aval) for i, aval in enumerate(avals) if aval is not None])
        consts, carries, rows = groups(ctx.invars, (len(self.consts), len(self.starts)))
        constant: dict[Atom, Atom] = dict(zip(self.consts, consts, strict=True))
        row: dict[Atom, Atom] = dict(zip(self.rows, rows, strict=True))
        start, found = iter(carries), list[list[Sequence[Atom]]]()
        for scan, operands in zip(self._loops, self._operands, strict=True):
            ins = [*map(constant.__getitem__, operands[0]), *(next(start) for _ in operands[1])]
            env: dict[int, Atom] = dict(enumerate([*ins, *map(row.__getitem__, operands[2])]))
            for eqn in scan.jaxpr.eqns:
                _again(ctx, env, eqn)
            found.append(scan.results(read(env, scan.jaxpr.outvars)))
            row.update(zip(self._stacks, found[0][1], strict=True))  # the other loop goes through these
        (last, stacks), (more, ys) = found
        body = without_unread(ctx.finish([*last, *more, *compress(stacks, self._kept), *ys]))
        reverse, unroll = two.reverse if two.num_carry else one.reverse, max(one.unroll, two.unroll)
        return Scan(body, one.length, reverse, len(self.consts), len(self.starts), unroll)


def _fits(one: Scan, eqn: Eqn, two: Scan, stacks: set[int], made: set[int]) -> bool:
    """Whether a loop reads stacks of the first one row by row, and nothing else that depends on it."""
    if two.length != one.length or must_stay(two.effects):
        return False
    if two.reverse != one.reverse and two.num_carry and one.num_carry:
        return False
    consts, starts, rows = two.operands(eqn.invars)
    if not made.isdisjoint(var.index for var in _vars((*consts, *starts))):
        return False
    return all(var.index in stacks or var.index not in made for var in _vars(rows))


def _again(ctx: Rebuilding, env: dict[int, Atom], eqn: Eqn) -> None:
    outs = ctx.again(eqn, read(env, eqn.invars))
    env.update(zip([var.index for var in eqn.outvars], outs, strict=True))
