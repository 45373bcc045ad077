"""The lowering rules of convolution."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.contractions import common_operands, of_wide, precision_names
from tinyjax.hlo.rules.elementwise import convert, join_parts, part
from tinyjax.hlo.rules.reducing import array_text
from tinyjax.hlo.rules.undivided import whole_along
from tinyjax.hlo.tables import CPU_RULES, GPU_RULES, RULES
from tinyjax.hlo.text import type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOAT32, real_dtype
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.convolution import ConvGeneralDilated
from tinyjax.primitives.elementwise import add, sub


def pairs_text(pairs: Sequence[Sequence[int]]) -> str:
    """A list of pairs of integers as an attribute."""
    listed = ", ".join(f"[{low}, {high}]" for low, high in pairs)
    return f"dense<{f'[{listed}]' if pairs else ''}> : tensor<{len(pairs)}x2xi64>"


def _axes_text(spec: Sequence[int], first: str, second: str) -> str:
    """The axes as StableHLO writes them: `[b, 0, 1, f]`."""
    names = [first, second, *map(str, range(len(spec) - 2))]
    return f"[{', '.join(names[spec.index(axis)] for axis in range(len(spec)))}]"


@RULES.register(ConvGeneralDilated)
def _convolution(
    primitive: ConvGeneralDilated, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (out,) = types
    if 0 in (out.size, *[arg.aval.size for arg in args]):
        return (ctx.full(0, out),)
    if (wide := of_wide(primitive, ctx, args, out, native=False)) is not None:
        return wide
    x, y = common_operands(primitive, ctx, args, out)
    if x.aval.dtype == BOOL:  # whether any product is true
        counted = [convert(ctx, arg, array_type(arg.aval.shape, FLOAT32)) for arg in (x, y)]
        (found,) = ctx.bind(evolve(primitive, preferred_element_type=None), *counted)
        return (convert(ctx, found, out),)
    closed = _undivided(primitive)
    x, y = (whole_along(ctx, arg, axes) for arg, axes in zip((x, y), closed[:2], strict=True))
    lhs, rhs, result = primitive.dimension_numbers
    numbers = f"{_axes_text(lhs, 'b', 'f')}x{_axes_text(rhs, 'o', 'i')}->{_axes_text(result, 'b', 'f')}"
    names = ", ".join(f"#stablehlo<precision {name}>" for name in precision_names(primitive.precision))
    attributes = (
        f"batch_group_count = {primitive.batch_group_count} : i64, dimension_numbers = #stablehlo.conv<{numbers}>, "
        f"feature_group_count = {primitive.feature_group_count} : i64, "
        f"lhs_dilation = {array_text(primitive.lhs_dilation)}, padding = {pairs_text(primitive.padding)}, "
        f"precision_config = [{names}], rhs_dilation = {array_text(primitive.rhs_dilation)}, "
        f"window_strides = {array_text(primitive.window_strides)}"
    )
    signature = f"{types_text([x.aval, y.aval])} -> {type_text(out)}"
    found = ctx.emit(f'"stablehlo.convolution"({x.name}, {y.name}) <{{{attributes}}}> : {signature}', out)
    return (whole_along(ctx, found, closed[2]),)


def _undivided(primitive: ConvGeneralDilated) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The axes of the operands and of the result along which XLA mustn't divide them among devices. Where it divides
    space, numbers are wrong if the kernel is divided too; for groups and negative padding it ends the process."""
    lhs, rhs, result = primitive.dimension_numbers
    if primitive.batch_group_count > 1:
        return lhs, rhs, result
    if primitive.feature_group_count > 1:
        return lhs[1:], rhs, result[1:]
    return lhs[2:], rhs[2:], result[2:]


def _of_parts(
    primitive: ConvGeneralDilated, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """The rule of complex numbers where XLA has none, or a slow one: four convolutions of their parts."""
    (out,) = types
    if out.dtype not in COMPLEXES:
        return _convolution(primitive, ctx, args, types)
    x, y = common_operands(primitive, ctx, args, out)
    real = evolve(primitive, preferred_element_type=real_dtype(out.dtype))
    (x_re, x_im), (y_re, y_im) = ([part(ctx, which, arg) for which in ("real", "imag")] for arg in (x, y))

    def convolved(left: SSA, right: SSA) -> SSA:
        return ctx.bind(real, left, right)[0]

    re = sub(ctx, convolved(x_re, y_re), convolved(x_im, y_im))
    im = add(ctx, convolved(x_re, y_im), convolved(x_im, y_re))
    return (join_parts(ctx, re, im, out),)


CPU_RULES[ConvGeneralDilated] = _of_parts
GPU_RULES[ConvGeneralDilated] = _of_parts
