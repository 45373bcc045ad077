"""The lowering rules of eigenvalues and singular values: routines of LAPACK on CPUs, of cuSOLVER on GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.errors import LoweringError
from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.callbacks import on_host_of_gpu
from tinyjax.hlo.rules.elementwise import join_parts
from tinyjax.hlo.rules.library_calls import (
    calling,
    lapack_target,
    letter,
    library_call,
    of_lapack,
    status_type,
    truth,
    unless_failed,
)
from tinyjax.hlo.tables import CPU_RULES, GPU_RULES
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.matrices import adjoint, eye_like
from tinyjax.primitives.slicing import slice_in_dim
from tinyjax.primitives.spectral import (
    Eig,
    Eigh,
    EighImplementation,
    EigImplementation,
    Hessenberg,
    Schur,
    Svd,
    SvdAlgorithm,
    Tridiagonal,
)
from tinyjax.primitives.structure import full


def _syevd(primitive: Primitive, x: SSA) -> tuple[str, dict[str, str]]:
    assert isinstance(primitive, Eigh)
    if primitive.algorithm not in (None, EighImplementation.QR):
        raise LoweringError(f"eigh: {primitive.algorithm.name} is not for CPUs. Leave out the algorithm.")
    uplo = letter("L" if primitive.lower else "U")
    return lapack_target("syevd", x.aval.dtype), {"mode": letter("V"), "uplo": uplo}


def _syevd_on_gpu(primitive: Primitive, x: SSA) -> tuple[str, dict[str, str]]:
    assert isinstance(primitive, Eigh)
    if primitive.algorithm is EighImplementation.QDWH:
        raise LoweringError("eigh: QDWH is not for GPUs. Leave out the algorithm.")
    number = {None: 0, EighImplementation.QR: 1, EighImplementation.JACOBI: 2}[primitive.algorithm]
    return "cusolver_syevd_ffi", {"lower": truth(primitive.lower), "algorithm": f"{number} : ui8"}


CPU_RULES[Eigh] = calling(_syevd)
GPU_RULES[Eigh] = calling(_syevd_on_gpu)


@CPU_RULES.register(Eig)
def _eig(primitive: Eig, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    if primitive.implementation not in (None, EigImplementation.LAPACK):
        raise LoweringError(f"eig: {primitive.implementation.name} is not for CPUs. Leave out the implementation.")
    (x,), values = args, types[0]
    left, right = primitive.compute_left_eigenvectors, primitive.compute_right_eigenvectors
    whole, parts = array_type(x.aval.shape, values.dtype), array_type(values.shape, x.aval.dtype)
    own = [values] if x.aval.dtype in COMPLEXES else [parts, parts]
    attributes = {f"compute_{side}": letter("V" if on else "N") for side, on in (("left", left), ("right", right))}
    made = [*own, whole, whole, status_type(x.aval)]
    *found, of_left, of_right, status = library_call(ctx, lapack_target("geev", x.aval.dtype), args, made, attributes)
    first = found[0] if len(found) == 1 else join_parts(ctx, found[0], found[1], values)
    return unless_failed(ctx, status, [first, *([of_left] * left), *([of_right] * right)])


@CPU_RULES.register(Schur)
def _schur(primitive: Schur, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), status = args, status_type(args[0].aval)
    values = array_type(x.aval.shape[:-1], x.aval.dtype)
    own = [values] if x.aval.dtype in COMPLEXES else [values, values]
    attributes = {"mode": letter("V" if primitive.compute_schur_vectors else "N"), "sort": letter("N")}
    made = [types[0], types[0], *own, status, status]
    found = library_call(ctx, lapack_target("gees", x.aval.dtype), args, made, attributes, [(0, 0)])
    return unless_failed(ctx, found[-1], found[: len(types)])


@CPU_RULES.register(Hessenberg)
def _hessenberg(
    primitive: Hessenberg, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    limits = {"low": "1 : i32", "high": f"{args[0].aval.shape[-1]} : i32"}
    return calling(of_lapack("gehrd", **limits))(primitive, ctx, args, types)


for _cls in (Eig, Schur, Hessenberg):
    GPU_RULES[_cls] = on_host_of_gpu


def _sytrd(primitive: Primitive, x: SSA) -> tuple[str, dict[str, str]]:
    assert isinstance(primitive, Tridiagonal)
    return lapack_target("sytrd", x.aval.dtype), {"uplo": letter("L" if primitive.lower else "U")}


def _sytrd_on_gpu(primitive: Primitive, x: SSA) -> tuple[str, dict[str, str]]:
    assert isinstance(primitive, Tridiagonal)
    return "cusolver_sytrd_ffi", {"lower": truth(primitive.lower)}


CPU_RULES[Tridiagonal] = calling(_sytrd)
GPU_RULES[Tridiagonal] = calling(_sytrd_on_gpu)


# Singular values.


def _without_elements(ctx: LoweringContext, types: Sequence[ShapedArray]) -> Sequence[SSA]:
    """No singular values, and identities."""
    zeros = [full(ctx, aval, 0) for aval in types]
    return [zeros[0], *(eye_like(ctx, zero) for zero in zeros[1:])]


@CPU_RULES.register(Svd)
def _svd(primitive: Svd, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), s = args, types[0]
    *batch, m, n = x.aval.shape
    if 0 in (m, n):
        return _without_elements(ctx, types)
    if primitive.algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
        raise LoweringError(f"svd: {primitive.algorithm.name} is not for CPUs. Leave out the algorithm.")
    routine = "gesvd" if primitive.algorithm is SvdAlgorithm.QR else "gesdd"
    rows, columns = (m, n) if primitive.full_matrices else (min(m, n), min(m, n))
    sides = [array_type((*batch, m, rows), x.aval.dtype), array_type((*batch, columns, n), x.aval.dtype)]
    mode = letter(("A" if primitive.full_matrices else "S") if primitive.compute_uv else "N")
    made = [x.aval, s, *sides, status_type(x.aval)]
    found = library_call(ctx, lapack_target(routine, x.aval.dtype), args, made, {"mode": mode}, [(0, 0)])
    return unless_failed(ctx, found[-1], found[1:-1] if primitive.compute_uv else found[1:2])


#: The largest size for which cuSOLVER's Jacobi method is JAX's choice, and that up to which it has one for batches,
#: which computes square factors always.
_JACOBI: Final = 1024
_BATCHED: Final = 32


@GPU_RULES.register(Svd)
def _svd_on_gpu(
    primitive: Svd, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,) = args
    m, n = x.aval.shape[-2:]
    if 0 in (m, n):
        return _without_elements(ctx, types)
    if primitive.algorithm is SvdAlgorithm.DIVIDE_AND_CONQUER:
        raise LoweringError("svd: DIVIDE_AND_CONQUER is not for GPUs. Leave out the algorithm.")
    by_default = primitive.algorithm in (None, SvdAlgorithm.DEFAULT)
    if primitive.algorithm is SvdAlgorithm.POLAR:
        return _by_vectors("cusolver_gesvdp_ffi", primitive, ctx, x, types, not primitive.full_matrices)
    if primitive.algorithm is SvdAlgorithm.JACOBI or (by_default and max(m, n) <= _JACOBI):
        econ = not primitive.full_matrices and min(m, n) > _BATCHED
        return _by_vectors("cusolver_gesvdj_ffi", primitive, ctx, x, types, econ)
    return _gesvd_on_gpu(primitive, ctx, x, types)


def _by_vectors(
    target: str, primitive: Svd, ctx: LoweringContext, x: SSA, types: Sequence[ShapedArray], econ: bool
) -> Sequence[SSA]:
    """By routines that give V, not Vᴴ, and compute both factors whatever is asked for."""
    *batch, m, n = x.aval.shape
    count, dtype = min(m, n), x.aval.dtype
    sides = [array_type((*batch, size, count if econ else size), dtype) for size in (m, n)]
    attributes = {"full_matrices": truth(not econ), "compute_uv": truth(primitive.compute_uv)}
    made = [x.aval, types[0], *sides, status_type(x.aval)]
    _, s, u, v, status = library_call(ctx, target, [x], made, attributes, [(0, 0)])
    if not primitive.compute_uv:
        return unless_failed(ctx, status, [s])
    if not primitive.full_matrices and not econ:
        axis = x.aval.ndim - 1
        u, v = (slice_in_dim(ctx, side, 0, count, 1, axis) for side in (u, v))
    return unless_failed(ctx, status, [s, u, adjoint(ctx, v)])


def _gesvd_on_gpu(primitive: Svd, ctx: LoweringContext, x: SSA, types: Sequence[ShapedArray]) -> Sequence[SSA]:
    """A routine for matrices with at least as many rows as columns: others are read row by row, as their transposes."""
    m, n = x.aval.shape[-2:]
    flipped = m < n
    sides = list(types[1:]) if primitive.compute_uv else [array_type((), x.aval.dtype)] * 2
    attributes = {
        "full_matrices": truth(primitive.full_matrices),
        "compute_uv": truth(primitive.compute_uv),
        "transposed": truth(flipped),
    }
    made = [x.aval, types[0], *(sides[::-1] if flipped else sides), status_type(x.aval)]
    _, s, *found, status = library_call(ctx, "cusolver_gesvd_ffi", [x], made, attributes, [(0, 0)], not flipped)
    found = found[::-1] if flipped else found
    return unless_failed(ctx, status, [s, *found] if primitive.compute_uv else [s])
