"""Named axes as equations refer to them: those of a mesh together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

from attrs import frozen

from tinyjax.control.manual import MeshAxis, NamedAxis
from tinyjax.errors import VaryingAxisError
from tinyjax.ir.shapes import Axes, as_axes
from tinyjax.ir.varying import without
from tinyjax.lax.binding import axis_names, varied
from tinyjax.lax.signatures import AxisName
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import find_axis
from tinyjax.tracing.frames import Frame


@final
@frozen
class Group:
    """Named axes that one equation refers to: one that is mapped, or several of a mesh. `varying`: those along which
    types say what varies."""

    name: str | tuple[str, ...]
    size: int
    varying: Axes

    def admit(self, x: Array) -> Array:
        """An operand of the equation."""
        if terms := without(self.varying, without(self.varying, x.aval.unreduced)):
            raise VaryingAxisError(
                f"{x.aval} is unreduced along {', '.join(map(repr, terms))}, a sum that the devices have yet to make: "
                f"lax.psum(x, {terms[0]!r}) and lax.psum_scatter make it"
            )
        return varied(x, self.varying)

    def sums(self, what: str, x: Array) -> bool:
        """Whether an operand is a sum along these axes that is yet to be made. A VaryingAxisError if it is so along
        some of them."""
        return bool({*self.varying} & {*x.aval.unreduced}) and self.state(what, x) == "unreduced"

    def state(self, what: str, x: Array) -> str:
        """What the type of an operand says along these axes, by its name in `pcast`. A VaryingAxisError unless it is
        one thing along all of them."""
        own = {"varying": x.aval.varying, "unreduced": x.aval.unreduced, "reduced": x.aval.reduced}
        found = {name: next((kind for kind, axes in own.items() if name in axes), "invarying") for name in self.varying}
        if len({*found.values()}) > 1:
            said = ", ".join([f"{kind} along {name!r}" for name, kind in found.items()])
            raise VaryingAxisError(
                f"{what}: {x.aval} is {said}; one thing along all axes is needed: take them one by one"
            )
        return next(iter(found.values()), "")


def axis_groups(axis_name: AxisName) -> list[Group]:
    """The axes of these names, in order: neighbours that belong to one mesh together."""
    found: list[tuple[list[NamedAxis], Frame]] = []
    for name in axis_names(axis_name):
        axis, frame = find_axis(name)
        if found and isinstance(axis, MeshAxis) and found[-1][1] is frame:
            found[-1][0].append(axis)
        else:
            found.append(([axis], frame))
    return [_group(axes) for axes, _ in found]


def _group(axes: Sequence[NamedAxis]) -> Group:
    names = tuple([axis.name or "" for axis in axes])
    varying = as_axes([axis.name for axis in axes if isinstance(axis, MeshAxis) and axis.varying])
    return Group(names[0] if len(names) == 1 else names, math.prod([axis.size for axis in axes]), varying)
