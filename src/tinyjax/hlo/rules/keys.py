"""What moves elements, for keys of random numbers: their words are moved, along the same axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.keys import PAIRS
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.shaping import Reshape
from tinyjax.primitives.slicing import Slice
from tinyjax.primitives.structure import BroadcastInDim, Transpose

P = TypeVar("P", bound=Primitive)
#: A rule of one class of primitives.
RuleOf: TypeAlias = Callable[[P, LoweringContext, Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]]


def by_words(rule: RuleOf[P]) -> RuleOf[P]:
    """The rule of a primitive that moves elements; of keys of two words it moves the words."""

    def lower(primitive: P, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        if args[0].aval.dtype not in PAIRS:
            return rule(primitive, ctx, args, types)
        moved = ctx.bind(_of_words(primitive, args[0].aval.ndim), *ctx.apart(args))
        return ctx.together(moved, types)

    return lower


def _of_words(primitive: Primitive, ndim: int) -> Primitive:
    """What does to the words of keys with so many axes as `primitive` does to the keys: where it names axes, itself."""
    match primitive:
        case Reshape(new_sizes):
            return Reshape((*new_sizes, 2))
        case Slice(starts, limits, strides):
            return Slice((*starts, 0), (*limits, 2), None if strides is None else (*strides, 1))
        case BroadcastInDim(shape, dimensions):
            return BroadcastInDim((*shape, 2), (*dimensions, len(shape)))
        case Transpose(permutation):
            return Transpose((*permutation, ndim))
        case _:
            return primitive
