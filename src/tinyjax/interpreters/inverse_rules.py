"""How equations are solved for their operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from attrs import evolve

from tinyjax.control.call import Call, Calling
from tinyjax.control.carry import rearranged, with_unused
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.interpreters.hidden import Hidden, staged
from tinyjax.interpreters.inverse import INVERSE_RULES, Partly, Unknown, inverted
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INEXACT, INT64
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive, UndefPrimal, Zero
from tinyjax.ir.program import Literal
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.annotations import Name, OptimizationBarrier
from tinyjax.primitives.arithmetic import Div, IntegerPow, Square, abs_, div, integer_pow, reciprocal, square
from tinyjax.primitives.bitwise import Not, Xor, logical_not, logical_xor
from tinyjax.primitives.comparison import gt
from tinyjax.primitives.complex import Complex, Conj, imag, real
from tinyjax.primitives.conversion import ConvertElementType, Copy, convert
from tinyjax.primitives.cumulative import CumProd, CumSum
from tinyjax.primitives.elementwise import Add, Mul, Neg, Sub, add, mul, neg, scale, sub
from tinyjax.primitives.exponential import (
    Cbrt,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log1p,
    Logistic,
    Pow,
    Rsqrt,
    Sqrt,
    exp,
    expm1,
    log,
    log1p,
    pow_,
    sqrt,
)
from tinyjax.primitives.fourier import Fft, FftType, fft
from tinyjax.primitives.rounding import sign
from tinyjax.primitives.shaping import Reshape, Rev, Squeeze, reshape
from tinyjax.primitives.slicing import Concatenate, Pad, Split, pad, slice_
from tinyjax.primitives.special import Erf, Erfc, ErfInv, erf, erf_inv
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import BroadcastInDim, Transpose, constant_like
from tinyjax.primitives.trigonometric import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Cos,
    Cosh,
    Sin,
    Sinh,
    Tan,
    Tanh,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
)

Ctx: TypeAlias = Context[Hidden]
Found: TypeAlias = Sequence[Hidden | None]

# Functions of one operand.

_UNARY: Final[dict[type[Primitive], Callable[[Ctx, Hidden], Hidden]]] = {
    Neg: neg,
    Not: logical_not,
    Exp: log,
    Log: exp,
    Expm1: log1p,
    Log1p: expm1,
    Exp2: lambda ctx, y: scale(ctx, log(ctx, y), 1 / math.log(2)),
    Logistic: lambda ctx, y: sub(ctx, log(ctx, y), log1p(ctx, neg(ctx, y))),
    Sqrt: square,
    Square: sqrt,
    Rsqrt: lambda ctx, y: integer_pow(ctx, y, -2),
    Cbrt: lambda ctx, y: integer_pow(ctx, y, 3),
    Erfc: lambda ctx, y: erf_inv(ctx, sub(ctx, constant_like(ctx, y, 1), y)),
}
_PAIRS: Final[dict[type[Primitive], Primitive]] = {
    Sin: asin, Cos: acos, Tan: atan, Sinh: asinh, Cosh: acosh, Tanh: atanh,
    Asin: sin, Acos: cos, Atan: tan, Asinh: sinh, Acosh: cosh, Atanh: tanh,
    Erf: erf_inv, ErfInv: erf,
}  # fmt: skip


def _unary(primitive: Primitive, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    return [_UNARY[type(primitive)](ctx, outs[0])]


def _paired(primitive: Primitive, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    return ctx.bind(_PAIRS[type(primitive)], outs[0])


def _rearranged(primitive: Primitive, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    """Only moves elements about, so that the transpose is the inverse."""
    linear: list[Hidden | UndefPrimal] = [
        UndefPrimal(arg.aval if isinstance(arg, Unknown) else ctx.aval(arg)) for arg in args
    ]
    return [None if x is None or isinstance(x, Zero) else x for x in primitive.transpose(ctx, list(outs), linear)]


for _cls in _UNARY:
    INVERSE_RULES[_cls] = _unary
for _cls in _PAIRS:
    INVERSE_RULES[_cls] = _paired
for _cls in (
    *(Transpose, Reshape, Squeeze, Rev, Concatenate, Split, Stack, Unstack, Copy, Name, OptimizationBarrier, Conj),
):
    INVERSE_RULES[_cls] = _rearranged


@INVERSE_RULES.register(IntegerPow)
def _integer_pow(primitive: IntegerPow, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    (y,) = outs
    if primitive.y == 0 or ctx.aval(y).dtype not in INEXACT:
        return [None]
    root = pow_(ctx, abs_(ctx, y), constant_like(ctx, y, 1 / primitive.y))
    return [mul(ctx, sign(ctx, y), root) if primitive.y % 2 else root]


@INVERSE_RULES.register(ConvertElementType)
def _convert(primitive: ConvertElementType, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    (x,) = args
    if not isinstance(x, Unknown) or x.aval.dtype not in INEXACT or primitive.new_dtype not in INEXACT:
        return [None]
    return [convert(ctx, outs[0], x.aval.dtype, x.aval.weak_type)]


@INVERSE_RULES.register(BroadcastInDim)
def _broadcast(primitive: BroadcastInDim, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    (x,) = args
    return [_one_of(ctx, outs[0], x.aval, primitive.broadcast_dimensions) if isinstance(x, Unknown) else None]


def _one_of(ctx: Ctx, y: Hidden, wanted: ShapedArray, dims: tuple[int, ...]) -> Hidden | None:
    """The first of the copies in y, whose axes are at `dims`. None if there are none."""
    sizes = dict(zip(dims, wanted.shape, strict=True))
    shape = ctx.aval(y).shape
    limits = tuple(min(sizes.get(i, 1), size) for i, size in enumerate(shape))
    if 0 in shape:
        return None
    return reshape(ctx, slice_(ctx, y, limits=limits), wanted.shape) if shape != wanted.shape else y


@INVERSE_RULES.register(Complex)
def _complex(primitive: Complex, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    return [ctx.bind(part, outs[0])[0] for part in (real, imag)]


@INVERSE_RULES.register(Pad)
def _pad(primitive: Pad, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    """The operand, if nothing of it was cut off; and what it was padded with, if there is padding around it."""
    x, padding = args
    if any(low < 0 or high < 0 for low, high, _ in primitive.padding_config):
        return [None, None]
    shape = x.aval.shape if isinstance(x, Unknown) else ctx.aval(x).shape
    taken = slice_(
        ctx,
        outs[0],
        starts=tuple(low for low, _, _ in primitive.padding_config),
        limits=tuple(
            low + max(size + (size - 1) * inside, 0)
            for size, (low, _, inside) in zip(shape, primitive.padding_config, strict=True)
        ),
        strides=tuple(inside + 1 for *_, inside in primitive.padding_config),
    )
    return [taken, None if not isinstance(padding, Unknown) else _padding(ctx, primitive, outs[0])]


def _padding(ctx: Ctx, primitive: Pad, y: Hidden) -> Hidden | None:
    """What y was padded with: an element at an edge that isn't the operand's."""
    shape = ctx.aval(y).shape
    for axis, (low, high, _) in enumerate(primitive.padding_config):
        if low > 0 or high > 0:
            start = tuple(size - 1 if i == axis and low == 0 else 0 for i, size in enumerate(shape))
            return reshape(ctx, slice_(ctx, y, starts=start, limits=tuple(i + 1 for i in start)), ())
    return None


@INVERSE_RULES.register(Atan2)
def _atan2(primitive: Atan2, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    (y, x), (angle,) = args, outs
    slope = tan(ctx, angle)
    if isinstance(y, Unknown) and not isinstance(x, Unknown):
        return [_scalar(ctx, mul(ctx, slope, x), y.aval), None]
    if isinstance(x, Unknown) and not isinstance(y, Unknown):
        return [None, _scalar(ctx, div(ctx, y, slope), x.aval)]
    return [None, None]


@INVERSE_RULES.register(CumProd)
def _cumprod(primitive: CumProd, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    (y,) = outs
    if ctx.aval(y).dtype not in INEXACT:
        return [None]
    shift = (-1, 1, 0) if primitive.reverse else (1, -1, 0)
    config = tuple(shift if i == primitive.axis else (0, 0, 0) for i in range(ctx.aval(y).ndim))
    return [div(ctx, y, pad(ctx, y, config, 1))]


@INVERSE_RULES.register(CumSum)
def _cumsum(primitive: CumSum, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    (y,) = outs
    shift = (-1, 1, 0) if primitive.reverse else (1, -1, 0)
    config = tuple(shift if i == primitive.axis else (0, 0, 0) for i in range(ctx.aval(y).ndim))
    return [sub(ctx, y, pad(ctx, y, config))]


@INVERSE_RULES.register(Fft)
def _fft(primitive: Fft, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    """Of complex numbers, and of real ones: those that IRFFT reads aren't all told by its result."""
    back = {FftType.FFT: FftType.IFFT, FftType.IFFT: FftType.FFT, FftType.RFFT: FftType.IRFFT}
    kind = back.get(primitive.fft_type)
    return [None if kind is None else fft(ctx, outs[0], kind, primitive.fft_lengths)]


# Two operands, one of which is known.

_FROM_RIGHT: Final[dict[type[Primitive], Callable[[Ctx, Hidden, Hidden], Hidden]]] = {
    Add: sub,
    Sub: add,
    Mul: div,
    Xor: logical_xor,
    Div: mul,
    Pow: lambda ctx, out, y: pow_(ctx, out, reciprocal(ctx, y)),
}
_FROM_LEFT: Final[dict[type[Primitive], Callable[[Ctx, Hidden, Hidden], Hidden]]] = {
    Add: sub,
    Sub: lambda ctx, out, x: sub(ctx, x, out),
    Mul: div,
    Xor: logical_xor,
    Div: lambda ctx, out, x: div(ctx, x, out),
    Pow: lambda ctx, out, x: div(ctx, log(ctx, out), log(ctx, x)),
}


def _binary(primitive: Primitive, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    (out,), (x, y) = outs, args
    if ctx.aval(out).dtype not in INEXACT and not isinstance(primitive, Add | Sub | Xor):
        return [None, None]  # integers that were multiplied or divided
    if isinstance(x, Unknown):
        if isinstance(y, Unknown):
            return [None, None]
        if isinstance(primitive, Pow):
            y = convert(ctx, y, ctx.aval(out).dtype, ctx.aval(y).weak_type)
        return [_scalar(ctx, _FROM_RIGHT[type(primitive)](ctx, out, y), x.aval), None]
    if isinstance(y, Unknown) and y.aval.dtype == ctx.aval(out).dtype:
        return [None, _scalar(ctx, _FROM_LEFT[type(primitive)](ctx, out, x), y.aval)]
    return [None, None]


def _scalar(ctx: Ctx, value: Hidden, wanted: ShapedArray) -> Hidden | None:
    """A solution, of which there are many copies if the operand was a scalar that went with an array."""
    return value if ctx.aval(value).shape == wanted.shape else _one_of(ctx, value, wanted, ())


for _cls in _FROM_RIGHT:
    INVERSE_RULES[_cls] = _binary

# Programs within programs.


def _split(args: Sequence[Partly]) -> tuple[list[Hidden], list[bool]]:
    return [arg for arg in args if not isinstance(arg, Unknown)], [not isinstance(arg, Unknown) for arg in args]


def _spread(found: Sequence[Hidden], known: Sequence[bool]) -> Found:
    rest = iter(found)
    return [None if mark else next(rest) for mark in known]


@INVERSE_RULES.register(Calling)
def _calling(primitive: Calling, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    given, known = _split(args)
    program = inverted(primitive.jaxpr, known, [True] * len(outs))
    return _spread(ctx.bind(primitive.of(program), *given, *outs), known)


def _custom(primitive: CustomCall, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    return _calling(Call(primitive.function_name, primitive.jaxpr), ctx, outs, args)


INVERSE_RULES[CustomJvp] = _custom
INVERSE_RULES[CustomVjp] = _custom
INVERSE_RULES[MappedCustom] = _custom


@INVERSE_RULES.register(Cond)
def _cond(primitive: Cond, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    index, *operands = args
    if isinstance(index, Unknown):
        return [None] * len(args)
    given, known = _split(operands)
    branches = tuple(inverted(branch, known, [True] * len(outs)) for branch in primitive.branches)
    return [None, *_spread(ctx.bind(evolve(primitive, branches=branches), index, *given, *outs), known)]


@INVERSE_RULES.register(Scan)
def _scan(primitive: Scan, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    """From the last carry back to the first one; or, if that is known, forwards, for the arrays that were scanned."""
    consts, init, xs = (_split(group) for group in primitive.operands(args))
    if not all(consts[1]):
        return [None] * len(args)
    last, ys = primitive.results(outs)
    n, m, k, total = len(consts[0]), len(xs[0]), primitive.num_carry, len(xs[1]) - len(xs[0])
    if all(init[1]):
        body = inverted(primitive.jaxpr, [*consts[1], *init[1], *xs[1]], [False] * k + [True] * len(ys))
        body = rearranged(body, None, (*range(total, total + k), *range(total)))
        found = ctx.bind(evolve(primitive, jaxpr=body), *consts[0], *init[0], *xs[0], *ys)
        return [*[None] * (n + k), *_spread(found[k:], xs[1])]
    body = inverted(primitive.jaxpr, [*consts[1], *[False] * k, *xs[1]], [True] * len(outs))
    order = (*range(n), *range(n + m, n + m + k), *range(n, n + m), *range(n + m + k, len(body.invars)))
    loop = evolve(primitive, jaxpr=rearranged(body, order), reverse=not primitive.reverse)
    found = ctx.bind(loop, *consts[0], *last, *xs[0], *ys)
    return [*[None] * n, *found[:k], *_spread(found[k:], xs[1])]


@INVERSE_RULES.register(While)
def _while(primitive: While, ctx: Ctx, outs: Sequence[Hidden], args: Sequence[Partly]) -> Found:
    """As many steps back from the last carry, as steps forwards were taken: how many, what is known of the carry at the
    start must tell."""
    marks = tuple(isinstance(arg, Unknown) for arg in args)
    _, const_marks, _ = primitive.operands(marks)
    split = primitive.partial_eval(marks)
    if split is None or any(const_marks) or not isinstance(split.known, While) or split.known_inputs is None:
        return [None] * len(args)
    start = [arg for arg in map(args.__getitem__, split.known_inputs) if not isinstance(arg, Unknown)]
    steps = ctx.bind(_counting(split.known), *start, _integer(ctx, 0))[-1]
    _, consts, _ = primitive.operands(args)
    known = [arg for arg in consts if not isinstance(arg, Unknown)]
    first = ctx.bind(_backwards(primitive), *known, steps, *outs)[1:]
    return [*[None] * (len(args) - len(first)), *first]


def _integer(ctx: Ctx, number: int) -> Hidden:
    return ctx.constant(Literal(number, array_type((), INT64)))


def _counting(loop: While) -> While:
    """The loop with one carry more, which counts the iterations."""
    count = array_type((), INT64)

    def step(ctx: Ctx, ins: list[Hidden]) -> Sequence[Hidden]:
        return [*interpret(ctx, loop.body_jaxpr, ins[:-1]), add(ctx, ins[-1], _integer(ctx, 1))]

    body = staged([*loop.body_jaxpr.in_avals, count], step)
    return While(with_unused(loop.cond_jaxpr, (count,)), loop.cond_nconsts, body, loop.body_nconsts)


def _backwards(loop: While) -> While:
    """The loop that takes a number of steps back. It takes the constants of the body, the number, and the carry."""
    count, n = array_type((), INT64), loop.body_nconsts
    avals = loop.body_jaxpr.in_avals
    back = inverted(loop.body_jaxpr, [i < n for i in range(len(avals))], [True] * (len(avals) - n))

    def goes_on(ctx: Ctx, ins: list[Hidden]) -> Sequence[Hidden]:
        return ctx.bind(gt, ins[0], _integer(ctx, 0))

    def step(ctx: Ctx, ins: list[Hidden]) -> Sequence[Hidden]:
        found = interpret(ctx, back, [*ins[:n], *ins[n + 1 :]])
        typed = zip(found, avals[n:], strict=True)
        return [sub(ctx, ins[n], _integer(ctx, 1)), *(convert(ctx, x, t.dtype, t.weak_type) for x, t in typed)]

    cond = staged([count, *avals[n:]], goes_on)
    return While(cond, 0, staged([*avals[:n], count, *avals[n:]], step), n)
