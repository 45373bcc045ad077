"""Primitives of JAX that we lack, by way of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Call
from tinyjax.control.custom_derivatives import CustomJvp
from tinyjax.control.loops import rowwise
from tinyjax.deferred import RANDOM_GAMMA
from tinyjax.errors import ParameterError, ShapeError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOATS, KEYS, UINT32, UINT64, as_dtype
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr, Literal
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.text.registry import Expander
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.arithmetic import div
from tinyjax.primitives.bitwise import logical_xor, shift_right_arithmetic, shift_right_logical
from tinyjax.primitives.comparison import eq, le, lt
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import BitcastConvertType, convert
from tinyjax.primitives.elementwise import add, mul, neg, sub
from tinyjax.primitives.exponential import log
from tinyjax.primitives.shaping import iota, reshape
from tinyjax.primitives.sorting import top_k
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, full, permute
from tinyjax.registered.jax_meshes import STANDARD
from tinyjax.registered.jax_products import RaggedDotDimensionNumbers, ragged_dot_general, scaled_dot, scaled_matmul
from tinyjax.registered.jax_scatters import scatter

__all__ = ["EXPANSIONS", "STANDARD"]

Params: TypeAlias = Mapping[str, object]
Expansion: TypeAlias = Callable[[StagingContext, Params, Sequence[Atom]], Sequence[Atom]]


def _shape(value: object) -> tuple[int, ...]:
    if not isinstance(value, tuple) or not all(isinstance(size, int) for size in value):
        raise ParameterError(f"{value!r} is no shape")
    return tuple(int(size) for size in value)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise ParameterError(f"{value!r} is no whole number")
    return value


def _iota_2x32(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """Counts elements in 64 bits: the upper and the lower half of each number."""
    shape = _shape(params["shape"])
    counted = reshape(ctx, iota(ctx, UINT64, (math.prod(shape),), 0), shape)
    upper = shift_right_logical(ctx, counted, ctx.constant(Literal.of(32, UINT64)))
    return [convert(ctx, upper, UINT32), convert(ctx, counted, UINT32)]


def _top_k(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """The greatest elements along an axis, which JAX before 0.10 doesn't name."""
    (x,) = args
    return top_k(ctx, x, _number(params["k"]), _number(params.get("axis", x.aval.ndim - 1)))


def candidates(size: int, rank: int, k: int, recall: float, whole: int = -1) -> int:
    """How many elements XLA keeps for an approximate choice of k from so many, before it chooses among them: it leaves
    the greatest of each group, which are so large that the recall is as wanted. `whole`, if it isn't -1, says of how
    many elements these are a part, from all of which k are chosen in the end."""
    if whole != -1 and whole < size:
        raise ShapeError(f"reduction_input_size_override is at least the size of the axis, {size}, or -1; got {whole}")
    tile = 1024 if rank == 1 else 128
    if size <= tile:
        return size
    if k == 1:
        return tile
    if recall == 1.0:
        return size
    kept = max(int((1.0 - k) / math.log(float(np.float32(recall)))), tile)
    tiles, groups = -(-size // tile), max((size if whole == -1 else whole) // kept, 1).bit_length() - 1
    if groups == 0:
        return size
    return -(-tiles // (1 << min(groups, (tiles - 2).bit_length()))) * tile


def _approx_top_k(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """The greatest or the least elements, all of them found."""
    (x,) = args
    largest = bool(params["is_max_k"])
    axis, k = _number(params["reduction_dimension"]) % max(x.aval.ndim, 1), _number(params["k"])
    if params.get("aggregate_to_topk") is not True:
        recall, whole = params.get("recall_target"), _number(params.get("reduction_input_size_override", -1))
        k = candidates(x.aval.shape[axis], x.aval.ndim, k, recall if isinstance(recall, float) else 0.95, whole)
    values, places = _top_k(ctx, {"k": k, "axis": axis}, [x if largest else neg(ctx, x)])
    return [values if largest else neg(ctx, values), places]


def _tile(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    (x,), reps = args, _shape(params["reps"])
    shape = x.aval.shape
    spread = tuple(n for pair in zip(reps, shape, strict=True) for n in pair)
    repeated = broadcast_in_dim(ctx, x, spread, tuple(range(1, 2 * len(shape), 2)))
    return [reshape(ctx, repeated, tuple(n * k for n, k in zip(shape, reps, strict=True)))]


def _scatter_sub(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    x, indices, updates = args
    adding = STANDARD.read("scatter_add", params, [arg.aval for arg in args])
    return ctx.bind(adding, x, indices, neg(ctx, updates))


def _total_order(comparison: Primitive) -> Expansion:
    """Compares as XLA orders all floats: -nan, -inf, ..., -0.0, 0.0, ..., inf, nan."""

    def expand(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
        return ctx.bind(comparison, *(_ordered(ctx, arg) for arg in args))

    return expand


def _ordered(ctx: StagingContext, x: Atom) -> Atom:
    """Integers in the same order: the bits, where those of negative floats count backwards."""
    dtype = x.aval.dtype
    if dtype not in FLOATS:
        return x
    signed = as_dtype(f"i{dtype.itemsize}")
    (bits,) = ctx.bind(BitcastConvertType(signed), x)
    negative = shift_right_arithmetic(ctx, bits, ctx.constant(Literal.of(8 * dtype.itemsize - 1, signed)))
    flipped = shift_right_logical(ctx, negative, ctx.constant(Literal.of(1, signed)))
    return logical_xor(ctx, bits, flipped)


def _log2(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    (x,) = args
    return [div(ctx, log(ctx, x), constant_like(ctx, x, math.log(2)))]


def one_minus_square(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """1 - x**2 as (1 + x) (1 - x), which is exact near 1; with the derivative -2x, which is exact near 0."""
    (x,) = args

    def value(inner: StagingContext, ins: Sequence[Atom]) -> list[Atom]:
        one = constant_like(inner, ins[0], 1)
        return [mul(inner, add(inner, one, ins[0]), sub(inner, one, ins[0]))]

    def derivative(inner: StagingContext, ins: Sequence[Atom]) -> list[Atom]:
        x, t = ins
        return [*value(inner, [x]), mul(inner, t, mul(inner, constant_like(inner, x, -2), x))]

    if not has_tangent(x.aval):
        return value(ctx, args)
    rule = stage([x.aval, x.aval.tangent], derivative)
    return ctx.bind(CustomJvp("one_minus_square", stage([x.aval], value), rule), x)


def _custom_vmap(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """A function with a batching rule, without the rule, which is a Python function of JAX."""
    jaxpr = params["call"]
    if not isinstance(jaxpr, Jaxpr):
        raise ParameterError(f"custom_vmap_call has no program: {jaxpr!r}")
    return ctx.bind(Call("custom_vmap", jaxpr), *args)


def _random_gamma(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """What is no primitive here: a loop, with a derivative in the second operand."""
    if args[0].aval.dtype not in KEYS:
        raise UnsupportedError(f"random_gamma takes keys, got {args[0].aval}")
    closed = RANDOM_GAMMA.use(bool(params.get("log_space")), [arg.aval for arg in args])
    consts = [ctx.bind(Constant(const))[0] for const in closed.consts]
    return ctx.bind(Call("random_gamma", closed.jaxpr), *consts, *args)


def _as_it_is(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    return args


def _token(ctx: StagingContext, params: Params, args: Sequence[Atom]) -> Sequence[Atom]:
    """What has no elements: effects keep their order here by themselves."""
    return ctx.bind(Constant(ConcreteValue.of(np.zeros(0, bool))))


#: By the names that JAX has for them.
EXPANSIONS: Final[Mapping[str, Expansion]] = {
    "after_all": _token,
    "approx_top_k": _approx_top_k,
    "create_token": _token,
    "custom_vmap_call": _custom_vmap,
    "eq_to": _total_order(eq),
    "iota_2x32_shape": _iota_2x32,
    "le_to": _total_order(le),
    "log2": _log2,
    "lt_to": _total_order(lt),
    "one_minus_square": one_minus_square,
    "ragged_dot_general": ragged_dot_general,
    "random_gamma": _random_gamma,
    "scaled_dot": scaled_dot,
    "scaled_matmul": scaled_matmul,
    "scaled_matmul_wrapper": scaled_matmul,
    "scatter-sub": _scatter_sub,
    "stage": _as_it_is,
    "tile": _tile,
    "top_k": _top_k,
}


def _staged(expansion: Expansion) -> Expander:
    def expand(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr:
        return stage(in_avals, lambda ctx, ins: expansion(ctx, params, ins))

    return expand


STANDARD.add(RaggedDotDimensionNumbers)
for _name, _expansion in EXPANSIONS.items():
    STANDARD.expand_by(_name)(_staged(_expansion))


@STANDARD.expand_by("mul")
def _mul_into(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr | None:
    """A product in a dtype of its own: of the operands in that dtype."""
    dtype = params.get("out_dtype")
    if dtype is None or len(out_avals) != 1:
        return None
    out = out_avals[0]

    def converted(ctx: StagingContext, x: Atom) -> Atom:
        found = convert(ctx, x, out.dtype)
        return (
            found if x.aval.shape == out.shape else broadcast_in_dim(ctx, found, out.shape, tuple(range(x.aval.ndim)))
        )

    return stage(in_avals, lambda ctx, ins: [mul(ctx, *(converted(ctx, x) for x in ins))])


STANDARD.expand_by("scatter")(scatter)


@STANDARD.expand_by("reshape")
def _reshape(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr | None:
    """Elements that are read in another order of the axes first."""
    order = params.get("dimensions")
    if order is None or len(in_avals) != 1:
        return None
    axes, shape = _shape(order), _shape(params["new_sizes"])
    return stage(in_avals, lambda ctx, ins: [reshape(ctx, permute(ctx, ins[0], axes), shape)])


@STANDARD.expand_by("broadcast_in_dim")
def _broadcast_in_dim(
    params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
) -> Jaxpr | None:
    """Axes that are put into another order."""
    axes = _shape(params.get("broadcast_dimensions", ()))
    if list(axes) == sorted(axes) or len(in_avals) != 1 or len(out_avals) != 1 or len(axes) != in_avals[0].ndim:
        return None
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    shape, placed = out_avals[0].shape, tuple(sorted(axes))
    return stage(in_avals, lambda ctx, ins: [broadcast_in_dim(ctx, permute(ctx, ins[0], order), shape, placed)])


@STANDARD.expand_by("while")
def _while(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr | None:
    """A loop whose condition has an element for each row of a batch: it runs as long as one is true, and rows for
    which it is false stay as they are."""
    cond, body = params.get("cond_jaxpr"), params.get("body_jaxpr")
    if (
        not isinstance(cond, Jaxpr)
        or not isinstance(body, Jaxpr)
        or len(cond.outvars) != 1
        or not cond.out_avals[0].ndim
    ):
        return None
    loop = rowwise(cond, _number(params["cond_nconsts"]), body, _number(params["body_nconsts"]))
    n = loop.cond_nconsts
    return stage(in_avals, lambda ctx, ins: ctx.bind(loop, *ins[:n], *ins))


@STANDARD.expand_by("empty", "empty2")
def _empty(params: Params, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr:
    """An array whose elements nobody reads: zeros."""
    return stage((), lambda ctx, ins: [full(ctx, aval, 0) for aval in out_avals])
