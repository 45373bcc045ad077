"""Enters the first-order primitives, and the classes of their parameters, in the standard registry."""

from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.text.registry import STANDARD
from tinyjax.primitives import (
    annotations,
    arithmetic,
    bitwise,
    collectives,
    comparison,
    complex,  # noqa: A004
    constant,
    contractions,
    conversion,
    cumulative,
    dynamic,
    elementwise,
    exponential,
    gather,
    reductions,
    rounding,
    scatter,
    selection,
    shaping,
    slicing,
    sorting,
    special,
    structure,
    trigonometric,
    windows,
)

__all__ = ["STANDARD"]

STANDARD.add(BatchAxis)
STANDARD.add(annotations.Name, annotations.OptimizationBarrier, constant.Constant)
STANDARD.add(elementwise.Neg, elementwise.Add, elementwise.Sub, elementwise.Mul)
STANDARD.add(arithmetic.Square, arithmetic.Abs, arithmetic.IntegerPow, arithmetic.Div, arithmetic.Rem)
STANDARD.add(arithmetic.Max, arithmetic.Min, arithmetic.NextAfter)
STANDARD.add(exponential.Exp, exponential.Exp2, exponential.Expm1, exponential.Log, exponential.Log1p)
STANDARD.add(exponential.Logistic, exponential.Sqrt, exponential.Rsqrt, exponential.Cbrt, exponential.Pow)
STANDARD.add(special.Erf, special.Erfc, special.ErfInv, special.Lgamma, special.Digamma, special.Polygamma)
STANDARD.add(trigonometric.Sin, trigonometric.Cos, trigonometric.Tan)
STANDARD.add(trigonometric.Asin, trigonometric.Acos, trigonometric.Atan, trigonometric.Atan2)
STANDARD.add(trigonometric.Sinh, trigonometric.Cosh, trigonometric.Tanh)
STANDARD.add(trigonometric.Asinh, trigonometric.Acosh, trigonometric.Atanh)
STANDARD.add(complex.Real, complex.Imag, complex.Conj, complex.Complex)
STANDARD.add(bitwise.Not, bitwise.And, bitwise.Or, bitwise.Xor, bitwise.PopulationCount, bitwise.Clz)
STANDARD.add(bitwise.ShiftLeft, bitwise.ShiftRightLogical, bitwise.ShiftRightArithmetic)
STANDARD.add(comparison.Eq, comparison.Ne, comparison.Lt, comparison.Le, comparison.Gt, comparison.Ge)
STANDARD.add(conversion.ConvertElementType, conversion.BitcastConvertType, conversion.ReducePrecision)
STANDARD.add(conversion.Copy, conversion.StopGradient)
STANDARD.add(rounding.Sign, rounding.Floor, rounding.Ceil, rounding.Round, rounding.IsFinite, rounding.RoundingMethod)
STANDARD.add(selection.SelectN, selection.Clamp)
STANDARD.add(structure.BroadcastInDim, structure.Transpose, structure.ReduceSum)
STANDARD.add(shaping.Reshape, shaping.Squeeze, shaping.Rev, shaping.Iota)
STANDARD.add(slicing.Slice, slicing.Split, slicing.Concatenate, slicing.Pad)
STANDARD.add(dynamic.DynamicSlice, dynamic.DynamicUpdateSlice)
STANDARD.add(reductions.ReduceProd, reductions.ReduceMax, reductions.ReduceMin)
STANDARD.add(reductions.ReduceAnd, reductions.ReduceOr, reductions.ReduceXor, reductions.ArgMax, reductions.ArgMin)
STANDARD.add(contractions.DotGeneral, contractions.Precision)
STANDARD.add(cumulative.CumSum, cumulative.CumProd, cumulative.CumMax, cumulative.CumMin, cumulative.CumLogSumExp)
STANDARD.add(gather.Gather, gather.ScatterAdd, windows.GatherScatterMode)
STANDARD.add(windows.GatherDimensionNumbers, windows.ScatterDimensionNumbers)
STANDARD.add(scatter.Scatter, scatter.ScatterMul, scatter.ScatterMin, scatter.ScatterMax)
STANDARD.add(sorting.Sort)
STANDARD.add(collectives.PSum, collectives.PMax, collectives.PMin, collectives.AxisIndex)
