"""The lowering rule of the general product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.errors import LoweringError
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.elementwise import convert
from tinyjax.hlo.rules.shapes import numbers
from tinyjax.hlo.tables import CPU_RULES, RULES
from tinyjax.hlo.text import ELEMENT_TYPES, type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INTEGERS, NARROW_FLOATS, WIDE, DType, bits, short_name
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.contractions import Bilinear, DotGeneral, DotPrecision, Precision
from tinyjax.primitives.dot_algorithms import DotAlgorithm, DotAlgorithmPreset


@RULES.register(DotGeneral)
def _dot_general(
    primitive: DotGeneral, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (out,) = types
    if (found := of_wide(primitive, ctx, args, out)) is not None:
        return found
    if (algorithm := primitive.algorithm) is not None:
        left, right, added = algorithm.compute_types(args[0].aval.dtype, args[1].aval.dtype, out.dtype)
        x, y = (
            convert(ctx, arg, array_type(arg.aval.shape, dtype)) for arg, dtype in zip(args, (left, right), strict=True)
        )
        clause = algorithm_clause(algorithm, left, right)
        product = _product(primitive, ctx, x, y, array_type(out.shape, added), clause)
        return (convert(ctx, product, out),)
    x, y = common_operands(primitive, ctx, args, out)
    clause = ""
    if primitive.precision is not None:
        clause = f", precision = [{', '.join(precision_names(primitive.precision))}]"
    return (_product(primitive, ctx, x, y, out, clause),)


def _product(primitive: DotGeneral, ctx: LoweringContext, x: SSA, y: SSA, out: ShapedArray, clause: str) -> SSA:
    (x_sum, y_sum), (x_batch, y_batch) = primitive.dimension_numbers
    clauses = [f"stablehlo.dot_general {x.name}, {y.name}"]
    if x_batch:
        clauses.append(f"batching_dims = {numbers(x_batch)} x {numbers(y_batch)}")
    clauses.append(f"contracting_dims = {numbers(x_sum)} x {numbers(y_sum)}")
    return ctx.emit(f"{', '.join(clauses)}{clause} : {types_text([x.aval, y.aval])} -> {type_text(out)}", out)


#: What XLA's CPU backend, which doesn't look at algorithms, computes as they say.
_ON_CPU: Final = ("DEFAULT", "F16_F16_F16", "F32_F32_F32", "F64_F64_F64", "BF16_BF16_F32", "BF16_BF16_F32_X3",
                  "BF16_BF16_F32_X6")  # fmt: skip


@CPU_RULES.register(DotGeneral)
def _dot_general_on_cpu(
    primitive: DotGeneral, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    algorithm = primitive.algorithm
    if algorithm is not None and not (isinstance(algorithm, DotAlgorithmPreset) and algorithm.name in _ON_CPU):
        raise LoweringError(
            f"The dot algorithm {algorithm} is not supported on CPU: choose one of {', '.join(_ON_CPU)}, members of "
            "lax.DotAlgorithmPreset."
        )
    found = of_wide(primitive, ctx, args, types[0], native=False) if algorithm is None else None
    return _dot_general(primitive, ctx, args, types) if found is None else found


def algorithm_clause(algorithm: DotAlgorithm | DotAlgorithmPreset, x: DType, y: DType) -> str:
    """What StableHLO says of an algorithm; a LoweringError if it is for other operands."""
    if algorithm is DotAlgorithmPreset.DEFAULT:
        return ", precision = [DEFAULT, DEFAULT]"
    if isinstance(algorithm, DotAlgorithmPreset):
        if algorithm.requires_float8():
            if not (x.itemsize == y.itemsize == 1):
                raise LoweringError(
                    f"The dot algorithm {algorithm} requires both operands to have float8 dtypes, got {short_name(x)} "
                    f"and {short_name(y)}."
                )
            names, counts, fast = (
                (ELEMENT_TYPES[x], ELEMENT_TYPES[y], "f32"),
                "1",
                algorithm.name.endswith("F32_FAST_ACCUM"),
            )
        else:
            left, right, added, *times = algorithm.name.lower().split("_")
            names, counts, fast = (left, right, added), times[0][1:] if times else "1", False
        parts, steps = (1, 1), counts
    else:
        types = (algorithm.lhs_precision_type, algorithm.rhs_precision_type, algorithm.accumulation_type)
        names = (ELEMENT_TYPES[types[0]], ELEMENT_TYPES[types[1]], ELEMENT_TYPES[types[2]])
        parts = (algorithm.lhs_component_count, algorithm.rhs_component_count)
        steps, fast = str(algorithm.num_primitive_operations), algorithm.allow_imprecise_accumulation
    return (
        f", precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = {names[0]}, "
        f"rhs_precision_type = {names[1]}, accumulation_type = {names[2]}, lhs_component_count = {parts[0]}, "
        f"rhs_component_count = {parts[1]}, num_primitive_operations = {steps}, "
        f"allow_imprecise_accumulation = {str(fast).lower()}>"
    )


def of_wide(
    primitive: Bilinear, ctx: LoweringContext, args: Sequence[SSA], out: ShapedArray, native: bool = True
) -> Sequence[SSA] | None:
    """A product of narrow numbers, which XLA hasn't, or rounds at every step: that of wider ones, rounded once.

    None for others; and for floats of 8 bits, if they are `native`.
    """
    x, y = [arg.aval.dtype for arg in args]
    if not any(dtype in WIDE for dtype in (x, y, out.dtype)) or (native and _both_float8(x, y)):
        return None
    _, within = primitive.dtypes(x, y)
    wide = [convert(ctx, arg, array_type(arg.aval.shape, within)) for arg in args]
    (found,) = ctx.bind(primitive.unconverted(), *wide)
    return (convert(ctx, found, out),)


def _both_float8(x: DType, y: DType) -> bool:
    return all(dtype in NARROW_FLOATS and bits(dtype) == 8 for dtype in (x, y))


def common_operands(
    primitive: Bilinear, ctx: LoweringContext, args: Sequence[SSA], out: ShapedArray
) -> tuple[SSA, SSA]:
    """The operands in one dtype: their common one, if the result is of the same kind, else the result's."""
    if _both_float8(args[0].aval.dtype, args[1].aval.dtype):
        return args[0], args[1]
    (product,) = primitive.unconverted().type_of(*[arg.aval for arg in args])
    common = product.dtype
    same_kind = any(common in kind and out.dtype in kind for kind in (INTEGERS, FLOATS, COMPLEXES))
    dtype = common if same_kind else out.dtype
    x, y = (convert(ctx, arg, array_type(arg.aval.shape, dtype)) for arg in args)
    return x, y


def precision_names(precision: DotPrecision) -> tuple[str, str]:
    """What StableHLO calls the precisions of both operands."""
    if isinstance(precision, tuple):
        return precision[0].name, precision[1].name
    name = precision.name if isinstance(precision, Precision) else Precision.DEFAULT.name
    return name, name
