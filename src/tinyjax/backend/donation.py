"""Which donated arguments a program can use. Needs no jax at import."""

from __future__ import annotations

import math
import warnings
from collections import Counter

from tinyjax.backend.layouts import Layout, input_label
from tinyjax.caching import bounded
from tinyjax.errors import DonationWarning
from tinyjax.ir.program import Jaxpr, Var
from tinyjax.ir.shapes import Shape


@bounded(4096)
def usable(jaxpr: Jaxpr, donated: tuple[bool, ...], layout: Layout | None = None) -> tuple[bool, ...]:
    """Which of the donated inputs give their memory to results: each to one of its own type, or else to one of as many
    elements, on each device. What nothing reads gives it to none."""
    if not any(donated):
        return donated
    ins, results = jaxpr.in_avals, Counter[tuple[bool, Shape, object]]()
    for j, aval in enumerate(jaxpr.out_avals):
        out = None if layout is None else layout.outs[j]
        shape = aval.shape if out is None else out.shard_shape(aval.shape)
        results[out is None, shape, aval.dtype] += 1
    read = {atom for eqn in jaxpr.eqns for atom in eqn.invars if isinstance(atom, Var)}
    read.update(atom for atom in jaxpr.outvars if isinstance(atom, Var))
    waiting: list[int] = []
    found = [False] * len(donated)
    for i, donate in enumerate(donated):
        if not donate or jaxpr.invars[i] not in read:
            continue
        for key in _keys(ins[i].shape, layout, i):
            if results[*key, ins[i].dtype] > 0:
                results[*key, ins[i].dtype] -= 1
                found[i] = True
                break
        else:
            waiting.append(i)
    if waiting:
        left = Counter[tuple[bool, int]]()
        for (whole, shape, _), count in results.items():
            left[whole, math.prod(shape)] += count
        for i in waiting:
            for whole, shape in _keys(ins[i].shape, layout, i):
                if left[whole, math.prod(shape)] > 0:
                    left[whole, math.prod(shape)] -= 1
                    found[i] = True
                    break
    return tuple(found)


def _keys(shape: Shape, layout: Layout | None, i: int) -> list[tuple[bool, Shape]]:
    """What an input is like, for results of which XLA chooses how they lie, and for others."""
    return [(True, shape)] if layout is None else [(False, layout.ins[i].shard_shape(shape)), (True, shape)]


def usable_or_warn(
    jaxpr: Jaxpr, donated: tuple[bool, ...], name: str, layout: Layout | None = None
) -> tuple[bool, ...]:
    """The same, with a DonationWarning that names those which are donated in vain. They are left alone."""
    found = usable(jaxpr, donated, layout)
    if found != donated:
        read = {atom for eqn in jaxpr.eqns for atom in eqn.invars} | set(jaxpr.outvars)
        vain = [i for i, donate in enumerate(donated) if donate and not found[i] and jaxpr.invars[i] in read]
        if vain:
            shown = ", ".join(f"{input_label(jaxpr, i, name)}, {jaxpr.in_avals[i]}" for i in vain[:4])
            more = f", and {len(vain) - 4} more" if len(vain) > 4 else ""
            warnings.warn(
                f"donated in vain, and kept: {shown}{more}. Memory is reused for a result of the same size, and none "
                "is left that could have it. Don't donate them.",
                DonationWarning,
                stacklevel=2,
            )
    return found
