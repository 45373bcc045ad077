"""How what is picked from arrays, put into them, or brought into order lies; and random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering
from tinyjax.primitives.generators import RngBitGenerator
from tinyjax.primitives.keys import (
    OfOne,
    RandomBits,
    RandomClone,
    RandomFoldIn,
    RandomSeed,
    RandomSplit,
    RandomUnwrap,
    RandomWrap,
)
from tinyjax.primitives.reduce_window import WindowReduction
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.sorting import Sort, TopK
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd
from tinyjax.propagation.rules import RULES, joined, resized
from tinyjax.propagation.specs import Lies, Names, Site, Spec, divided, replicated


@RULES.register(DynamicSlice)
def _(primitive: DynamicSlice, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return resized(operands, site)


@RULES.register(DynamicUpdateSlice)
def _(primitive: DynamicUpdateSlice, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    """If the operand isn't divided at all, the result lies as the update, where that is as large."""
    x, update = operands[:2]
    sizes = zip(site.ins[0].shape, site.ins[1].shape, strict=True)
    cut = any(names and own != given for names, (own, given) in zip(update, sizes, strict=True))
    if x != update and (divided(x) or cut):
        return [site.refuse(operands, "the operand and the update have to be divided in the same way")]
    return [update]


@RULES.register(WindowReduction)
def _(primitive: WindowReduction, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return resized(operands, site)


@RULES.register(SelectAndGatherAdd)
def _(primitive: SelectAndGatherAdd, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [site.resized(operands[1], site.ins[1].shape, site.outs[0].shape, operands)]


@RULES.register(SelectAndScatterAdd)
def _(primitive: SelectAndScatterAdd, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [operands[1]]


@RULES.register(Sort)
def _(primitive: Sort, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    if any(spec[primitive.dimension] for spec in operands):
        return [site.refuse(operands, f"axis {primitive.dimension}, which is sorted, is divided")] * len(operands)
    return [joined(operands, site)] * len(operands)


@RULES.register(TopK)
def _(primitive: TopK, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    (x,), axis = operands, primitive.axis
    return [site.refuse(operands, f"axis {axis}, along which elements are chosen, is divided") if x[axis] else x] * 2


@RULES.register(Gather)
def _(primitive: Gather, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    """The axes that are taken whole lie as the operand's, those of the indices as these."""
    (x, indices), dims, sizes = operands, primitive.dimension_numbers, primitive.slice_sizes
    pairs = list(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True))
    shape = site.ins[0].shape
    if cut := [axis for axis in dims.start_index_map if x[axis] and sizes[axis] != shape[axis]]:
        return [site.refuse(operands, f"axis {cut[0]} of the operand, along which it is indexed, is divided")]
    if any(x[ours] and indices[theirs] and x[ours] != indices[theirs] for ours, theirs in pairs):
        return [site.refuse(operands, "the axes of the batch are divided differently")]
    if any(names for axis, names in enumerate(indices) if axis not in dims.start_indices_batching_dims):
        return [site.refuse(operands, "the indices are divided")]
    own = list(indices[:-1])
    for ours, theirs in pairs:
        own[theirs] = own[theirs] or x[ours]
    window = iter(dims.window_axes(len(x)))
    others = iter(own)
    return [tuple([x[next(window)] if i in dims.offset_dims else next(others) for i in range(site.outs[0].ndim)])]


def _scattering(primitive: Scattering, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    """As the operand lies, and as whole windows of the updates do. If it isn't divided at all, it lies as they do."""
    (x, indices, updates), dims = operands, primitive.dimension_numbers
    shape, given = site.ins[0].shape, site.ins[2].shape
    ours, theirs = dims.operand_batching_dims, dims.scatter_indices_batching_dims
    outer = dims.gather.batch_axes(len(updates))  # those of the updates that go with the indices
    batch = [outer[axis] for axis in theirs]
    found: list[Names] = list(x)
    for axis, at, place in zip(ours, theirs, batch, strict=True):
        said = {names for names in (x[axis], indices[at], updates[place]) if names}
        if len(said) > 1:
            return [site.refuse(operands, "the axes of the batch are divided differently")]
        found[axis] = x[axis] or indices[at] or updates[place]
    for place, axis in zip(dims.update_window_dims, dims.gather.window_axes(len(x)), strict=True):
        whole = shape[axis] == given[place]
        if whole and not divided(x):
            found[axis] = updates[place]
        elif (x[axis] or updates[place]) and (x[axis] != updates[place] or not whole):
            return [
                site.refuse(operands, f"axis {axis} of the operand and {place} of the updates are divided differently")
            ]
    if any(x[axis] for axis in dims.inserted_window_dims):
        return [site.refuse(operands, "an axis of the operand along which it is indexed is divided")]
    if any(updates[place] for place in outer if place not in batch):
        return [site.refuse(operands, "the updates are divided along an axis of the indices")]
    if any(names for axis, names in enumerate(indices) if axis not in theirs):
        return [site.refuse(operands, "the indices are divided")]
    return [tuple(found)]


RULES[Scatter] = RULES[ScatterAdd] = RULES[ScatterMul] = RULES[ScatterMin] = RULES[ScatterMax] = _scattering


# Random numbers: what each key gives lies with it.


def _of_one(primitive: OfOne, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    (spec,) = operands
    return [(*spec, *((),) * (out.ndim - len(spec))) for out in site.outs]


RULES[RandomSeed] = RULES[RandomUnwrap] = RULES[RandomClone] = RULES[RandomBits] = RULES[RandomSplit] = _of_one


@RULES.register(RandomWrap)
def _(primitive: RandomWrap, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    if operands[0][-1]:
        return [site.refuse(operands, "the last axis, that of the words of a key, is divided")]
    return [operands[0][:-1]]


@RULES.register(RandomFoldIn)
def _(primitive: RandomFoldIn, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [joined(operands, site)]


@RULES.register(RngBitGenerator)
def _(primitive: RngBitGenerator, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [operands[0], *[replicated(out) for out in site.outs[1:]]]
