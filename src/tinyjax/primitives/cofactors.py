"""Adjugates of matrices, the transposed matrices of their cofactors: derivatives of determinants, whatever the rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INT32
from tinyjax.primitives.bitwise import logical_and, logical_or
from tinyjax.primitives.comparison import eq, gt, lt
from tinyjax.primitives.elementwise import add, mul, neg, sub
from tinyjax.primitives.matrices import as_columns, as_rows, eye_like, rows_taken, transposed
from tinyjax.primitives.reductions import reduce_max, reduce_min, reduce_prod
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import expand_dims, iota, reshape
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.structure import broadcast_in_dim, constant_like
from tinyjax.primitives.triangular import solve_triangular

T = TypeVar("T")
V = TypeVar("V")


def small_cofactors(ctx: Context[V], a: V) -> V:
    """Those of up to three rows: products of the elements in the other rows and columns."""
    aval = ctx.aval(a)
    size, rows = aval.shape[-1], aval.ndim - 2

    def moved(down: int, right: int) -> V:
        found = a
        for axis, by in ((rows, down), (rows + 1, right)):
            ends = ((by, size), (0, by))
            found = concatenate(ctx, [slice_in_dim(ctx, found, *end, 1, axis) for end in ends], axis)
        return found

    if size == 1:
        return constant_like(ctx, a, 1)
    if size == 2:
        places = add(ctx, *(iota(ctx, INT32, aval.shape, axis) for axis in (rows, rows + 1)))
        other = moved(1, 1)
        return select(ctx, eq(ctx, places, constant_like(ctx, places, 1)), neg(ctx, other), other)
    return sub(ctx, mul(ctx, moved(1, 1), moved(2, 2)), mul(ctx, moved(1, 2), moved(2, 1)))


def small_determinant(
    size: int, at: Callable[[int, int], T], times: Callable[[T, T], T], plus: Callable[[T, T], T],
    minus: Callable[[T, T], T],
) -> T:  # fmt: skip
    """The determinant of two or three rows by its definition, as JAX has it: each element is in products only with
    those in other rows and columns."""
    if size == 2:
        return minus(times(at(0, 0), at(1, 1)), times(at(0, 1), at(1, 0)))

    def product(i: int, j: int, k: int) -> T:
        return times(times(at(0, i), at(1, j)), at(2, k))

    even = plus(plus(product(0, 1, 2), product(1, 2, 0)), product(2, 0, 1))
    return minus(minus(minus(even, product(2, 1, 0)), product(0, 2, 1)), product(1, 0, 2))


def triangular_adjugate(ctx: Context[V], u: V, diagonal: V) -> V:
    """The adjugate of what is on and above the diagonal of u.

    With ones in place of the last element of the diagonal and of zeros on it, it has an inverse W. The adjugate is W
    times the product of what was left, and but for the last column times the last element. Where there were zeros
    before that, at z[1] < … < z[k], of W the determinant of a sum of rank k leaves only

        W[:, z[1]] W[z[1], z[2]] … W[z[k - 1], z[k]] W[z[k], :]

    """
    aval, shape = ctx.aval(diagonal), ctx.aval(u).shape
    end, axis = shape[-1] - 1, aval.ndim - 1
    one = constant_like(ctx, diagonal, 1)
    places = iota(ctx, INT32, aval.shape, axis)
    is_end = eq(ctx, places, constant_like(ctx, places, end))
    zero = eq(ctx, select(ctx, is_end, one, diagonal), constant_like(ctx, diagonal, 0))
    kept = select(ctx, logical_or(ctx, zero, is_end), one, diagonal)
    rows, columns = (iota(ctx, INT32, shape, axis + i) for i in range(2))
    upper = select(ctx, eq(ctx, rows, columns), as_columns(ctx, kept, shape), u)
    inverse = solve_triangular(ctx, upper, eye_like(ctx, upper), left_side=True)
    # Where the first zero is, the last one, and the next one after each element.
    first = reduce_min(ctx, select(ctx, zero, places, constant_like(ctx, places, end)), (axis,))
    last = reduce_max(ctx, select(ctx, zero, places, constant_like(ctx, places, 0)), (axis,))
    follows = logical_and(ctx, as_rows(ctx, zero, shape), gt(ctx, columns, rows))
    following = reduce_min(ctx, select(ctx, follows, columns, constant_like(ctx, columns, end)), (axis + 1,))

    def repeated(x: V) -> V:
        return broadcast_in_dim(ctx, x, aval.shape, tuple(range(axis)))

    def taken(x: V, at: V) -> V:
        """For each matrix the row at this place."""
        return reshape(ctx, rows_taken(ctx, x, expand_dims(ctx, at, (axis,))), aval.shape)

    flat = reshape(ctx, inverse, (*shape[:-2], shape[-1] * shape[-1], 1))
    index = add(ctx, mul(ctx, places, constant_like(ctx, places, shape[-1])), following)
    linked = logical_and(ctx, zero, lt(ctx, places, repeated(last)))
    links = select(ctx, linked, reshape(ctx, rows_taken(ctx, flat, index), aval.shape), one)
    column = mul(ctx, taken(transposed(ctx, inverse), first), repeated(reduce_prod(ctx, links, (axis,))))
    singular = mul(ctx, as_columns(ctx, column, shape), as_rows(ctx, taken(inverse, last), shape))
    any_zero = lt(ctx, first, constant_like(ctx, first, end))
    any_zero = broadcast_in_dim(ctx, any_zero, shape, tuple(range(axis)))
    weights = repeated(reshape(ctx, slice_in_dim(ctx, diagonal, end, end + 1, 1, axis), aval.shape[:-1]))
    weights = select(ctx, is_end, one, weights)
    weights = mul(ctx, weights, repeated(reduce_prod(ctx, kept, (axis,))))
    return mul(ctx, select(ctx, any_zero, singular, inverse), as_rows(ctx, weights, shape))
