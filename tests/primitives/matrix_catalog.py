"""Named examples of linear algebra, with matrices that it is well defined for, and what they are in jax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from attrs import frozen
from jax.lax import linalg

from tests.primitives.array_catalog import Case, Reference, case
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, INEXACT, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.determinants import Det, Slogdet
from tinyjax.primitives.factorizations import (
    Geqrf,
    HouseholderProduct,
    Lu,
    LuPivotsToPermutation,
    Ormqr,
    Qr,
)
from tinyjax.primitives.solutions import Pinv, Solve, Stein
from tinyjax.primitives.spectral import Eig, Eigh, Hessenberg, Schur, Svd, SvdAlgorithm, Tridiagonal
from tinyjax.primitives.triangular import Cholesky, CholeskyUpdate, SymmetricProduct, TriangularSolve
from tinyjax.primitives.tridiagonal import TridiagonalSolve

Maker: TypeAlias = Callable[[Sequence[ShapedArray], np.random.Generator], list[HostArray]]


@final
@frozen
class Example:
    """A case, what makes operands for it, and of which order its derivatives are to be compared."""

    case: Case
    make: Maker
    order: int

    @property
    def name(self) -> str:
        return self.case.name


def random(aval: ShapedArray, rng: np.random.Generator) -> HostArray:
    x = rng.normal(size=aval.shape)
    x = x + 1j * rng.normal(size=aval.shape) if aval.dtype in COMPLEXES else x
    return np.asarray(x).astype(aval.dtype) if aval.dtype in INEXACT else np.zeros(aval.shape, aval.dtype)


def general(avals: Sequence[ShapedArray], rng: np.random.Generator) -> list[HostArray]:
    return [random(aval, rng) for aval in avals]


def definite(avals: Sequence[ShapedArray], rng: np.random.Generator) -> list[HostArray]:
    """The first is positive definite, with eigenvalues that differ."""
    x, *others = general(avals, rng)
    n = x.shape[-1]
    x = x @ np.conj(np.swapaxes(x, -1, -2)) + np.diag(np.arange(1.0, n + 1))
    return [np.asarray(x).astype(avals[0].dtype), *others]


def dominant(avals: Sequence[ShapedArray], rng: np.random.Generator) -> list[HostArray]:
    """The first has a large diagonal."""
    x, *others = general(avals, rng)
    return [np.asarray(x + 4 * np.eye(*x.shape[-2:])).astype(avals[0].dtype), *others]


def diagonals(avals: Sequence[ShapedArray], rng: np.random.Generator) -> list[HostArray]:
    below, on, above, b = general(avals, rng)
    return [below, np.asarray(on + 5).astype(on.dtype), above, b]


def factor(avals: Sequence[ShapedArray], rng: np.random.Generator) -> list[HostArray]:
    """The first is upper triangular, with a positive diagonal."""
    x, *others = dominant(avals, rng)
    return [np.triu(x), *others]


def pivots(avals: Sequence[ShapedArray], rng: np.random.Generator) -> list[HostArray]:
    shape = avals[0].shape
    return [np.asarray(np.arange(shape[-1]) + rng.integers(0, 3, shape)).astype(np.int32)]


def reflections(avals: Sequence[ShapedArray], rng: np.random.Generator) -> list[HostArray]:
    x, _, *others = general(avals, rng)
    k = avals[1].shape[-1]
    a, taus = (np.asarray(out) for out in Geqrf().evaluate(x))
    return [a, taus[..., :k], *others]


def _raw(x: jax.Array) -> list[jax.Array]:
    flipped, taus = jnp.linalg.qr(x, mode="raw")
    return [flipped.mT, taus]


def _triangular() -> list[Example]:
    def solve(name: str, types: str, left: bool, **how: bool) -> Example:
        def reference(a: jax.Array, b: jax.Array) -> jax.Array:
            return linalg.triangular_solve(a, b, left_side=left, **how)

        return Example(case(name, TriangularSolve(left, **how), types, reference, (1,)), dominant, 2)

    def one(name: str, primitive: Primitive, types: str, reference: Reference, make: Maker, order: int) -> Example:
        return Example(case(name, primitive, types, reference), make, order)

    return [
        one("real", Cholesky(), "float64[3,3]", _cholesky, definite, 2),
        one("complex", Cholesky(), "complex128[2,3,3]", _cholesky, definite, 2),
        one("weak", Cholesky(), "~float64[2,2]", _cholesky, definite, 0),
        one("empty", Cholesky(), "float32[0,0]", _cholesky, definite, 0),
        solve("left", "float64[3,3] float64[3,2]", True, lower=True),
        solve("right", "float64[3,3] float64[2,3]", False),
        solve("transposed", "complex128[2,3,3] complex128[2,3,4]", True, transpose_a=True),
        solve("adjoint", "complex128[3,3] complex128[4,3]", False, lower=True, transpose_a=True, conjugate_a=True),
        solve("conjugate", "complex64[3,3] complex64[3,1]", True, conjugate_a=True, unit_diagonal=True),
        solve("empty", "float32[0,0] float32[0,2]", True),
        # Of numbers in float16 some are zero, and what kernels make of a zero on the diagonal differs: nan or inf.
        solve("half", "float16[3,3] float16[3,2]", True, lower=True, unit_diagonal=True),
        solve("brain", "bfloat16[2,3,3] bfloat16[2,2,3]", False, transpose_a=True),
        one("real", CholeskyUpdate(), "float64[3,3] float64[3]", linalg.cholesky_update, factor, 0),
        one("float32", CholeskyUpdate(), "float32[2,2] float32[2]", linalg.cholesky_update, factor, 0),
        one(
            "both", SymmetricProduct(2.0, 3.0), "float64[2,3,2] float64[2,3,3]",
            lambda a, c: linalg.symmetric_product(a, c, alpha=2.0, beta=3.0), general, 0,
        ),
        one(
            "real", TridiagonalSolve(), "float64[4] float64[4] float64[4] float64[4,2]",
            linalg.tridiagonal_solve, diagonals, 2,
        ),
        one(
            "perturbed", TridiagonalSolve(True), "float64[2] float64[2] float64[2] float64[2,1]",
            functools.partial(linalg.tridiagonal_solve, perturb_singular=True), diagonals, 1,
        ),
        one(
            "complex", TridiagonalSolve(),
            "complex128[2,3] complex128[2,3] complex128[2,3] complex128[2,3,1]", linalg.tridiagonal_solve, diagonals, 1,
        ),
    ]  # fmt: skip


def _cholesky(x: jax.Array) -> jax.Array:
    return linalg.cholesky(jnp.asarray(x), symmetrize_input=False)


def _factorizations() -> list[Example]:
    def lu(types: str, order: int = 0) -> Example:
        return Example(case("", Lu(), types, lambda x: list(linalg.lu(x))), general, order)

    def qr(types: str, order: int = 0, full: bool = True, pivoting: bool = False) -> Example:
        def reference(x: jax.Array) -> Sequence[jax.Array]:
            return list(linalg.qr(x, full_matrices=full, pivoting=pivoting))

        return Example(case("", Qr(pivoting, full), types, reference), general, order)

    return [
        lu("float64[3,3]", 2),
        lu("float64[2,4,3]", 1),
        lu("complex128[2,4]", 2),
        lu("float32[3,0]"),
        lu("complex64[0,2]"),
        Example(case("", LuPivotsToPermutation(6), "int32[2,3]",
                     lambda x: linalg.lu_pivots_to_permutation(x, 6)), pivots, 0),
        qr("float64[3,3]", 2),
        qr("float64[4,2]", 2, full=False),
        qr("float64[4,2]", 1),
        qr("complex128[3,2]", 2, full=False),
        qr("complex128[2,2,3]", 1),
        qr("float64[3,3]", 2, pivoting=True),
        qr("float64[2,3]", 1, pivoting=True),
        qr("complex64[4,3]", pivoting=True, full=False),
        qr("float32[0,2]", pivoting=True),
        qr("float32[2,0]"),
        Example(case("", Geqrf(), "float64[2,3,2]", _raw), general, 0),
        Example(case("wide", Geqrf(), "complex64[2,3]", _raw), general, 0),
        Example(case("", HouseholderProduct(), "float64[2,4,3] float64[2,2]", linalg.householder_product),
                reflections, 0),
        Example(case("", HouseholderProduct(), "complex64[3,3] complex64[3]", linalg.householder_product),
                reflections, 0),
        Example(case("left", Ormqr(True, True), "complex64[3,2] complex64[2] complex64[3,4]",
                     lambda a, t, c: linalg.ormqr(a, t, c, transpose=True)), reflections, 0),
        Example(case("right", Ormqr(False), "float64[2,3,2] float64[2,2] float64[2,4,3]",
                     lambda a, t, c: linalg.ormqr(a, t, c, left=False)), reflections, 0),
    ]  # fmt: skip


def _spectral() -> list[Example]:
    def eigh(types: str, order: int, lower: bool = True) -> Example:
        def reference(x: jax.Array) -> Sequence[jax.Array]:
            return list(linalg.eigh(x, lower=lower, symmetrize_input=False))

        return Example(case("", Eigh(lower), types, reference), definite, order)

    def svd(types: str, order: int = 0, full: bool = False, uv: bool = True) -> Example:
        def reference(x: jax.Array) -> Sequence[jax.Array]:
            found = linalg.svd(x, full_matrices=full, compute_uv=uv)
            return [found[1], found[0], found[2]] if isinstance(found, tuple) else [found]

        return Example(case("", Svd(full, uv), types, reference), general, order)

    def eig(types: str, order: int, left: bool, right: bool) -> Example:
        def reference(x: jax.Array) -> Sequence[jax.Array]:
            return linalg.eig(x, compute_left_eigenvectors=left, compute_right_eigenvectors=right,
                              enable_eigvec_derivs=True)  # fmt: skip

        return Example(case("", Eig(left, right, True), types, reference), general, order)

    def svd_by_qr(x: jax.Array) -> Sequence[jax.Array]:
        u, s, v = linalg.svd(x, full_matrices=True, compute_uv=True, algorithm=linalg.SvdAlgorithm.QR)
        return [s, u, v]

    by_qr = Svd(algorithm=SvdAlgorithm.QR)
    return [
        eigh("float64[3,3]", 2),
        eigh("complex128[2,3,3]", 2, lower=False),
        eigh("float32[0,0]", 0),
        svd("float64[3,3]", 2, full=True),
        svd("float64[2,4,2]", 1),
        svd("complex128[2,3]", 1),
        svd("float64[2,3]", 2, full=True, uv=False),
        svd("complex64[4,2]", full=True),
        svd("float32[0,2]"),
        svd("float64[2,0]", full=True),
        Example(case("by-qr", by_qr, "float64[3,2]", svd_by_qr), general, 0),
        eig("float64[3,3]", 1, True, True),
        eig("complex128[2,3,3]", 1, False, True),
        eig("float64[2,2]", 1, False, False),
        eig("float32[0,0]", 0, True, False),
        Example(case("", Schur(), "float64[2,3,3]", lambda x: list(linalg.schur(x))), general, 0),
        Example(case("alone", Schur(False), "complex64[3,3]",
                     lambda x: list(linalg.schur(x, compute_schur_vectors=False))), general, 0),
        Example(case("", Hessenberg(), "complex128[2,4,4]", lambda x: list(linalg.hessenberg(x))), general, 0),
        Example(case("", Hessenberg(), "float32[1,1]", lambda x: list(linalg.hessenberg(x))), general, 0),
        Example(case("", Tridiagonal(), "complex64[2,3,3]", lambda x: list(linalg.tridiagonal(x))), definite, 0),
        Example(case("upper", Tridiagonal(False), "float64[4,4]",
                     lambda x: list(linalg.tridiagonal(x, lower=False))), definite, 0),
    ]  # fmt: skip


def _solutions() -> list[Example]:
    def one(primitive: Primitive, types: str, reference: Reference, order: int) -> Example:
        return Example(case("", primitive, types, reference), general, order)

    def pinv(x: jax.Array, rtol: jax.Array) -> jax.Array:
        return jnp.linalg.pinv(x, rtol=jax.lax.stop_gradient(rtol))

    return [
        one(Solve(), "float64[3,3] float64[3,2]", jnp.linalg.solve, 1),
        one(Solve(), "complex128[2,3,3] complex128[2,3,1]", jnp.linalg.solve, 1),
        one(Det(), "float64[2,3,3]", jnp.linalg.det, 2),
        one(Det(), "complex64[0,0]", jnp.linalg.det, 0),
        one(Slogdet(), "float64[3,3]", lambda x: list(jnp.linalg.slogdet(x)), 2),
        one(Slogdet(), "complex128[2,2,2]", lambda x: list(jnp.linalg.slogdet(x)), 1),
        one(Pinv(), "float64[2,3] float64[]", pinv, 0),
        one(Pinv(), "complex128[2,3,2] float64[2]", pinv, 0),
        one(
            Stein(),
            "complex64[2,3] complex64[2,3] complex64[3,2] complex64[2,2] complex64[2,2] complex64[3,2]",
            lambda left, right, v, w, u, r: r + v @ (w * (v.conj().T @ r @ u)) @ u.conj().T,
            0,
        ),
    ]


EXAMPLES: tuple[Example, ...] = (*_solutions(), *_triangular(), *_factorizations(), *_spectral())
