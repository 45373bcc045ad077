"""Calls of programs that differ in numbers alone, as calls of one program that takes the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.traverse import holds_programs, subjaxprs
from tinyjax.transforms.rebuild import Rebuilding, read, rewritten

#: The same primitive for another program, which may take more operands after its own: of one that only applies its
#: program to its operands.
APPLYING: Final[RuleTable[[Jaxpr], Primitive]] = RuleTable("Applying", name="tinyjax.transforms.APPLYING")


@final
@frozen(eq=False)
class _Applied:
    """A primitive that applies a program, what makes it for another one, and the numbers in the program."""

    program: Jaxpr
    make: Callable[[Jaxpr], Primitive]
    numbers: tuple[Literal, ...]


def numbers_apart(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which calls, and what is computed a second time, take the numbers in which their programs differ.

        { lambda ; a:f64[]. let b:f64[] = checkpoint[jaxpr={ lambda ; a:f64[]. let b:f64[] = mul a 2.0 in (b,) }] a;
            c:f64[] = checkpoint[jaxpr={ lambda ; a:f64[]. let b:f64[] = mul a 3.0 in (b,) }] b in (c,) }
        { lambda ; a:f64[]. let b:f64[] = checkpoint[jaxpr={ lambda ; a:f64[] b:f64[]. let c:f64[] = mul a b
            in (c,) }] a 2.0; c:f64[] = checkpoint[jaxpr={ … }] b 3.0 in (c,) }

    So layers that differ in a number, a rate or a distance say, are equal blocks.
    """
    if not jaxpr.inner:
        return jaxpr
    groups: dict[Primitive, list[_Applied]] = {}
    found: dict[int, _Applied] = {}  # by the identity of primitives, which the program keeps alive
    for primitive in {id(eqn.primitive): eqn.primitive for eqn in jaxpr.eqns}.values():
        rule = APPLYING.find(type(primitive))
        if rule is None or not holds_programs(primitive):
            continue
        (program,) = subjaxprs(primitive)
        numbers = tuple([atom for each in program.eqns for atom in each.invars if isinstance(atom, Literal)])
        if numbers:
            applied = found[id(primitive)] = _Applied(program, partial(rule, primitive), numbers)
            alike = applied.make(_taking(program, range(len(numbers)), [number.aval for number in numbers]))
            groups.setdefault(alike, []).append(applied)
    instead: dict[_Applied, tuple[Primitive, Sequence[Literal]]] = {}
    for group in groups.values():
        # What is the same number in each of the programs is one operand.
        columns = list(zip(*[each.numbers for each in group], strict=True))
        differing = list(dict.fromkeys(column for column in columns if len(set(column)) > 1))
        if not differing:
            continue
        first = group[0]
        places = [differing.index(column) if column in differing else -1 for column in columns]
        one = first.make(_taking(first.program, places, [column[0].aval for column in differing]))
        instead.update((each, (one, [column[i] for column in differing])) for i, each in enumerate(group))
    if not instead:
        return jaxpr

    def change(ctx: Rebuilding, eqn: Eqn, now: Callable[[Atom], Atom]) -> Sequence[Atom] | None:
        applied = found.get(id(eqn.primitive))
        if applied is None or applied not in instead:
            return None
        primitive, numbers = instead[applied]
        avals = [out.aval for out in eqn.outvars]
        return ctx.emit(primitive, (*map(now, eqn.invars), *numbers), avals, eqn.source)

    return rewritten(jaxpr, change)


def _taking(program: Jaxpr, places: Sequence[int], avals: Sequence[ShapedArray]) -> Jaxpr:
    """The program with more inputs of these types, which stand for numbers: `places` says for each number in it which
    one, and -1 that it stays."""
    first = len(program.invars)
    ctx = Rebuilding([*program.invars, *(Var(first + i, aval) for i, aval in enumerate(avals))])
    env: list[Atom] = list(program.invars)
    place = iter(places)
    for eqn in program.eqns:
        ins: list[Atom] = []
        for atom in eqn.invars:
            if isinstance(atom, Var):
                ins.append(env[atom.index])
            else:
                at = next(place)
                ins.append(atom if at < 0 else ctx.invars[first + at])
        env += ctx.again(eqn, tuple(ins))
    return ctx.finish(read(env, program.outvars))
