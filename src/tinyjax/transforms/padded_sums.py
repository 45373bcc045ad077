"""Sums of rows that are padded with zeros, as stacks: what becomes of the gradient of `w[0]`, `w[1]`, …."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.primitives.elementwise import Add
from tinyjax.primitives.slicing import Concatenate, Pad
from tinyjax.primitives.structure import full
from tinyjax.transforms.rebuild import Rebuilding, count_reads, rewritten


def stacked_sums(jaxpr: Jaxpr) -> Jaxpr:
    """The program with rows joined that were padded with zeros, each at a place of its own, and added.

        { lambda ; a:f64[1] b:f64[1]. let c:f64[2] = pad[padding_config=((0, 1, 0),)] a 0.0;
            d:f64[2] = pad[padding_config=((1, 0, 0),)] b 0.0; e:f64[2] = add c d in (e,) }
        { lambda ; a:f64[1] b:f64[1]. let c:f64[2] = concatenate[dimension=0] a b in (c,) }

    It computes the same, but for the sign of zeros.
    """
    if Pad not in {type(eqn.primitive) for eqn in jaxpr.eqns}:
        return jaxpr
    sums = _padded_sums(jaxpr)
    if not sums:
        return jaxpr

    def change(ctx: Rebuilding, eqn: Eqn, now: Callable[[Atom], Atom]) -> Sequence[Atom] | None:
        rows = sums.get(eqn.outvars[0].index) if eqn.outvars else None
        if rows is None:
            return None
        (out,) = eqn.outvars
        parts: list[Atom] = []
        empty = out.aval.of_shape((1, *out.aval.shape[1:]))
        zero = None if len(rows) == out.aval.shape[0] else full(ctx, empty, 0)
        for i in range(out.aval.shape[0]):
            part = now(rows[i]) if i in rows else zero
            if part is not None:
                parts.append(part)
        return [ctx.converted(ctx.bind(Concatenate(0), *parts)[0], out.aval)]

    return rewritten(jaxpr, change)


def _padded_sums(jaxpr: Jaxpr) -> dict[int, dict[int, Var]]:
    """The variables that are such sums of several rows, and no part of another one; and their rows by position."""
    reads = count_reads(jaxpr)
    rows: dict[int, dict[int, Var]] = {}
    for eqn in jaxpr.eqns:
        padded = _padded(eqn)
        if padded is not None:
            rows[eqn.outvars[0].index] = padded
        elif type(eqn.primitive) is Add:
            x, y = eqn.invars
            if not isinstance(x, Var) or not isinstance(y, Var) or x.index == y.index:
                continue
            a, b = rows.get(x.index), rows.get(y.index)
            if a is None or b is None or reads[x.index] > 1 or reads[y.index] > 1:
                continue
            small, large = sorted((a, b), key=len)
            if large.keys().isdisjoint(small):
                del rows[x.index], rows[y.index]
                large.update(small)
                rows[eqn.outvars[0].index] = large
    return {index: found for index, found in rows.items() if len(found) > 1}


def _padded(eqn: Eqn) -> dict[int, Var] | None:
    primitive = eqn.primitive
    if type(primitive) is not Pad:
        return None
    row, zero = eqn.invars
    if not isinstance(row, Var) or not isinstance(zero, Literal) or zero.value or row.aval.shape[:1] != (1,):
        return None
    (low, high, _), *others = primitive.padding_config
    if low < 0 or high < 0 or low + high == 0 or any(entry != (0, 0, 0) for entry in others):
        return None
    return {low: row}
