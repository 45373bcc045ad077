"""What the first part of a divided program hands to the second: no more than the second part's outputs need."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import Final, TypeVar

from attrs import evolve

from tinyjax.contexts.partial_eval import Unfinished
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.recording import Tape
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Var
from tinyjax.primitives.constant import Constant
from tinyjax.transforms.dce import read_equations
from tinyjax.transforms.narrow_positions import narrowed
from tinyjax.transforms.rebuild import Rebuilding

V = TypeVar("V")

#: In so many steps what follows from nothing is made again.
_STEPS: Final = 8


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
    later = _read(later)
    places = {id(one.value): i for i, one in enumerate(later.known)}
    again = {
        i
        for i, (var, one) in enumerate(zip(later.tape.invars, later.known, strict=False))
        if var.aval.shape and _follows(one, places)
    }
    return narrowed(_computed_again(later, places, again) if again else later, parent)


def _read(later: Unfinished[V]) -> Unfinished[V]:
    """The tape without equations and residuals that no output depends on."""
    tape, n = later.tape, len(later.known)
    live = bytearray(tape.count)
    for atom in tape.outvars:
        if isinstance(atom, Var):
            live[atom.index] = 1
    eqns = tuple(read_equations(tape.eqns, live))
    used = [live[var.index] == 1 for var in tape.invars[:n]]
    if eqns is tape.eqns and all(used):
        return later
    invars = (*compress(tape.invars, used), *tape.invars[n:])
    return Unfinished(evolve(tape, invars=invars, eqns=eqns), tuple(compress(later.known, used)))


def _follows(known: Known[V], places: Mapping[int, int]) -> bool:
    """Whether a value can be computed of others that are at these places, or of nothing, by formulas as short as they
    are."""
    if known.formula is None:
        return False
    return all(
        operand.literal is not None or id(operand.value) in places or _follows(operand, places) or _of_nothing(operand)
        for operand in known.formula[1]
    )


def _of_nothing(known: Known[V]) -> bool:
    """Whether a value is made of no other array, in few steps: a mask, which compares positions, say."""
    waiting, steps = [known], 0
    while waiting:
        one = waiting.pop()
        made = _made(one)
        if one.literal is None:
            steps += 1
            if made is None or steps > _STEPS or isinstance(made[0], Constant):
                return False
            waiting += made[1]
    return True


def _made(known: Known[V]) -> tuple[Primitive, tuple[Known[V], ...]] | None:
    """What makes a value, and of what."""
    if known.recipe is None:
        return known.formula
    primitive, operand = known.recipe
    return primitive, () if operand is None else (operand,)


def _computed_again(later: Unfinished[V], places: Mapping[int, int], again: set[int]) -> Unfinished[V]:
    """The tape without these of its residuals, which it computes first."""
    tape = later.tape
    kept = [i not in again for i in range(len(later.known))]
    first = Rebuilding((), first=tape.count)
    made: dict[int, Atom] = {id(later.known[i].value): tape.invars[i] for i in places.values() if kept[i]}
    readers = _first_readers(tape, again)
    for i in sorted(again):
        reader = readers.get(tape.invars[i].index)
        first.cursor.source = None if reader is None else reader.source
        _compute(first, later, places, made, later.known[i])
    invars = (*compress(tape.invars, kept), *tape.invars[len(kept) :])
    grown = Tape(invars, (*first.eqns, *tape.eqns), tape.outvars, first.num_vars)
    return Unfinished(grown, tuple(compress(later.known, kept)))


def _compute(
    first: Rebuilding, later: Unfinished[V], places: Mapping[int, int], made: dict[int, Atom], known: Known[V]
) -> None:
    """Computes a value, of others that have been `made`. What was an input of the tape is bound as the variable that it
    was."""
    waiting = [known]
    while waiting:
        one = waiting[-1]
        name = id(one.value)
        at = places.get(name)
        formula = _made(one if at is None else later.known[at])
        if one.literal is not None or name in made or formula is None:
            waiting.pop()
            continue
        missing = [operand for operand in formula[1] if operand.literal is None and id(operand.value) not in made]
        if missing:
            waiting += reversed(missing)
            continue
        operands = [made[id(one.value)] if one.literal is None else one.literal for one in formula[1]]
        (made[name],) = first.bind(formula[0], *operands)
        if at is not None:
            made[name] = first.rename(later.tape.invars[at])


def _first_readers(tape: Tape, inputs: set[int]) -> dict[int, Eqn]:
    """The first equation that reads each of the inputs at these places, by its number."""
    wanted = {tape.invars[i].index for i in inputs}
    found: dict[int, Eqn] = {}
    for eqn in tape.eqns:
        for atom in eqn.invars:
            if isinstance(atom, Var) and atom.index in wanted:
                found.setdefault(atom.index, eqn)
    return found
