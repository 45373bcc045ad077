"""Lowering rules of the elementwise primitives. Most are one line of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.tables import RULES
from tinyjax.hlo.text import scalar_text, tensor_text, type_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    CARRIERS,
    COMPLEX128,
    COMPLEXES,
    FLOAT4,
    FLOAT32,
    FLOAT64,
    INEXACT,
    INT64,
    INTEGERS,
    KEYS,
    NARROW_SIGNED,
    SIGNED,
    WIDE,
    DType,
    bits,
    real_dtype,
)
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives import bitwise, comparison, conversion, elementwise, selection
from tinyjax.primitives import complex as parts
from tinyjax.primitives.accuracy import Accuracy, AccuracyMode, Accurate, Tolerance


def operands(ctx: LoweringContext, args: Sequence[SSA], out: ShapedArray) -> list[str]:
    """The names of the operands, scalars repeated to the shape of the result."""
    shape = out.shape
    return [arg.name if arg.aval.shape == shape else ctx.filled(arg, shape) for arg in args]


def same_type(ctx: LoweringContext, op: str, args: Sequence[SSA], out: ShapedArray, accuracy: Accuracy = None) -> SSA:
    """An operation whose operands and result have one type."""
    names = ", ".join(operands(ctx, args, out))
    return ctx.emit(f"{op} {names}{_result_accuracy(accuracy)} : {type_text(out)}", out)


def _result_accuracy(accuracy: Accuracy) -> str:
    """The attribute that says how exact a result has to be, after the operands."""
    if accuracy is None or accuracy is AccuracyMode.DEFAULT:
        return ""
    fields = ["mode = #stablehlo.result_accuracy_mode<HIGHEST>"]
    if isinstance(accuracy, Tolerance):
        given = [(name, number) for name, number in attrs.asdict(accuracy).items() if number]
        fields = [f"{name} = {scalar_text(number, INT64 if name == 'ulps' else FLOAT64)}" for name, number in given]
        fields.append("mode = #stablehlo.result_accuracy_mode<TOLERANCE>")
    return f" {{result_accuracy = #stablehlo.result_accuracy<{', '.join(fields)}>}}"


def plain(op: str) -> Rule:
    """The rule of a primitive that is one operation, whose operands and result have one type."""

    def rule(
        primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        accuracy = primitive.accuracy if isinstance(primitive, Accurate) else None
        return (same_type(ctx, op, args, types[0], accuracy),)

    return rule


def typed(op: str) -> Rule:
    """The rule of a primitive that is one operation with a dtype of its own, or one whose syntax repeats all types."""
    variadic = op.startswith("chlo.")

    def rule(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        (out,) = types
        ins = ", ".join([tensor_text(out.shape, arg.aval.dtype) for arg in args])
        signature = f"{ins} -> {type_text(out)}" if variadic else f"({ins}) -> {type_text(out)}"
        return (ctx.emit(f"{op} {', '.join(operands(ctx, args, out))} : {signature}", out),)

    return rule


def compare(ctx: LoweringContext, direction: str, x: SSA, y: SSA) -> SSA:
    """A comparison as the primitives define it: unordered for nan, and signed or not as the dtype says."""
    shape = x.aval.shape or y.aval.shape
    out = array_type(shape, BOOL)
    operand = tensor_text(shape, x.aval.dtype)
    kind = comparison_kind(x.aval.dtype)
    names = ", ".join(operands(ctx, (x, y), out))
    return ctx.emit(f"stablehlo.compare {direction}, {names}, {kind} : ({operand}, {operand}) -> {type_text(out)}", out)


def comparison_kind(dtype: DType) -> str:
    """The kind of comparison that StableHLO wants to be named for this dtype."""
    return "FLOAT" if dtype in INEXACT else "SIGNED" if dtype in SIGNED else "UNSIGNED"


def comparing(direction: str) -> Rule:
    def rule(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        (x, y), (out,) = args, types
        found = SSA(compare(ctx, direction, x, y).name, out)
        ctx.compared[found.name] = direction, x, y
        return (found,)

    return rule


def choose(ctx: LoweringContext, which: SSA, if_true: SSA, if_false: SSA, out: ShapedArray) -> SSA:
    """Elementwise choice; the selector may be a scalar."""
    names = ", ".join(operands(ctx, (if_true, if_false), out))
    return ctx.emit(f"stablehlo.select {which.name}, {names} : {type_text(which.aval)}, {type_text(out)}", out)


def part(ctx: LoweringContext, op: str, x: SSA) -> SSA:
    """The real or imaginary part of a complex value."""
    out = array_type(x.aval.shape, real_dtype(x.aval.dtype))
    return ctx.emit(f"stablehlo.{op} {x.name} : ({type_text(x.aval)}) -> {type_text(out)}", out)


def join_parts(ctx: LoweringContext, re: SSA, im: SSA, out: ShapedArray) -> SSA:
    """The complex value with these parts, which have its shape."""
    types = f"({type_text(re.aval)}, {type_text(im.aval)}) -> {type_text(out)}"
    return ctx.emit(f"stablehlo.complex {re.name}, {im.name} : {types}", out)


def identity(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    """The rule of primitives that leave the elements as they are."""
    return (SSA(args[0].name, types[0]),)


def extremum(op: str, direction: str) -> Rule:
    """The greater or the lesser operand; complex numbers are ordered by their real, then by their imaginary parts.

    The first operand with a nan comes before all others, and the first of equal ones before the second.
    """

    def rule(_: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        (out,) = types
        if out.dtype not in COMPLEXES:
            return (same_type(ctx, op, args, out),)
        x, y = (SSA(name, out) for name in operands(ctx, args, out))
        (rx, ix), (ry, iy) = ((part(ctx, "real", z), part(ctx, "imag", z)) for z in (x, y))
        by_real, by_imag = compare(ctx, direction, rx, ry), compare(ctx, f"{direction[0]}E", ix, iy)
        bits = by_real.aval
        first = choose(ctx, compare(ctx, "EQ", rx, ry), by_imag, by_real, bits)
        known = compare(ctx, "EQ", y, y)
        which = same_type(ctx, "stablehlo.and", (first, known), bits)
        which = same_type(ctx, "stablehlo.or", (which, compare(ctx, "NE", x, x)), bits)
        return (choose(ctx, which, x, y, out),)

    return rule


MAXIMUM: Final = extremum("stablehlo.maximum", "GT")
MINIMUM: Final = extremum("stablehlo.minimum", "LT")


@RULES.register(selection.Clamp)
def _clamp(
    primitive: selection.Clamp, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    if types[0].dtype not in INEXACT:
        return (same_type(ctx, "stablehlo.clamp", args, types[0]),)
    low, x, high = args
    return MINIMUM(primitive, ctx, (*MAXIMUM(primitive, ctx, (low, x), types), high), types)


@RULES.register(selection.SelectN)
def _select_n(
    _: selection.SelectN, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (which, *cases), (out,) = args, types
    if which.aval.dtype == BOOL:
        if len(cases) == 1:
            return (SSA(ctx.filled(cases[0], out.shape), out),)
        bounded = _bounded(ctx, which, cases[1], cases[0], out)
        return (bounded or choose(ctx, which, cases[1], cases[0], out),)
    # From the last case down: `which < i` keeps what comes before, so an index out of range names the nearest case.
    chosen = SSA(ctx.filled(cases[-1], out.shape), out)
    for i in range(len(cases) - 1, 0, -1):
        before = compare(ctx, "LT", which, ctx.scalar(i, which.aval.dtype))
        chosen = choose(ctx, before, cases[i - 1], chosen, out)
    return (chosen,)


def _bounded(ctx: LoweringContext, which: SSA, number: SSA, x: SSA, out: ShapedArray) -> SSA | None:
    """A choice between x and a number by their order, where that is the greater or the lesser one for every x, nan and
    zeros with signs among them: `where(x <= 0, 0, x)`, which is `relu`. XLA makes these part of what makes x.

    Of x, it may be the lesser one of it and another number already that is chosen, as in `relu6`.
    """
    direction, compared, other = ctx.compared.get(which.name, ("", x, x))
    if direction not in ("LE", "GE") or number.aval.shape or other.aval.shape or which.aval.shape != out.shape:
        return None
    bound, other_bound = ctx.known(number), ctx.known(other)
    if bound is None or other_bound is None or isinstance(bound.value, complex) or bound.value != other_bound.value:
        return None  # or nan
    if direction == "GE" and compared.name == x.name and bound.value:
        found = same_type(ctx, "stablehlo.minimum", (x, number), out)
        ctx.compared[found.name] = "least", x, number
        return found
    if direction == "LE" and str(bound.value) != "-0.0":
        least, of, limit = ctx.compared.get(x.name, ("", x, x))
        greatest = ctx.known(limit) if least == "least" and of.name == compared.name else None
        value = None if greatest is None or isinstance(greatest.value, complex) else greatest.value
        if compared.name == x.name or (value is not None and value >= bound.value):
            return same_type(ctx, "stablehlo.maximum", (x, number), out)
    return None


@RULES.register(conversion.ConvertElementType)
def _convert_element_type(
    _: conversion.ConvertElementType, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    return (convert(ctx, x, out),)


def convert(ctx: LoweringContext, x: SSA, out: ShapedArray) -> SSA:
    """The elements with another dtype: not zero is true, and complex numbers lose their imaginary part."""
    dtype, new = x.aval.dtype, out.dtype
    if dtype == new:
        return SSA(x.name, out)
    if new == BOOL:
        return SSA(compare(ctx, "NE", x, ctx.scalar(0, dtype)).name, out)
    if dtype == FLOAT4 and new in INTEGERS:  # XLA takes its largest number for infinity
        return convert(ctx, convert(ctx, x, array_type(x.aval.shape, FLOAT32)), out)
    if dtype in COMPLEXES and new not in COMPLEXES:
        return convert(ctx, part(ctx, "real", x), out)
    return ctx.emit(f"stablehlo.convert {x.name} : ({type_text(x.aval)}) -> {type_text(out)}", out)


@RULES.register(conversion.ReducePrecision)
def _reduce_precision(
    primitive: conversion.ReducePrecision, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    form = f"e{primitive.exponent_bits}m{primitive.mantissa_bits}"
    return (ctx.emit(f"stablehlo.reduce_precision {x.name}, format = {form} : {type_text(out)}", out),)


@RULES.register(parts.Conj)
def _conj(_: parts.Conj, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), (out,) = args, types
    if x.aval.dtype in COMPLEXES:
        re, im = part(ctx, "real", x), part(ctx, "imag", x)
        im = same_type(ctx, "stablehlo.negate", (im,), im.aval)
    else:
        re, im = x, ctx.full(0.0, x.aval)
    return (join_parts(ctx, re, im, out),)


RULES[elementwise.Neg] = plain("stablehlo.negate")
RULES[elementwise.Add] = plain("stablehlo.add")
RULES[elementwise.Sub] = plain("stablehlo.subtract")

RULES[bitwise.Not] = plain("stablehlo.not")
RULES[bitwise.And] = plain("stablehlo.and")
RULES[bitwise.Or] = plain("stablehlo.or")
RULES[bitwise.Xor] = plain("stablehlo.xor")
_POPULATION_COUNT: Final = plain("stablehlo.popcnt")


@RULES.register(bitwise.PopulationCount)
def _population_count(
    primitive: bitwise.PopulationCount, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    if out.dtype not in NARROW_SIGNED:
        return _POPULATION_COUNT(primitive, ctx, args, types)
    unsigned = array_type(out.shape, np.dtype(f"u{out.dtype.name}"))  # XLA counts signs as often as a byte has them
    pattern = ctx.emit(f"stablehlo.bitcast_convert {x.name} : ({type_text(out)}) -> {type_text(unsigned)}", unsigned)
    return (convert(ctx, same_type(ctx, "stablehlo.popcnt", (pattern,), unsigned), out),)


@RULES.register(bitwise.MulHi)
def _upper_half(
    primitive: bitwise.MulHi, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """Spelled out, as `chlo.mulhi` is unknown where a program is divided among devices."""
    (out,) = types
    size, signed = bits(out.dtype), out.dtype in WIDE or out.dtype.kind == "i"
    if size == 64:
        return (_upper_half_of_words(ctx, *[SSA(name, out) for name in operands(ctx, args, out)]),)
    wide = array_type(out.shape, np.dtype(f"{'i' if signed else 'u'}{max(size // 4, 2)}"))
    x, y = (convert(ctx, SSA(name, out), wide) for name in operands(ctx, args, out))
    product = same_type(ctx, "stablehlo.multiply", (x, y), wide)
    shift = "stablehlo.shift_right_arithmetic" if signed else "stablehlo.shift_right_logical"
    return (convert(ctx, same_type(ctx, shift, (product, ctx.scalar(size, wide.dtype)), wide), out),)


def _upper_half_of_words(ctx: LoweringContext, x: SSA, y: SSA) -> SSA:
    """The same for 64 bits, of products of halves; each of the sums fits into 64 bits."""
    aval = x.aval

    def op(name: str, a: SSA, b: SSA | int) -> SSA:
        return same_type(ctx, f"stablehlo.{name}", (a, ctx.scalar(b, aval.dtype) if isinstance(b, int) else b), aval)

    def upper(a: SSA) -> SSA:
        return op("shift_right_logical", a, 32)

    def lower(a: SSA) -> SSA:
        return op("and", a, 0xFFFFFFFF)

    first = op("add", op("multiply", upper(x), lower(y)), upper(op("multiply", lower(x), lower(y))))
    second = op("add", op("multiply", lower(x), upper(y)), lower(first))
    found = op("add", op("add", op("multiply", upper(x), upper(y)), upper(first)), upper(second))
    if aval.dtype.kind == "i":  # a negative number counts as 2**64 more so far
        found = op("subtract", found, op("and", op("shift_right_arithmetic", x, 63), y))
        found = op("subtract", found, op("and", op("shift_right_arithmetic", y, 63), x))
    return found


RULES[bitwise.Clz] = plain("stablehlo.count_leading_zeros")
RULES[bitwise.ShiftLeft] = plain("stablehlo.shift_left")
RULES[bitwise.ShiftRightLogical] = plain("stablehlo.shift_right_logical")
RULES[bitwise.ShiftRightArithmetic] = plain("stablehlo.shift_right_arithmetic")


def _equal(number: Rule) -> Rule:
    """Keys of 128 bits have a rule of their own."""

    def rule(
        primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        dtype = args[0].aval.dtype
        if dtype not in KEYS or CARRIERS[dtype] != COMPLEX128:
            return number(primitive, ctx, args, types)
        from tinyjax.hlo.rules.random import by_words  # which few programs need

        return by_words(primitive, ctx, args, types)

    return rule


RULES[comparison.Eq] = _equal(comparing("EQ"))
RULES[comparison.Ne] = _equal(comparing("NE"))
RULES[comparison.Lt] = comparing("LT")
RULES[comparison.Le] = comparing("LE")
RULES[comparison.Gt] = comparing("GT")
RULES[comparison.Ge] = comparing("GE")

RULES[parts.Real] = typed("stablehlo.real")
RULES[parts.Imag] = typed("stablehlo.imag")
RULES[parts.Complex] = typed("stablehlo.complex")


@RULES.register(conversion.BitcastConvertType)
def _bitcast_convert_type(
    _: conversion.BitcastConvertType, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """Between widths, the last axis comes or goes."""
    (x,), (out,) = args, types
    if x.aval.dtype == out.dtype:
        return (SSA(x.name, out),)
    signature = f"({type_text(x.aval)}) -> {type_text(out)}"
    return (ctx.emit(f"stablehlo.bitcast_convert {x.name} : {signature}", out),)


RULES[conversion.Copy] = identity
RULES[conversion.StopGradient] = identity
