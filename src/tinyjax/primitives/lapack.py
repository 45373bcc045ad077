"""Decompositions of one matrix on the host, by the routines of LAPACK that compiled programs call too.

SciPy, imported when the first one is computed, has them. What a routine says that it couldn't compute is nan, and so is
what it isn't given because an element isn't finite, where it would say so or never return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from tinyjax.caching import bounded
from tinyjax.ir.dtypes import (
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    DType,
    HostArray,
    complex_dtype,
    real_dtype,
)
from tinyjax.ir.shapes import Shape

Found: TypeAlias = tuple[HostArray, ...]
#: Of other things, such as a number that says whether it could be computed.
Routine: TypeAlias = Callable[..., Sequence[HostArray]]

_LETTERS: Final = {FLOAT32: "s", FLOAT64: "d", COMPLEX64: "c", COMPLEX128: "z"}
#: Every routine has a form for real matrices and one for complex ones; some have another name there.
_OF_COMPLEX: Final = {
    "orgqr": "ungqr",
    "ormqr": "unmqr",
    "syevd": "heevd",
    "sytrd": "hetrd",
    "sytrd_lwork": "hetrd_lwork",
}


@bounded(256)
def routine(name: str, dtype: DType) -> Routine:
    """A routine by its name for real matrices, without the letter that says the dtype."""
    from scipy.linalg import blas, lapack

    own = _OF_COMPLEX.get(name, name) if dtype in COMPLEXES else name
    found: Routine = getattr(blas if own == "trsm" else lapack, f"{_LETTERS[dtype]}{own}")
    return found


def unless(failed: bool | np.bool_ | HostArray, *arrays: HostArray) -> Found:
    """The arrays, or as many that are nan."""
    if not failed:
        return arrays
    nan = complex(np.nan, np.nan)
    return tuple(np.full_like(x, nan if x.dtype in COMPLEXES else np.nan) for x in arrays)


@bounded(1024)
def _work(name: str, dtype: DType, *args: int, **more: bool) -> int:
    """How much room a routine says that it runs best with."""
    found = routine(f"{name}_lwork", dtype)(*args, **more)
    return int(np.real(found[0])) if isinstance(found, tuple) else int(np.real(found))


@bounded(1024)
def _work_by_shapes(name: str, dtype: DType, *args: str | Shape) -> int:
    """The same of a routine that has to be asked itself, with arrays."""
    found = routine(name, dtype)(*[arg if isinstance(arg, str) else np.empty(arg, dtype) for arg in args], lwork=-1)
    return int(np.real(found[1][0]))


def _finite(a: HostArray) -> bool:
    return bool(np.count_nonzero(np.isfinite(a)) == a.size)


def cholesky(a: HostArray) -> Found:
    c, info = routine("potrf", a.dtype)(a, lower=True, clean=True)
    return (c,) if info == 0 else (np.tril(unless(True, c)[0]),)


def triangular_solve(
    a: HostArray, b: HostArray, left_side: bool, lower: bool, transpose: int, unit_diagonal: bool
) -> Found:
    """`transpose` is 0 for a, 1 for its transpose, 2 for the conjugate of that."""
    solve = routine("trsm", a.dtype)
    return (np.asarray(solve(1.0, a, b, side=not left_side, lower=lower, trans_a=transpose, diag=unit_diagonal)),)


def lu(a: HostArray) -> Found:
    """The factors in one matrix, and the row that each has been exchanged with."""
    factors, pivots, info = routine("getrf", a.dtype)(a)
    return *unless(info < 0, factors), pivots


def solve_by_factors(factors: HostArray, pivots: HostArray, b: HostArray) -> HostArray:
    """As `getrs`, to the bit where that runs in one thread. With several right sides, `getrs` hands even a matrix of
    two rows to other threads, and waits for them, which takes milliseconds where all cores are busy; the routine for
    triangles does so for large ones only."""
    if b.shape[1] == 1:
        x, _ = routine("getrs", b.dtype)(factors, pivots, b)
        return np.asarray(x)
    solve = routine("trsm", b.dtype)
    half = solve(1.0, factors, b[_order(pivots, len(b))], lower=True, diag=True)
    return np.asarray(solve(1.0, factors, half, overwrite_b=True))


def _order(pivots: HostArray, size: int) -> list[int]:
    """Negative rows are counted from the end. A row outside is read from the nearest within, and nothing written."""
    order = list(range(size))
    for i, pivot in enumerate(pivots.tolist()):
        j = pivot + size if pivot < 0 else pivot
        own, order[i] = order[i], order[min(max(j, 0), size - 1)]
        if 0 <= j < size:
            order[j] = own
    return order


def permutation_of(pivots: HostArray, size: int) -> HostArray:
    """The order of rows that they have after exchanges."""
    return np.array(_order(pivots, size), np.int32)


def geqrf(a: HostArray) -> Found:
    r, taus, _, _ = routine("geqrf", a.dtype)(a, lwork=_work("geqrf", a.dtype, *a.shape))
    return r, taus


def geqp3(a: HostArray, jpvt: HostArray) -> Found:
    """The columns for which `jpvt` isn't 0 come first, and aren't exchanged among themselves."""
    first = np.flatnonzero(jpvt)
    if not first.size:
        r, order, taus, _, _ = routine("geqp3", a.dtype)(a)
        return r, order.astype(jpvt.dtype), taus
    order = np.concatenate([first, np.flatnonzero(jpvt == 0)])
    a, n, m = a[:, order], len(first), a.shape[0]
    r, taus = geqrf(a[:, :n])
    rest = ormqr(r, taus, a[:, n:], True, True)[0] if n < a.shape[1] else a[:, n:]
    if n >= min(a.shape):
        return np.hstack([r, rest]), (order + 1).astype(jpvt.dtype), taus
    below, then, more = geqp3(rest[n:], np.zeros(rest.shape[1], jpvt.dtype))
    right = np.vstack([rest[:n, then - 1], below]) if m > n else rest[:, then - 1]
    order = np.concatenate([order[:n], order[n:][then - 1]]) + 1
    return np.hstack([r, right]), order.astype(jpvt.dtype), np.concatenate([taus, more])


def householder_product(a: HostArray, taus: HostArray) -> Found:
    found, _, _ = routine("orgqr", a.dtype)(a, taus, lwork=_work_by_shapes("orgqr", a.dtype, a.shape, taus.shape))
    return (found,)


def ormqr(a: HostArray, taus: HostArray, c: HostArray, left: bool, transpose: bool) -> Found:
    side, trans = "L" if left else "R", "N" if not transpose else "C" if a.dtype in COMPLEXES else "T"
    work = _work_by_shapes("ormqr", a.dtype, side, trans, a.shape, taus.shape, c.shape)
    found, _, _ = routine("ormqr", a.dtype)(side, trans, a, taus, c, work)
    return (found,)


def eigh(a: HostArray, lower: bool) -> Found:
    """Vectors, and values in ascending order."""
    values, vectors, info = routine("syevd", a.dtype)(a, compute_v=1, lower=lower)
    return unless(info != 0, vectors, values)


def svd(a: HostArray, compute_uv: bool, full_matrices: bool, by: str = "gesdd") -> Found:
    work = _work(by, a.dtype, *a.shape, compute_uv=compute_uv, full_matrices=full_matrices)
    u, s, vt, info = routine(by, a.dtype)(a, compute_uv=compute_uv, full_matrices=full_matrices, lwork=work)
    failed = info != 0 or bool(np.isnan(a).any())
    return unless(failed, s, u, vt) if compute_uv else unless(failed, s)


def eig(a: HostArray, left: bool, right: bool) -> Found:
    """Values, and what is asked for of left and right vectors: all are complex."""
    n, dtype = a.shape[0], a.dtype if a.dtype in COMPLEXES else complex_dtype(a.dtype)
    if not _finite(a):
        shapes = [(n,), *([(n, n)] * (left + right))]
        return unless(True, *[np.empty(shape, dtype) for shape in shapes])
    *parts, vl, vr, info = routine("geev", a.dtype)(a, compute_vl=left, compute_vr=right)
    values = parts[0] if a.dtype in COMPLEXES else parts[0] + 1j * parts[1]
    vectors = [v for v, asked in ((vl, left), (vr, right)) if asked]
    if a.dtype not in COMPLEXES:
        vectors = [_pairs(v, np.flatnonzero(values.imag > 0)) for v in vectors]
    return unless(info != 0, values.astype(dtype), *[v.astype(dtype) for v in vectors])


def _pairs(v: HostArray, first: HostArray) -> HostArray:
    """Two columns stand for the real and the imaginary part of two vectors that are conjugates."""
    out = v + 0j
    out[:, first] = v[:, first] + 1j * v[:, first + 1]
    out[:, first + 1] = out[:, first].conj()
    return out


def schur(a: HostArray, vectors: bool) -> Found:
    t, *_, vs, _, info = routine("gees", a.dtype)(lambda *_: None, a, compute_v=vectors)
    return unless(info != 0, t, vs) if vectors else unless(info != 0, t)


def hessenberg(a: HostArray) -> Found:
    reduced, taus, info = routine("gehrd", a.dtype)(a, lwork=_work("gehrd", a.dtype, len(a)))
    return unless(info != 0, reduced, taus)


def tridiagonal(a: HostArray, lower: bool) -> Found:
    reduced, d, e, taus, info = routine("sytrd", a.dtype)(
        a, lower=lower, lwork=_work("sytrd", a.dtype, len(a), lower=lower)
    )
    return unless(info != 0, reduced, d.astype(real_dtype(a.dtype)), e.astype(real_dtype(a.dtype)), taus)


def tridiagonal_solve(dl: HostArray, d: HostArray, du: HostArray, b: HostArray) -> Found:
    """The first element of dl and the last one of du are outside of the matrix."""
    *_, x, info = routine("gtsv", b.dtype)(dl[1:], d, du[:-1], b)
    return unless(info != 0, x)


def tridiagonal_solve_perturbed(dl: HostArray, d: HostArray, du: HostArray, b: HostArray) -> Found:
    """The same, with pivots that are next to nothing made as large as rounding of the largest element of
    the triangular factor."""
    size, spare = len(d), max(0, 3 - len(d))  # SciPy wants at least 3 equations
    outer, right = np.pad([dl[1:], du[:-1]], ((0, 0), (0, spare))), np.pad(b, ((0, spare), (0, 0)))
    main = np.pad(d, (0, spare), constant_values=1)
    lower, pivots, upper, second, order, _ = routine("gttrf", b.dtype)(outer[0], main, outer[1])
    limits = np.finfo(real_dtype(b.dtype).name)
    elements = np.concatenate([pivots[:size], upper[: size - 1], second[: max(size - 2, 0)]])
    finite = limits.tiny * np.max(np.abs(b), initial=1)  # so that no quotient overflows
    least = max(limits.eps * np.max(np.abs(elements), initial=0), finite)
    sizes = np.abs(pivots)
    phases = np.where(sizes > 0, pivots, np.copysign(1, pivots.real)) / np.where(sizes > 0, sizes, 1)
    pivots = np.where(sizes < least, least * phases, pivots).astype(b.dtype)
    x, info = routine("gttrs", b.dtype)(lower, pivots, upper, second, order, right)
    return unless(info != 0, x[:size])
