"""Functions that are applied at computed positions: what JAX writes as `scatter` with a program of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.loops import While
from tinyjax.control.reducing import combine
from tinyjax.errors import ParameterError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INT32
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.comparison import gt
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.reductions import reduce_max
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, full
from tinyjax.registered.first_order import STANDARD

Params = Mapping[str, object]


def scatter_apply(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """The operand with a function applied to the elements of windows, once for each of the windows that they are in.

    The third operand has the shape of the windows. First they are counted, then the function is applied to all elements
    that are in one of them, then to those that are in another one.
    """
    x, indices, updates = args
    program = params.get("update_jaxpr")
    if not isinstance(program, Jaxpr) or len(program.invars) != 2:
        raise ParameterError(f"scatter has no program to apply: {program!r}")
    function: Jaxpr = program
    kept = {key: value for key, value in params.items() if key not in ("update_jaxpr", "update_consts")}
    ones = full(ctx, array_type(updates.aval.shape, INT32), 1)
    none = full(ctx, array_type(x.aval.shape, INT32), 0)
    counting = STANDARD.read("scatter_add", kept, [none.aval, indices.aval, ones.aval])
    (counts,) = ctx.bind(counting, none, indices, ones)

    def step(ctx: StagingContext, round_: Atom, counts: Atom, x: Atom) -> Atom:
        (changed,) = combine(ctx, function, [x], [x])
        rounds = broadcast_in_dim(ctx, round_, x.aval.shape, ())
        return select(ctx, gt(ctx, counts, rounds), changed, x)

    zero = full(ctx, array_type((), INT32), 0)
    if params.get("unique_indices") is True:
        return [step(ctx, zero, counts, x)]
    avals = [counts.aval, zero.aval, x.aval.strengthen()]

    def going(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
        counts, round_, _ = ins
        most = reduce_max(ctx, counts, tuple(range(counts.aval.ndim)))
        return [gt(ctx, most, round_)]

    def once(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
        counts, round_, x = ins
        return [add(ctx, round_, constant_like(ctx, round_, 1)), step(ctx, round_, counts, x)]

    if x.aval.size == 0:
        return [x]
    loop = While(stage(avals, going), 1, stage(avals, once), 1)
    return [ctx.bind(loop, counts, counts, zero, x)[1]]


def scatter(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr | None:
    """What isn't replacing, which is a primitive of ours."""
    program = params.get("update_jaxpr")
    if not isinstance(program, Jaxpr) or program.outvars == program.invars[1:]:
        return None
    if params.get("update_consts", ()) != ():
        raise UnsupportedError("scatter_apply of a function that closes over arrays is not supported")
    return stage(in_avals, lambda ctx, ins: scatter_apply(ctx, params, ins))
