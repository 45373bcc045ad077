"""What the first part of a divided program hands to the second: no more than the second part's outputs need."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import TypeVar

from tinyjax.contexts.partial_eval import Unfinished
from tinyjax.contexts.rebuilding import Known
from tinyjax.ir.context import Context
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.transforms.dce import swept
from tinyjax.transforms.narrow_positions import narrowed
from tinyjax.transforms.rebuild import Rebuilding, read

V = TypeVar("V")


def needed(later: Unfinished[V], parent: Context[V]) -> Unfinished[V]:
    """The staged program without equations and residuals that no output depends on. Its other inputs stay.

    { lambda ; a:f64[] b:f64[] c:f64[]. let d:f64[] = mul a c; e:f64[] = mul b c in (e,) }    # a and b are residuals
    { lambda ; a:f64[] b:f64[]. let c:f64[] = mul a b in (c,) }

    Derivatives of what is then rounded, compared, or made an index are such equations. Residuals that follow from
    others are computed of them again:

    { lambda ; a:f64[3] b:bool[3] c:f64[3]. let d:f64[3] = mul a c; e:f64[3] = select_n b 0.0 d in (e,) }    # b = a > 0
    { lambda ; a:f64[3] b:f64[3]. let c:bool[3] = gt a 0.0; d:f64[3] = mul a b; e:f64[3] = select_n c 0.0 d in (e,) }

    Positions of 64 bits that were computed are handed over with 32 where they are read as nothing else, by `parent`.
    """
    jaxpr, n = later.jaxpr, len(later.residuals)
    found = swept(jaxpr, (True,) * len(jaxpr.outvars), tuple([i >= n for i in range(len(jaxpr.invars))]))
    if found.jaxpr is not jaxpr:
        jaxpr, known = found.jaxpr, tuple(compress(later.known, found.used_inputs))
        later = Unfinished(jaxpr, tuple([one.value for one in known]), known)
    places = {id(one.value): i for i, one in enumerate(later.known)}
    again = {i for i, one in enumerate(later.known) if jaxpr.invars[i].aval.shape and _follows(one, places)}
    return narrowed(_computed_again(later, places, again) if again else later, parent)


def _follows(known: Known[V], places: Mapping[int, int]) -> bool:
    """Whether a value can be computed of others that are at these places, by formulas as short as they are."""
    if known.formula is None:
        return False
    return all(
        operand.literal is not None or id(operand.value) in places or _follows(operand, places)
        for operand in known.formula[1]
    )


def _computed_again(later: Unfinished[V], places: Mapping[int, int], again: set[int]) -> Unfinished[V]:
    """The staged program without these of its residuals, which it computes first."""
    jaxpr = later.jaxpr
    kept = [i not in again for i in range(len(jaxpr.invars))]
    grown = Rebuilding([Var(i, var.aval) for i, var in enumerate(compress(jaxpr.invars, kept))])
    env: dict[int, Atom] = dict(zip(compress(range(len(kept)), kept), grown.invars, strict=True))
    made: dict[int, Atom] = {id(later.known[i].value): env[i] for i in places.values() if kept[i]}

    sources = _first_readers(jaxpr, again)
    for i in sorted(again):
        reader = sources.get(i)
        grown.cursor.source = None if reader is None else reader.source
        env[i] = _computed(grown, later, places, made, later.known[i])
    for eqn in jaxpr.eqns:
        for old, new in zip(eqn.outvars, grown.again(eqn, read(env, eqn.invars)), strict=True):
            env[old.index] = new
    known = tuple(compress(later.known, kept))
    return Unfinished(grown.finish(read(env, jaxpr.outvars)), tuple([one.value for one in known]), known)


def _computed(
    grown: Rebuilding, later: Unfinished[V], places: Mapping[int, int], made: dict[int, Atom], known: Known[V]
) -> Atom:
    """A value in a program that grows, where those that have been `made` are there."""
    waiting = [known]
    while waiting:
        one = waiting[-1]
        name = id(one.value)
        formula = later.known[places[name]].formula if name in places else one.formula
        if one.literal is not None or name in made or formula is None:
            waiting.pop()
            continue
        missing = [operand for operand in formula[1] if operand.literal is None and id(operand.value) not in made]
        if missing:
            waiting += reversed(missing)
            continue
        operands = [made[id(one.value)] if one.literal is None else one.literal for one in formula[1]]
        (made[name],) = grown.bind(formula[0], *operands)
    return made[id(known.value)] if known.literal is None else known.literal


def _first_readers(jaxpr: Jaxpr, inputs: set[int]) -> dict[int, Eqn]:
    """The first equation that reads each of these inputs."""
    found: dict[int, Eqn] = {}
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, Var) and atom.index in inputs:
                found.setdefault(atom.index, eqn)
    return found
