"""Eigenvalues and singular values, and the forms that lead to them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.errors import UnsupportedError
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, INT32, DType, HostArray, complex_dtype, real_dtype
from tinyjax.ir.primitive import Outputs, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives import lapack
from tinyjax.primitives.arithmetic import abs_, div, reciprocal
from tinyjax.primitives.comparison import eq
from tinyjax.primitives.complex import complex_, conj, imag, real
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, mul, neg, scale, sub
from tinyjax.primitives.factorizations import solve_general
from tinyjax.primitives.matrices import (
    OfMatrices,
    adjoint,
    as_columns,
    as_rows,
    conjugated,
    diagonal_of,
    eye_like,
    matmul,
    refuse_subset,
    square_matrix,
    symmetrized,
)
from tinyjax.primitives.reductions import argmax
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import iota
from tinyjax.primitives.structure import constant_like, reduce_sum, shape_error

V = TypeVar("V")


class EighImplementation(enum.Enum):
    """How `eigh` computes: QR on CPUs and GPUs, JACOBI on GPUs only; QDWH is for TPUs."""

    QR = "QR"
    JACOBI = "Jacobi"
    QDWH = "QDWH"


class EigImplementation(enum.Enum):
    """How `eig` computes: by LAPACK on CPUs, by one of the others on GPUs."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class SvdAlgorithm(enum.Enum):
    """How `svd` computes: by QR, or divided and conquered, on CPUs; JACOBI, POLAR and QR on GPUs."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


@final
@frozen
class Eigh(OfMatrices):
    """The eigenvectors, as columns, and eigenvalues in ascending order of symmetric or Hermitian matrices, of which one
    triangle is read. Tangents are taken to be Hermitian."""

    lower: bool = True
    sort_eigenvalues: bool = True
    subset_by_index: tuple[int, int] | None = None
    algorithm: EighImplementation | None = None
    name: ClassVar[str] = "eigh"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        n = square_matrix(self.name, shapes[0])
        refuse_subset(self.name, self.subset_by_index, n)
        return (n, n), (n,)

    @override
    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        return dtype, real_dtype(dtype)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return lapack.eigh(args[0], self.lower)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """Perturbation theory, for eigenvalues that differ."""
        (x,), (t,) = primals, tangents
        vectors, values = outs = ctx.bind(self, symmetrized(ctx, x))
        if isinstance(t, Zero):
            return outs, zero_tangents(ctx, outs)
        dtype = ctx.aval(x).dtype
        inner = matmul(ctx, matmul(ctx, adjoint(ctx, vectors), t), vectors)
        factors = _inverse_gaps(ctx, convert(ctx, values, dtype), inner)
        diagonal = diagonal_of(ctx, real(ctx, inner) if dtype in COMPLEXES else inner)
        return outs, [matmul(ctx, vectors, mul(ctx, factors, inner)), diagonal]


def _inverse_gaps(ctx: Context[V], values: V, like: V) -> V:
    """1 / (w[j] - w[i]) in row i and column j, and 0 on the diagonal."""
    shape = ctx.aval(like).shape
    eye = eye_like(ctx, like)
    gaps = sub(ctx, as_rows(ctx, values, shape), as_columns(ctx, values, shape))
    return sub(ctx, reciprocal(ctx, add(ctx, eye, gaps)), eye)


@final
@frozen
class Svd(OfMatrices):
    """The singular values in descending order, and the factors of A = U diag(s) Vᴴ if `compute_uv`.

    Both are square if `full_matrices`; else they have as many columns and rows as there are values.
    """

    full_matrices: bool = True
    compute_uv: bool = True
    subset_by_index: tuple[int, int] | None = None
    algorithm: SvdAlgorithm | None = None
    name: ClassVar[str] = "svd"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        ((m, n),) = shapes
        count = min(m, n)
        refuse_subset(self.name, self.subset_by_index, count)
        left, right = (m, n) if self.full_matrices else (count, count)
        return ((count,), (m, left), (right, n)) if self.compute_uv else ((count,),)

    @override
    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        return (real_dtype(dtype), dtype, dtype)[:count]

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        (a,) = args
        if not a.size:
            return tuple(np.eye(*shape) if len(shape) == 2 else np.zeros(shape) for shape in self.own_shapes(a.shape))
        by = "gesvd" if self.algorithm is SvdAlgorithm.QR else "gesdd"
        return lapack.svd(a, self.compute_uv, self.full_matrices, by)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        m, n = ctx.aval(x).shape[-2:]
        if self.compute_uv and self.full_matrices and m != n:
            raise UnsupportedError(
                "svd: the derivative of square factors of a matrix that isn't square is not implemented: write "
                "full_matrices=False"
            )
        s, u, vt = outs = ctx.bind(evolve(self, full_matrices=False, compute_uv=True), x)
        if isinstance(t, Zero):
            return outs, zero_tangents(ctx, outs)
        uh, v = adjoint(ctx, u), adjoint(ctx, vt)
        inner = matmul(ctx, matmul(ctx, uh, t), v)
        dtype, shape = ctx.aval(x).dtype, ctx.aval(inner).shape
        ts = diagonal_of(ctx, real(ctx, inner) if dtype in COMPLEXES else inner)
        if not self.compute_uv:
            return [s], [ts]
        columns, rows = as_columns(ctx, s, shape), as_rows(ctx, s, shape)
        eye = eye_like(ctx, columns)
        gaps = mul(ctx, add(ctx, rows, columns), sub(ctx, rows, columns))
        factors = convert(ctx, sub(ctx, reciprocal(ctx, add(ctx, gaps, eye)), eye), dtype)
        columns, rows = convert(ctx, columns, dtype), convert(ctx, rows, dtype)
        zero = convert(ctx, eq(ctx, s, constant_like(ctx, s, 0)), ctx.aval(s).dtype)
        inverse = as_columns(ctx, sub(ctx, reciprocal(ctx, add(ctx, s, zero)), zero), shape)
        diagonal = mul(ctx, eye_like(ctx, inner), convert(ctx, inverse, dtype))
        skew = mul(ctx, scale(ctx, sub(ctx, inner, adjoint(ctx, inner)), 0.5), diagonal)
        by_rows, by_columns = mul(ctx, rows, inner), mul(ctx, columns, inner)
        of_u = mul(ctx, factors, add(ctx, by_rows, adjoint(ctx, by_rows)))
        of_v = mul(ctx, factors, add(ctx, by_columns, adjoint(ctx, by_columns)))
        tu = matmul(ctx, u, add(ctx, of_u, skew))
        tv = matmul(ctx, v, of_v)
        if m > n:
            tu = add(ctx, tu, _outside(ctx, matmul(ctx, t, v), u, s))
        if n > m:
            tv = add(ctx, tv, _outside(ctx, matmul(ctx, adjoint(ctx, t), u), v, s))
        return outs, [ts, tu, adjoint(ctx, tv)]


def _outside(ctx: Context[V], moved: V, basis: V, s: V) -> V:
    """What of these columns isn't in the space of the basis, divided by the singular values."""
    inside = matmul(ctx, basis, matmul(ctx, adjoint(ctx, basis), moved))
    aval = ctx.aval(moved)
    return div(ctx, sub(ctx, moved, inside), convert(ctx, as_rows(ctx, s, aval.shape), aval.dtype))


@final
@frozen
class Eig(OfMatrices):
    """The eigenvalues of square matrices, and their left and right eigenvectors as columns: all are complex.

    Vectors have length 1, and their largest element is real. Derivatives of them hold only as long as that is how they
    are chosen, and so are computed only if `enable_eigvec_derivs`.
    """

    compute_left_eigenvectors: bool = True
    compute_right_eigenvectors: bool = True
    enable_eigvec_derivs: bool = False
    implementation: EigImplementation | None = None
    name: ClassVar[str] = "eig"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        n = square_matrix(self.name, shapes[0])
        return (n,), *([(n, n)] * (self.compute_left_eigenvectors + self.compute_right_eigenvectors))

    @override
    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        return (dtype if dtype in COMPLEXES else complex_dtype(dtype),) * count

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return lapack.eig(args[0], self.compute_left_eigenvectors, self.compute_right_eigenvectors)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        left, right = self.compute_left_eigenvectors, self.compute_right_eigenvectors
        if isinstance(t, Zero):
            outs = ctx.bind(self, x)
            return outs, zero_tangents(ctx, outs)
        if (left or right) and not self.enable_eigvec_derivs:
            raise UnsupportedError(
                "eig: derivatives of eigenvectors hold only for a choice of their phases that can't be checked: write "
                "lax.linalg.eig(x, enable_eigvec_derivs=True) to have them, or leave out the vectors"
            )
        values, *vectors = ctx.bind(evolve(self, compute_right_eigenvectors=True), x)
        t = convert(ctx, t, ctx.aval(values).dtype)
        v = vectors[-1]
        if not (left or right):
            inner = matmul(ctx, solve_general(ctx, v, t), v)
            return [values], [diagonal_of(ctx, inner)]
        moved, of_right = _perturbed(ctx, values, v, t)
        tangents = [moved]
        if left:
            tangents.append(_perturbed(ctx, conj(ctx, values), vectors[0], adjoint(ctx, t))[1])
        if right:
            tangents.append(of_right)
        return [values, *vectors[: left + right]], tangents


def _perturbed(ctx: Context[V], values: V, v: V, t: V) -> tuple[V, V]:
    """The tangents of eigenvalues and eigenvectors, which keep their lengths, and whose largest elements stay real."""
    shape, axis = ctx.aval(v).shape, ctx.aval(v).ndim - 2
    inner = matmul(ctx, solve_general(ctx, v, t), v)
    moved = matmul(ctx, v, mul(ctx, _inverse_gaps(ctx, values, inner), inner))
    largest = as_rows(ctx, argmax(ctx, abs_(ctx, v), axis, INT32), shape)
    chosen = eq(ctx, iota(ctx, INT32, shape, axis), largest)

    def largest_of(x: V) -> V:
        return reduce_sum(ctx, select(ctx, chosen, x, constant_like(ctx, x, 0)), (axis,))

    along = real(ctx, reduce_sum(ctx, mul(ctx, conjugated(ctx, v), moved), (axis,)))
    turned = div(ctx, imag(ctx, largest_of(moved)), real(ctx, largest_of(v)))
    shift = as_rows(ctx, complex_(ctx, neg(ctx, along), neg(ctx, turned)), shape)
    return diagonal_of(ctx, inner), add(ctx, moved, mul(ctx, v, shift))


@final
@frozen
class Schur(OfMatrices):
    """The Schur form T of square matrices, A = Q T Qᴴ, and Q if `compute_schur_vectors`: T is upper triangular, but for
    real matrices there may be blocks of size 2 on its diagonal."""

    compute_schur_vectors: bool = True
    sort_eig_vals: bool = False
    name: ClassVar[str] = "schur"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        n = square_matrix(self.name, shapes[0])
        if self.sort_eig_vals:
            raise UnsupportedError("schur: sort_eig_vals=True is not supported")
        return ((n, n),) * (1 + self.compute_schur_vectors)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return lapack.schur(args[0], self.compute_schur_vectors)


@final
@frozen
class Hessenberg(OfMatrices):
    """The Hessenberg form of square matrices, zero below the first subdiagonal, where the vectors of the reflections
    are that it comes from; then the factors of these, as `Geqrf` has them."""

    name: ClassVar[str] = "hessenberg"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        n = square_matrix(self.name, shapes[0])
        if n == 0:
            raise shape_error(self.name, "the matrix must have at least one row")
        return (n, n), (n - 1,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return lapack.hessenberg(*args)


@final
@frozen
class Tridiagonal(OfMatrices):
    """The tridiagonal form of symmetric or Hermitian matrices, of which one triangle is read: in the place of that the
    vectors of reflections, the diagonal, the one beside it, and the factors of the reflections."""

    lower: bool = True
    name: ClassVar[str] = "tridiagonal"

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        n = square_matrix(self.name, shapes[0])
        if n == 0:
            raise shape_error(self.name, "the matrix must have at least one row")
        return (n, n), (n,), (n - 1,), (n - 1,)

    @override
    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        return dtype, real_dtype(dtype), real_dtype(dtype), dtype

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return lapack.tridiagonal(args[0], self.lower)


# The vocabulary.

eigh: Final = Eigh()
