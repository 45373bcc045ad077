"""What a policy keeps of a program, loops and branches included, and what is computed again from it.

    { lambda ; a:f64[3,3] b:f64[3]. let c:f64[3] d:f64[2,3] = scan[... e = sin(dot a b)] a b in (d,) }

where dots are kept becomes a first scan, which also returns its dots, and another one, which takes them instead of
computing them. Of the carry, that one has only what is still needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.contexts.around import Around
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.branches import of_one_type
from tinyjax.control.call import Call
from tinyjax.control.cond import Cond
from tinyjax.control.scan import Scan
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import SUPPORTED
from tinyjax.ir.effects import must_stay
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive, Zero
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.primitives.annotations import Name
from tinyjax.primitives.structure import instantiate
from tinyjax.stack import with_room
from tinyjax.transforms.rebuild import read

#: Whether what a primitive computes from operands of these types is kept.
Keeps: TypeAlias = Callable[..., bool]
#: Values of variables, by their numbers.
Values: TypeAlias = dict[int, Atom]


@frozen
class Opened:
    """A loop or a choice in two. `first` returns what is kept within it, too, after its outputs; `again` takes that
    after some of the operands, and has some of the outputs. Others are what is kept itself: pairs of positions."""

    first: Primitive
    again: Primitive
    operands: tuple[int, ...]
    outs: tuple[int, ...]
    kept: tuple[ShapedArray, ...]
    as_kept: tuple[tuple[int, int], ...] = ()


@frozen
class Plan:
    """Of some variables of a program: which are kept, which equations compute the others again, and what they need."""

    eqns: tuple[Eqn, ...]
    saved: tuple[Var, ...]
    again: tuple[int, ...]
    opened: Mapping[int, Opened]
    needed: frozenset[Var]

    @property
    def kept(self) -> tuple[ShapedArray, ...]:
        """The types of all that is kept: the variables, and what is kept within equations."""
        return (*(var.aval for var in self.saved), *(aval for i in self._within() for aval in self.opened[i].kept))

    def _within(self) -> list[int]:
        return sorted(self.opened)

    def first(self, ctx: StagingContext, env: Values) -> list[Atom]:
        """Applies all equations; what is kept."""
        more: dict[int, Sequence[Atom]] = {}
        with ctx.cursor.within("checkpoint").attributing() as position:
            for i, eqn in enumerate(self.eqns):
                position.source = eqn.source
                opened = self.opened.get(i)
                outs = ctx.bind(opened.first if opened else eqn.primitive, *read(env, eqn.invars))
                env.update(zip((var.index for var in eqn.outvars), outs, strict=False))
                more[i] = outs[len(eqn.outvars) :]
        return [*(env[var.index] for var in self.saved), *(atom for i in self._within() for atom in more[i])]

    def compute(self, ctx: StagingContext, env: Values, kept: Sequence[Atom]) -> None:
        """Applies the equations that compute again what isn't kept."""
        env.update(zip((var.index for var in self.saved), kept, strict=False))
        rest = iter(kept[len(self.saved) :])
        more = {i: [next(rest) for _ in self.opened[i].kept] for i in self._within()}
        with ctx.cursor.within("checkpoint").attributing() as position:
            for i in self.again:
                eqn, opened = self.eqns[i], self.opened.get(i)
                position.source = eqn.source
                if opened is None:
                    outs = ctx.bind(eqn.primitive, *read(env, eqn.invars))
                    env.update(zip((var.index for var in eqn.outvars), outs, strict=True))
                else:
                    env.update((eqn.outvars[j].index, more[i][k]) for j, k in opened.as_kept)
                    args = read(env, [eqn.invars[j] for j in opened.operands])
                    outs = ctx.bind(opened.again, *args, *more[i]) if opened.outs else ()
                    env.update(zip((eqn.outvars[j].index for j in opened.outs), outs, strict=True))


def plan(eqns: tuple[Eqn, ...], wanted: Iterable[Atom], keeps: Keeps, within: bool = True) -> Plan:
    """How to have the wanted variables a second time. Unless `within`, an equation is kept or computed as a whole."""
    needed = {atom for atom in wanted if isinstance(atom, Var)}
    saved: list[Var] = []
    again: list[int] = []
    opened: dict[int, Opened] = {}
    marks = {eqn: keeps(eqn.primitive, *(atom.aval for atom in eqn.invars)) for eqn in eqns}
    # What is kept under a name is kept where it is computed: the derivative may need it from before it got the name.
    named = {eqn.invars[0] for eqn in eqns if isinstance(eqn.primitive, Name) and marks[eqn]}
    for i in range(len(eqns) - 1, -1, -1):
        eqn = eqns[i]
        outs = [var for var in eqn.outvars if var in needed]
        kept = must_stay(eqn.effects) or (marks[eqn] and not isinstance(eqn.primitive, Name))
        saved += [var for var in outs if kept or var in named]
        if all(kept or var in named for var in outs):
            continue
        again.append(i)
        found = _open(eqn.primitive, tuple(var in needed and var not in named for var in eqn.outvars), keeps, within)
        operands: Iterable[Atom] = eqn.invars
        if found is not None:
            opened[i] = found
            operands = [eqn.invars[j] for j in found.operands]
        needed.update(atom for atom in operands if isinstance(atom, Var))
    return Plan(eqns, tuple(saved), tuple(reversed(again)), opened, frozenset(needed))


def _open(primitive: Primitive, used: tuple[bool, ...], keeps: Keeps, within: bool) -> Opened | None:
    if not within:
        return None
    if isinstance(primitive, Scan):
        return with_room(lambda: _open_scan(primitive, used, keeps))
    if isinstance(primitive, Cond):
        return with_room(lambda: _open_cond(primitive, used, keeps))
    return None


def _open_scan(scan: Scan, used: tuple[bool, ...], keeps: Keeps) -> Opened | None:
    body, consts, n = without_calls(scan.jaxpr), scan.num_consts, scan.num_carry
    carried = list(used[:n])
    while True:
        marks = (*carried, *used[n:])
        found = plan(body.eqns, (atom for atom, mark in zip(body.outvars, marks, strict=True) if mark), keeps)
        more = [mark or body.invars[consts + i] in found.needed for i, mark in enumerate(carried)]
        if more == carried:
            break
        carried = more
    if not found.kept or not _can_be_kept(found.kept):
        return None
    operands = (
        *range(consts),
        *(consts + i for i, mark in enumerate(carried) if mark),
        *range(consts + n, len(body.invars)),
    )
    places = {var: k for k, var in enumerate(found.saved)}
    as_kept = {i: places[var] for i, var in enumerate(body.outvars) if i >= n and marks[i] and var in places}
    outs = tuple(i for i, mark in enumerate(marks) if mark and i not in as_kept)
    return Opened(
        evolve(scan, jaxpr=_first(body, found)),
        evolve(scan, jaxpr=_again(body, found, operands, outs), num_carry=sum(carried)),
        operands,
        outs,
        tuple(map(scan.stacked, found.kept)),
        tuple(as_kept.items()),
    )


def _open_cond(cond: Cond, used: tuple[bool, ...], keeps: Keeps) -> Opened | None:
    outs = tuple(i for i, mark in enumerate(used) if mark)
    branches = list(map(without_calls, cond.branches))
    plans = [plan(branch.eqns, (branch.outvars[i] for i in outs), keeps) for branch in branches]
    kept = tuple(aval for found in plans for aval in found.kept)
    if not kept or not _can_be_kept(kept):
        return None
    firsts: list[Jaxpr] = []
    agains: list[Jaxpr] = []
    operands = tuple(range(len(cond.branches[0].invars)))
    before = 0
    for branch, found in zip(branches, plans, strict=True):
        after = len(kept) - before - len(found.kept)
        firsts.append(_first(branch, found, kept[:before], kept[len(kept) - after :]))
        agains.append(_again(branch, found, operands, outs, kept[:before], kept[len(kept) - after :]))
        before += len(found.kept)
    first, again = (evolve(cond, branches=of_one_type(each)) for each in (firsts, agains))
    return Opened(first, again, (0, *(i + 1 for i in operands)), outs, first.branches[0].out_avals[len(used) :])


def _can_be_kept(avals: Iterable[ShapedArray]) -> bool:
    return all(aval.dtype in SUPPORTED for aval in avals)


def _first(jaxpr: Jaxpr, found: Plan, before: Sequence[ShapedArray] = (), after: Sequence[ShapedArray] = ()) -> Jaxpr:
    """The program, and after its results what is kept, among zeros for what others keep."""

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        env: Values = dict(enumerate(ins))
        kept = found.first(ctx, env)
        zeros = [[instantiate(ctx, Zero(aval)) for aval in avals] for avals in (before, after)]
        return [*read(env, jaxpr.outvars), *zeros[0], *kept, *zeros[1]]

    return stage(jaxpr.in_avals, run)


def _again(
    jaxpr: Jaxpr,
    found: Plan,
    operands: Sequence[int],
    outs: Sequence[int],
    before: Sequence[ShapedArray] = (),
    after: Sequence[ShapedArray] = (),
) -> Jaxpr:
    """Some of the results from some of the operands and what was kept."""

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        env: Values = dict(zip(operands, ins, strict=False))
        start = len(operands) + len(before)
        found.compute(ctx, env, ins[start : start + len(found.kept)])
        return read(env, [jaxpr.outvars[i] for i in outs])

    return stage([*(jaxpr.in_avals[i] for i in operands), *before, *found.kept, *after], run)


def without_calls(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its calls spelled out, so that the policy sees what they compute."""
    if not any(isinstance(eqn.primitive, Call) for eqn in jaxpr.eqns):
        return jaxpr
    return stage(jaxpr.in_avals, lambda ctx, ins: interpret(_SpellingOut(ctx), jaxpr, ins))


@final
class _SpellingOut(Around[Atom]):
    """Staging, but the equations of what is called instead of the call."""

    __slots__ = ()

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Atom, ...]:
        if isinstance(primitive, Call):
            return tuple(with_room(lambda: interpret(self, primitive.jaxpr, args)))
        return self.inner.bind(primitive, *args)
