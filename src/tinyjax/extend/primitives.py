"""The library's primitives, to be used as keys of tables of rules, and the functions that rules apply them with.

A class is the key of a rule in a table: one for a base class (`Elementwise`, `Comparison`, `Linear`, …) serves all
that are derived from it. A function in lower case applies a primitive on a context, as rules of primitives and of
interpreters do: `add(ctx, x, y)`.

>>> import tinyjax.numpy as tnp
>>> from tinyjax import make_jaxpr
>>> inverses = {Exp: tnp.log, Tanh: tnp.arctanh}
>>> [eqn.primitive.name for eqn in make_jaxpr(tnp.tanh)(1.0).eqns if type(eqn.primitive) in inverses]
['tanh']
"""

from tinyjax.control.call import Call, Calling
from tinyjax.control.callbacks import DebugCallback, IOCallback, PureCallback
from tinyjax.control.checkpoint import Checkpoint
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomJvp, CustomVjp
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.primitives.annotations import Name, OptimizationBarrier
from tinyjax.primitives.arithmetic import (
    Abs,
    Div,
    IntegerPow,
    Max,
    Min,
    NextAfter,
    Rem,
    Square,
    abs_,
    div,
    integer_pow,
    max_,
    min_,
    reciprocal,
    rem,
    replace_zero,
    square,
)
from tinyjax.primitives.bitwise import (
    And,
    Clz,
    Not,
    Or,
    PopulationCount,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Xor,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
)
from tinyjax.primitives.collectives import AxisIndex, PMax, PMin, PSum, axis_index, pmax, pmin, psum
from tinyjax.primitives.comparison import Comparison, Eq, Ge, Gt, Le, Lt, Ne, eq, ge, gt, le, lt, ne
from tinyjax.primitives.complex import Complex, Conj, Imag, Real, complex_, conj, imag, real
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.contractions import DotGeneral, dot, dot_general
from tinyjax.primitives.conversion import (
    BitcastConvertType,
    ConvertElementType,
    Copy,
    ReducePrecision,
    StopGradient,
    convert,
    copy,
    stop_gradient,
)
from tinyjax.primitives.cumulative import (
    CumLogSumExp,
    CumMax,
    CumMin,
    CumProd,
    CumSum,
    Cumulative,
    cumlogsumexp,
    cummax,
    cummin,
    cumprod,
    cumsum,
    logaddexp,
)
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice, dynamic_slice, dynamic_update_slice
from tinyjax.primitives.elementwise import (
    Add,
    Additive,
    Binary,
    Elementwise,
    LinearUnary,
    Mul,
    Neg,
    Smooth,
    Stepwise,
    Sub,
    Unary,
    add,
    batch_elementwise,
    mul,
    neg,
    scale,
    sub,
)
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
    logistic,
    pow_,
    rsqrt,
    sqrt,
)
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering, permuted
from tinyjax.primitives.reductions import (
    ArgMax,
    ArgMin,
    Choice,
    Position,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
    argmax,
    argmin,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_xor,
)
from tinyjax.primitives.rounding import Ceil, Floor, IsFinite, Round, Sign, ceil, floor, is_finite, sign
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.selection import Clamp, SelectN, clamp, select, select_n
from tinyjax.primitives.shaping import Iota, Reshape, Rev, Squeeze, expand_dims, iota, reshape, rev, squeeze
from tinyjax.primitives.slicing import Concatenate, Pad, Slice, Split, concatenate, pad, slice_, slice_in_dim
from tinyjax.primitives.sorting import Sort, sort
from tinyjax.primitives.special import Digamma, Erf, Erfc, ErfInv, Lgamma, Polygamma
from tinyjax.primitives.structure import (
    BroadcastInDim,
    Linear,
    ReduceSum,
    Reduction,
    Transpose,
    broadcast_in_dim,
    broadcast_scalar,
    constant_like,
    full,
    instantiate,
    move_axis,
    permute,
    reduce_sum,
    unbroadcast,
    with_leading_axis,
)
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
    cos,
    sin,
    tanh,
)

__all__ = [
    "Abs", "Acos", "Acosh", "Add", "Additive", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atan2", "Atanh",
    "AxisIndex", "Binary", "BitcastConvertType", "BroadcastInDim", "Call", "Calling", "Cbrt", "Ceil", "Checkpoint",
    "Choice", "Clamp", "Clz", "Comparison", "Complex", "Concatenate", "Cond", "Conj", "Constant",
    "ConvertElementType", "Copy", "Cos", "Cosh", "CumLogSumExp", "CumMax", "CumMin", "CumProd", "CumSum",
    "Cumulative", "CustomJvp", "CustomVjp", "DebugCallback", "Digamma", "Div", "DotGeneral", "DynamicSlice",
    "DynamicUpdateSlice", "Elementwise", "Eq", "Erf", "ErfInv", "Erfc", "Exp", "Exp2", "Expm1", "Floor", "Gather",
    "Ge", "Gt", "IOCallback", "Imag", "IntegerPow", "Iota", "IsFinite", "Le", "Lgamma", "Linear", "LinearUnary",
    "Log", "Log1p", "Logistic", "Lt", "Max", "Min", "Mul", "Name", "Ne", "Neg", "NextAfter", "Not",
    "OptimizationBarrier", "Or", "PMax", "PMin", "PSum", "Pad", "Polygamma", "PopulationCount", "Position", "Pow",
    "PureCallback", "Real", "ReduceAnd", "ReduceMax", "ReduceMin", "ReduceOr", "ReducePrecision", "ReduceProd",
    "ReduceSum", "ReduceXor", "Reduction", "Rem", "Reshape", "Rev", "Round", "Rsqrt", "Scan", "Scatter",
    "ScatterAdd", "ScatterMax", "ScatterMin", "ScatterMul", "Scattering", "SelectN", "ShiftLeft",
    "ShiftRightArithmetic", "ShiftRightLogical", "Sign", "Sin", "Sinh", "Slice", "Smooth", "Sort", "Split", "Sqrt",
    "Square", "Squeeze", "Stepwise", "StopGradient", "Sub", "Tan", "Tanh", "Transpose", "Unary", "While", "Xor",
    "abs_", "add", "argmax", "argmin", "axis_index", "batch_elementwise", "broadcast_in_dim", "broadcast_scalar",
    "ceil", "clamp", "complex_", "concatenate", "conj", "constant_like", "convert", "copy", "cos", "cumlogsumexp",
    "cummax", "cummin", "cumprod", "cumsum", "div", "dot", "dot_general", "dynamic_slice", "dynamic_update_slice",
    "eq", "exp", "expand_dims", "expm1", "floor", "full", "ge", "gt", "imag", "instantiate", "integer_pow", "iota",
    "is_finite", "le", "log", "log1p", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logistic", "lt", "max_", "min_", "move_axis", "mul", "ne", "neg", "pad", "permute", "permuted", "pmax", "pmin",
    "pow_", "psum", "real", "reciprocal", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod",
    "reduce_sum", "reduce_xor", "rem", "replace_zero", "reshape", "rev", "rsqrt", "scale", "select", "select_n",
    "sign", "sin", "slice_", "slice_in_dim", "sort", "sqrt", "square", "squeeze", "stop_gradient", "sub", "tanh",
    "unbroadcast", "with_leading_axis",
]  # fmt: skip
