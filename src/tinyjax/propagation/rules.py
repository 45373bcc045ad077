"""How the results of primitives lie: what there is to say of one operand's axes, or of those of several together.

A rule gets operands of which at least one is divided, and it is known of each how it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.control.callbacks import Callback
from tinyjax.control.exported import CallExported
from tinyjax.control.foreign import FfiCall
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.annotations import OptimizationBarrier
from tinyjax.primitives.casts import PReduced, PVary, ReducedVaryCast, VaryUnreducedCast
from tinyjax.primitives.collectives import PMax, PMin, PSum
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.primitives.cumulative import Cumulative
from tinyjax.primitives.elementwise import Elementwise
from tinyjax.primitives.reductions import ArgMax, ArgMin, Position
from tinyjax.primitives.selection import Clamp
from tinyjax.primitives.shaping import Reshape, Rev, Squeeze
from tinyjax.primitives.slicing import Concatenate, Pad, Slice, Split
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import BroadcastInDim, Reduction, Transpose
from tinyjax.primitives.threefry import Threefry2x32
from tinyjax.propagation.specs import Lies, Names, Site, Spec, divided, replicated, type_text

RULES: Final = RuleTable[[Sequence[Spec], Site], Sequence[Lies]]("Sharding", name="RULES")


def joined(operands: Sequence[Spec], site: Site) -> Lies:
    """That of what is computed element by element. Scalars have no say; what isn't divided lies as what is."""
    found: list[Names] = []
    for axis, parts in enumerate(zip(*[spec for spec in operands if spec], strict=True)):
        said = [names for names in parts if names]
        if any(names != said[0] for names in said[1:]):
            return site.refuse(operands, f"along axis {axis} the operands are divided differently")
        found.append(said[0] if said else ())
    return tuple(found)


def alike(operands: Sequence[Spec], site: Site) -> Lies:
    """That of all operands, which must be the same; what isn't divided at all lies as what is."""
    said = list(filter(divided, operands))
    spec = said[0]
    if any(other != spec for other in said):
        return site.refuse(operands, "all operands have to be divided in the same way")
    return spec


@RULES.register(Elementwise)
def _(primitive: Elementwise, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [joined(operands, site)] * len(site.outs)


@RULES.register(Threefry2x32)
def _(primitive: Threefry2x32, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [joined(operands, site)] * 2


@RULES.register(Clamp)
def _(primitive: Clamp, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [operands[1]]


@RULES.register(BitcastConvertType)
def _(primitive: BitcastConvertType, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    (spec,), ndim = operands, site.outs[0].ndim
    if len(spec) > ndim and spec[-1]:
        return [site.refuse(operands, "the last axis, whose elements become one, is divided")]
    return [(*spec[:ndim], *((),) * (ndim - len(spec)))]


def _as_they_are(primitive: object, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return operands


RULES[PVary] = RULES[PReduced] = RULES[ReducedVaryCast] = RULES[VaryUnreducedCast] = _as_they_are
RULES[PSum] = RULES[PMax] = RULES[PMin] = RULES[OptimizationBarrier] = RULES[Rev] = _as_they_are


@RULES.register(Reduction)
def _(primitive: Reduction, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [without(operands[0], primitive.axes)]


def _position(primitive: Position, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [without(operands[0], primitive.axes)]


RULES[ArgMax] = RULES[ArgMin] = _position


def without(spec: Spec, axes: Sequence[int]) -> Spec:
    """The specification without these axes of the array."""
    return tuple([names for axis, names in enumerate(spec) if axis not in axes])


@RULES.register(Cumulative)
def _(primitive: Cumulative, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    if operands[0][primitive.axis]:
        return [site.refuse(operands, f"axis {primitive.axis}, along which it goes, is divided")]
    return operands


@RULES.register(BroadcastInDim)
def _(primitive: BroadcastInDim, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    found: list[Names] = [()] * len(primitive.shape)
    for axis, names in zip(primitive.broadcast_dimensions, operands[0], strict=True):
        found[axis] = names
    return [tuple(found)]


@RULES.register(Transpose)
def _(primitive: Transpose, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [tuple([operands[0][axis] for axis in primitive.permutation])]


@RULES.register(Squeeze)
def _(primitive: Squeeze, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [without(operands[0], primitive.dimensions)]


@RULES.register(Concatenate)
def _(primitive: Concatenate, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [alike(operands, site)]


@RULES.register(Stack)
def _(primitive: Stack, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    found, at = alike(operands, site), primitive.axis
    return [(*found[:at], (), *found[at:]) if isinstance(found, tuple) else found]


@RULES.register(Unstack)
def _(primitive: Unstack, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    if operands[0][primitive.axis]:
        return [site.refuse(operands, f"axis {primitive.axis}, along which it is taken apart, is divided")] * len(
            site.outs
        )
    return [without(operands[0], (primitive.axis,))] * len(site.outs)


@RULES.register(Slice)
def _(primitive: Slice, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return resized(operands, site)


@RULES.register(Split)
def _(primitive: Split, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return resized(operands, site)


@RULES.register(Pad)
def _(primitive: Pad, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return resized(operands, site)


def resized(operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    """Each result is divided as the first operand, but may be smaller or larger."""
    before = site.ins[0].shape
    return [site.resized(operands[0], before, out.shape, operands) for out in site.outs]


@RULES.register(Callback)
def _(primitive: Callback, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [replicated(out) for out in site.outs]


@RULES.register(FfiCall)
def _(primitive: FfiCall, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [replicated(out) for out in site.outs]


@RULES.register(CallExported)
def _(primitive: CallExported, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    return [replicated(out) for out in site.outs]


# Reshape: axes of size 1 come and go, one axis is divided into several, or several become one.


@RULES.register(Reshape)
def _(primitive: Reshape, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    (spec,), before, after = operands, site.ins[0].shape, primitive.new_sizes
    found = _reshaped(spec, before, after, site) or _without_ones(spec, before, after, site)
    if found is None:
        shown = type_text(site.ins[0], spec)
        return [site.refuse(operands, f"{shown} can't become {list(after)} axis by axis without moving elements")]
    return [found]


def _reshaped(spec: Spec, before: Shape, after: Shape, site: Site) -> Spec | None:
    """How the result lies; None if the axes don't say it."""
    own = [(size, names) for size, names in zip(before, spec, strict=True) if size != 1]
    if [size for size, _ in own] == [size for size in after if size != 1]:
        rest = iter([names for _, names in own])
        return tuple([next(rest) if size != 1 else () for size in after])
    if len(after) > len(before):
        groups = _split_one(before, after)
        if groups is None:
            return None
        found: list[Names] = []
        for sizes, names in zip(groups, spec, strict=True):
            parts = [names] if len(sizes) == 1 else _shared(names, sizes, site)
            if parts is None:
                return None
            found += parts
        return tuple(found)
    groups = _split_one(after, before) if len(after) < len(before) else None
    if groups is None:
        return None
    rest, merged = iter(spec), list[Names]()
    for size, sizes in zip(after, groups, strict=True):
        own_names = [next(rest) for _ in sizes]
        if len(sizes) == 1:
            merged.append(own_names[0])
            continue
        while own_names and not own_names[-1]:
            own_names.pop()
        if not all(own_names):
            return None
        parts = _shared(tuple([name for names in own_names for name in names]), [size], site)
        if parts is None:
            return None
        merged += parts
    return tuple(merged)


def _without_ones(spec: Spec, before: Shape, after: Shape, site: Site) -> Spec | None:
    """The same for what lies between axes of size 1, which may be anywhere."""
    own = [(size, names) for size, names in zip(before, spec, strict=True) if size != 1 or names]
    if any(size == 1 for size, _ in own) or (len(own) == len(before) and 1 not in after):
        return None
    found = _reshaped(
        tuple([names for _, names in own]),
        tuple([size for size, _ in own]),
        tuple([size for size in after if size != 1]),
        site,
    )
    if found is None:
        return None
    rest = iter(found)
    return tuple([next(rest) if size != 1 else () for size in after])


def _split_one(few: Shape, many: Shape) -> list[list[int]] | None:
    """The sizes that one of the few becomes, and the others for themselves; None if they aren't such."""
    groups: list[list[int]] = []
    trailing = 0
    while few and many and few[-1] == 1 and many[-1] == 1:
        few, many, trailing = few[:-1], many[:-1], trailing + 1
    i = j = 0
    split = False
    while j < len(many):
        if i >= len(few):
            return None
        if few[i] == many[j]:
            groups.append([many[j]])
        elif split:
            return None
        else:
            split, product, taken = True, many[j], [many[j]]
            while product != few[i] or (
                j + 1 < len(many) and many[j + 1] == 1 and (i + 1 >= len(few) or few[i + 1] != 1)
            ):
                j += 1
                if product > few[i] or j >= len(many):
                    return None
                product *= many[j]
                taken.append(many[j])
            groups.append(taken)
        i, j = i + 1, j + 1
    return [*groups, *[[1]] * trailing] if i == len(few) else None


def _shared(names: Names, sizes: Sequence[int], site: Site) -> list[Names] | None:
    """Mesh axes handed out to axes of these sizes, the first one first; None if they don't divide them."""
    rest = list(names)
    found: list[Names] = []
    for size in sizes:
        taken: list[str] = []
        left = size
        while left > 1 and rest:
            left, remainder = divmod(left, site.mesh.shape[rest[0]])
            if remainder:
                return None
            taken.append(rest.pop(0))
        found.append(tuple(taken))
    return None if rest else found
