"""What transformations that make records need for closed programs: constants stay constants, and names go along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress

from attrs import frozen
from typing_extensions import TypeVar

from tinyjax.ir.naming import InputNames, names_for
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.transforms.rebuild import Rebuilding, read

#: The form of the programs in a record: that of the program which it was made of.
Form = TypeVar("Form", Jaxpr, ClosedJaxpr, default=Jaxpr)


@frozen(eq=False, repr=False)
class DerivedProgram(Record):
    """A program that a transformation made, and what else there is to know: it shows itself."""


def derived_names(jaxpr: Jaxpr, derive: Callable[[tuple[str, ...]], Sequence[str]]) -> InputNames | None:
    """The names of a program that is made of another one: `derive` makes them of its names, when they are asked for."""
    names, count = jaxpr.names, len(jaxpr.invars)
    return None if names is None else InputNames(lambda: derive(names_for(names.found, count)))


def tangent_names(names: Sequence[str], nonzero: Sequence[bool]) -> list[str]:
    """`tangent of x` for each `x` that has one; "" stays."""
    return [f"tangent of {name}" if name else "" for name in compress(names, nonzero)]


def names_with_tangents(jaxpr: Jaxpr, nonzero: Sequence[bool]) -> InputNames | None:
    """The names of the inputs, and of the tangents of those that have one."""
    return derived_names(jaxpr, lambda own: [*own, *tangent_names(own, nonzero)])


def with_first(jaxpr: Jaxpr, first: Sequence[int], values: Sequence[ConcreteValue]) -> ClosedJaxpr:
    """The program with the inputs at these positions first, and fed by constants."""
    rest = [i for i in range(len(jaxpr.invars)) if i not in set(first)]
    order = [*first, *rest]
    invars = [Var(i, jaxpr.in_avals[old]) for i, old in enumerate(order)]
    ctx = Rebuilding(invars, jaxpr.names_at(order))
    env: dict[int, Atom] = dict(zip(order, invars, strict=True))
    for eqn in jaxpr.eqns:
        ins = read(env, eqn.invars)
        env.update(zip([out.index for out in eqn.outvars], ctx.again(eqn, ins), strict=True))
    outs = read(env, jaxpr.outvars)
    return ClosedJaxpr(ctx.finish(outs), tuple(values))
