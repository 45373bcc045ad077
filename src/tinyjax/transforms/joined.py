"""Arrays that are put together in several steps, as arrays that are put together at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.primitives.slicing import Concatenate
from tinyjax.transforms.rebuild import Rebuilding, count_reads, rewritten


def joined_at_once(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which no equation joins what is joined along the same axis for it alone.

        { lambda ; a:f64[1] b:f64[1] c:f64[1]. let d:f64[2] = concatenate[dimension=0] a b;
            e:f64[3] = concatenate[dimension=0] d c in (e,) }
        { lambda ; a:f64[1] b:f64[1] c:f64[1]. let d:f64[3] = concatenate[dimension=0] a b c in (d,) }

    JAX's `stack` and `array` of more than 16 arrays join them 16 by 16.
    """
    joining = [eqn for eqn in jaxpr.eqns if type(eqn.primitive) is Concatenate]
    reads = count_reads(jaxpr) if len(joining) > 1 else []
    made: dict[int, Eqn] = {}
    parts: dict[int, list[Atom]] = {}  # of what is made of such results: all that it joins
    for eqn in joining:
        found: list[Atom] = []
        for atom in eqn.invars:
            inner = made.get(atom.index) if isinstance(atom, Var) else None
            if inner is None or inner.primitive != eqn.primitive or reads[inner.outvars[0].index] > 1:
                found.append(atom)
            else:
                found += parts.get(inner.outvars[0].index, inner.invars)
        made[eqn.outvars[0].index] = eqn
        if len(found) > len(eqn.invars):
            parts[eqn.outvars[0].index] = found
    if not parts:
        return jaxpr

    def change(ctx: Rebuilding, eqn: Eqn, now: Callable[[Atom], Atom]) -> Sequence[Atom] | None:
        found = parts.get(eqn.outvars[0].index) if eqn.outvars else None
        if found is None:
            return None
        return [ctx.converted(ctx.bind(eqn.primitive, *map(now, found))[0], eqn.outvars[0].aval)]

    return rewritten(jaxpr, change)
