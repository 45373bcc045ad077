"""Tangents and cotangents some of which are known to be zero: lists of the others, and lists of all again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INEXACT
from tinyjax.ir.primitive import UndefPrimal, Zero

if TYPE_CHECKING:
    from tinyjax.ir.context import Context

V = TypeVar("V")


def has_tangent(aval: ShapedArray) -> bool:
    """Whether a value of this type can have a tangent other than zero: whether it isn't discrete."""
    return aval.dtype in INEXACT


def tangent_avals(avals: Iterable[ShapedArray]) -> tuple[ShapedArray, ...]:
    """The types of the tangents of those that can have one."""
    return tuple([aval.tangent for aval in avals if has_tangent(aval)])


def cotangent_avals(avals: Iterable[ShapedArray]) -> tuple[ShapedArray, ...]:
    """The types of the cotangents of those that can have one."""
    return tuple([aval.cotangent for aval in avals if has_tangent(aval)])


def zero_tangents(ctx: Context[V], outs: Iterable[V]) -> list[Zero]:
    """The tangents of values that depend on nothing that is differentiated with respect to."""
    return [Zero(ctx.aval(out).tangent) for out in outs]


def without_zeros(tangents: Iterable[V | Zero]) -> list[V]:
    """Those that aren't known to be zero."""
    return [t for t in tangents if not isinstance(t, Zero)]


def nonzero_marks(tangents: Iterable[V | Zero]) -> tuple[bool, ...]:
    """Which aren't known to be zero."""
    return tuple([not isinstance(t, Zero) for t in tangents])


def with_zeros(nonzero: Iterable[V], marks: Iterable[bool], avals: Iterable[ShapedArray]) -> list[V | Zero]:
    """The tangents of values of these types: for those that are marked the next of `nonzero`, for the others zeros."""
    rest = iter(nonzero)
    return [next(rest) if mark else Zero(aval.tangent) for mark, aval in zip(marks, avals, strict=True)]


def spread_marks(marks: Iterable[bool], avals: Iterable[ShapedArray]) -> tuple[bool, ...]:
    """Marks of those values that can have a tangent, as marks of all values of these types."""
    rest = iter(marks)
    return tuple([has_tangent(aval) and next(rest) for aval in avals])


def known_operands(args: Iterable[V | UndefPrimal]) -> list[V]:
    """The operands of a transposed equation that it isn't linear in."""
    return [arg for arg in args if not isinstance(arg, UndefPrimal)]


def linear_marks(args: Iterable[V | UndefPrimal]) -> tuple[bool, ...]:
    """Which operands a transposed equation is linear in."""
    return tuple([isinstance(arg, UndefPrimal) for arg in args])


def cotangents_of(
    args: Sequence[V | UndefPrimal], nonzero: Iterable[V], marks: Iterable[bool]
) -> list[V | Zero | None]:
    """What a transposition rule returns for these operands: None for those that are known. Of the others, `marks` says
    which have a cotangent, the next of `nonzero`, and which have zero."""
    rest, marked = iter(nonzero), iter(marks)
    return [
        (next(rest) if next(marked) else Zero(arg.aval.cotangent)) if isinstance(arg, UndefPrimal) else None
        for arg in args
    ]
