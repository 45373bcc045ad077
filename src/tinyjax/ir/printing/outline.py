"""A program with those within it, taken apart for pictures: each distinct program once, and where it belongs.

A program that occurs several times is shown where it is nearest to the surface, and referred to elsewhere. So a picture
is as large as what is distinct in it, however often that occurs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from attrs import frozen

from tinyjax.ir.parameters import PLAIN_TYPES
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.traverse import items_of, programs_of, record_values, shown_values


@final
@frozen
class Held:
    """A program that an equation holds: the parameter it is in, its number, and whether it is shown here."""

    label: str
    number: int
    here: bool


@final
@frozen
class Part:
    """One distinct program, and by the numbers of its equations the programs that these hold. `shared`: it occurs
    more than once."""

    jaxpr: Jaxpr
    held: dict[int, tuple[Held, ...]]
    shared: bool


def holds_programs(parameter: object) -> bool:
    """Whether there is a program in this parameter."""
    return type(parameter) not in PLAIN_TYPES and next(programs_of(parameter), None) is not None


def labelled_programs(primitive: Primitive) -> Iterator[tuple[str, Jaxpr]]:
    """The programs that a primitive holds, in order, with where they are: `jaxpr`, `branches[1]`, `rules.forward`."""
    for name, value in record_values(primitive):
        if type(value) not in PLAIN_TYPES:
            yield from _labelled(name, value)


def _labelled(label: str, value: object) -> Iterator[tuple[str, Jaxpr]]:
    if isinstance(value, Jaxpr):
        yield label, value
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from _labelled(f"{label}[{number}]", item)
    elif isinstance(value, frozenset):
        for item in items_of(value):
            yield from ((label, program) for program in programs_of(item))
    elif holds_programs(value):
        for name, item in record_values(value):
            yield from _labelled(f"{label}.{name}", item)


def shown_parameters(primitive: Primitive) -> Iterator[tuple[str, object]]:
    """The parameters that text shows, without those that are nothing but programs."""
    for name, value in shown_values(primitive):
        if type(value) in PLAIN_TYPES or not _only_programs(value):
            yield name, value


def _only_programs(value: object) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(item, Jaxpr) for item in value)
    return isinstance(value, Jaxpr)


def outline(jaxpr: Jaxpr) -> list[Part]:
    """The distinct programs, the whole one first, then by depth."""
    numbers = {jaxpr: 0}
    programs = [jaxpr]
    shared: set[int] = set()
    held: list[dict[int, tuple[Held, ...]]] = []
    for program in programs:  # grows while it is walked
        here: dict[int, tuple[Held, ...]] = {}
        for position, eqn in enumerate(program.eqns):
            found: list[Held] = []
            for label, child in labelled_programs(eqn.primitive):
                number = numbers.setdefault(child, len(programs))
                new = number == len(programs)
                if new:
                    programs.append(child)
                else:
                    shared.add(number)
                found.append(Held(label, number, new))
            if found:
                here[position] = tuple(found)
        held.append(here)
    return [Part(program, held[i], i in shared) for i, program in enumerate(programs)]
