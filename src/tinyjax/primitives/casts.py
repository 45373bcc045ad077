"""Casts: values as they are, of which types say something else along axes of a mesh.

What each device has may be the same for all, or a term of a sum that is yet to be made, or have such a sum as its
cotangent (see `primitives.unreduced`). The transpose of a cast may be a sum between devices:

{ lambda ; a:f64[4]. let b:f64[4]{V:x} = pvary[axes=(x,)] a in (b,) }
{ lambda ; a:f64[4]{V:x}. let b:f64[4] = psum[axis_name=x] a in (b,) }

All that is staged asks for these, so those sums are imported where they are needed: outside of meshes, nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import AxisNameError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.effects import names_of
from tinyjax.ir.primitive import BatchAxis, Primitive, UndefPrimal, Zero
from tinyjax.ir.shapes import MARKS, REDUCED, UNREDUCED, Axes, as_axes
from tinyjax.ir.varying import axes_of, without
from tinyjax.primitives.structure import Linear, check_arity

if TYPE_CHECKING:
    from tinyjax.primitives.collectives import PSum
    from tinyjax.primitives.unreduced import UnreducedPSum

V = TypeVar("V")


def name_of(axes: Axes) -> str | tuple[str, ...]:
    """Axes as collectives have them: one by itself."""
    return axes[0] if len(axes) == 1 else axes


@frozen
class Cast(Linear):
    """The operand as it is: only its type says something else along these axes of a mesh."""

    axes: Axes
    #: The marks of the axes in the types of the operand, None for those that it says nothing of, and of the result.
    source: ClassVar[str | None]
    target: ClassVar[str]
    #: What the operand is along the axes, in words.
    takes: ClassVar[str]

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,), source = avals, self.source
        here = [name for name in self.axes for mark in ("", *MARKS) if mark + name in x.axes]
        wrong = here if source is None else [name for name in self.axes if source + name not in x.axes]
        if not self.axes or wrong:
            raise AxisNameError(f"{self.name} takes a value that {self.takes} along {self.axes}, got {x}")
        rest = x.axes if source is None else without(x.axes, [source + name for name in self.axes])
        return (x.varying_over(as_axes([*rest, *[self.target + name for name in self.axes]])),)

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return found, axes_of(types)

    def transposed(self) -> Primitive:
        """What cotangents go through."""
        raise self._missing("Transposition rule", "transposed")

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return args

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return (args if {*self.axes} <= {*names_of(axis)} else ctx.bind(self, *args)), axes

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero):
            return [Zero(x.aval.cotangent) if isinstance(x, UndefPrimal) else ct]
        return ctx.bind(self.transposed(), ct)


@final
@frozen
class PVary(Cast):
    """The operand, the same along these axes of a mesh, as a value that may differ: what it is for each device."""

    name: ClassVar[str] = "pvary"
    source: ClassVar[str | None] = None
    target: ClassVar[str] = ""
    takes: ClassVar[str] = "is the same"

    @override
    def transposed(self) -> PSum:
        from tinyjax.primitives.collectives import PSum

        return PSum(name_of(self.axes))


@final
@frozen
class PReduced(Cast):
    """The operand, the same along these axes, as a value whose cotangent is a sum along them yet to be made."""

    name: ClassVar[str] = "preduced"
    source: ClassVar[str | None] = None
    target: ClassVar[str] = REDUCED
    takes: ClassVar[str] = "is the same"

    @override
    def transposed(self) -> UnreducedPSum:
        from tinyjax.primitives.unreduced import UnreducedPSum

        return UnreducedPSum(name_of(self.axes))


@final
@frozen
class ReducedVaryCast(Cast):
    """The operand, reduced along these axes, as a value that may differ: what it is for each device."""

    name: ClassVar[str] = "reduced_vary_cast"
    source: ClassVar[str | None] = REDUCED
    target: ClassVar[str] = ""
    takes: ClassVar[str] = "is reduced"

    @override
    def transposed(self) -> VaryUnreducedCast:
        return VaryUnreducedCast(self.axes)


@final
@frozen
class VaryUnreducedCast(Cast):
    """What each device has along these axes as terms of a sum, which is yet to be made."""

    name: ClassVar[str] = "vary_unreduced_cast"
    source: ClassVar[str | None] = ""
    target: ClassVar[str] = UNREDUCED
    takes: ClassVar[str] = "varies"

    @override
    def transposed(self) -> ReducedVaryCast:
        return ReducedVaryCast(self.axes)


def casts(own: Axes, axes: Axes) -> list[Cast]:
    """What makes a value whose type says `own` along axes of a mesh one whose type says at least `axes`."""
    if axes == own or not (more := without(axes, own)):
        return []
    kinds: dict[type[Cast], list[str]] = {}
    for axis in more:
        name = axis[2:] if axis.startswith((UNREDUCED, REDUCED)) else axis
        if axis.startswith(UNREDUCED):
            kind: type[Cast] = VaryUnreducedCast
        elif axis.startswith(REDUCED):
            kind = PReduced
        else:
            kind = ReducedVaryCast if REDUCED + name in own else PVary
        kinds.setdefault(kind, []).append(name)
    return [kind(tuple(names)) for kind, names in kinds.items()]


def cast(ctx: Context[V], x: V, axes: Axes) -> V:
    """x as a value whose type says at least this along axes of a mesh; itself if it does.

    An AxisNameError if that is more than a cast: a sum between devices, or one to be undone.
    """
    for kind in casts(ctx.aval(x).axes, axes):
        (x,) = ctx.bind(kind, x)
    return x


# The vocabulary.


def pvary(ctx: Context[V], x: V, axes: Axes) -> V:
    """x as a value that varies along these axes of a mesh; itself if its type says that it does."""
    more = without(axes, ctx.aval(x).varying) if axes else ()
    return ctx.bind(PVary(more), x)[0] if more else x
