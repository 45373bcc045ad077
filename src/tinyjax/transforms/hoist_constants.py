"""Hoisting: what doesn't change within a loop is computed before it, and arrays are handed in from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Final, final

from attrs import frozen

from tinyjax.ir.effects import must_stay
from tinyjax.ir.equality import same_value
from tinyjax.ir.holding import ProgramT, changed
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.traverse import holds_programs, record_values
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.shaping import Iota
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.transforms.cse import MERGING
from tinyjax.transforms.dce import prune
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, on_closed, read


@final
@frozen
class Before:
    """What is computed before an equation: `program` takes the equation's operands at `operands`; what it returns are
    new operands, which come before the one that was at `at`."""

    program: Jaxpr
    operands: tuple[int, ...]
    at: int


@final
@frozen
class Hoisted:
    """A primitive with less in its programs, and what is computed before it. In the order of the operands."""

    primitive: Primitive
    before: tuple[Before, ...]


#: What can be computed before a primitive that holds programs, once and for all of its iterations. None: nothing.
HOISTING: Final[RuleTable[[], Hoisted | None]] = RuleTable("Hoisting", name="tinyjax.transforms.HOISTING")


def hoist_constants(program: ProgramT) -> ProgramT:
    """The program with what is constant within loops, branches and calls handed to them as operands.

        { lambda ; a:f64[] b:f64[]. let c:f64[] = scan[num_consts=1 num_carry=1 jaxpr={ lambda ; a:f64[] b:f64[]. let
            c:f64[] = sin a; d:f64[] = mul b c in (d,) } …] a b in (c,) }
        { lambda ; a:f64[] b:f64[]. let c:f64[] = sin a; d:f64[] = scan[num_consts=2 num_carry=1
            jaxpr={ lambda ; a:f64[] b:f64[] c:f64[]. let d:f64[] = mul c a in (d,) } …] c a b in (d,) }

    What a body of `scan` or `while` computes from its constants is computed before the loop. Arrays (`constant`
    equations) leave loops, branches and calls, so that each is there once; in a closed program they become constants of
    it. Left where they are: equations with effects; those which only repeat or count (`broadcast_in_dim`, `iota`), as
    it costs less to do that again than to keep the result; and what may fail or never end in a loop that may not run.
    `dce` removes operands that nothing needs afterwards.
    """

    def closed(program: ClosedJaxpr) -> ClosedJaxpr:
        return _closed(bottom_up(program.jaxpr, _hoisted), program)

    return changed(program, "hoist_constants", lambda jaxpr: bottom_up(jaxpr, _hoisted), closed)


def _hoisted(jaxpr: Jaxpr) -> Jaxpr:
    rules: dict[type[Primitive], Callable[[Primitive], Hoisted | None] | None] = {}
    ctx = Rebuilding(jaxpr.invars)
    env: list[Atom] = list(jaxpr.invars)
    arrays: dict[ConcreteValue, Atom] = {}
    results: dict[Primitive, tuple[Primitive, Hoisted | None]] = {}
    changed = False
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        ins = read(env, eqn.invars)
        cls = type(primitive)
        if isinstance(primitive, Constant):
            known = arrays.get(primitive.value)
            if known is None:
                (known,) = ctx.again(eqn, ins)
                arrays[primitive.value] = known
            else:
                changed = True
            env.append(known)
            continue
        if cls not in rules:
            rules[cls] = HOISTING.find(cls)
        rule = rules[cls]
        hoisted = None
        if rule is not None:
            known_one = results.get(primitive)
            if known_one is None or not same_value(known_one[0], primitive):
                known_one = results[primitive] = primitive, rule(primitive)
            hoisted = known_one[1]
        if hoisted is None:
            env += ctx.again(eqn, ins)
            continue
        changed = True
        operands: list[Atom] = []
        at = 0
        for part in hoisted.before:
            operands += ins[at : part.at]
            operands += _computed(ctx, part.program, [ins[i] for i in part.operands], arrays, eqn)
            at = part.at
        operands += ins[at:]
        env += ctx.again(eqn, tuple(operands), hoisted.primitive)
    return ctx.finish(read(env, jaxpr.outvars)) if changed else jaxpr


def _computed(
    ctx: Rebuilding, program: Jaxpr, args: Sequence[Atom], arrays: dict[ConcreteValue, Atom], holder: Eqn
) -> tuple[Atom, ...]:
    """The outputs of a program whose equations are added, but for arrays that are there already."""
    env: list[Atom] = [ctx.converted(arg, var.aval) for arg, var in zip(args, program.invars, strict=True)]
    for eqn in program.eqns:
        primitive = eqn.primitive
        avals = [out.aval for out in eqn.outvars]
        source = eqn.source or holder.source
        if isinstance(primitive, Constant):
            known = arrays.get(primitive.value)
            if known is None:
                (known,) = ctx.emit(primitive, (), avals, source)
                arrays[primitive.value] = known
            env.append(known)
        else:
            env += ctx.emit(primitive, read(env, eqn.invars), avals, source)
    return read(env, program.outvars)


def _closed(jaxpr: Jaxpr, program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its arrays among the constants."""
    found: dict[ConcreteValue, None] = {
        eqn.primitive.value: None for eqn in jaxpr.eqns if isinstance(eqn.primitive, Constant)
    }
    if not found:
        return on_closed(program, lambda _: jaxpr)
    n = len(program.consts)
    avals = [*jaxpr.in_avals[:n], *(value.aval for value in found), *jaxpr.in_avals[n:]]
    invars = [Var(i, aval) for i, aval in enumerate(avals)]
    m = n + len(found)
    arrays = dict(zip(found, invars[n:m], strict=True))
    names = program.jaxpr.names_at([*range(n), *[None] * (m - n), *range(n, len(jaxpr.invars))])
    ctx = Rebuilding(invars, names)
    env: list[Atom] = [*invars[:n], *invars[m:]]
    for eqn in jaxpr.eqns:
        if isinstance(eqn.primitive, Constant):
            env.append(arrays[eqn.primitive.value])
        else:
            env += ctx.again(eqn, read(env, eqn.invars))
    return ClosedJaxpr(ctx.finish(read(env, jaxpr.outvars)), (*program.consts, *found))


# What the rules are made of.


@final
@frozen
class Divided:
    """A program in two parts: `before` takes the inputs at `operands`; `inside` takes what it returns, then all inputs
    of the program."""

    before: Jaxpr
    operands: tuple[int, ...]
    inside: Jaxpr


def arrays_only(eqn: Eqn) -> bool:
    """What may leave a program that is run once at most: nothing that costs anything."""
    return isinstance(eqn.primitive, Constant)


def invariant(eqn: Eqn) -> bool:
    """What may leave a loop that is known to run."""
    primitive = eqn.primitive
    rule = MERGING.find(type(primitive))
    return not must_stay(primitive.effects) and (rule is None or rule(primitive))


def harmless(eqn: Eqn) -> bool:
    """What may leave a loop that may not run: what always ends, and never calls a Python function."""
    primitive = eqn.primitive
    if holds_programs(primitive) or any(isinstance(value, Opaque) for _, value in record_values(primitive)):
        return False
    return invariant(eqn)


def divide_before(jaxpr: Jaxpr, constant: Sequence[bool], may_leave: Callable[[Eqn], bool]) -> Divided | None:
    """What a program computes from the inputs marked in `constant` alone, and the rest. None: nothing may leave."""
    fixed = {var.index for var, mark in zip(jaxpr.invars, constant, strict=True) if mark}
    leaving: list[Eqn] = []
    staying: set[int] = set()  # positions of equations
    needed = {atom.index for atom in jaxpr.outvars if isinstance(atom, Var)}
    for position, eqn in enumerate(jaxpr.eqns):
        if all(not isinstance(atom, Var) or atom.index in fixed for atom in eqn.invars) and may_leave(eqn):
            fixed.update([out.index for out in eqn.outvars])
            leaving.append(eqn)
        else:
            staying.add(position)
            needed.update([atom.index for atom in eqn.invars if isinstance(atom, Var)])
    again: set[int] = set()
    passed: list[Var] = []
    for eqn in reversed(leaving):
        wanted = [out for out in eqn.outvars if out.index in needed]
        if wanted and isinstance(eqn.primitive, BroadcastInDim | Iota):
            again.add(eqn.outvars[0].index)
            needed.update([atom.index for atom in eqn.invars if isinstance(atom, Var)])
        else:
            passed += wanted
    if not passed:
        return None
    passed.reverse()
    return Divided(*_before(jaxpr, leaving, passed), _inside(jaxpr, staying, again, passed))


def _before(jaxpr: Jaxpr, leaving: Sequence[Eqn], passed: Sequence[Var]) -> tuple[Jaxpr, tuple[int, ...]]:
    ctx = Rebuilding(jaxpr.invars)
    env: dict[int, Atom] = dict(enumerate(jaxpr.invars))
    for eqn in leaving:
        ins = read(env, eqn.invars)
        env.update(zip([out.index for out in eqn.outvars], ctx.again(eqn, ins), strict=True))
    program = ctx.finish([env[var.index] for var in passed])
    pruned = prune(program, (True,) * len(passed))
    return pruned.jaxpr, tuple(compress(range(len(jaxpr.invars)), pruned.used_inputs))


def _inside(jaxpr: Jaxpr, staying: set[int], again: set[int], passed: Sequence[Var]) -> Jaxpr:
    n = len(passed)
    invars = [Var(i, aval) for i, aval in enumerate([*(var.aval for var in passed), *jaxpr.in_avals])]
    ctx = Rebuilding(invars)
    env: dict[int, Atom] = dict(enumerate(invars[n:]))
    env.update(zip([var.index for var in passed], invars[:n], strict=True))
    for position, eqn in enumerate(jaxpr.eqns):
        if position in staying or (eqn.outvars and eqn.outvars[0].index in again):
            ins = read(env, eqn.invars)
            env.update(zip([out.index for out in eqn.outvars], ctx.again(eqn, ins), strict=True))
    return ctx.finish(read(env, jaxpr.outvars))
