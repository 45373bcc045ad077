"""How keys of random numbers are written: those of two words are numbers of 64 bits where they enter and leave a
compiled program, and where something but the generators looks at them. What functions and loops pass on is their words.

XLA makes some ten operations of `bitcast_convert` of a number to two words or back, and doesn't see that one undoes the
other. Nothing reads the numbers where the words are known, so they don't reach what is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import KEYS, UINT32, UINT64
from tinyjax.ir.program import Literal
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.bitwise import shift_right_logical
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.slicing import concatenate
from tinyjax.primitives.structure import broadcast_in_dim

V = TypeVar("V")

#: Keys of two words.
PAIRS: Final = frozenset({key for key in KEYS if key.itemsize == 8})


def in_words(avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    """The types, with those of the words, along a new last axis, instead of keys of two words."""
    return tuple([array_type((*x.shape, 2), UINT32) if x.dtype in PAIRS else x for x in avals])


def divided(ctx: Context[V], numbers: V) -> V:
    """The lower and the upper half of numbers of 64 bits, along a new last axis: so XLA reads one without the other."""
    shape = ctx.aval(numbers).shape
    upper = shift_right_logical(ctx, numbers, ctx.constant(Literal.of(32, UINT64)))
    axes = tuple(range(len(shape)))
    halves = [broadcast_in_dim(ctx, convert(ctx, half, UINT32), (*shape, 1), axes) for half in (numbers, upper)]
    return concatenate(ctx, halves, len(shape))
