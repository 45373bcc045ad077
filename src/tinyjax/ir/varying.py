"""Axes of a mesh along which values vary: within `shard_map`, devices have their own values, or all along an axis the
same.

It is part of a type, and every primitive has the rule: what several operands go into varies along all axes along which
one of them does. Operands must all vary alike; one that varies along fewer axes is cast (`pvary`) where it is staged.
So it is in the program where a value that is the same everywhere meets others, and the transpose of that is a sum over
the axes: derivatives of programs with collectives follow from their types.

Two more things may hold along an axis. A value is *unreduced* along it if each device has a term, and the value is the
sum of them, which is yet to be made: only what is linear in it may be done with it. A value is *reduced* if all devices
have the same, as where a type says nothing of the axis, but its cotangent is unreduced, so the sum that derivatives
need is made where somebody asks for it. `Axes` have marks for these: `U:x`, `R:x`.

Source: "varying manual axes" of JAX's shard_map, which this follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, final

from tinyjax.errors import TypingError, UnreducedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.shapes import MARKS, REDUCED, UNREDUCED, Axes, as_axes, axes_text

if TYPE_CHECKING:
    from tinyjax.ir.primitive import Primitive


#: Operands, by their numbers, in groups.
Groups: TypeAlias = Sequence[Sequence[int]]


@final
class UnevenError(TypingError):
    """Operands vary along fewer axes than they have to, or are reduced along fewer. `wanted`: what each has to be."""

    wanted: Sequence[Axes]


def union(found: Sequence[Axes]) -> Axes:
    """All axes that are in one of these. A TypingError for a sum that one of them is and another isn't.

    >>> union([("x",), (), ("x", "y")])
    ('x', 'y')
    """
    first = found[0] if found else ()
    if all(axes == first for axes in found):
        return first
    every = {name for axes in found for name in axes}
    if any(name.startswith(MARKS) for name in every):
        every -= {REDUCED + name for name in every}  # which may vary
        for name in every:
            if name.startswith(UNREDUCED) and any(name not in axes for axes in found):
                raise TypingError(f"{_one(name)}, {_YET}, meets one that isn't. {_first(name)}")
    return tuple(sorted(every))


def also(axes: Axes, names: Axes) -> Axes:
    """What a type says of a value that varies along these axes besides."""
    if not names:
        return axes
    for name in names:
        if UNREDUCED + name in axes:
            raise TypingError(f"{_one(UNREDUCED + name)}, {_YET}, would vary along it. {_first(UNREDUCED + name)}")
    return as_axes([*without(axes, [REDUCED + name for name in names]), *names])


_YET: Final = "a sum that the devices have yet to make"


def _one(name: str) -> str:
    return f"a value that is unreduced along {name[len(UNREDUCED) :]!r}"


def _first(name: str) -> str:
    axis = name[len(UNREDUCED) :]
    return f"Make the sum first: lax.psum(x, {axis!r}), or lax.psum_scatter"


def of_operands(
    name: str, found: Sequence[Axes], groups: Sequence[Sequence[int]], count: int
) -> tuple[Sequence[Axes], Sequence[Axes]]:
    """What is wanted of the operands, and what results are, along axes of a mesh: of operands that vary, all have to,
    and results do. What is unreduced must be all operands in one of the groups in which the function is linear, and
    the rest the same for all devices."""
    sums = sorted({axis for axes in found for axis in axes if axis.startswith(UNREDUCED)})
    common = union([without(axes, sums) for axes in found] if sums else found)
    if not sums:
        return [common] * len(found), [common] * count
    inside: dict[str, Sequence[int]] = {}
    for axis in sums:
        own = axis[len(UNREDUCED) :]
        terms = [i for i, axes in enumerate(found) if axis in axes]
        group = next((group for group in groups if {*terms} <= {*group}), None)
        what = f"{name}: operand {terms[0]} is {_one(axis)}, {_YET}"
        if group is None:
            why = "a product of sums is no sum of products" if groups else f"{name} isn't linear"
            raise UnreducedError(f"{what}, but {why}. {_first(axis)}")
        if own in common:
            raise UnreducedError(f"{what}, and another varies. {_first(axis)}")
        if any(REDUCED + own in found[i] for i in group):
            raise UnreducedError(f"{what}, and another isn't. {_first(axis)}")
        inside[axis] = group
    common = without(common, [REDUCED + axis[len(UNREDUCED) :] for axis in sums])
    wanted = [
        as_axes(
            [*common, *[axis if i in group else REDUCED + axis[len(UNREDUCED) :] for axis, group in inside.items()]]
        )
        for i in range(len(found))
    ]
    return wanted, [as_axes([*common, *sums])] * count


class Spreading:
    """What is applied to values that vary along axes of a mesh: what its results then do."""

    __slots__ = ()

    name: ClassVar[str]
    #: What `linear_in` says, where it is the same for any number of operands.
    linear: ClassVar[Groups] = ()
    #: Whether each result is one of the operands, and nothing of the others.
    apart: ClassVar[bool] = False

    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray], /) -> tuple[Sequence[Axes], Sequence[Axes]]:
        """Along which axes of a mesh the operands have to vary, and the results of these types do, for operands that
        vary along `found`: all along all of them. What is a sum yet to be made, says `linear_in`."""
        return (found, found) if self.apart else of_operands(self.name, found, self.linear_in(len(found)), len(types))

    def linear_in(self, arity: int, /) -> Groups:
        """In which operands this is linear, together, as long as the others stay as they are: of a sum it is an
        addend, of a product a factor."""
        return self.linear


def without(axes: Axes, names: Sequence[str]) -> Axes:
    """The axes but these."""
    return tuple([name for name in axes if name not in names])


def axes_of(avals: Sequence[ShapedArray]) -> list[Axes]:
    """Along which axes values of these types vary, are unreduced or reduced."""
    return [aval.axes for aval in avals]


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
        if not all(name in axes or name.removeprefix(REDUCED) in axes for name in aval.axes):
            said = f"varies along {_named(aval.varying)}" if aval.axes == aval.varying else f"is {axes_text(aval.axes)}"
            raise TypingError(
                f"{primitive.name}: operand {i} is {aval}, which {said}; it may vary along {_named(axes)} only"
            )
    if any(aval.axes != axes for aval, axes in zip(avals, wanted, strict=True)):
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
