"""The rules of `simplify` for what moves, repeats and chooses elements."""

from __future__ import annotations

from typing import Final

from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.ir.program import Atom
from tinyjax.primitives.bitwise import Not
from tinyjax.primitives.elementwise import Elementwise
from tinyjax.primitives.selection import SelectN, select, select_n
from tinyjax.primitives.shaping import Reshape, Rev, Squeeze, reshape
from tinyjax.primitives.slicing import Concatenate, Pad, Slice
from tinyjax.primitives.structure import (
    BroadcastInDim,
    ReduceSum,
    Transpose,
    broadcast_in_dim,
    broadcast_scalar,
    permute,
)
from tinyjax.transforms.patterns import AnyLiteral, Match, Several, Variable, pattern
from tinyjax.transforms.rewrite import Rewrite

x: Final = Variable("x")
y: Final = Variable("y")
p: Final = Variable("p")
c: Final = AnyLiteral("c")
rest: Final = Several("rest")


def _x(ctx: Context[Atom], match: Match) -> Atom:
    return match[x]


def _same_type(match: Match) -> bool:
    return match.aval(x) == match.out


_broadcast = pattern(BroadcastInDim, x)
_rebroadcast = pattern(BroadcastInDim, _broadcast)
_reshaped_scalar = pattern(Reshape, _broadcast)
_transposed_scalar = pattern(Transpose, _broadcast)
_transpose = pattern(Transpose, x)
_retranspose = pattern(Transpose, _transpose)
_reshape_twice = pattern(Reshape, pattern(Reshape, x))
_rev = pattern(Rev, x)
_rev_twice = pattern(Rev, _rev)
_still_transpose = pattern(Transpose, x, where=lambda found: found.permutation == tuple(range(len(found.permutation))))
_no_squeeze = pattern(Squeeze, x, where=lambda found: not found.dimensions)
_no_rev = pattern(Rev, x, where=lambda found: not found.dimensions)
_no_pad = pattern(Pad, x, y, where=lambda found: all(entry == (0, 0, 0) for entry in found.padding_config))
_no_sum = pattern(ReduceSum, x, where=lambda found: not found.axes)
_chosen = pattern(SelectN, c, rest)
_repeated = pattern(BroadcastInDim, y)


def _broadcast_once(ctx: Context[Atom], match: Match) -> Atom:
    inner, outer = match.primitive(_broadcast), match.primitive(_rebroadcast)
    dims = tuple(outer.broadcast_dimensions[dim] for dim in inner.broadcast_dimensions)
    return ctx.bind(BroadcastInDim(outer.shape, dims), match[x])[0]


def _transpose_once(ctx: Context[Atom], match: Match) -> Atom:
    inner, outer = match.primitive(_transpose).permutation, match.primitive(_retranspose).permutation
    return permute(ctx, match[x], tuple(inner[i] for i in outer))


def _is_scalar(match: Match) -> bool:
    return match.aval(x).shape == ()


def _known_case(ctx: Context[Atom], match: Match) -> Atom:
    """The case that a literal names: the nearest one if it is out of range."""
    cases = match.all(rest)
    case = cases[min(max(match.integer(c), 0), len(cases) - 1)]
    return broadcast_scalar(ctx, case, match.out.shape)


def _repeated_for_shape(match: Match) -> bool:
    """Whether y is a scalar, repeated to the shape that the other operand x has already."""
    return match.aval(y).shape == () and match.aval(x).shape == match.out.shape != ()


#: Rules that hold for elements of all types.
ARRAY_RULES: Final[tuple[Rewrite, ...]] = (
    Rewrite("broadcast to the same shape", _broadcast, _x, _same_type),
    Rewrite("broadcast of a broadcast", _rebroadcast, _broadcast_once, shared=True),
    Rewrite("reshape to the same shape", pattern(Reshape, x), _x, _same_type),
    Rewrite("reshape of a reshape", _reshape_twice, lambda ctx, m: reshape(ctx, m[x], m.out.shape), shared=True),
    Rewrite(
        "reshape of a repeated scalar",
        _reshaped_scalar,
        lambda ctx, m: broadcast_in_dim(ctx, m[x], m.out.shape, ()),
        _is_scalar,
        shared=True,
    ),
    Rewrite(
        "transpose of a repeated scalar",
        _transposed_scalar,
        lambda ctx, m: broadcast_in_dim(ctx, m[x], m.out.shape, ()),
        _is_scalar,
        shared=True,
    ),
    Rewrite(
        "transpose that moves nothing",
        _still_transpose,
        _x,
    ),
    Rewrite("transpose of a transpose", _retranspose, _transpose_once, shared=True),
    Rewrite("squeeze of nothing", _no_squeeze, _x),
    Rewrite("reversal of nothing", _no_rev, _x),
    Rewrite(
        "reversal of the reversal",
        _rev_twice,
        _x,
        lambda m: set(m.primitive(_rev).dimensions) == set(m.primitive(_rev_twice).dimensions),
        shared=True,
    ),
    Rewrite("slice of everything", pattern(Slice, x), _x, _same_type),
    Rewrite(
        "padding with nothing",
        _no_pad,
        _x,
    ),
    Rewrite("concatenation of one array", pattern(Concatenate, x), _x),
    # Of floats, an empty sum is 0.0 + x: it loses the sign of -0.0.
    Rewrite("sum over no axes", _no_sum, _x, lambda m: m.dtype in INTEGERS),
    # An elementwise primitive repeats scalars itself.
    Rewrite(
        "repeated operand",
        pattern(Elementwise, x, _repeated),
        lambda ctx, m: ctx.bind(m.root, m[x], m[y]),
        _repeated_for_shape,
        shared=True,
    ),
    Rewrite(
        "repeated first operand",
        pattern(Elementwise, _repeated, x),
        lambda ctx, m: ctx.bind(m.root, m[y], m[x]),
        _repeated_for_shape,
        shared=True,
    ),
    Rewrite(
        "repeated case",
        pattern(SelectN, p, x, _repeated),
        lambda ctx, m: ctx.bind(select_n, m[p], m[x], m[y]),
        _repeated_for_shape,
        shared=True,
    ),
    Rewrite(
        "repeated first case",
        pattern(SelectN, p, _repeated, x),
        lambda ctx, m: ctx.bind(select_n, m[p], m[y], m[x]),
        _repeated_for_shape,
        shared=True,
    ),
    Rewrite("case that is known", _chosen, _known_case),
    Rewrite("choice among equals", pattern(SelectN, p, x, x), lambda ctx, m: broadcast_scalar(ctx, m[x], m.out.shape)),
    Rewrite(
        "choice by not p",
        pattern(SelectN, pattern(Not, p), x, y),
        lambda ctx, m: select(ctx, m[p], m[x], m[y]),
        lambda m: m.aval(p).dtype.kind == "b",
        shared=True,
    ),
)
