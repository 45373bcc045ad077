"""Where gradients go: into results, into Refs, or nowhere, which leaves out what only they need."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import compress
from typing import TypeAlias, final

from attrs import evolve, frozen

from tinyjax.api.derivatives import LinearProgram
from tinyjax.caching import bounded
from tinyjax.contexts.recording import renumber
from tinyjax.errors import RefError, TreeError
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.program import Eqn, Jaxpr, Var
from tinyjax.refs.ref import AnyRef
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tree.nodes import register_static


@final
@frozen
class GradValue:
    """The gradient is a result, as it is without `with_refs`."""


@final
@frozen
class DontWant:
    """The gradient isn't computed."""


@final
@frozen
class GradRef:
    """What a result is in the place of a gradient that was added to a Ref."""


@final
@frozen
class DidntWant:
    """What a result is in the place of a gradient that wasn't wanted."""


#: What becomes of one gradient.
Place: TypeAlias = GradValue | DontWant | AnyRef


def places_of(what: str, entries: Sequence[object], args: object) -> tuple[Place, ...]:
    """What is said of each leaf of a function's arguments, whose tree is that of `args`. An entry counts for all below.

    A TreeError if the entries are no prefix of the arguments, a RefError for entries that are none.
    """
    leaves, structure = tree.flatten(tuple(entries))
    found: list[Place] = []
    for leaf, part in zip(leaves, tree.up_to(f"{what}: with_refs", structure, args), strict=True):
        if not isinstance(leaf, GradValue | DontWant | AnyRef):
            raise RefError(
                f"{what}: with_refs takes a Ref for each argument, tinyjax.ad.GradValue() or tinyjax.ad.DontWant(), "
                f"got {leaf!r}"
            )
        inner = tree.flatten(part)[0]
        if isinstance(leaf, AnyRef) and len(inner) != 1:
            raise TreeError(f"{what}: with_refs has one Ref for {len(inner)} arrays: each gradient is added to its own")
        found += [leaf] * len(inner)
    return tuple(found)


def put(places: Sequence[Place], gradients: Sequence[Array]) -> list[object]:
    """The results in the places of gradients: those that belong in Refs are added there."""
    _register()
    found: list[object] = []
    for place, gradient in zip(places, gradients, strict=True):
        if isinstance(place, AnyRef):
            if gradient.aval.dtype != FLOAT0:
                place.addupdate(gradient)
            found.append(GradRef())
        else:
            found.append(DidntWant() if isinstance(place, DontWant) else gradient)
    return found


@bounded(1)
def _register() -> None:
    """At first need, as trees are jax's."""
    for kind in (GradRef, DidntWant):
        with suppress(ValueError):  # it is registered already
            register_static(kind)


@bounded(256)
def without(program: LinearProgram, unwanted: tuple[bool, ...]) -> LinearProgram:
    """The linear program for some of its inputs, to be transposed: what only the others go into is left out.

    { lambda ; a:f64[] b:f64[] c:f64[]. let d:f64[] = neg b; e:f64[] = mul a c; f:f64[] = add d e in (f,) }    # not b
    { lambda ; a:f64[] b:f64[] c:f64[]. let d:f64[] = mul a b; e:f64[] = add c d in (e,) }

    Where it was, the program has an input more: the cotangent of that costs nothing, and is nobody's.
    """
    jaxpr, moving = program.jaxpr, list(compress(unwanted, program.nonzero_in))
    kept = len(jaxpr.invars) - len(moving)
    linear = dict(zip([var.index for var in jaxpr.invars[kept:]], moving, strict=True))
    linear.update({var.index: False for var in jaxpr.invars[kept - len(program.states) : kept]})
    eqns, free = _for_wanted(jaxpr, linear)
    inputs = [var for var in jaxpr.invars if not linear.get(var.index, False)]
    added = [var.aval for var in free]
    marks = [mark and not no for mark, no in zip(program.nonzero_in, unwanted, strict=True)]
    return evolve(
        program,
        jaxpr=renumber([*inputs, *free], eqns, jaxpr.outvars, None),
        in_avals=(*program.in_avals, *added),
        nonzero_in=(*marks, *[True] * len(added)),
        lies=(*program.lies, *[None] * len(added)) if program.lies else (),
    )


def _for_wanted(jaxpr: Jaxpr, unwanted: dict[int, bool]) -> tuple[list[Eqn], list[Var]]:
    """The equations but for those that only unwanted inputs go into, and the variables of these that are read there.

    `unwanted` says of variables that depend on linear inputs whether they depend on unwanted ones only.
    """
    kept: list[Eqn] = []
    for eqn in jaxpr.eqns:
        marks = [unwanted[x.index] for x in eqn.invars if isinstance(x, Var) and x.index in unwanted]
        if marks:
            unwanted.update({var.index: all(marks) for var in eqn.outvars})
        if not marks or not all(marks):
            kept.append(eqn)
    atoms = [*(x for eqn in kept for x in eqn.invars), *jaxpr.outvars]
    free = {x.index: x for x in atoms if isinstance(x, Var) and unwanted.get(x.index, False)}
    return kept, list(free.values())
