"""Sums of what many layers make, with each term added where it is made: as part of its layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.primitives.elementwise import Add
from tinyjax.primitives.structure import broadcast_scalar
from tinyjax.transforms.rebuild import Rebuilding, count_reads, read

#: Sums of fewer terms stay as they are.
_TERMS: Final = 8


def added_on_the_way(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which the terms of long sums of arrays are added one after the other as they are made.

        { lambda ; a:f64[3]. let b:f64[3] = sin a; c:f64[3] = sin b; d:f64[3] = sin c; e:f64[3] = add b c;
            f:f64[3] = add e d in (f,) }
        { lambda ; a:f64[3]. let b:f64[3] = sin a; c:f64[3] = sin b; d:f64[3] = add b c; e:f64[3] = sin c;
            f:f64[3] = add d e in (f,) }

    A model may keep what each layer gives to its result in a list, and add that in the end. On the way, each layer adds
    its own to one array, in the same order, and nothing is kept for it. A number that such a sum begins with is an
    array, as what is added to in the other layers is.
    """
    sums = long_sums(jaxpr.eqns, lambda: count_reads(jaxpr))
    if not sums:
        return jaxpr
    maker = {out.index: i for i, eqn in enumerate(jaxpr.eqns) for out in eqn.outvars}
    places = list(range(len(jaxpr.eqns)))  # the equations after which each comes, or its own place
    begin = set[int]()  # the equations that add to a number
    for links in sums:
        found: list[int] = []
        for i in links:
            made = [places[maker[a.index]] for a in jaxpr.eqns[i].invars if isinstance(a, Var) and a.index in maker]
            found.append(max(made, default=i))
            places[i] = found[-1]
        # Terms that are all there together, as rows of a stack are, may as well be added where they are.
        if 2 * len(set(found)) < len(links):
            for i in links:
                places[i] = i
        elif any(isinstance(atom, Literal) for atom in jaxpr.eqns[links[0]].invars):
            begin.add(links[0])
    order = sorted(range(len(places)), key=places.__getitem__)
    if not begin and order == list(range(len(places))):
        return jaxpr
    ctx = Rebuilding(jaxpr.invars, jaxpr.names)
    env: dict[int, Atom] = dict(enumerate(jaxpr.invars))
    for i in order:
        eqn = jaxpr.eqns[i]
        ctx.cursor.source = eqn.source
        ins = read(env, eqn.invars)
        if i in begin:
            ins = tuple([_repeated(ctx, atom, eqn) for atom in ins])
        env.update(zip([out.index for out in eqn.outvars], ctx.again(eqn, ins), strict=True))
    return ctx.finish(read(env, jaxpr.outvars))


def long_sums(eqns: Sequence[Eqn], reads_of: Callable[[], Sequence[int] | Mapping[int, int]]) -> list[list[int]]:
    """The equations that add up each sum of many terms, from the first to the last; these ones add arrays. What each
    gives is read by the next one alone: `reads_of` says how often each variable is read, if that has to be known."""
    adds = [i for i, eqn in enumerate(eqns) if type(eqn.primitive) is Add and eqn.outvars[0].aval.shape]
    if len(adds) < _TERMS:
        return []
    reads = reads_of()
    position: dict[int, int] = {}
    length: dict[int, int] = {}
    before: dict[int, int] = {}  # of a sum: the one to which a term is added there
    for i in adds:
        eqn = eqns[i]
        out = eqn.outvars[0]
        position[out.index], length[out.index] = i, 1
        # One that adds to a number begins a sum.
        for atom in () if any(isinstance(atom, Literal) for atom in eqn.invars) else eqn.invars:
            terms = length.get(atom.index, 0) if isinstance(atom, Var) and atom.aval == out.aval else 0
            if isinstance(atom, Var) and terms >= length[out.index] and reads[atom.index] == 1:
                length[out.index], before[out.index] = terms + 1, atom.index
    parts = set(before.values())
    sums: list[list[int]] = []
    for last, terms in length.items():
        if terms >= _TERMS and last not in parts:
            links = [last]
            while links[-1] in before:
                links.append(before[links[-1]])
            sums.append([position[index] for index in reversed(links)])
    return sums


def _repeated(ctx: Rebuilding, atom: Atom, eqn: Eqn) -> Atom:
    """A number as an array of the type of what an equation gives; arrays as they are."""
    aval = eqn.outvars[0].aval
    if not isinstance(atom, Literal):
        return atom
    return broadcast_scalar(ctx, Literal(atom.value, aval.of_shape(())), aval.shape)
