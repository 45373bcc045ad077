"""Loops that write results over the rows they have read, where the memory of these is given away."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from attrs import evolve

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.scan import Scan
from tinyjax.ir.dtypes import INT32
from tinyjax.ir.effects import must_stay
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.dynamic import dynamic_slice, dynamic_update_slice
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.shaping import expand_dims, squeeze
from tinyjax.transforms.border import Bordered
from tinyjax.transforms.rebuild import Rebuilding, read

#: Where the loop is, beside its other carries.
_POSITION: Final = array_type((), INT32)


def in_place(border: Bordered, given: Collection[int]) -> tuple[Bordered, tuple[int, ...]]:
    """The program whose loops write over inputs that are `given` away, and which inputs these are. Their results come
    first, in the same order.

        { lambda ; a:f64[3]. let b:f64[3] = scan[length=3 num_consts=0 num_carry=0 jaxpr={ lambda ; a:f64[]. let
            b:f64[] = sin a in (b,) } …] a in (b,) }
        { lambda ; a:f64[3]. let b:i32[] c:f64[3] = scan[length=3 num_consts=0 num_carry=2 jaxpr={ lambda ; a:i32[]
            b:f64[3]. let c:f64[] = dynamic_slice[slice_sizes=(1,)] b a; …; d:f64[] = sin c; …;
            e:f64[3] = dynamic_update_slice b d a; f:i32[] = add a 1 in (f, e) } …] 0 a in (c,) }

    An input is written over if a loop goes through its rows, nothing reads it after that, and the program returns what
    the loop makes, row by row, of these rows among others, with the same type.
    """
    jaxpr = border.program
    pairs = {at: found for at, eqn in enumerate(jaxpr.eqns) if (found := _pairs(jaxpr, at, eqn, given))}
    if not pairs:
        return border, ()
    ctx = Rebuilding(jaxpr.invars, jaxpr.names)
    env: list[Atom] = list(jaxpr.invars)
    partner: dict[int, int] = {}  # which result is written over which input
    for at, eqn in enumerate(jaxpr.eqns):
        ins, scan, over = read(env, eqn.invars), eqn.primitive, pairs.get(at)
        ctx.cursor.source = eqn.source
        if over is None or not isinstance(scan, Scan):
            env += ctx.again(eqn, ins)
            continue
        env += _written_over(ctx, scan, ins, over)
        first = scan.num_consts + scan.num_carry
        for x, y in over.items():
            operand = eqn.invars[first + x]
            assert isinstance(operand, Var)
            partner[jaxpr.outvars.index(eqn.outvars[scan.num_carry + y])] = operand.index
    order = sorted(range(len(jaxpr.outvars)), key=lambda i: (i not in partner, partner.get(i, 0)))
    program = ctx.finish([read(env, jaxpr.outvars)[i] for i in order])
    places = {number: i for i, number in enumerate(order)}
    results = tuple([(places[number], row) for number, row in border.results])
    return Bordered(program, border.inputs, results), tuple(sorted(partner.values()))


def _pairs(jaxpr: Jaxpr, at: int, eqn: Eqn, given: Collection[int]) -> dict[int, int]:
    """Which of the arrays that a loop goes through are written over by which of the stacks that it returns."""
    scan = eqn.primitive
    if not isinstance(scan, Scan) or must_stay(scan.effects) or scan.length < 1:
        return {}
    later = [atom for after in jaxpr.eqns[at + 1 :] for atom in after.invars]
    busy = {atom.index for atom in (*later, *jaxpr.outvars) if isinstance(atom, Var)}
    _, _, xs = scan.operands(eqn.invars)
    _, _, rows = scan.operands(scan.jaxpr.invars)
    _, stacks = scan.results(eqn.outvars)
    _, ys = scan.results(scan.jaxpr.outvars)
    free = {
        row.index: k
        for k, (x, row) in enumerate(zip(xs, rows, strict=True))
        if isinstance(x, Var) and x.index in given and x.index not in busy and eqn.invars.count(x) == 1
    }
    needs = needs_of(scan.jaxpr, free)
    wanted = [
        (len(needs[y.index]), j)
        for j, (stack, y) in enumerate(zip(stacks, ys, strict=True))
        if isinstance(y, Var) and jaxpr.outvars.count(stack) == 1
    ]
    found: dict[int, int] = {}
    for _, j in sorted(wanted):  # what is made of fewest first: a moment follows from itself, a weight from all
        y = ys[j]
        assert isinstance(y, Var)
        for k in sorted(needs[y.index]):
            if k not in found and xs[k].aval == stacks[j].aval:
                found[k] = j
                break
    return found


def needs_of(body: Jaxpr, rows: Mapping[int, int]) -> list[frozenset[int]]:
    """For each variable of a program, which of these inputs it depends on."""
    none = frozenset[int]()
    found = [frozenset({rows[var.index]}) if var.index in rows else none for var in body.invars]
    for eqn in body.eqns:
        own = none.union(*[found[atom.index] for atom in eqn.invars if isinstance(atom, Var)])
        found += [own] * len(eqn.outvars)
    return found


def _written_over(ctx: Rebuilding, scan: Scan, ins: Sequence[Atom], pairs: Mapping[int, int]) -> list[Atom]:
    """What a loop returns which has the pairs' arrays as carries, and in them what it returns row by row."""
    consts, carry, xs = scan.operands(ins)
    fixed, values, rows = scan.operands(scan.jaxpr.in_avals)
    kept = [k for k in range(len(xs)) if k not in pairs]
    written = set(pairs.values())

    def step(inner: StagingContext, now: list[Atom]) -> Sequence[Atom]:
        at = len(fixed) + len(values)
        place, held, others = now[at], now[at + 1 : at + 1 + len(pairs)], now[at + 1 + len(pairs) :]
        stacks, row = dict(zip(pairs, held, strict=True)), dict(zip(kept, others, strict=True))
        zero = inner.constant(Literal.of(0, INT32))
        for k, stack in stacks.items():
            shape = stack.aval.shape
            starts = [place, *[zero] * (len(shape) - 1)]
            row[k] = squeeze(inner, dynamic_slice(inner, stack, (1, *shape[1:]), *starts), (0,))
        outs = interpret(inner, scan.jaxpr, [*now[:at], *[row[k] for k in range(len(xs))]])
        after, ys = scan.results(outs)
        full: list[Atom] = []
        for k, j in pairs.items():
            starts = [place, *[zero] * (stacks[k].aval.ndim - 1)]
            full.append(dynamic_update_slice(inner, stacks[k], expand_dims(inner, ys[j], (0,)), *starts))
        next_place = add(inner, place, inner.constant(Literal.of(-1 if scan.reverse else 1, INT32)))
        return [*after, next_place, *full, *[y for j, y in enumerate(ys) if j not in written]]

    held = [xs[k].aval for k in pairs]
    body = stage([*fixed, *values, _POSITION, *held, *[rows[k] for k in kept]], step)
    loop = evolve(scan, jaxpr=body, num_carry=len(values) + 1 + len(pairs))
    start = ctx.constant(Literal.of(scan.length - 1 if scan.reverse else 0, INT32))
    operands = [*consts, *carry, start, *[xs[k] for k in pairs], *[xs[k] for k in kept]]
    outs = ctx.bind(loop, *operands)
    others = iter(outs[len(values) + 1 + len(pairs) :])
    over = {j: outs[len(values) + 1 + i] for i, j in enumerate(pairs.values())}
    stacks = [over[j] if j in over else next(others) for j in range(scan.num_ys)]
    return [*outs[: len(values)], *stacks]
