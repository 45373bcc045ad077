"""Axes of a mesh along which values vary: within `shard_map`, devices have their own values, or all along an axis the
same.

It is part of a type, and every primitive has the rule: what several operands go into varies along all axes along which
one of them does. Operands must all vary alike; one that varies along fewer axes is cast (`pvary`) where it is staged.
So it is in the program where a value that is the same everywhere meets others, and the transpose of that is a sum over
the axes: derivatives of programs with collectives follow from their types.

Source: "varying manual axes" of JAX's shard_map, which this follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.shapes import Axes

if TYPE_CHECKING:
    from tinyjax.ir.primitive import Primitive


@final
class UnevenError(TypingError):
    """Operands vary along fewer axes than they have to. `wanted`: along which each has to."""

    wanted: Sequence[Axes]


def union(found: Sequence[Axes]) -> Axes:
    """All axes that are in one of these.

    >>> union([("x",), (), ("x", "y")])
    ('x', 'y')
    """
    first = found[0] if found else ()
    if all(axes == first for axes in found):
        return first
    return tuple(sorted({name for axes in found for name in axes}))


def without(axes: Axes, names: Sequence[str]) -> Axes:
    """The axes but these."""
    return tuple([name for name in axes if name not in names])


def axes_of(avals: Sequence[ShapedArray]) -> list[Axes]:
    """Along which axes values of these types vary."""
    return [aval.varying for aval in avals]


def spread(
    primitive: Primitive, avals: Sequence[ShapedArray], types: tuple[ShapedArray, ...]
) -> tuple[ShapedArray, ...]:
    """The types of a primitive's results, with the axes along which they vary.

    Raises:
      UnevenError: an operand varies along fewer axes than it has to.
      TypingError: an operand varies along an axis along which it mustn't.
    """
    wanted, results = primitive.varying(axes_of(avals), types)
    for i, (aval, axes) in enumerate(zip(avals, wanted, strict=True)):
        if not {*aval.varying} <= {*axes}:
            raise TypingError(
                f"{primitive.name}: operand {i} is {aval}, which varies along {_named(aval.varying)}; it may vary "
                f"along {_named(axes)} only"
            )
    if any(aval.varying != axes for aval, axes in zip(avals, wanted, strict=True)):
        found = ", ".join(map(str, avals))
        error = UnevenError(
            f"{primitive.name} takes operands that vary alike, got ({found}); cast those that are the same along an "
            "axis: lax.pcast(x, axes, to='varying')"
        )
        error.wanted = wanted
        raise error
    return tuple([aval.varying_over(axes) for aval, axes in zip(types, results, strict=True)])


def _named(axes: Axes) -> str:
    return ", ".join(map(repr, axes)) or "no axis"
