"""Rows along any axis, as rows along the leading one: of arrays whose axes are permuted once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.primitives.shaping import squeeze
from tinyjax.primitives.slicing import Concatenate, Slice, slice_in_dim
from tinyjax.primitives.stacking import Stack, Unstack, stack, unstack
from tinyjax.primitives.structure import BroadcastInDim, broadcast_scalar, move_axis
from tinyjax.transforms.rebuild import Rebuilding, rewritten
from tinyjax.transforms.rows import RESHAPING, drops, expands, readers_of, row_of

#: From so many rows on an array is permuted for them.
_LEAST: Final = 3
#: What may take rows.
_TAKING: Final = frozenset({Slice, Unstack})


def leading_rows(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which rows are taken and joined along leading axes, so that they can be those of stacks.

        { lambda ; a:f64[2,3]. let b:f64[2] c:f64[2] d:f64[2] = unstack[axis=1] a; … in (…) }
        { lambda ; a:f64[2,3]. let b:f64[3,2] = transpose[permutation=(1, 0)] a;
            c:f64[2] d:f64[2] e:f64[2] = unstack[axis=0] b; … in (…) }

    A loop over time reads `x[:, t]` if examples come first, and joins its results along the second axis.
    """
    taken = _taken(jaxpr)
    joined = _joined(jaxpr)
    if not taken and not joined:
        return jaxpr
    moved: dict[tuple[int, int], Atom] = {}
    dropped = set[int]()

    def change(ctx: Rebuilding, eqn: Eqn, now: Callable[[Atom], Atom]) -> Sequence[Atom] | None:
        if not eqn.outvars:
            return None
        out = eqn.outvars[0]
        if out.index in joined:
            axis, parts = joined[out.index]
            found = stack(ctx, [_row(ctx, now(part), out.aval, axis) for part in parts], 0)
            return [ctx.converted(move_axis(ctx, found, 0, axis), out.aval)]
        if eqn.invars and isinstance(eqn.invars[0], Var) and eqn.invars[0].index in dropped:
            return [ctx.converted(squeeze(ctx, now(eqn.invars[0]), (0,)), out.aval)]
        if out.index not in taken:
            return None
        axis, at = taken[out.index]
        base = eqn.invars[0]
        assert isinstance(base, Var)
        whole = moved.get((base.index, axis))
        if whole is None:
            whole = moved[base.index, axis] = move_axis(ctx, now(base), axis, 0)
        if at is None:
            return unstack(ctx, whole, 0)
        dropped.add(out.index)
        return [slice_in_dim(ctx, whole, at, at + 1, 1, 0)]

    return rewritten(jaxpr, change)


def _row(ctx: Rebuilding, part: Atom, out: ShapedArray, axis: int) -> Atom:
    """What is joined, as a row: a scalar stands for one that repeats it."""
    shape = (*out.shape[:axis], *out.shape[axis + 1 :])
    return part if part.aval.shape == shape else broadcast_scalar(ctx, part, shape)


def _taken(jaxpr: Jaxpr) -> dict[int, tuple[int, int | None]]:
    """What takes rows along another axis than the leading one: by what it binds first, the axis, and which row, None if
    it takes them all."""
    slices: dict[tuple[int, int], list[tuple[Var, int]]] = {}
    found: dict[int, tuple[int, int | None]] = {}
    for eqn in jaxpr.eqns:
        kind = type(eqn.primitive)
        if kind not in _TAKING or not isinstance(base := eqn.invars[0], Var):
            continue
        if type(eqn.primitive) is Unstack and eqn.primitive.axis and len(eqn.outvars) >= _LEAST:
            found[eqn.outvars[0].index] = eqn.primitive.axis, None
        elif type(eqn.primitive) is Slice:
            for axis in range(1, base.aval.ndim):
                at = row_of(eqn, axis)
                if at is not None:
                    slices.setdefault((base.index, axis), []).append((eqn.outvars[0], at))
    if not slices:
        return found
    readers = readers_of(jaxpr, [eqn for eqn in jaxpr.eqns if type(eqn.primitive) is Slice])
    for (_, axis), rows in slices.items():
        good = [
            (out.index, at)
            for out, at in rows
            if all(eqn is not None and drops(eqn, axis) for eqn in readers.get(out.index, ()))
        ]
        if len(good) >= _LEAST:
            found.update((index, (axis, at)) for index, at in good)
    return found


def _joined(jaxpr: Jaxpr) -> dict[int, tuple[int, Sequence[Atom]]]:
    """What joins rows along another axis than the leading one: by what it binds, the axis, and the rows."""
    made: dict[int, Eqn] = {}
    found: dict[int, tuple[int, Sequence[Atom]]] = {}
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        if type(primitive) is Stack and primitive.axis and len(eqn.invars) >= _LEAST:
            found[eqn.outvars[0].index] = primitive.axis, eqn.invars
        elif type(primitive) is Concatenate and primitive.dimension and len(eqn.invars) >= _LEAST:
            parts = [made.get(atom.index) if isinstance(atom, Var) else None for atom in eqn.invars]
            rows = [part.invars[0] for part in parts if part is not None and _expands_along(part, primitive.dimension)]
            if len(rows) == len(parts):
                found[eqn.outvars[0].index] = primitive.dimension, rows
        elif type(primitive) in RESHAPING and len(eqn.invars) == 1:
            made[eqn.outvars[0].index] = eqn
    return found


def _expands_along(eqn: Eqn, axis: int) -> bool:
    """Whether an equation adds an axis of size 1, or repeats a scalar where there is one."""
    repeats = type(eqn.primitive) is BroadcastInDim and not eqn.invars[0].aval.shape
    return eqn.outvars[0].aval.shape[axis] == 1 and (repeats or expands(eqn, axis))
