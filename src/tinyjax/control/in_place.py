"""Loops that write results over the rows they have read, where the memory of these is given away."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tinyjax.control.carried_stacks import Place, carried
from tinyjax.control.scan import Scan
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.transforms.border import Bordered
from tinyjax.transforms.rebuild import Rebuilding, read


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
        xs = scan.operands(ins)[2]
        rows = {x: Place(x, 0, xs[x].aval.shape[1:]) for x in over}
        done = carried(ctx, scan, ins, {x: xs[x] for x in over}, rows, {y: rows[x] for x, y in over.items()})
        stacks = {**done.stacks, **{y: done.memory[x] for x, y in over.items()}}
        env += [*done.carry, *[stacks[j] for j in range(scan.num_ys)]]
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
