"""The lowering rules of keys and of the hash that makes random numbers of them. Others expand to these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.loops import While
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.elementwise import join_parts
from tinyjax.hlo.rules.shapes import rearranged
from tinyjax.hlo.tables import CPU_RULES, RULES
from tinyjax.hlo.text import type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT64, FLOATS, INT32, INT64, UINT32, UINT64
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Literal
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives import comparison
from tinyjax.primitives.annotations import OptimizationBarrier
from tinyjax.primitives.bitwise import logical_and, logical_xor
from tinyjax.primitives.comparison import eq, lt
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, common_shape
from tinyjax.primitives.generators import RngBitGenerator
from tinyjax.primitives.hidden_state import RngUniform
from tinyjax.primitives.keys import RandomUnwrap, RandomWrap
from tinyjax.primitives.reductions import ReduceAnd, ReduceOr
from tinyjax.primitives.rounding import is_finite
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.structure import BroadcastInDim, broadcast_in_dim, broadcast_scalar
from tinyjax.primitives.threefry import Threefry2x32, threefry_key_added, threefry_rounds
from tinyjax.primitives.threefry_values import PARITY, ROTATIONS, ROUNDS


@RULES.register(RandomWrap)
def _wrap(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    """A key is a number of as many bits, and its words are parts of that. Of 128 bits there are complex ones."""
    (x,), (out,) = args, types
    words = x.aval.shape[-1]
    if words != 4:
        if words == 1:
            return (rearranged(ctx, f"stablehlo.reshape {x.name}", x, out),)
        return (ctx.key_of(x, out),)
    part = array_type(out.shape, FLOAT64)
    # Otherwise XLA may compute all words again for each one that is used, and theirs before them.
    (x,) = ctx.bind(OptimizationBarrier(), x)
    pairs = [slice_in_dim(ctx, x, start, start + 2, 1, out.ndim) for start in (0, 2)]
    re, im = (rearranged(ctx, f"stablehlo.bitcast_convert {pair.name}", pair, part) for pair in pairs)
    return (join_parts(ctx, re, im, out),)


@RULES.register(RandomUnwrap)
def _unwrap(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), (out,) = args, types
    return (_words(ctx, x, out),)


def _words(ctx: LoweringContext, x: SSA, out: ShapedArray) -> SSA:
    if out.shape[-1] == 1:
        return rearranged(ctx, f"stablehlo.reshape {x.name}", x, out)
    if out.shape[-1] == 2:
        return ctx.words_of(x)
    halves = []
    for op in ("real", "imag"):
        half = rearranged(ctx, f"stablehlo.{op} {x.name}", x, array_type(x.aval.shape, FLOAT64))
        pair = array_type((*x.aval.shape, 2), UINT32)
        halves.append(rearranged(ctx, f"stablehlo.bitcast_convert {half.name}", half, pair))
    return SSA(concatenate(ctx, halves, out.ndim - 1).name, out)


def by_words(
    primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """Whether keys of 128 bits are equal, or not, word by word: as complex numbers, 0 would equal -0, nan nothing."""
    (out,) = types
    words = [_words(ctx, x, array_type((*x.aval.shape, 4), UINT32)) for x in args]
    whole = (*out.shape, 4)
    x, y = (broadcast_in_dim(ctx, each, whole, (len(whole) - 1,)) for each in words)
    of_words = ReduceAnd if isinstance(primitive, comparison.Eq) else ReduceOr
    return ctx.bind(of_words((out.ndim,)), *ctx.bind(primitive, x, y))


@RULES.register(Threefry2x32)
def _threefry(
    primitive: Threefry2x32, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """A function of its own, as it is long."""
    jaxpr = stage([arg.aval for arg in args], primitive.expand)
    return ctx.call(jaxpr, primitive.name, args)


@CPU_RULES.register(Threefry2x32)
def _threefry_on_cpu(
    primitive: Threefry2x32, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """The same as a loop: XLA compiles twenty rounds in a row slowly there. It carries keys that were repeated, as for
    the words that each of many is for, as they were before, and repeats them where they are added."""
    repeat: BroadcastInDim | None = None
    match [ctx.made.get(key.name) for key in args[:2]]:
        case [(BroadcastInDim() as one, [first]), (other, [second])] if one == other and first.aval == second.aval:
            if first.aval.size < types[0].size:
                repeat, args = one, [first, second, *args[2:]]
    jaxpr = stage([arg.aval for arg in args], partial(_looping, repeat))
    return ctx.call(jaxpr, primitive.name, args)


def _looping(repeat: BroadcastInDim | None, ctx: StagingContext, args: Sequence[Atom]) -> Sequence[Atom]:
    k0, k1, *words = args
    third = logical_xor(ctx, logical_xor(ctx, k0, k1), Literal.of(PARITY, UINT32))
    whole = [_repeated(ctx, repeat, key) for key in (k0, k1)]
    shape = common_shape(Threefry2x32.name, [atom.aval for atom in (*whole, *words)])
    x0, x1 = (broadcast_scalar(ctx, add(ctx, word, key), shape) for word, key in zip(words, whole, strict=True))
    keys = [broadcast_scalar(ctx, key, third.aval.shape) for key in (k1, third, k0)]
    rotations = [_row(ctx, counts) for counts in ROTATIONS]
    start = [Literal.of(0, INT32), x0, x1, *keys, *rotations]
    avals = [atom.aval for atom in start]
    condition = stage(avals, lambda inner, carry: [lt(inner, carry[0], Literal.of(ROUNDS, INT32))])
    return ctx.bind(While(condition, 0, stage(avals, partial(_step, repeat)), 0), *start)[1:3]


def _repeated(ctx: StagingContext, repeat: BroadcastInDim | None, key: Atom) -> Atom:
    return key if repeat is None else ctx.bind(repeat, key)[0]


def _row(ctx: StagingContext, counts: Sequence[int]) -> Atom:
    return ctx.bind(Constant(ConcreteValue.of(np.asarray(counts, UINT32))))[0]


def _step(repeat: BroadcastInDim | None, ctx: StagingContext, carry: Sequence[Atom]) -> Sequence[Atom]:
    """One group of rounds. The next one has other words of the key, and the other rotations."""
    i, x0, x1, first, second, third, now, later = carry
    counts = [reshape(ctx, slice_in_dim(ctx, now, k, k + 1, 1, 0), ()) for k in range(now.aval.shape[0])]
    x0, x1 = threefry_rounds(ctx, x0, x1, counts)
    number = add(ctx, i, Literal.of(1, INT32))
    k0, k1 = (_repeated(ctx, repeat, key) for key in (first, second))
    x0, x1 = threefry_key_added(ctx, x0, x1, k0, k1, convert(ctx, number, UINT32))
    return [number, x0, x1, second, third, first, later, now]


@RULES.register(RngBitGenerator)
def _rng_bit_generator(
    primitive: RngBitGenerator, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """XLA takes a state of two uint64. Fewer than 32 bits are those of 32."""
    (state,), (out_state, out) = args, types
    wide, pairs = array_type((2,), UINT64), array_type((2, 2), UINT32)
    if state.aval != wide:
        state = rearranged(ctx, f"stablehlo.reshape {state.name}", state, pairs)
        state = rearranged(ctx, f"stablehlo.bitcast_convert {state.name}", state, wide)
    made = array_type(out.shape, out.dtype if out.dtype == UINT64 else UINT32)
    algorithm = primitive.algorithm.name.removeprefix("RNG_")
    operation = f"stablehlo.rng_bit_generator {state.name}, algorithm = {algorithm} : ({type_text(wide)}) -> "
    name = ctx.fresh()
    bits_name = ctx.fresh()
    ctx.lines.append(f"    {name}, {bits_name} = {operation}({type_text(wide)}, {type_text(made)})")
    state, bits = SSA(name, wide), SSA(bits_name, made)
    if out_state != wide:
        state = rearranged(ctx, f"stablehlo.bitcast_convert {state.name}", state, pairs)
        state = rearranged(ctx, f"stablehlo.reshape {state.name}", state, out_state)
    return (state, convert(ctx, bits, out.dtype))


@RULES.register(RngUniform)
def _rng_uniform(
    primitive: RngUniform, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """XLA's generator has a state of its own. Its operation isn't merged with an equal one. It may round to b."""
    (a, b), (out,) = args, types
    sizes = array_type((out.ndim,), INT64)
    (shape,) = ctx.bind(Constant(ConcreteValue.of(np.asarray(out.shape, INT64))))
    operands = f"{a.name}, {b.name}, {shape.name}, distribution = UNIFORM"
    signature = f"({type_text(a.aval)}, {type_text(b.aval)}, {type_text(sizes)}) -> {type_text(out)}"
    found = ctx.emit(f"stablehlo.rng {operands} : {signature}", out)
    if out.dtype not in FLOATS:
        return (found,)
    bounded = logical_and(ctx, lt(ctx, a, b), is_finite(ctx, b))
    rounded = logical_and(ctx, eq(ctx, found, b), bounded)
    return (select(ctx, rounded, broadcast_scalar(ctx, a, out.shape), found),)
