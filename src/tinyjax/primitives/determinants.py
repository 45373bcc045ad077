"""Determinants of square matrices, and their logarithms. The derivatives are those of the whole, not of the factors by
which they are computed: those have none where a matrix is singular."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, INT32, DType, HostArray, real_dtype
from tinyjax.ir.primitive import Outputs, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives import lapack
from tinyjax.primitives.arithmetic import abs_, div, rem
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.cofactors import small_cofactors, small_determinant, triangular_adjugate
from tinyjax.primitives.comparison import eq, lt, ne
from tinyjax.primitives.complex import real
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, mul, neg, sub
from tinyjax.primitives.exponential import log
from tinyjax.primitives.factorizations import lu
from tinyjax.primitives.matrices import OfMatrices, diagonal_of, eye_like, rows_taken, square_matrix, transposed
from tinyjax.primitives.reductions import reduce_or, reduce_prod
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import iota, squeeze
from tinyjax.primitives.slicing import slice_in_dim
from tinyjax.primitives.solutions import solve
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, reduce_sum
from tinyjax.primitives.triangular import solve_triangular

V = TypeVar("V")


def _sign_of_order(ctx: Context[V], pivots: V, dtype: DType) -> V:
    """-1 for an odd number of exchanges."""
    aval = ctx.aval(pivots)
    moved = convert(ctx, ne(ctx, pivots, iota(ctx, INT32, aval.shape, aval.ndim - 1)), INT32)
    count = reduce_sum(ctx, moved, (aval.ndim - 1,))
    odd = rem(ctx, count, constant_like(ctx, count, 2))
    sign = sub(ctx, constant_like(ctx, odd, 1), add(ctx, odd, odd))
    return convert(ctx, sign, dtype)


def _small_determinant(a: HostArray, size: int) -> np.generic:
    """The determinant of one matrix: NumPy computes with numbers in less time than with arrays."""
    elements = list(a.flat)
    return small_determinant(size, lambda i, j: elements[i * size + j], operator.mul, operator.add, operator.sub)


@final
@frozen
class Det(OfMatrices):
    """The determinant of square matrices."""

    name: ClassVar[str] = "det"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        square_matrix(self.name, shapes[0])
        return ((),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (a,) = args
        size = a.shape[-1]
        if size not in (2, 3):
            return OfMatrices.evaluate(self, a)
        with np.errstate(all="ignore"):
            found = small_determinant(size, lambda i, j: a[..., i, j], np.multiply, np.add, np.subtract)
        return (np.asarray(found),)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        (a,) = avals
        size = a.shape[-1]
        return partial(_small_determinant, size=size) if a.ndim == 2 and size in (2, 3) else super().host_function(a)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        (a,) = args
        if not a.size:
            return (np.ones((), a.dtype),)
        factors, pivots = lapack.lu(a)
        odd = np.count_nonzero(pivots != np.arange(len(pivots))) % 2
        value = np.prod(np.diagonal(factors))
        return (np.asarray(-value if odd else value),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        (a,) = args
        size, rows = ctx.aval(a).shape[-1], ctx.aval(a).ndim - 2

        def at(i: int, j: int) -> V:
            row = slice_in_dim(ctx, a, i, i + 1, 1, rows)
            return squeeze(ctx, slice_in_dim(ctx, row, j, j + 1, 1, rows + 1), (rows, rows + 1))

        if size in (2, 3):
            return [small_determinant(size, at, partial(mul, ctx), partial(add, ctx), partial(sub, ctx))]
        factors, pivots, _ = ctx.bind(lu, a)
        product = reduce_prod(ctx, diagonal_of(ctx, factors), (ctx.aval(a).ndim - 2,))
        return [mul(ctx, product, _sign_of_order(ctx, pivots, ctx.aval(a).dtype))]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """The trace of adj(A) dA; adj(A) is by the factors of A that of the triangular one, which may be singular."""
        (a,), (t,) = primals, tangents
        aval = ctx.aval(a)
        size, axis = aval.shape[-1], aval.ndim - 2
        if isinstance(t, Zero) or size == 0:
            outs = ctx.bind(self, a)
            return outs, zero_tangents(ctx, outs)
        if size < 4:
            product = mul(ctx, small_cofactors(ctx, a), t)
            return ctx.bind(self, a), [reduce_sum(ctx, product, (axis, axis + 1))]
        factors, pivots, order = ctx.bind(lu, a)
        diagonal, sign = diagonal_of(ctx, factors), _sign_of_order(ctx, pivots, aval.dtype)
        value = mul(ctx, sign, reduce_prod(ctx, diagonal, (axis,)))
        cofactors = transposed(ctx, triangular_adjugate(ctx, factors, diagonal))
        product = mul(ctx, cofactors, _permuted_left(ctx, factors, order, t))
        return [value], [mul(ctx, sign, reduce_sum(ctx, product, (axis, axis + 1)))]


def _permuted_left(ctx: Context[V], factors: V, order: V, b: V) -> V:
    return solve_triangular(ctx, factors, rows_taken(ctx, b, order), left_side=True, lower=True, unit_diagonal=True)


@final
@frozen
class Slogdet(OfMatrices):
    """The sign of the determinant of square matrices, which of complex ones has absolute value 1, and the logarithm of
    its absolute value: 0 and -inf where a matrix is singular."""

    name: ClassVar[str] = "slogdet"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        square_matrix(self.name, shapes[0])
        return (), ()

    @override
    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        return dtype, real_dtype(dtype)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        (a,) = args
        if not a.size:
            return np.ones((), a.dtype), np.zeros((), real_dtype(a.dtype))
        factors, pivots = lapack.lu(a)
        values = np.diagonal(factors)
        sizes = np.abs(values)
        with np.errstate(all="ignore"):
            total = np.log(np.where(sizes == 0, 1, sizes)).sum()
            if (values == 0).any() and not np.isnan(total):  # LAPACK has zeros after nan
                return np.zeros((), a.dtype), np.full((), -np.inf, total.dtype)
            if np.iscomplexobj(a):
                signs = values / np.where(sizes == 0, 1, sizes)
            else:
                signs = np.where(values < 0, -1, 1)
                signs = np.where(np.isnan(values), np.nan, signs) if len(a) < 3 else signs
            odd = np.count_nonzero(pivots != np.arange(len(pivots))) % 2
            sign = np.prod(signs)
        return np.asarray(-sign if odd else sign), np.asarray(total)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        factors, pivots, _ = ctx.bind(lu, args[0])
        aval = ctx.aval(factors)
        size, axis, dtype = aval.shape[-1], aval.ndim - 2, aval.dtype
        values = diagonal_of(ctx, factors)
        sizes, zero = abs_(ctx, values), constant_like(ctx, values, 0)
        is_zero = eq(ctx, values, zero)
        sizes = select(ctx, is_zero, constant_like(ctx, sizes, 1), sizes)
        total = reduce_sum(ctx, log(ctx, sizes), (axis,))
        if dtype in COMPLEXES:
            signs = div(ctx, values, convert(ctx, sizes, dtype))
        else:  # also where nan says nothing of it: JAX has nan for the sign of up to two rows only, from their formula
            one = constant_like(ctx, values, 1)
            signs = select(ctx, lt(ctx, values, zero), neg(ctx, one), one)
            signs = select(ctx, ne(ctx, values, values), values, signs) if size < 3 else signs
        sign = mul(ctx, _sign_of_order(ctx, pivots, dtype), reduce_prod(ctx, signs, (axis,)))
        singular = logical_and(ctx, reduce_or(ctx, is_zero, (axis,)), eq(ctx, total, total))  # LAPACK: zeros after nan
        return [
            select(ctx, singular, constant_like(ctx, sign, 0), sign),
            select(ctx, singular, constant_like(ctx, total, -float("inf")), total),
        ]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """The trace of X where A X = dA: its real part is that of the logarithm, the imaginary one turns the sign."""
        (a,), (t,) = primals, tangents
        sign, total = ctx.bind(self, a)
        aval = ctx.aval(a)
        if isinstance(t, Zero) or not aval.shape[-1]:
            return [sign, total], zero_tangents(ctx, [sign, total])
        if aval.shape[-1] == 1:
            moved = reduce_sum(ctx, div(ctx, t, a), (aval.ndim - 2, aval.ndim - 1))
        elif aval.shape[-1] == 2:
            moved = _moved_by_cofactors(ctx, a, t, total)
        else:
            moved = reduce_sum(ctx, diagonal_of(ctx, *ctx.bind(solve, a, t)), (aval.ndim - 2,))
        if aval.dtype not in COMPLEXES:
            return [sign, total], [*zero_tangents(ctx, [sign]), moved]
        along = real(ctx, moved)
        turned = mul(ctx, sub(ctx, moved, convert(ctx, along, aval.dtype)), sign)
        return [sign, total], [turned, along]


def _moved_by_cofactors(ctx: Context[V], a: V, t: V, total: V) -> V:
    """How the logarithm of the determinant of two rows moves. Where it isn't finite, the signs of infinities and
    what is nan are those of the cofactors over the determinant, as in JAX; elsewhere these might overflow."""
    aval = ctx.aval(a)
    axes = aval.ndim - 2, aval.ndim - 1
    odd = ne(ctx, sub(ctx, total, total), constant_like(ctx, total, 0))
    inverse = transposed(ctx, *ctx.bind(solve, a, eye_like(ctx, a)))
    everywhere = broadcast_in_dim(ctx, odd, aval.shape, tuple(range(aval.ndim - 2)))
    weights = select(ctx, everywhere, small_cofactors(ctx, a), inverse)
    (below,) = ctx.bind(det, a)
    below = select(ctx, odd, below, constant_like(ctx, below, 1))
    return div(ctx, reduce_sum(ctx, mul(ctx, weights, t), axes), below)


# The vocabulary.

det: Final = Det()
slogdet: Final = Slogdet()
