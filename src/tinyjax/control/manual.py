"""How operands of a `shard_map` are divided along the axes of its mesh that are manual, and results put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias, final

from attrs import frozen

from tinyjax.contexts.recording import Values
from tinyjax.errors import ShapeError, VaryingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.shapes import MARKS, REDUCED, UNREDUCED, Axes, as_axes, marked
from tinyjax.ir.varying import without
from tinyjax.meshes.mesh import AxisType, Mesh
from tinyjax.meshes.spec import PartitionSpec


@final
@frozen
class Manual:
    """A mesh, and those of its axes along which a program says itself what each device does. `tracked`: whether types
    say along which of them a value varies."""

    mesh: Mesh
    axes: tuple[str, ...]
    tracked: bool

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The manual axes and their sizes, in the order of the mesh."""
        return tuple((name, size) for name, size in self.mesh.shape_tuple if name in self.axes)

    def within(self, outer: Mesh | None) -> Mesh:
        """The mesh as it is within the program: these axes are Manual there, and those that were in the mesh around."""
        types = dict.fromkeys((*self.axes, *(() if outer is None else outer.manual_axes)), AxisType.Manual)
        return self.mesh.update_axis_types(types)

    def local(self, aval: ShapedArray, spec: PartitionSpec) -> ShapedArray:
        """The type of each device's part of an operand."""
        shape = list(aval.shape)
        for i, names in enumerate(self.divided(spec)):
            count = self._count(names)
            if i >= len(shape) or shape[i] % count:
                raise ShapeError(
                    f"shard_map: {aval} can't be divided as {spec} says: dimension {i} "
                    + ("isn't there" if i >= len(shape) else f"has {shape[i]} elements, and ")
                    + ("" if i >= len(shape) else f"{along(names)} of the mesh together {count} devices")
                )
            shape[i] //= count
        return aval.of_shape(tuple(shape)).varying_over(as_axes([*aval.axes, *self.axes_as(spec)]))

    def whole(self, aval: ShapedArray, spec: PartitionSpec) -> ShapedArray:
        """The type of a result, of which each device has a part of this type."""
        shape = list(aval.shape)
        for i, names in enumerate(self.divided(spec)):
            if i >= len(shape):
                raise ShapeError(f"shard_map: a result {aval} can't be put together as {spec} says: it has no axis {i}")
            shape[i] *= self._count(names)
        own = [mark + name for name in self.axes for mark in ("", *MARKS)]
        return aval.of_shape(tuple(shape)).varying_over(without(aval.axes, own))

    def divided(self, spec: PartitionSpec) -> list[tuple[str, ...]]:
        """For each axis, the manual axes along which it is divided."""
        return [tuple([name for name in names if name in self.axes]) for names in spec.axes]

    def varying_as(self, spec: PartitionSpec) -> Axes:
        """Along which axes a part of what is divided so varies, if types say it."""
        return as_axes([name for names in self.divided(spec) for name in names]) if self.tracked else ()

    def axes_as(self, spec: PartitionSpec) -> Axes:
        """What the type of a part says along axes, if types say it."""
        return marked(self.varying_as(spec), as_axes(spec.unreduced), as_axes(spec.reduced)) if self.tracked else ()

    def result_axes(self, found: Axes, spec: PartitionSpec) -> Axes:
        """What the type of a result is to say along axes, which may vary along fewer than it is put together along, and
        be terms of a sum where it varies."""
        if not self.tracked:
            return found
        terms = [name for name in spec.unreduced if name in found]
        own = self.varying_as(spec)
        rest = without(found, (*terms, *[REDUCED + name for name in own]))
        return as_axes([*rest, *own, *[UNREDUCED + name for name in terms]])

    def absent(self, spec: PartitionSpec) -> tuple[str, ...]:
        """The manual axes that a specification doesn't name: along which an array is the same."""
        named = {*[name for names in self.divided(spec) for name in names], *spec.unreduced, *spec.reduced}
        return tuple([name for name in self.axes if name not in named])

    def _count(self, names: Sequence[str]) -> int:
        return math.prod([self.mesh.shape[name] for name in names])

    def check_result(self, aval: ShapedArray, spec: PartitionSpec, what: str) -> None:
        """A VaryingError if devices have different results where the specification says that they have the same."""
        own = self.varying_as(spec)
        self._check_marks(aval, spec, what)
        if less := without(own, aval.varying):
            raise VaryingError(
                f"shard_map: {what} is {aval}, which must vary along {along(less)}: lax.pcast makes it so"
            )
        if more := without(aval.varying, (*without(aval.varying, self.axes), *own)):
            raise VaryingError(
                f"shard_map: {what} is {aval}, which varies along {along(more)} of the mesh, but its specification "
                f"{spec} doesn't name that, as if it were the same on all devices. Name the axis in out_specs, or make "
                f"the result the same: lax.psum(y, {more[0]!r}), lax.pmean, or what you mean. If you know that it is, "
                "write check_vma=False."
            )

    def _check_marks(self, aval: ShapedArray, spec: PartitionSpec, what: str) -> None:
        """A VaryingError if a result is a sum yet to be made, or reduced, and the specification says otherwise."""
        if not self.tracked:
            return
        for kind, found, said in (
            ("unreduced", aval.unreduced, spec.unreduced),
            ("reduced", aval.reduced, spec.reduced),
        ):
            own = {name for name in found if name in self.axes}
            if own == said:
                continue
            if more := sorted(own - said):
                instead = f", or make the sum: lax.psum(y, {more[0]!r})." if kind == "unreduced" else "."
                raise VaryingError(
                    f"shard_map: {what} is {aval}, {kind} along {along(more)} of the mesh, but its specification "
                    f"{spec} doesn't say that. Write P(..., {kind}={{{more[0]!r}}}) in out_specs{instead}"
                )
            less = sorted(said - own)
            raise VaryingError(
                f"shard_map: {what} is {aval}, which must be {kind} along {along(less)}, as its specification {spec} "
                f"says: lax.pcast(y, {less[0]!r}, to={kind!r}) makes it so."
            )


def along(names: Sequence[str]) -> str:
    """Axes, as messages name them."""
    return f"axis {names[0]!r}" if len(names) == 1 else f"axes {', '.join(map(repr, names))}"


@final
@frozen
class MeshAxis:
    """An axis of the mesh of a `shard_map` in progress. `varying`: whether types say what varies along it."""

    name: str
    size: int
    varying: bool


NamedAxis: TypeAlias = BatchAxis | MeshAxis


@final
@frozen
class Scope:
    """What a function is staged within: named axes that it may refer to, axes of a mesh along which all that it closes
    over is to vary, and what shows the elements of its values, if they are known."""

    axes: tuple[NamedAxis, ...] = ()
    varying: Axes = ()
    values: Values | None = None


OPEN: Final = Scope()
