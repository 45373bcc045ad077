"""Vectorisation of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar, final, overload

from attrs import frozen

from tinyjax.caching import remembered
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.holding import AnyProgram, HoldsProgram, as_closed
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr
from tinyjax.ir.verify import verify
from tinyjax.primitives.structure import broadcast_in_dim, move_axis
from tinyjax.transforms.arguments import axes_each, check_axis
from tinyjax.transforms.forms import Form

V = TypeVar("V")


@final
@frozen(repr=False)
class BatchedProgram(Record, Generic[Form]):
    """A program over a batch: where the mapped axis of each input and output is (None: not mapped)."""

    jaxpr: Form
    in_axes: tuple[int | None, ...]
    out_axes: tuple[int | None, ...]


def add_axis(aval: ShapedArray, at: int | None, size: int) -> ShapedArray:
    """The type of a batch of `size` values, stacked along axis `at`."""
    if at is None:
        return aval
    return aval.of_shape((*aval.shape[:at], size, *aval.shape[at:]))


def place_axis(ctx: Context[V], x: V, found: int | None, wanted: int | None, size: int) -> V:
    """x with its mapped axis at `wanted`; repeated along it if x isn't mapped. `wanted` None: x as it is."""
    if wanted is None:
        return x
    if found is not None:
        return move_axis(ctx, x, found, wanted)
    shape = list(ctx.aval(x).shape)
    dims = tuple(i + (i >= wanted) for i in range(len(shape)))
    shape.insert(wanted, size)
    return broadcast_in_dim(ctx, x, tuple(shape), dims)


@overload
def batch(
    jaxpr: Jaxpr, axis: BatchAxis, in_axes: Sequence[int | None], out_axes: Sequence[int | None] | None = None
) -> BatchedProgram[Jaxpr]: ...
@overload
def batch(
    jaxpr: ClosedJaxpr | HoldsProgram,
    axis: BatchAxis,
    in_axes: Sequence[int | None],
    out_axes: Sequence[int | None] | None = None,
) -> BatchedProgram[ClosedJaxpr]: ...
def batch(
    jaxpr: AnyProgram,
    axis: BatchAxis,
    in_axes: Sequence[int | None],
    out_axes: Sequence[int | None] | None = None,
) -> BatchedProgram[Jaxpr] | BatchedProgram[ClosedJaxpr]:
    """The program that works on a batch at once.

        { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }                    # in_axes=(0,), 3 elements
        { lambda ; a:f64[3]. let b:f64[3] = sin a in (b,) }

    `out_axes` asks for the mapped axis of each output to be there; None in it, or no `out_axes`: where it falls, or
    nowhere if the output doesn't depend on a mapped input. The constants of a closed program aren't mapped.
    """
    if not isinstance(jaxpr, Jaxpr):
        closed = as_closed(jaxpr, "batch")
        verify(closed)
        n = len(closed.consts)
        own = axes_each("batch: in_axes", in_axes, closed.in_avals, "inputs", closed)
        found = batch(closed.jaxpr, axis, (*[None] * n, *own), out_axes)
        return BatchedProgram(ClosedJaxpr(found.jaxpr.named_by(closed.jaxpr.names), closed.consts), own, found.out_axes)
    verify(jaxpr)
    n = len(jaxpr.outvars)
    check_axis("batch: axis", axis)
    axes = axes_each("batch: in_axes", in_axes, jaxpr.in_avals, "inputs", jaxpr)
    wanted = (None,) * n if out_axes is None else axes_each("batch: out_axes", out_axes, jaxpr.out_avals, "outputs")
    return _batch(jaxpr, axis, axes, wanted)


@remembered
def _batch(
    jaxpr: Jaxpr, axis: BatchAxis, in_axes: tuple[int | None, ...], wanted: tuple[int | None, ...]
) -> BatchedProgram:
    found: list[int | None] = []

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        inner = BatchContext(ctx, axis)
        outs = interpret(inner, jaxpr, list(map(Batched, ins, in_axes)))
        found.extend(out.axis if want is None else want for out, want in zip(outs, wanted, strict=True))
        with inner.cursor.attributing():
            return [place_axis(ctx, x.value, x.axis, want, axis.size) for x, want in zip(outs, wanted, strict=True)]

    avals = [add_axis(aval, at, axis.size) for aval, at in zip(jaxpr.in_avals, in_axes, strict=True)]
    return BatchedProgram(stage(avals, run).named_by(jaxpr.names), in_axes, tuple(found))
