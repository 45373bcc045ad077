"""What follows from the factors of square matrices: solutions of equations, determinants; and inverses of any matrix.

Each is defined by factors, but has a derivative of its own: one that needs no derivative of the factors, which there is
only where a matrix isn't singular, or where no two singular values are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import LinearityError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import DType, HostArray, real_dtype
from tinyjax.ir.primitive import BatchAxis, Outputs, UndefPrimal, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives import lapack
from tinyjax.primitives.arithmetic import abs_, div
from tinyjax.primitives.comparison import eq, gt, le
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, mul, neg, sub
from tinyjax.primitives.factorizations import lu, solve_by_factors
from tinyjax.primitives.matrices import (
    OfMatrices,
    adjoint,
    as_columns,
    as_rows,
    conjugated,
    matmul,
    square_matrix,
    symmetrized,
    transposed,
)
from tinyjax.primitives.reductions import reduce_max
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.spectral import Eigh, Svd
from tinyjax.primitives.structure import (
    broadcast_in_dim,
    constant_like,
    instantiate,
    move_axis,
    shape_error,
)

V = TypeVar("V")


@final
@frozen
class Solve(OfMatrices):
    """The solution X of A X = B, for square matrices A. Infinite or nan where A is singular."""

    name: ClassVar[str] = "solve"
    ranks: ClassVar[tuple[int, ...]] = (2, 2)

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        a, b = shapes
        if square_matrix(self.name, a) != b[0]:
            raise shape_error(self.name, f"{a[0]} unknowns for {b[0]} equations: matrices of shapes {a} and {b}")
        return (b,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        a, b = args
        factors, pivots = lapack.lu(a)
        return (lapack.solve_by_factors(factors, pivots, b),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        a, b = args
        factors, _, order = ctx.bind(lu, a)
        return [solve_by_factors(ctx, factors, order, b)]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """A dX = dB - dA X, by the factors that are there already."""
        (a, b), (ta, tb) = primals, tangents
        factors, _, order = ctx.bind(lu, a)
        out = solve_by_factors(ctx, factors, order, b)
        if isinstance(ta, Zero):
            right = instantiate(ctx, tb)
        else:
            moved = matmul(ctx, ta, out)
            right = neg(ctx, moved) if isinstance(tb, Zero) else sub(ctx, tb, moved)
        return [out], [solve_by_factors(ctx, factors, order, right)]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (a, b) = cotangents, args
        if isinstance(a, UndefPrimal):
            raise LinearityError(f"{self.name} is linear in the right side, but not in the matrix")
        if isinstance(ct, Zero) or not isinstance(b, UndefPrimal):
            return [None, None]
        return [None, *ctx.bind(self, transposed(ctx, a), ct)]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """For one matrix, all right sides are those of one equation."""
        (a, b), (a_at, b_at) = args, axes
        if a_at is not None or b_at is None:
            return OfMatrices.batch(self, ctx, axis, args, axes)
        place = ctx.aval(b).ndim - 1
        b = move_axis(ctx, b, b_at, place)
        shape = ctx.aval(b).shape
        (out,) = ctx.bind(self, a, reshape(ctx, b, (*shape[:-2], shape[-2] * shape[-1])))
        return [reshape(ctx, out, shape)], [place]


@final
@frozen
class Stein(OfMatrices):
    """The solution X of Stein's equation X - Lᴴ L X K Kᴴ = R: it is R + V (W ∘ Vᴴ R U) Uᴴ.

    Operands are L, K, V, W, U and R. The columns of V and U are singular vectors of L and K; with p the squares of the
    products of their singular values, W is p / (1 - p). Derivatives are those of the equation, and need none of these
    factors, which have some only where singular values differ.
    """

    name: ClassVar[str] = "stein"
    ranks: ClassVar[tuple[int, ...]] = (2,) * 6

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        left, right, v, w, u, r = shapes
        if left != right or r != left[::-1] or (r[0], w[0]) != v or (r[1], w[1]) != u:
            raise shape_error(self.name, f"the shapes of operands don't fit each other: {', '.join(map(str, shapes))}")
        return (r,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        _, _, v, w, u, r = args
        return (r + v @ ((v.conj().T @ r @ u) * w) @ u.conj().T,)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        _, _, v, w, u, r = args
        inner = mul(ctx, matmul(ctx, matmul(ctx, adjoint(ctx, v), r), u), w)
        return [add(ctx, r, matmul(ctx, matmul(ctx, v, inner), adjoint(ctx, u)))]

    @override
    def linear_in(self, arity: int) -> Sequence[Sequence[int]]:
        return ((5,),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """The tangent solves the same equation: what L and K change of it goes to the right side."""
        (*given, _), (tl, tr, *_, total) = primals, tangents
        left, right = given[:2]
        (x,) = ctx.bind(self, *primals)
        if not isinstance(tl, Zero):
            half = matmul(ctx, adjoint(ctx, tl), left)
            moved = matmul(ctx, add(ctx, half, adjoint(ctx, half)), x)
            total = _plus(ctx, total, matmul(ctx, matmul(ctx, moved, right), adjoint(ctx, right)))
        if not isinstance(tr, Zero):
            half = matmul(ctx, tr, adjoint(ctx, right))
            kept = matmul(ctx, adjoint(ctx, left), matmul(ctx, left, x))
            total = _plus(ctx, total, matmul(ctx, kept, add(ctx, half, adjoint(ctx, half))))
        return [x], [total] if isinstance(total, Zero) else ctx.bind(self, *given, total)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (*given, r) = cotangents, args
        known = [conjugated(ctx, x) for x in given if not isinstance(x, UndefPrimal)]
        if len(known) < len(given):
            raise LinearityError(f"{self.name} is linear in the right side, but not in the other matrices")
        if isinstance(ct, Zero) or not isinstance(r, UndefPrimal):
            return [None] * 6
        return [*[None] * 5, *ctx.bind(self, *known, ct)]


def _plus(ctx: Context[V], x: V | Zero, y: V) -> V:
    return y if isinstance(x, Zero) else add(ctx, x, y)


@final
@frozen
class Pinv(OfMatrices):
    """The pseudoinverse of matrices, by singular values, of which those are taken for zero that are at most the second
    operand times the largest one. `hermitian`: the matrices are, so that eigenvalues serve.

    `truncated`: those may be more than errors of rounding. Derivatives then take account of how they turn the spaces of
    the others.
    """

    hermitian: bool = False
    truncated: bool = False
    name: ClassVar[str] = "pinv"
    ranks: ClassVar[tuple[int, ...]] = (2, 0)

    @override
    def operand_dtype(self, avals: Sequence[ShapedArray]) -> DType:
        x, rtol = avals
        if rtol.dtype != real_dtype(x.dtype):
            raise TypingError(f"{self.name} of {x} needs a tolerance of dtype {real_dtype(x.dtype).name}, got {rtol}")
        return OfMatrices.operand_dtype(self, avals[:1])

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        (m, n), _ = shapes
        if self.hermitian:
            square_matrix(self.name, shapes[0])
        return ((n, m),)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        a, rtol = args
        if self.hermitian:
            u, s = lapack.eigh((a + a.conj().T) / 2, True)
            vt = u.conj().T
        else:
            s, u, vt = lapack.svd(a, True, False)
        with np.errstate(all="ignore"):
            least = rtol * np.abs(s).max()
            # Eigenvalues that are nan stay so, as in JAX.
            kept = np.where(np.abs(s) <= least, np.inf, s) if self.hermitian else np.where(s > least, s, np.inf)
            return ((vt.conj().T @ (u.conj().T / kept[:, None])).astype(a.dtype),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        a, rtol = args
        if 0 in ctx.aval(a).shape[-2:]:
            return [adjoint(ctx, a)]
        u, _, divisors, v = self._factors(ctx, a, rtol)
        uh = adjoint(ctx, u)
        scaled = div(ctx, uh, as_columns(ctx, convert(ctx, divisors, ctx.aval(a).dtype), ctx.aval(uh).shape))
        return [matmul(ctx, v, scaled)]

    def _factors(self, ctx: Context[V], a: V, rtol: V) -> tuple[V, V, V, V]:
        """U, the singular values or eigenvalues, the same with infinities where they are taken for zero, and V."""
        if self.hermitian:
            u, s = ctx.bind(Eigh(), symmetrized(ctx, a))
            v = u
        else:
            s, u, vt = ctx.bind(Svd(False), a)
            v = adjoint(ctx, vt)
        axis, sizes = ctx.aval(a).ndim - 2, abs_(ctx, s)
        least = mul(ctx, rtol, reduce_max(ctx, sizes, (axis,)))
        least = broadcast_in_dim(ctx, least, ctx.aval(s).shape, tuple(range(axis)))
        large = constant_like(ctx, s, float("inf"))
        if self.hermitian:
            return u, s, select(ctx, le(ctx, sizes, least), large, s), v
        return u, s, select(ctx, gt(ctx, sizes, least), s, large), v

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """As Golub and Pereyra found it, where the rank stays the same: -P dA P, and what goes from the spaces of P to
        what is orthogonal to them. Of these parts, values that are cut off make the right sides of equations."""
        (a, rtol), (t, _) = primals, tangents
        (p,) = ctx.bind(self, a, rtol)
        if isinstance(t, Zero):
            return [p], zero_tangents(ctx, [p])
        if self.hermitian:
            a, t = symmetrized(ctx, a), symmetrized(ctx, t)
        m, n = ctx.aval(a).shape[-2:]
        ph, th = adjoint(ctx, p), adjoint(ctx, t)

        def product(*factors: V) -> V:
            """In the order that costs less."""
            if m >= n:
                found = factors[0]
                for factor in factors[1:]:
                    found = matmul(ctx, found, factor)
                return found
            found = factors[-1]
            for factor in reversed(factors[:-1]):
                found = matmul(ctx, factor, found)
            return found

        first, second = product(p, ph, th), product(th, ph, p)
        if self.truncated and 0 not in (m, n):
            lost = sub(ctx, a, product(a, p, a))  # What is kept makes errors here that exceed what is lost: project it.
            lost = sub(ctx, lost, product(a, p, lost))
            lost = sub(ctx, lost, product(lost, p, a))
            lh, moved = adjoint(ctx, lost), product(p, t)
            first = product(p, ph, add(ctx, th, matmul(ctx, moved, lh)))
            second = product(add(ctx, th, matmul(ctx, lh, product(t, p))), ph, p)
            rows = sub(ctx, first, product(first, a, p))
            columns = sub(ctx, second, product(p, a, second))
            u, w, v = self._coupling(ctx, a, rtol)
            (rows,) = ctx.bind(stein, lh, p, u, w, v, adjoint(ctx, rows))
            (columns,) = ctx.bind(stein, lost, ph, v, w, u, columns)
            return [p], [add(ctx, sub(ctx, adjoint(ctx, rows), product(moved, p)), columns)]
        total = sub(ctx, first, product(p, t, p))
        total = add(ctx, sub(ctx, total, product(first, a, p)), second)
        return [p], [sub(ctx, total, product(p, a, second))]

    def _coupling(self, ctx: Context[V], a: V, rtol: V) -> tuple[V, V, V]:
        """U, the W of Stein's equation, and V. Its singular values are those that are cut off, which its rows are for,
        and the reciprocals of those that are kept."""
        u, s, divisors, v = self._factors(ctx, a, rtol)
        aval = ctx.aval(s)
        shape, cut = (*aval.shape, aval.shape[-1]), eq(ctx, divisors, constant_like(ctx, s, float("inf")))
        lost = as_columns(ctx, select(ctx, cut, s, constant_like(ctx, s, 0)), shape)
        ratios = div(ctx, lost, as_rows(ctx, divisors, shape))
        squares = mul(ctx, ratios, ratios)
        w = div(ctx, squares, sub(ctx, constant_like(ctx, squares, 1), squares))
        return u, convert(ctx, w, ctx.aval(a).dtype), v


# The vocabulary.

solve: Final = Solve()
stein: Final = Stein()
