"""Triangular matrices: the factors of positive definite ones, and equations with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.errors import LinearityError
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, FLOAT32, FLOAT64, INEXACT, HostArray
from tinyjax.ir.primitive import BatchAxis, Outputs, UndefPrimal, Zero
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives import lapack
from tinyjax.primitives.arithmetic import abs_, div, max_
from tinyjax.primitives.comparison import eq
from tinyjax.primitives.elementwise import Dtypes, add, mul, neg, scale, sub
from tinyjax.primitives.exponential import sqrt
from tinyjax.primitives.matrices import (
    MATRICES,
    OfMatrices,
    as_columns,
    as_rows,
    conjugated,
    half_diagonal,
    matmul,
    square_matrix,
    transposed,
    tril,
    triu,
)
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.structure import constant_like, instantiate, move_axis, shape_error

V = TypeVar("V")
_REAL: Final = frozenset({FLOAT32, FLOAT64})


@final
@frozen
class Cholesky(OfMatrices):
    """The lower triangular factor L of positive definite matrices, A = L Lᴴ, of which the lower triangle is read.

    Where a matrix isn't positive definite it is nan. Above the diagonal are zeros (in JAX's primitive anything).
    Tangents are taken to be Hermitian.
    """

    name: ClassVar[str] = "cholesky"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        square_matrix(self.name, shapes[0])
        return shapes

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return lapack.cholesky(*args)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """L⁻¹ dA L⁻ᴴ is the sum of L⁻¹ dL, which is lower triangular, and its adjoint: half of the diagonal is its."""
        (x,), (t,) = primals, tangents
        (factor,) = ctx.bind(self, x)
        if isinstance(t, Zero):
            return [factor], zero_tangents(ctx, [factor])
        right = solve_triangular(ctx, factor, t, left_side=False, lower=True, transpose_a=True, conjugate_a=True)
        whole = tril(ctx, solve_triangular(ctx, factor, right, left_side=True, lower=True))
        # Above the diagonal are zeros also where the factor is nan.
        return [factor], [tril(ctx, matmul(ctx, factor, half_diagonal(ctx, whole)))]


@final
@frozen
class TriangularSolve(OfMatrices):
    """The solution X of A X = B, or of X A = B, for triangular A, of which only that triangle is read.

    A may be transposed, conjugated or both, and its diagonal may be taken as ones. Floats narrower than float32 are
    computed in it, and the solution is rounded.
    """

    left_side: bool = False
    lower: bool = False
    transpose_a: bool = False
    conjugate_a: bool = False
    unit_diagonal: bool = False
    name: ClassVar[str] = "triangular_solve"
    accepts: ClassVar[Dtypes] = INEXACT
    ranks: ClassVar[tuple[int, ...]] = (2, 2)

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        a, b = shapes
        size, equations = square_matrix(self.name, a), b[0 if self.left_side else 1]
        if equations != size:
            raise shape_error(self.name, f"{size} unknowns for {equations} equations: a and b are matrices of shapes "
                              f"{a} and {b}, and left_side is {self.left_side}")  # fmt: skip
        return (b,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        dtype = args[0].dtype
        a, b = args if dtype in MATRICES else (x.astype(FLOAT32) for x in args)
        conjugate = self.conjugate_a and a.dtype in COMPLEXES
        transpose = (2 if conjugate else 1) if self.transpose_a else 0
        if conjugate and not self.transpose_a:
            a = a.conj()
        (out,) = lapack.triangular_solve(a, b, self.left_side, self.lower, transpose, self.unit_diagonal)
        return (out.astype(dtype, copy=False),)

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((1,),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (a, b), (ta, tb) = primals, tangents
        (out,) = ctx.bind(self, a, b)
        total: V | Zero = Zero(ctx.aval(out).tangent)
        if not isinstance(ta, Zero):
            total = self._by_matrix(ctx, ta, a, out)
        if not isinstance(tb, Zero):
            (moved,) = ctx.bind(self, a, tb)
            total = moved if isinstance(total, Zero) else add(ctx, total, moved)
        return [out], [total]

    def _by_matrix(self, ctx: Context[V], t: V, a: V, out: V) -> V:
        """-A⁻¹ dA X or -X dA A⁻¹, in the order that costs less."""
        k = 1 if self.unit_diagonal else 0
        t = neg(ctx, tril(ctx, t, -k) if self.lower else triu(ctx, t, k))
        t = transposed(ctx, t) if self.transpose_a else t
        t = conjugated(ctx, t) if self.conjugate_a else t
        rows, columns = ctx.aval(out).shape[-2:]
        if self.left_side:
            if rows > columns:
                return ctx.bind(self, a, matmul(ctx, t, out))[0]
            return matmul(ctx, ctx.bind(self, a, t)[0], out)
        if rows < columns:
            return ctx.bind(self, a, matmul(ctx, out, t))[0]
        return matmul(ctx, out, ctx.bind(self, a, t)[0])

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (a, b) = cotangents, args
        if isinstance(a, UndefPrimal):
            raise LinearityError(f"{self.name} is linear in the right side, but not in the matrix")
        if isinstance(ct, Zero) or not isinstance(b, UndefPrimal):
            return [None, None]
        return [None, *ctx.bind(evolve(self, transpose_a=not self.transpose_a), a, ct)]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """For one matrix, all right sides are those of one equation."""
        (a, b), (a_at, b_at) = args, axes
        if a_at is not None or b_at is None:
            return OfMatrices.batch(self, ctx, axis, args, axes)
        n = ctx.aval(b).ndim
        place, first = (n - 1, n - 2) if self.left_side else (n - 3, n - 3)
        b = move_axis(ctx, b, b_at, place)
        shape = ctx.aval(b).shape
        flat = (*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :])
        (out,) = ctx.bind(self, a, reshape(ctx, b, flat))
        return [reshape(ctx, out, shape)], [place]


@final
@frozen
class CholeskyUpdate(OfMatrices):
    """For an upper triangular factor R and a vector w the factor of Rᵀ R + w wᵀ, in a time quadratic in their size."""

    name: ClassVar[str] = "cholesky_update"
    accepts: ClassVar[Dtypes] = _REAL
    ranks: ClassVar[tuple[int, ...]] = (2, 1)

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        factor, w = shapes
        if factor != (*w, *w):
            raise shape_error(self.name, "takes a square matrix and a vector of the same size, got arrays of shapes "
                              f"{factor} and {w}")  # fmt: skip
        return (factor,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        factor, w = args[0].copy(), args[1]
        for k in range(len(w)):
            x, y = factor[k, k], w[k]
            if y != 0:
                size = np.maximum(abs(x), abs(y))
                cosine, sine = x / size, y / size
                length = np.sqrt(cosine * cosine + sine * sine)
                cosine, sine = cosine / length, sine / length
                row = factor[k]
                factor[k], w = cosine * row + sine * w, cosine * w - sine * row
        return (factor,)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        """A rotation for each row."""
        factor, w = args
        shape = ctx.aval(w).shape
        at, n = len(shape) - 1, shape[-1]
        rows: list[V] = []
        for k in range(n):
            row = reshape(ctx, slice_in_dim(ctx, factor, k, k + 1, 1, at), shape)
            x, y = (slice_in_dim(ctx, v, k, k + 1, 1, at) for v in (row, w))
            still = eq(ctx, y, constant_like(ctx, y, 0))
            size = select(ctx, still, constant_like(ctx, y, 1), max_(ctx, abs_(ctx, x), abs_(ctx, y)))
            cosine, sine = div(ctx, x, size), div(ctx, y, size)
            length = sqrt(ctx, add(ctx, mul(ctx, cosine, cosine), mul(ctx, sine, sine)))
            cosine, sine = div(ctx, cosine, length), div(ctx, sine, length)
            cosine = select(ctx, still, constant_like(ctx, y, 1), cosine)
            sine = select(ctx, still, constant_like(ctx, y, 0), sine)
            cosine, sine = (_along(ctx, v, shape) for v in (cosine, sine))
            rows.append(add(ctx, mul(ctx, cosine, row), mul(ctx, sine, w)))
            w = sub(ctx, mul(ctx, cosine, w), mul(ctx, sine, row))
        whole = ctx.aval(factor).shape
        parts = [reshape(ctx, row, (*shape[:-1], 1, n)) for row in rows]
        return [concatenate(ctx, parts, at)] if parts else [reshape(ctx, factor, whole)]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """As of the factor of the sum, whose tangent is that of Rᵀ R + w wᵀ."""
        (factor, w), (t, tw) = primals, (instantiate(ctx, t) for t in tangents)
        (out,) = ctx.bind(self, factor, w)
        shape = ctx.aval(factor).shape
        half = matmul(ctx, transposed(ctx, factor), t)
        half = add(ctx, half, mul(ctx, as_columns(ctx, w, shape), as_rows(ctx, tw, shape)))
        both = add(ctx, half, transposed(ctx, half))
        left = solve_triangular(ctx, out, both, left_side=True, transpose_a=True)
        whole = triu(ctx, solve_triangular(ctx, out, left))
        return [out], [matmul(ctx, half_diagonal(ctx, whole), out)]


def _along(ctx: Context[V], x: V, shape: Shape) -> V:
    """x, whose last axis has size 1, repeated along it."""
    return concatenate(ctx, [x] * shape[-1], len(shape) - 1)


@final
@frozen
class SymmetricProduct(OfMatrices):
    """`alpha A Aᵀ + beta C` for symmetric C."""

    alpha: float = 1.0
    beta: float = 0.0
    name: ClassVar[str] = "symmetric_product"
    accepts: ClassVar[Dtypes] = _REAL
    ranks: ClassVar[tuple[int, ...]] = (2, 2)

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        a, c = shapes
        if c != (a[0], a[0]):
            raise shape_error(self.name, f"takes matrices of shapes (m, n) and (m, m), got {a} and {c}")
        return (c,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        a, c = args
        return ((self.alpha * (a @ a.T) + self.beta * c).astype(a.dtype),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        a, c = args
        product = scale(ctx, matmul(ctx, a, transposed(ctx, a)), self.alpha)
        return [add(ctx, product, scale(ctx, c, self.beta))]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (a, _), (ta, tc) = primals, (instantiate(ctx, t) for t in tangents)
        half = scale(ctx, matmul(ctx, ta, transposed(ctx, a)), self.alpha)
        total = add(ctx, half, transposed(ctx, half))
        return ctx.bind(self, *primals), [add(ctx, total, scale(ctx, tc, self.beta))]


# The vocabulary.

cholesky: Final = Cholesky()


def solve_triangular(
    ctx: Context[V], a: V, b: V, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> V:  # fmt: skip
    """The solution of equations with a triangular matrix; see `TriangularSolve`."""
    solving = made_once(TriangularSolve, left_side, lower, transpose_a, conjugate_a, unit_diagonal)
    return ctx.bind(solving, a, b)[0]
