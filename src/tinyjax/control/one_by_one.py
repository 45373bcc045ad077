"""Batches of what has no rule of its own: elements one after the other, or all arguments with the batch in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.scan import Scan
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.program import Atom
from tinyjax.primitives.structure import broadcast_in_dim, move_axis

V = TypeVar("V")


def one_by_one(
    primitive: Primitive, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
) -> tuple[Sequence[V], Sequence[int | None]]:
    """A rule of batching: a `scan` along the batch, whose body applies the primitive as it is."""
    consts = [i for i, at in enumerate(axes) if at is None]
    mapped = [(i, at) for i, at in enumerate(axes) if at is not None]
    arrays = [move_axis(ctx, args[i], at, 0) for i, at in mapped]
    order = [*consts, *(i for i, _ in mapped)]
    stacks = map(ctx.aval, arrays)
    slices = [aval.of_shape(aval.shape[1:]) for aval in stacks]

    def run(inner: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        given = dict(zip(order, ins, strict=True))
        return inner.bind(primitive, *[given[i] for i in range(len(order))])

    program = stage([*(ctx.aval(args[i]) for i in consts), *slices], run)
    loop = Scan(program, axis.size, reverse=False, num_consts=len(consts), num_carry=0)
    outs = ctx.bind(loop, *[args[i] for i in consts], *arrays)
    return outs, [0] * len(outs)


def leading(ctx: Context[V], args: Sequence[V], axes: Sequence[int | None], method: str, size: int) -> list[V]:
    """The arguments with the batch along the first axis. Those that aren't mapped have one of size 1 there
    ("expand_dims"), of full size ("broadcast_all"), or none ("legacy_vectorized")."""
    added = {"expand_dims": 1, "broadcast_all": size}.get(method)
    moved: list[V] = []
    for arg, at in zip(args, axes, strict=True):
        if at is not None:
            moved.append(move_axis(ctx, arg, at, 0))
        elif added is None:
            moved.append(arg)
        else:
            shape = ctx.aval(arg).shape
            moved.append(broadcast_in_dim(ctx, arg, (added, *shape), tuple(range(1, len(shape) + 1))))
    return moved
