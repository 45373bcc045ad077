"""What primitives do to sparse operands: a function of sparse arrays for each, in one table.

To add a rule, decorate a function of the primitive and its operands:

    @sparse_rule(MyPrimitive)
    def _(primitive, x): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from tinyjax.control.composite_call import CompositeCall
from tinyjax.errors import UnsupportedError
from tinyjax.experimental.sparse import elementwise, layouts, products, reshaping, slices
from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.experimental.sparse.batches import summed
from tinyjax.experimental.sparse.bcoo import BCOO
from tinyjax.experimental.sparse.bcsr import BCSR
from tinyjax.experimental.sparse.context import SPARSE_RULES, Layout, Value
from tinyjax.experimental.sparse.context import SparseContext as Ctx
from tinyjax.experimental.sparse.convolution import bcoo_conv_general_dilated
from tinyjax.experimental.sparse.making import TODENSE
from tinyjax.experimental.sparse.storage import Coordinates
from tinyjax.interpreters.base import RuleContext
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.arithmetic import Div, IntegerPow
from tinyjax.primitives.complex import Conj, Imag, Real
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.conversion import ConvertElementType, Copy, ReducePrecision, StopGradient
from tinyjax.primitives.convolution import ConvGeneralDilated
from tinyjax.primitives.dynamic import DynamicSlice
from tinyjax.primitives.elementwise import Add, Mul, Neg, Smooth, Sub
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.rounding import Ceil, Floor, Round, Sign
from tinyjax.primitives.shaping import Reshape, Rev, Squeeze
from tinyjax.primitives.slicing import Concatenate, Slice, Split
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum, Transpose
from tinyjax.tracing.array import Array
from tinyjax.tracing.core import bind

Operand: TypeAlias = "BCOO | Array"
Interpreter: TypeAlias = "RuleContext[Value, Layout | None]"
Out: TypeAlias = "JAXSparse | Array | Sequence[JAXSparse | Array]"


def sparse_rule(*classes: type[Primitive]) -> Callable[[Callable[..., Out]], Callable[..., Out]]:
    """Makes a function of a primitive and its operands, sparse or not, the rule for classes of primitives.

    >>> import numpy as np
    >>> from tinyjax import lax
    >>> from tinyjax.experimental.sparse import eye, sparsify
    >>> from tinyjax.extend.primitives import Erfc
    >>> @sparse_rule(Erfc)
    ... def rule(primitive, x):
    ...     return lax.erfc(x.todense())  # 1 for zeros, so it is dense
    >>> sparsify(lax.erfc)(eye(2))[0]
    Array([0.15729921, 1.        ], dtype=float64)
    >>> del SPARSE_RULES.own[Erfc]
    """

    def register(function: Callable[..., Out]) -> Callable[..., Out]:
        def rule(primitive: Primitive, ctx: Interpreter, args: Sequence[Value]) -> Sequence[Value]:
            if not isinstance(ctx, Ctx):
                raise UnsupportedError(f"{SPARSE_RULES.name} has rules for SparseContext, not for {type(ctx).__name__}")
            return ctx.call(by_coordinates(lambda *operands: function(primitive, *operands)), args)

        for cls in classes:
            SPARSE_RULES[cls] = rule
        return function

    return register


def by_coordinates(function: Callable[..., Out]) -> Callable[..., Out]:
    """The function of BCOOs, for BCSRs too: the results are BCSRs where all sparse operands are, and they can be."""

    def adapted(*operands: JAXSparse | Array) -> Out:
        rows = [isinstance(x, BCSR) for x in operands if isinstance(x, JAXSparse)]
        given = [x.to_bcoo() if isinstance(x, BCSR) else x for x in operands]
        outs = function(*given)
        if not all(rows):
            return outs
        found = [outs] if isinstance(outs, JAXSparse | Array) else outs
        return [_by_rows(x, operands, given) if isinstance(x, BCOO) and x.n_sparse == 2 else x for x in found]

    return adapted


def _by_rows(out: BCOO, operands: Sequence[JAXSparse | Array], given: Sequence[JAXSparse | Array]) -> BCSR:
    """A result as a BCSR: its elements stay in their order if they are where those of an operand are."""
    for x, same in zip(operands, given, strict=True):
        if isinstance(x, BCSR) and isinstance(same, BCOO) and out.indices is same.indices and out.shape == x.shape:
            return BCSR(
                (out.data, x.indices, x.indptr),
                shape=out.shape,
                indices_sorted=x.indices_sorted,
                unique_indices=x.unique_indices,
            )
    return BCSR.from_bcoo(out)


# Element by element.


def _each(primitive: Primitive, x: BCOO) -> BCOO:
    return elementwise.each(x, lambda data: bind(primitive, data)[0])


sparse_rule(Ceil, ConvertElementType, Floor, ReducePrecision, Round, Sign)(_each)


@sparse_rule(Smooth)
def _smooth(primitive: Smooth, x: BCOO) -> BCOO:
    """Of functions that take 0 to 0; the others have no rule."""
    with np.errstate(all="ignore"):
        (value,) = primitive.evaluate(np.zeros((), x.dtype))
    if value != 0:
        raise SPARSE_RULES.missing_rule(type(primitive))
    return _each(primitive, x)


# Sums of duplicates are as well computed afterwards.
@sparse_rule(Neg, Real, Imag, Conj, Copy, StopGradient)
def _each_part(primitive: Primitive, x: BCOO) -> BCOO:
    return x.with_data(bind(primitive, x.data)[0])


@sparse_rule(IntegerPow)
def _power(primitive: IntegerPow, x: BCOO) -> BCOO:
    if primitive.y <= 0:
        raise UnsupportedError(
            f"sparsify: the power {primitive.y} of zeros isn't zero. If the result may be dense, write "
            "sparse.todense(x)."
        )
    return _each(primitive, x)


@sparse_rule(Add)
def _add(primitive: Add, x: Operand, y: Operand) -> Operand:
    if isinstance(x, BCOO):
        return elementwise.add(x, y)
    return elementwise.add(_sparse(y), x)


@sparse_rule(Sub)
def _sub(primitive: Sub, x: Operand, y: Operand) -> Operand:
    if isinstance(x, BCOO):
        return elementwise.subtract(x, y)
    return elementwise.add(-_sparse(y), x)


@sparse_rule(Mul)
def _mul(primitive: Mul, x: Operand, y: Operand) -> BCOO:
    if isinstance(x, BCOO):
        return elementwise.multiply(x, y)
    return elementwise.multiply(_sparse(y), x)


@sparse_rule(Div)
def _div(primitive: Div, x: Operand, y: Operand) -> BCOO:
    if isinstance(y, BCOO):
        raise UnsupportedError(
            "sparsify: division by a sparse array would give inf or nan for its zeros. If that is right, write "
            "sparse.todense(x)."
        )
    if not np.issubdtype(y.dtype, np.inexact):
        raise UnsupportedError("sparsify: sparse integers aren't divided. Write .astype(float) first.")
    return elementwise.divide(_sparse(x), y)


def _sparse(x: Coordinates | Array) -> BCOO:
    if isinstance(x, BCOO):
        return x
    raise UnsupportedError(f"sparsify: {x!r} isn't a BCOO. Write .to_bcoo() or sparse.todense(x).")


# Products and sums.


@sparse_rule(DotGeneral)
def _dot_general(primitive: DotGeneral, x: Operand, y: Operand) -> Operand:
    found = products.bcoo_dot_general(
        x, y, dimension_numbers=primitive.dimension_numbers, preferred_element_type=primitive.preferred_element_type
    )
    return found if isinstance(found, Array) else _sparse(found)


@sparse_rule(ConvGeneralDilated)
def _convolution(primitive: ConvGeneralDilated, x: Operand, y: Operand) -> BCOO:
    axes = tuple(range(3))
    if any(tuple(spec) != axes for spec in primitive.dimension_numbers):
        raise UnsupportedError(
            "sparsify: sparse arrays are convolved in one dimension, the last of three. Write sparse.todense(x)."
        )
    return bcoo_conv_general_dilated(
        x,
        y,
        window_strides=primitive.window_strides,
        padding=primitive.padding,
        lhs_dilation=primitive.lhs_dilation,
        rhs_dilation=primitive.rhs_dilation,
        feature_group_count=primitive.feature_group_count,
        batch_group_count=primitive.batch_group_count,
    )


@sparse_rule(ReduceSum)
def _reduce_sum(primitive: ReduceSum, x: BCOO) -> Operand:
    found = elementwise.bcoo_reduce_sum(x, axes=primitive.axes)
    found = found.with_data(found.data.astype(x.dtype))
    return found if found.ndim else summed(found.data, 0)


# Shapes.


@sparse_rule(Transpose)
def _transpose(primitive: Transpose, x: BCOO) -> BCOO:
    return layouts.bcoo_transpose(x, permutation=primitive.permutation)


@sparse_rule(BroadcastInDim)
def _broadcast_in_dim(primitive: BroadcastInDim, x: BCOO) -> BCOO:
    return reshaping.bcoo_broadcast_in_dim(
        x, shape=primitive.shape, broadcast_dimensions=primitive.broadcast_dimensions
    )


@sparse_rule(Reshape)
def _reshape(primitive: Reshape, x: BCOO) -> BCOO:
    return reshaping.bcoo_reshape(x, new_sizes=primitive.new_sizes)


@sparse_rule(Squeeze)
def _squeeze(primitive: Squeeze, x: BCOO) -> BCOO:
    return layouts.bcoo_squeeze(x, dimensions=primitive.dimensions)


@sparse_rule(Rev)
def _rev(primitive: Rev, x: BCOO) -> BCOO:
    return layouts.bcoo_rev(x, primitive.dimensions)


@sparse_rule(Concatenate)
def _concatenate(primitive: Concatenate, *xs: Operand) -> BCOO:
    return reshaping.bcoo_concatenate(list(map(_sparse, xs)), dimension=primitive.dimension)


@sparse_rule(Split)
def _split(primitive: Split, x: BCOO) -> list[BCOO]:
    return _cut(x, primitive.sizes, primitive.axis)


def _cut(x: BCOO, sizes: Sequence[int], axis: int) -> list[BCOO]:
    found: list[BCOO] = []
    start = 0
    for size in sizes:
        starts, limits = [0] * x.ndim, list(x.shape)
        starts[axis], limits[axis] = start, start + size
        found.append(slices.bcoo_slice(x, start_indices=starts, limit_indices=limits))
        start += size
    return found


@sparse_rule(Stack)
def _stack(primitive: Stack, *xs: Operand) -> BCOO:
    at, shape = primitive.axis, xs[0].shape
    kept = [axis for axis in range(len(shape) + 1) if axis != at]
    row = (*shape[:at], 1, *shape[at:])
    rows = [reshaping.bcoo_broadcast_in_dim(_sparse(x), shape=row, broadcast_dimensions=kept) for x in xs]
    return reshaping.bcoo_concatenate(rows, dimension=at)


@sparse_rule(Unstack)
def _unstack(primitive: Unstack, x: BCOO) -> list[BCOO]:
    rows = _cut(x, (1,) * x.shape[primitive.axis], primitive.axis)
    return [layouts.bcoo_squeeze(row, dimensions=(primitive.axis,)) for row in rows]


# Parts.


@sparse_rule(Slice)
def _slice(primitive: Slice, x: BCOO) -> BCOO:
    return slices.bcoo_slice(
        x,
        start_indices=primitive.start_indices,
        limit_indices=primitive.limit_indices,
        strides=primitive.strides,
    )


@sparse_rule(DynamicSlice)
def _dynamic_slice(primitive: DynamicSlice, x: BCOO, *starts: Array) -> BCOO:
    return slices.bcoo_dynamic_slice(x, starts, primitive.slice_sizes)


@sparse_rule(Gather)
def _gather(primitive: Gather, x: Operand, starts: Operand) -> BCOO:
    if not isinstance(x, BCOO) or isinstance(starts, BCOO):
        raise UnsupportedError("sparsify: an array is indexed by arrays, not by sparse ones. Write sparse.todense(i).")
    numbers = primitive.dimension_numbers
    if numbers.operand_batching_dims:
        raise UnsupportedError("sparsify: a sparse array isn't indexed in each batch. Write sparse.todense(x).")
    # What is beyond the array is moved into it, in every mode: a sparse array has no nan to fill in.
    return slices.gathered(
        x, starts, numbers.offset_dims, numbers.collapsed_slice_dims, numbers.start_index_map, primitive.slice_sizes
    )


# Dense ones of sparse ones.


@SPARSE_RULES.register(CompositeCall)
def _composite(primitive: CompositeCall, ctx: Interpreter, args: Sequence[Value]) -> Sequence[Value]:
    if primitive.function_name == TODENSE:
        return [ctx.primal(arg) for arg in args]
    return ctx.rebind(primitive.of, primitive.jaxpr, args)
