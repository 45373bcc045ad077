"""What devices have the terms of, and not yet the sum: products and sums along axes that are divided, and what is added
into zeros at positions that each device knows for its own part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal
from tinyjax.ir.shapes import unmarked
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.gather import ScatterAdd
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum
from tinyjax.propagation.rules import without
from tinyjax.propagation.specs import Lies, Names, Open, Spec, parts_of, replicated, sums_of

#: The equations that make variables, by their numbers.
Makers: TypeAlias = Mapping[int, Eqn]


def makers_of(jaxpr: Jaxpr) -> Makers:
    """Of a program."""
    return {var.index: eqn for eqn in jaxpr.eqns for var in eqn.outvars}


def unreduced_of(lies: Lies) -> Names:
    """Along which axes a value is a sum yet to be made."""
    return () if isinstance(lies, Open) else unmarked(sums_of(lies))[1]


def sums_over(eqn: Eqn, operands: Sequence[Lies], names: frozenset[str], makers: Makers) -> tuple[Spec, ...] | None:
    """How the operands of a product or a sum, which lie so, have to be divided for devices to have terms of it along
    just these axes of the mesh; None if it has none. What all devices have of an operand may be divided."""
    if isinstance(eqn.primitive, ScatterAdd) and _zeros(eqn.invars[0], makers):
        operands = [replicated(eqn.invars[0].aval), *operands[1:]]
    specs = [parts_of(lies) for lies in operands if not isinstance(lies, Open) and not unreduced_of(lies)]
    if len(specs) < len(operands):
        return None
    if isinstance(eqn.primitive, ReduceSum):
        over = {name for axis in eqn.primitive.axes for name in specs[0][axis]}
        return (specs[0],) if over == names else None
    if isinstance(eqn.primitive, ScatterAdd):
        return _added_into_zeros(eqn.primitive, specs, names) if _zeros(eqn.invars[0], makers) else None
    if not isinstance(eqn.primitive, DotGeneral):
        return None
    pairs = list(zip(*eqn.primitive.dimension_numbers[0], strict=True))
    both = [list(spec) for spec in specs]
    for i, j in pairs:
        both[0][i], both[1][j] = both[0][i] or both[1][j], both[1][j] or both[0][i]
    over = {name for i, _ in pairs for name in both[0][i]}
    if over != names or any(both[0][i] != both[1][j] for i, j in pairs):
        return None
    for parts in both:
        flat = [name for part in parts for name in part]
        if len(set(flat)) < len(flat):
            return None
    return tuple(map(tuple, both))


def natural(eqn: Eqn, operands: Sequence[Lies]) -> Spec:
    """How each device's terms lie of such a product or sum: as what isn't summed over."""
    specs = [() if isinstance(lies, Open) else parts_of(lies) for lies in operands]
    if isinstance(eqn.primitive, DotGeneral):
        (x, y), ((ours, theirs), (x_batch, y_batch)) = specs, eqn.primitive.dimension_numbers
        batch = [x[i] or y[j] for i, j in zip(x_batch, y_batch, strict=True)]
        rest = [without(spec, axes) for spec, axes in ((x, ours + x_batch), (y, theirs + y_batch))]
        return (*batch, *rest[0], *rest[1])
    if isinstance(eqn.primitive, ScatterAdd):
        return _as_windows(eqn.primitive, specs[2], eqn.outvars[0].aval.ndim)
    return without(specs[0], eqn.primitive.axes) if isinstance(eqn.primitive, ReduceSum) else ()


def _added_into_zeros(primitive: ScatterAdd, specs: Sequence[Spec], names: frozenset[str]) -> tuple[Spec, ...] | None:
    """The same for updates that are added into zeros: if they are divided along axes that go with the indices, each
    device adds its own."""
    (_, indices, updates), dims = specs, primitive.dimension_numbers
    outer = dims.gather.batch_axes(len(updates))
    positions: Spec = (*[updates[axis] or names for axis, names in zip(outer, indices[:-1], strict=True)], ())
    over = {name for part in positions for name in part}
    batch = [positions[axis] for axis in dims.scatter_indices_batching_dims]
    if over != names or any(batch) or any(own and own != part for own, part in zip(indices, positions, strict=True)):
        return None
    whole = list(updates)
    for axis, part in zip(outer, positions, strict=False):
        whole[axis] = part
    flat = [name for part in whole for name in part]
    if len({*flat}) < len(flat):
        return None
    return _as_windows(primitive, updates, len(specs[0])), positions, tuple(whole)


def _as_windows(primitive: ScatterAdd, updates: Spec, ndim: int) -> Spec:
    """How what they are added into lies along the axes that windows of the updates are of."""
    dims = primitive.dimension_numbers
    found: list[Names] = [()] * ndim
    for place, axis in zip(dims.update_window_dims, dims.gather.window_axes(ndim), strict=True):
        found[axis] = updates[place]
    return tuple(found)


def _zeros(atom: Atom, makers: Makers) -> bool:
    """Whether all elements are known to be zero."""
    while not isinstance(atom, Literal):
        eqn = makers.get(atom.index)
        if eqn is None or not isinstance(eqn.primitive, BroadcastInDim | ShardingConstraint):
            return False
        (atom,) = eqn.invars
    return bool(atom.value == 0)
