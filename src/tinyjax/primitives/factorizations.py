"""Factors of matrices of any shape: LU with exchanges of rows, and QR, whose reflections LAPACK holds in one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, INT32, DType, HostArray
from tinyjax.ir.primitive import Outputs, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives import lapack
from tinyjax.primitives.complex import imag
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import Dtypes, add, mul, sub
from tinyjax.primitives.matrices import (
    OfMatrices,
    adjoint,
    eye_like,
    matmul,
    rows_taken,
    transposed,
    tril,
    triu,
)
from tinyjax.primitives.slicing import concatenate, pad, slice_in_dim
from tinyjax.primitives.structure import full, shape_error
from tinyjax.primitives.triangular import solve_triangular

V = TypeVar("V")


@final
@frozen
class Lu(OfMatrices):
    """The factors of a matrix whose rows are exchanged: P A = L U.

    Both are in the first result: U on and above the diagonal, L below it, where its diagonal is ones. Then the row that
    each has been exchanged with, one after the other, and the order of rows that this leads to.
    """

    name: ClassVar[str] = "lu"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        ((m, n),) = shapes
        return (m, n), (min(m, n),), (m,)

    @override
    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        return dtype, INT32, INT32

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        (a,) = args
        factors, pivots = lapack.lu(a) if a.size else (a, np.zeros(0, np.int32))
        return factors, pivots, lapack.permutation_of(pivots, len(a))

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """L⁻¹ P dA U⁻¹ is the sum of L⁻¹ dL, which is below the diagonal, and dU U⁻¹, which isn't."""
        (t,) = tangents
        factors, pivots, order = ctx.bind(self, *primals)
        if isinstance(t, Zero):
            return (factors, pivots, order), zero_tangents(ctx, (factors, pivots, order))
        m, n = ctx.aval(factors).shape[-2:]
        k = min(m, n)
        lower = _wide(ctx, tril(ctx, _columns(ctx, factors, 0, k), -1), m, m)
        lower = add(ctx, lower, eye_like(ctx, lower))
        upper = _wide(ctx, triu(ctx, _rows(ctx, factors, 0, k)), n, n)
        if n > k:  # ones where U has no rows
            upper = add(ctx, upper, sub(ctx, eye_like(ctx, upper), _wide(ctx, _eye(ctx, factors, k), n, n)))
        left = solve_triangular(
            ctx, lower, rows_taken(ctx, t, order), left_side=True, lower=True, unit_diagonal=True
        )  # fmt: skip
        whole = solve_triangular(ctx, upper, left)
        moved = add(ctx, matmul(ctx, lower, tril(ctx, whole, -1)), matmul(ctx, triu(ctx, whole), upper))
        return (factors, pivots, order), [moved, *zero_tangents(ctx, (pivots, order))]


@final
@frozen
class LuPivotsToPermutation(OfMatrices):
    """The order of so many rows that they have after exchanges: of each with the one that the operand says, in turn."""

    permutation_size: int
    name: ClassVar[str] = "lu_pivots_to_permutation"
    accepts: ClassVar[Dtypes] = frozenset({INT32})
    ranks: ClassVar[tuple[int, ...]] = (1,)

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        ((count,),) = shapes
        if self.permutation_size < count:
            raise shape_error(self.name, f"permutation_size must be at least the number of pivots, {count}, got "
                              f"{self.permutation_size}")  # fmt: skip
        return ((self.permutation_size,),)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (lapack.permutation_of(args[0], self.permutation_size),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs = ctx.bind(self, *primals)
        return outs, zero_tangents(ctx, outs)


@final
@frozen
class Geqrf(OfMatrices):
    """LAPACK's QR decomposition: R on and above the diagonal, and below it vectors v of reflections, I - τ v vᴴ, whose
    product is Q. Their elements on the diagonal are 1 and not held. Then the factors τ."""

    name: ClassVar[str] = "geqrf"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        (shape,) = shapes
        return shape, (min(shape),)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return lapack.geqrf(*args)


@final
@frozen
class Geqp3(OfMatrices):
    """The same with exchanged columns: the largest of those that are left is next. The second operand says which come
    first, where it isn't 0; the second result has the order, counted from 1. `use_magma` is for GPUs."""

    use_magma: bool | None = None
    name: ClassVar[str] = "geqp3"
    ranks: ClassVar[tuple[int, ...]] = (2, 1)

    @override
    def operand_dtype(self, avals: Sequence[ShapedArray]) -> DType:
        if avals[1].dtype != INT32:
            raise TypingError(f"{self.name} needs indices of int32, got {avals[1]}")
        return OfMatrices.operand_dtype(self, avals[:1])

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        a, order = shapes
        if order != a[1:]:
            raise shape_error(self.name, f"an index for each of {a[1]} columns is needed, got {order[0]}")
        return a, order, (min(a),)

    @override
    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        return dtype, INT32, dtype

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        a, order = args
        return lapack.geqp3(a, order) if a.size else (a, 1 + np.arange(len(order)), np.zeros(0, a.dtype))


@final
@frozen
class HouseholderProduct(OfMatrices):
    """The first columns of the product of reflections, for vectors and factors as `Geqrf` has them."""

    name: ClassVar[str] = "householder_product"
    ranks: ClassVar[tuple[int, ...]] = (2, 1)

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        a, taus = shapes
        if a[0] < a[1]:
            raise shape_error(self.name, f"the matrix must have at least as many rows as columns, got shape {a}")
        if taus[0] > a[1]:
            raise shape_error(self.name, f"{taus[0]} reflections of a matrix with {a[1]} columns")
        return (a,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return lapack.householder_product(*args)


@final
@frozen
class Ormqr(OfMatrices):
    """The product of Q, or its adjoint if `adjoint`, and a matrix, for vectors and factors as `Geqrf` has them."""

    left: bool = True
    adjoint: bool = False
    name: ClassVar[str] = "ormqr"
    ranks: ClassVar[tuple[int, ...]] = (2, 1, 2)

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        a, taus, c = shapes
        if a[0] != c[0 if self.left else 1]:
            side = "rows" if self.left else "columns"
            raise shape_error(self.name, f"the third operand must have {a[0]} {side}, got shape {c}")
        if taus[0] > min(a):
            raise shape_error(self.name, f"{taus[0]} reflections of a matrix of shape {a}")
        return (c,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        a, taus, c = args
        return lapack.ormqr(a[:, : len(taus)], taus, c, self.left, self.adjoint) if taus.size else (c,)


@final
@frozen
class Qr(OfMatrices):
    """The QR decomposition, A = Q R with orthonormal columns of Q and R upper triangular.

    Q has as many columns as rows if `full_matrices`, else as many as the lesser of the two. With `pivoting` the columns
    are exchanged so that the diagonal of R descends, and their order is the third result.
    """

    pivoting: bool = False
    full_matrices: bool = True
    use_magma: bool | None = None
    name: ClassVar[str] = "qr"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        ((m, n),) = shapes
        k = m if self.full_matrices else min(m, n)
        return ((m, k), (k, n), (n,)) if self.pivoting else ((m, k), (k, n))

    @override
    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        return (dtype, dtype, INT32)[:count]

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        (a,) = args
        (m, k), (_, n), *_ = self.own_shapes(a.shape)
        if not a.size:
            return (np.eye(m, k), np.zeros((k, n)), *([np.zeros(n)] * self.pivoting))
        if self.pivoting:
            r, order, taus = lapack.geqp3(a, np.zeros(n, np.int32))
        else:
            (r, taus), order = lapack.geqrf(a), np.zeros(0, np.int32)
        vectors = np.zeros((m, k), a.dtype)
        vectors[:, : min(k, n)] = r[:, :k]
        found = *lapack.householder_product(vectors, taus), np.triu(r[:k])
        return (*found, order - 1) if self.pivoting else found

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        """By reflections, and their product."""
        (a,), shape = args, ctx.aval(args[0]).shape
        *batch, m, n = shape
        (_, k), *_ = self.own_shapes((m, n))
        if 0 in (m, n):
            zeros = full(ctx, array_type((*batch, m, k), ctx.aval(a).dtype), 0)
            empty = [eye_like(ctx, zeros), full(ctx, array_type((*batch, k, n), ctx.aval(a).dtype), 0)]
            return [*empty, *([full(ctx, array_type((*batch, n), INT32), 0)] * self.pivoting)]
        order: list[V] = []
        if self.pivoting:
            first = full(ctx, array_type((*batch, n), INT32), 0)
            r, places, taus = ctx.bind(Geqp3(self.use_magma), a, first)
            order.append(sub(ctx, places, full(ctx, ctx.aval(places), 1)))
        else:
            r, taus = ctx.bind(geqrf, a)
        vectors = _columns(ctx, r, 0, m) if m < n else _wide(ctx, r, m, k)
        (q,) = ctx.bind(HouseholderProduct(), vectors, taus)
        return [q, triu(ctx, _rows(ctx, r, 0, k)), *order]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        q, r, *order = outs = ctx.bind(self, x)
        if isinstance(t, Zero):
            return outs, zero_tangents(ctx, outs)
        m, n = ctx.aval(x).shape[-2:]
        if order:
            t = transposed(ctx, rows_taken(ctx, transposed(ctx, t), order[0]))
            x = transposed(ctx, rows_taken(ctx, transposed(ctx, x), order[0]))
        if m < n:  # the first columns of A are Q R₁, the others Q R₂
            tq, tr1 = _thin(ctx, q, _columns(ctx, r, 0, m), _columns(ctx, t, 0, m))
            rest, trest = _columns(ctx, x, m, n), _columns(ctx, t, m, n)
            tr2 = add(ctx, matmul(ctx, adjoint(ctx, tq), rest), matmul(ctx, adjoint(ctx, q), trest))
            tr = concatenate(ctx, [tr1, tr2], ctx.aval(tr1).ndim - 1)
        elif m > n and self.full_matrices:
            tq, tr = _thin(ctx, _columns(ctx, q, 0, n), _rows(ctx, r, 0, n), t)
            tq, tr = self._rest(ctx, q, tq, n), _wide(ctx, tr, m, n)
        else:
            tq, tr = _thin(ctx, q, r, t)
        return outs, [tq, tr, *zero_tangents(ctx, order)]

    def _rest(self, ctx: Context[V], q: V, t: V, n: int) -> V:
        """The tangents of all columns, given those of the first n: of the others as https://arxiv.org/abs/2409.13374
        chooses it."""
        m = ctx.aval(q).shape[-2]
        first, others = _columns(ctx, q, 0, n), _columns(ctx, q, n, m)
        top, below = _rows(ctx, first, 0, n), _rows(ctx, first, n, m)
        z = solve_general(ctx, adjoint(ctx, sub(ctx, top, eye_like(ctx, top))), adjoint(ctx, below))
        back = adjoint(ctx, z)
        moved = sub(ctx, _rows(ctx, t, n, m), matmul(ctx, back, _rows(ctx, t, 0, n)))
        both = add(ctx, first, matmul(ctx, others, back))
        tangent = sub(ctx, matmul(ctx, t, z), matmul(ctx, both, adjoint(ctx, moved)))
        return concatenate(ctx, [t, tangent], ctx.aval(q).ndim - 1)


def _thin(ctx: Context[V], q: V, r: V, t: V) -> tuple[V, V]:
    """The tangents of both factors of a matrix with at least as many rows as columns: dA R⁻¹ = dQ + Q dR R⁻¹, where
    Qᴴ dQ is skew-Hermitian, and dR R⁻¹ upper triangular with a real diagonal."""
    right = solve_triangular(ctx, r, t)
    inner = matmul(ctx, adjoint(ctx, q), right)
    lower = tril(ctx, inner, -1)
    skew = sub(ctx, lower, adjoint(ctx, lower))
    if ctx.aval(q).dtype in COMPLEXES:
        i = full(ctx, array_type((), ctx.aval(q).dtype), 1j)
        diagonal = mul(ctx, convert(ctx, imag(ctx, inner), ctx.aval(q).dtype), eye_like(ctx, inner))
        skew = add(ctx, skew, mul(ctx, diagonal, i))
    tq = add(ctx, matmul(ctx, q, sub(ctx, skew, inner)), right)
    return tq, matmul(ctx, sub(ctx, inner, skew), r)


def _columns(ctx: Context[V], x: V, start: int, stop: int) -> V:
    return _part(ctx, x, start, stop, ctx.aval(x).ndim - 1)


def _rows(ctx: Context[V], x: V, start: int, stop: int) -> V:
    return _part(ctx, x, start, stop, ctx.aval(x).ndim - 2)


def _part(ctx: Context[V], x: V, start: int, stop: int, axis: int) -> V:
    whole = (start, stop) == (0, ctx.aval(x).shape[axis])
    return x if whole else slice_in_dim(ctx, x, start, stop, 1, axis)


def _wide(ctx: Context[V], x: V, rows: int, columns: int) -> V:
    """x with zeros below and to the right."""
    *batch, m, n = ctx.aval(x).shape
    config = (*((0, 0, 0) for _ in batch), (0, rows - m, 0), (0, columns - n, 0))
    return x if (m, n) == (rows, columns) else pad(ctx, x, config)


def _eye(ctx: Context[V], x: V, n: int) -> V:
    """Square matrices of size n with ones on their diagonals, as many as x has."""
    aval = ctx.aval(x)
    return eye_like(ctx, full(ctx, array_type((*aval.shape[:-2], n, n), aval.dtype), 0))


# The vocabulary.

lu: Final = Lu()
geqrf: Final = Geqrf()


def solve_general(ctx: Context[V], a: V, b: V) -> V:
    """The solution of a x = b for square matrices and as many right sides."""
    factors, _, order = ctx.bind(lu, a)
    return solve_by_factors(ctx, factors, order, b)


def solve_by_factors(ctx: Context[V], factors: V, order: V, b: V) -> V:
    """The same, for the factors of a and the order of its rows."""
    b = rows_taken(ctx, b, order)
    b = solve_triangular(ctx, factors, b, left_side=True, lower=True, unit_diagonal=True)
    return solve_triangular(ctx, factors, b, left_side=True)
