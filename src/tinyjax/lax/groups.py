"""Named axes as equations refer to them: those of a mesh together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

from attrs import frozen

from tinyjax.control.manual import MeshAxis, NamedAxis
from tinyjax.ir.shapes import Axes, as_axes
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
        return varied(x, self.varying)


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
