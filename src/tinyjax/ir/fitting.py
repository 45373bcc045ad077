"""Whether what a rule returned is right, asked quickly: right rules cost little. `contracts` says what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from tinyjax.errors import MissingRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import BatchAxis, Primitive, UndefPrimal, Zero
from tinyjax.ir.result_types import result_types

if TYPE_CHECKING:
    from tinyjax.ir.context import Context

V = TypeVar("V")

_STAND_INS: Final = (Zero, UndefPrimal, type(None))


def known_types(primitive: Primitive, avals: Sequence[ShapedArray]) -> Sequence[ShapedArray] | None:
    """What `type_of` says of operands of these types; None if the primitive doesn't have it."""
    try:
        return result_types(primitive, avals)
    except MissingRuleError:
        return None


def fits_value(ctx: Context[V], value: V | Zero | None, expected: ShapedArray) -> bool:
    """Whether this is a value of the context, of this type."""
    if isinstance(value, _STAND_INS) or not ctx.holds(value):
        return False
    try:
        return ctx.aval(value).matches(expected)
    except (AttributeError, TypeError, ValueError, LookupError):
        return False


def fits_jvp(
    ctx: Context[V], outs: Sequence[V], tangents: Sequence[V | Zero], types: Sequence[ShapedArray] | None
) -> bool:
    """Whether these are outputs of these types, and tangents of them."""
    if types is None or not isinstance(outs, tuple | list) or not isinstance(tangents, tuple | list):
        return False
    if not len(outs) == len(tangents) == len(types):
        return False
    for out, tangent, aval in zip(outs, tangents, types, strict=True):
        expected = aval.tangent
        if not fits_value(ctx, out, aval):
            return False
        if isinstance(tangent, Zero):
            if not tangent.aval.matches(expected):
                return False
        elif expected is not aval or not fits_value(ctx, tangent, expected):
            return False
    return True


def fits_batch(
    ctx: Context[V],
    axis: BatchAxis,
    outs: Sequence[V],
    places: Sequence[int | None],
    types: Sequence[ShapedArray] | None,
) -> bool:
    """Whether these are batches of outputs of these types, and the positions of the mapped axis."""
    if types is None or not isinstance(outs, tuple | list) or not isinstance(places, tuple | list):
        return False
    if not len(outs) == len(places) == len(types):
        return False
    for out, at, aval in zip(outs, places, types, strict=True):
        if at is None:
            expected = aval
        elif type(at) is int and 0 <= at <= aval.ndim:
            expected = aval.of_shape((*aval.shape[:at], axis.size, *aval.shape[at:]))
        else:
            return False
        if not fits_value(ctx, out, expected):
            return False
    return True


def fits_transpose(ctx: Context[V], found: Sequence[V | Zero | None], args: Sequence[V | UndefPrimal]) -> bool:
    """Whether these are cotangents of the operands that are linear, and None for the others."""
    if len(found) != len(args):
        return False
    for result, arg in zip(found, args, strict=True):
        if not isinstance(arg, UndefPrimal):
            if result is not None:
                return False
        elif isinstance(result, Zero):
            if not result.aval.matches(arg.aval.cotangent):
                return False
        elif not fits_value(ctx, result, arg.aval.cotangent):
            return False
    return True
