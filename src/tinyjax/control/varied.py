"""Programs for operands that vary along more axes of a mesh than they were made for.

{ lambda ; a:f64[] b:f64[]{V:x}. let c:f64[]{V:x} = pvary[axes=(x,)] a; d:f64[]{V:x} = mul b c in (d,) }
{ lambda ; a:f64[]{V:x} b:f64[]{V:x}. let c:f64[]{V:x} = mul b a in (c,) }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from typing_extensions import override

from tinyjax.contexts.around import Around
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import TinyjaxError
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.shapes import Axes
from tinyjax.ir.varying import axes_of, union
from tinyjax.primitives.casts import Cast, cast
from tinyjax.transforms.inline import inline


def reading_varied(jaxpr: Jaxpr, axes: Axes) -> Jaxpr:
    """The program for operands that all vary along these axes at least; itself if that can't be."""
    wanted = [union([own, axes]) for own in axes_of(jaxpr.in_avals)]
    avals = [aval.varying_over(own) for aval, own in zip(jaxpr.in_avals, wanted, strict=True)]
    if tuple(avals) == jaxpr.in_avals:
        return jaxpr

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return interpret(_Varied(ctx), inline(jaxpr), ins)

    try:
        return stage(avals, run).named_by(jaxpr.names)
    except TinyjaxError:  # programs within it that read what is the same
        return jaxpr


@final
class _Varied(Around[Atom]):
    """Stages equations, without casts of what varies already."""

    __slots__ = ()

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Atom, ...]:
        if isinstance(primitive, Cast) and not primitive.target:
            return (cast(self.inner, args[0], primitive.axes),)
        return self.inner.bind(primitive, *args)
