"""How values lie along the Explicit axes of a mesh, as far as a program says it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from attrs import field, frozen

from tinyjax.errors import ShardingTypeError, UnreducedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import short_name
from tinyjax.ir.program import Eqn
from tinyjax.ir.shapes import Axes, Shape, as_axes, axes_text, marked, unmarked
from tinyjax.meshes.mesh import AbstractMesh, Mesh
from tinyjax.meshes.named import NamedSharding
from tinyjax.meshes.spec import PartitionSpec, axes_of, further

#: The axes of the mesh along which one axis of an array is divided.
Names: TypeAlias = tuple[str, ...]
#: The same for each axis of an array.
Spec: TypeAlias = tuple[Names, ...]

#: What to do about an operation whose result might lie in several ways.
HINT: Final = (
    "Say how the result lies, by out_sharding=P(...) or tinyjax.reshard(y, P(...)); move an operand, by "
    "tinyjax.reshard(x, P(...)); or leave it to XLA, by tinyjax.sharding.auto_axes(f, out_sharding=P(...))."
)


@final
@frozen
class Open:
    """XLA decides how a value lies. With an `error`, that mustn't be, unless the program says later how it lies.

    `sums` are the axes of the mesh along which devices have the terms of the sum that it is, before it is made.
    """

    error: ShardingTypeError | None = field(default=None, eq=False)
    sums: Names = ()


@final
@frozen
class Summed:
    """A value that is a sum between devices yet to be made, or the result of one, and how the terms lie. `axes` says
    along which axes of the mesh, with the marks that `ir.varying` has for it."""

    spec: Spec
    axes: Axes


#: What is known of a value.
Lies: TypeAlias = Spec | Summed | Open


def lying(spec: Spec, axes: Axes) -> Spec | Summed:
    """How a value lies that is divided so, and a sum along these axes."""
    return Summed(spec, axes) if axes else spec


def parts_of(lies: Spec | Summed) -> Spec:
    """How what devices have of a value is divided."""
    return lies.spec if isinstance(lies, Summed) else lies


def sums_of(lies: Spec | Summed) -> Axes:
    """Along which axes a value is a sum yet to be made, or the result of one."""
    return lies.axes if isinstance(lies, Summed) else ()


def divided_by(lies: Lies, change: Callable[[Spec], Spec]) -> Lies:
    """The same with what is divided changed."""
    return lies if isinstance(lies, Open) else lying(change(parts_of(lies)), sums_of(lies))


def but_for_reduced(lies: Spec | Summed) -> Spec | Summed:
    """The same of a value of which it doesn't matter that its cotangents are sums."""
    return lying(parts_of(lies), marked((), unmarked(sums_of(lies))[1], ()))


def only(spec: Spec, axes: Sequence[str]) -> Spec:
    """What a specification says of these axes of the mesh."""
    found: list[Names] = [tuple([name for name in names if name in axes]) for names in spec]
    return tuple(found)


def replicated(aval: ShapedArray) -> Spec:
    """Divided along nothing."""
    return ((),) * aval.ndim


def divided(lies: Spec | Summed) -> bool:
    """Whether anything is divided, or a sum."""
    return isinstance(lies, Summed) or any(lies)


def spec_of(spec: PartitionSpec, ndim: int, mesh: Mesh) -> Spec:
    """What a specification says of the Explicit axes of a mesh."""
    explicit = mesh.explicit_axes
    parts = [tuple([name for name in axes_of(part) if name in explicit]) for part in spec.partitions[:ndim]]
    return (*parts, *((),) * (ndim - len(parts)))


def lies_as(sharding: NamedSharding, ndim: int, mesh: Mesh) -> Lies:
    """How an array lies along the Explicit axes of a mesh. Open, if it is divided along axes that are Auto for it."""
    left = [name for name in sharding.spec.names if name in sharding.mesh.auto_axes]
    if any(name in mesh.explicit_axes for name in left):
        return Open()
    return lying(spec_of(sharding.spec, ndim, mesh), sums_said(sharding.spec, mesh))


def sums_said(spec: PartitionSpec, mesh: Mesh) -> Axes:
    """What a specification says of sums along the Explicit axes of a mesh."""
    if not (spec.unreduced or spec.reduced):
        return ()
    explicit = mesh.explicit_axes
    unreduced, reduced = ([n for n in explicit if n in names] for names in (spec.unreduced, spec.reduced))
    return marked((), as_axes(unreduced), as_axes(reduced))


def partition_spec(lies: Spec | Summed, mesh: Mesh) -> PartitionSpec:
    """The specification that says so. Where a mesh has other axes, too, XLA may divide along them as well; but not
    sums yet to be made, of which it takes those for made that may be divided otherwise."""
    return named_spec(lies, bool(mesh.auto_axes) and not unmarked(sums_of(lies))[1])


def pinned(lies: Spec | Summed, mesh: Mesh) -> NamedSharding:
    """The same, as a program says it: of a mesh that has other axes, too, it says which are which."""
    spec = partition_spec(lies, mesh)
    return NamedSharding(mesh.abstract_mesh if spec.open else AbstractMesh(mesh.axis_sizes, mesh.axis_names), spec)


def named_spec(lies: Spec | Summed, free: bool = False) -> PartitionSpec:
    """The same; `free`: XLA may divide along other axes of the mesh."""
    _, unreduced, reduced = unmarked(sums_of(lies))
    parts = [further(names) if free else names for names in parts_of(lies)]
    return PartitionSpec(*parts, unreduced=frozenset(unreduced), reduced=frozenset(reduced))


def type_text(aval: ShapedArray, lies: Spec | Summed) -> str:
    """A type with the axes that are divided: `f32[8@x,4]`, and sums yet to be made: `{U:y}`."""
    if not divided(lies):
        return str(aval)
    sizes = [f"{size}{_at(names)}" for size, names in zip(aval.shape, parts_of(lies), strict=True)]
    marks = axes_text(as_axes([*aval.axes, *sums_of(lies)]))
    return f"{'~' if aval.weak_type else ''}{short_name(aval.dtype)}[{','.join(sizes)}]{marks}"


def _at(names: Names) -> str:
    return "" if not names else f"@{names[0]}" if len(names) == 1 else f"@({','.join(names)})"


@final
@frozen
class Site:
    """An equation whose results are asked for: on which mesh, and what a function calls its operands, if anything."""

    mesh: Mesh
    eqn: Eqn
    labels: tuple[str, ...]

    @property
    def ins(self) -> list[ShapedArray]:
        """The types of the operands."""
        return [atom.aval for atom in self.eqn.invars]

    @property
    def outs(self) -> list[ShapedArray]:
        """The types of the results."""
        return [var.aval for var in self.eqn.outvars]

    def parts(self, names: Names) -> int:
        """Into how many parts these axes divide."""
        return math.prod([self.mesh.shape[name] for name in names])

    @property
    def backward(self) -> bool:
        """Whether it is on a derivative's way back."""
        source = self.eqn.source
        return source is not None and "transpose" in source.transformations

    def refuse(self, operands: Sequence[Lies], why: str) -> Open:
        """How results lie that might lie in several ways. In a derivative's way back the values say it that the
        cotangents are of."""
        if self.backward:
            return Open()
        source = self.eqn.source
        shown = [
            f"{label}: {text}" if label else text
            for label, text in zip(self.labels, map(_shown, self.ins, operands), strict=True)
        ]
        at = f" at {source.location}" if source is not None else ""
        sums = any(sums_of(lies) for lies in operands if not isinstance(lies, Open))
        error = UnreducedError if sums else ShardingTypeError
        return Open(error(f"{self.eqn.primitive.name} of ({', '.join(shown)}){at}: {why}. {HINT}"))

    def resized(self, spec: Spec, before: Shape, after: Shape, operands: Sequence[Lies]) -> Lies:
        """The specification for a result whose sizes are others, which its mesh axes have to divide. One element is on
        all devices."""
        if set(after) <= {1}:
            return ((),) * len(after)
        for axis, (names, old, new) in enumerate(zip(spec, before, after, strict=True)):
            if old != new and new % (count := self.parts(names)):
                return self.refuse(
                    operands,
                    f"axis {axis} of the result has the size {new}, which {_named(names)} ({count}) can't divide",
                )
        return spec

    def checked(self, lies: Lies, aval: ShapedArray, operands: Sequence[Lies]) -> Lies:
        """The same, unless a mesh axis would divide it twice."""
        if isinstance(lies, Open):
            return lies
        names = [name for part in parts_of(lies) for name in part]
        if both := [name for name in unmarked(sums_of(lies))[1] if name in names]:
            shown = type_text(aval, lies)
            return self.refuse(operands, f"the result would be {shown}, divided along {both[0]!r} and a sum along it")
        if len(set(names)) == len(names):
            return lies
        twice = next(name for name in names if names.count(name) > 1)
        return self.refuse(operands, f"the result would be {type_text(aval, lies)}, divided along {twice!r} twice")


def _shown(aval: ShapedArray, lies: Lies) -> str:
    return str(aval) if isinstance(lies, Open) else type_text(aval, lies)


def _named(names: Names) -> str:
    return f"the mesh axis {names[0]!r}" if len(names) == 1 else f"the mesh axes {', '.join(map(repr, names))}"
