"""Loops that keep values for a later loop in the memory of its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import final

from attrs import frozen

from tinyjax.control.carried_stacks import Place, carried
from tinyjax.control.in_place import needs_of
from tinyjax.control.scan import Scan
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.structure import full
from tinyjax.transforms.rebuild import Rebuilding, read


def shared_stacks(jaxpr: Jaxpr) -> Jaxpr:
    """The program whose loops read rows that an earlier loop has kept, and write rows of their results over them.

        { lambda ; a:f64[3]. let b:f64[3] = scan[length=3 jaxpr={ lambda ; a:f64[]. let b:f64[] = exp a in (b,) } …] a;
            c:f64[3] = scan[length=3 jaxpr={ lambda ; a:f64[]. let b:f64[] = sin a in (b,) } …] b in (c,) }
        { lambda ; a:f64[3]. let b:f64[3,1] = broadcast_in_dim 0.0; _:i32[] c:f64[3,1] = scan[num_carry=2 jaxpr={
            lambda ; a:i32[] b:f64[3,1] c:f64[]. let d:f64[] = exp c; e:f64[1,1] = reshape d;
            f:f64[3,1] = dynamic_update_slice b e a 0; g:i32[] = add a 1 in (g, f) } …] 0 b a;
            _:i32[] d:f64[3,1] = scan[num_carry=2 …] 0 c; e:f64[3] = reshape d in (e,) }

    Without loops, XLA keeps residuals where results will be: a result is written when it is known, and not before.
    But what a loop writes is there as a whole from its beginning, beside all that it reads.
    """
    plan = _planned(jaxpr)
    if not plan.hosts:
        return jaxpr
    ctx = Rebuilding(jaxpr.invars, jaxpr.names)
    env: list[Atom] = list(jaxpr.invars)
    now: dict[int, Atom] = {}  # of each host, its memory
    for eqn in jaxpr.eqns:
        ctx.cursor.source = eqn.source
        scan = eqn.primitive
        if isinstance(scan, Scan) and plan.concerns(scan, eqn):
            _rewrite(ctx, env, now, plan, scan, eqn)
        else:
            env += ctx.again(eqn, read(env, eqn.invars))
    return ctx.finish(read(env, jaxpr.outvars))


@final
@frozen
class _Plan:
    """`guests` are stacks of earlier loops, and `hosts` the results of later ones in whose memory they are, flat."""

    guests: Mapping[int, Place]
    hosts: Mapping[int, ShapedArray]

    def concerns(self, scan: Scan, eqn: Eqn) -> bool:
        """Whether a loop makes one of them. (What reads a guest makes its host.)"""
        return any(var.index in self.guests or var.index in self.hosts for var in eqn.outvars[scan.num_carry :])


def _planned(jaxpr: Jaxpr) -> _Plan:
    """What is kept where: with a result that is made of it among others, so that it is read before that is written."""
    readers = Counter(atom.index for eqn in jaxpr.eqns for atom in eqn.invars if isinstance(atom, Var))
    readers.update(atom.index for atom in jaxpr.outvars if isinstance(atom, Var))
    lengths: dict[int, int] = {}  # of the loops that have made stacks
    guests: dict[int, Place] = {}
    hosts: dict[int, ShapedArray] = {}
    for eqn in jaxpr.eqns:
        scan = eqn.primitive
        if not isinstance(scan, Scan) or must_stay(scan.effects) or scan.length < 1:
            continue
        xs, rows = scan.operands(eqn.invars)[2], scan.operands(scan.jaxpr.invars)[2]
        kept = {
            row.index: x
            for x, row in zip(xs, rows, strict=True)
            if isinstance(x, Var)
            and lengths.get(x.index) == scan.length
            and readers[x.index] == 1
            and x.index not in hosts
            and x.aval.nbytes
        }
        needs = needs_of(scan.jaxpr, {row: x.index for row, x in kept.items()})
        stacks, ys = scan.results(eqn.outvars)[1], scan.results(scan.jaxpr.outvars)[1]
        lengths.update((stack.index, scan.length) for stack in stacks)
        made = [(stack, needs[y.index]) for stack, y in zip(stacks, ys, strict=True) if isinstance(y, Var)]
        taken = dict.fromkeys([stack.index for stack, _ in made], 0)
        for x in sorted(kept.values(), key=lambda x: -x.aval.nbytes):
            fitting = [
                (stack.aval.size - taken[stack.index] * scan.length, stack)
                for stack, needed in made
                if x.index in needed
                and (stack.aval.dtype, stack.aval.weak_type) == (x.aval.dtype, False)
                and x.aval.size <= stack.aval.size - taken[stack.index] * scan.length
            ]
            if fitting:
                _, host = min(fitting, key=lambda found: (found[0], found[1].index))
                guests[x.index] = Place(host.index, taken[host.index], (x.aval.size // scan.length,))
                taken[host.index] += x.aval.size // scan.length
                hosts[host.index] = host.aval
    return _Plan(guests, hosts)


def _rewrite(ctx: Rebuilding, env: list[Atom], now: dict[int, Atom], plan: _Plan, scan: Scan, eqn: Eqn) -> None:
    """The loop again, with the memory of results among its carries, for what it reads, keeps or returns there."""
    xs, (_, stacks) = scan.operands(eqn.invars)[2], scan.results(eqn.outvars)
    taken = {k: plan.guests[x.index] for k, x in enumerate(xs) if isinstance(x, Var) and x.index in plan.guests}
    hosts = {host: Place(host, 0, (aval.size // scan.length,)) for host, aval in plan.hosts.items()}
    places = {**plan.guests, **hosts}
    given = {j: places[stack.index] for j, stack in enumerate(stacks) if stack.index in places}
    held = dict.fromkeys(place.memory for place in (*taken.values(), *given.values()))
    for host in held:
        if host not in now:
            now[host] = full(ctx, array_type((scan.length, *hosts[host].part), plan.hosts[host].dtype), 0)
    done = carried(ctx, scan, read(env, eqn.invars), {host: now[host] for host in held}, taken, given)
    now.update(done.memory)
    env += done.carry
    for j, stack in enumerate(stacks):
        if stack.index in plan.hosts:
            env.append(reshape(ctx, now[stack.index], stack.aval.shape))
        elif j in given:
            env.append(now[given[j].memory])  # read by nobody but through its place
        else:
            env.append(done.stacks[j])
