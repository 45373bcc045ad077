"""Sums of rows that are padded with zeros, as stacks: what becomes of the gradient of `w[0]`, `w[1]`, …."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.primitives.elementwise import Add
from tinyjax.primitives.slicing import Concatenate, Pad
from tinyjax.primitives.structure import full
from tinyjax.transforms.rebuild import Rebuilding, count_reads, rewritten

#: Along which axis rows lie, and those that there are by position.
_Rows: TypeAlias = tuple[int, dict[int, Var]]


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
        found = sums.get(eqn.outvars[0].index) if eqn.outvars else None
        if found is None:
            return None
        (out,) = eqn.outvars
        axis, rows = found
        parts: list[Atom] = []
        size = out.aval.shape[axis]
        empty = out.aval.of_shape((*out.aval.shape[:axis], 1, *out.aval.shape[axis + 1 :]))
        zero = None if len(rows) == size else full(ctx, empty, 0)
        for i in range(size):
            part = now(rows[i]) if i in rows else zero
            if part is not None:
                parts.append(part)
        return [ctx.converted(ctx.bind(Concatenate(axis), *parts)[0], out.aval)]

    return rewritten(jaxpr, change)


def _padded_sums(jaxpr: Jaxpr) -> dict[int, _Rows]:
    """The variables that are such sums of several rows, and no part of another one; and their rows."""
    reads = count_reads(jaxpr)
    found: dict[int, _Rows] = {}
    for eqn in jaxpr.eqns:
        padded = _padded(eqn)
        if padded is not None:
            found[eqn.outvars[0].index] = padded
        elif type(eqn.primitive) is Add:
            x, y = eqn.invars
            if not isinstance(x, Var) or not isinstance(y, Var) or x.index == y.index:
                continue
            a, b = found.get(x.index), found.get(y.index)
            if a is None or b is None or a[0] != b[0] or reads[x.index] > 1 or reads[y.index] > 1:
                continue
            small, large = sorted((a[1], b[1]), key=len)
            if large.keys().isdisjoint(small):
                del found[x.index], found[y.index]
                large.update(small)
                found[eqn.outvars[0].index] = a[0], large
    return {index: rows for index, rows in found.items() if len(rows[1]) > 1}


def _padded(eqn: Eqn) -> _Rows | None:
    primitive = eqn.primitive
    if type(primitive) is not Pad:
        return None
    row, zero = eqn.invars
    if not isinstance(row, Var) or not isinstance(zero, Literal) or zero.value:
        return None
    padded = [axis for axis, entry in enumerate(primitive.padding_config) if entry != (0, 0, 0)]
    if len(padded) != 1 or row.aval.shape[padded[0]] != 1:
        return None
    low, high, _ = primitive.padding_config[padded[0]]
    return (padded[0], {low: row}) if low >= 0 and high >= 0 else None
