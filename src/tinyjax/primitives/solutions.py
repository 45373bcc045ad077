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
from tinyjax.primitives.comparison import gt, le
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, mul, neg, sub
from tinyjax.primitives.factorizations import lu, solve_by_factors
from tinyjax.primitives.matrices import (
    OfMatrices,
    adjoint,
    as_columns,
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
class Pinv(OfMatrices):
    """The pseudoinverse of matrices, by singular values, of which those are taken for zero that are at most the second
    operand times the largest one. `hermitian`: the matrices are, so that eigenvalues serve."""

    hermitian: bool = False
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
        aval = ctx.aval(a)
        if self.hermitian:
            u, s = ctx.bind(Eigh(), symmetrized(ctx, a))
            v = u
        else:
            s, u, vt = ctx.bind(Svd(False), a)
            v = adjoint(ctx, vt)
        axis, sizes = aval.ndim - 2, abs_(ctx, s)
        if 0 in aval.shape[-2:]:
            return [adjoint(ctx, a)]
        least = mul(ctx, rtol, reduce_max(ctx, sizes, (axis,)))
        least = broadcast_in_dim(ctx, least, ctx.aval(s).shape, tuple(range(axis)))
        large = constant_like(ctx, s, float("inf"))
        divisors = (
            select(ctx, le(ctx, sizes, least), large, s)
            if self.hermitian
            else select(ctx, gt(ctx, sizes, least), s, large)
        )
        uh = adjoint(ctx, u)
        scaled = div(ctx, uh, as_columns(ctx, convert(ctx, divisors, aval.dtype), ctx.aval(uh).shape))
        return [matmul(ctx, v, scaled)]

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """As Golub and Pereyra found it, where the rank stays the same."""
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
        total = sub(ctx, first, product(p, t, p))
        total = add(ctx, sub(ctx, total, product(first, a, p)), second)
        return [p], [sub(ctx, total, product(p, a, second))]


# The vocabulary.

solve: Final = Solve()
