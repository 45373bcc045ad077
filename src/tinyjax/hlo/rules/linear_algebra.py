"""The lowering rules of equations and factors: routines of LAPACK on CPUs, of cuSOLVER on GPUs where it has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from attrs import evolve

from tinyjax.hlo.context import SSA, LoweringContext, Rule
from tinyjax.hlo.rules.callbacks import on_host_of_gpu
from tinyjax.hlo.rules.library_calls import (
    Routine,
    calling,
    lapack_target,
    letter,
    library_call,
    of_cuda,
    of_lapack,
    status_type,
    truth,
    unless_failed,
)
from tinyjax.hlo.rules.loops import repeat
from tinyjax.hlo.tables import CPU_RULES, GPU_RULES, RULES
from tinyjax.hlo.text import type_text, types_text
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOAT32, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.comparison import eq, lt
from tinyjax.primitives.complex import conj
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.dynamic import dynamic_slice
from tinyjax.primitives.elementwise import add, sub
from tinyjax.primitives.factorizations import (
    Geqp3,
    Geqrf,
    HouseholderProduct,
    Lu,
    LuPivotsToPermutation,
    Ormqr,
)
from tinyjax.primitives.matrices import MATRICES, tril
from tinyjax.primitives.selection import clamp, select
from tinyjax.primitives.shaping import iota
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, reduce_sum
from tinyjax.primitives.triangular import Cholesky, CholeskyUpdate, TriangularSolve
from tinyjax.primitives.tridiagonal import TridiagonalSolve

P = TypeVar("P", bound=Primitive)
RuleFor: TypeAlias = Callable[[P, LoweringContext, Sequence[SSA], Sequence[ShapedArray]], Sequence[SSA]]

# Cholesky, and triangular equations.


@RULES.register(Cholesky)
def _cholesky(
    primitive: Cholesky, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (x,), (out,) = args, types
    return (tril(ctx, ctx.emit(f"stablehlo.cholesky {x.name}, lower = true : {type_text(out)}", out)),)


def _lower(rule: Rule) -> Rule:
    """The routines leave what is above the diagonal as it was."""
    return lambda primitive, ctx, args, types: [tril(ctx, x) for x in rule(primitive, ctx, args, types)]


CPU_RULES[Cholesky] = _lower(calling(of_lapack("potrf", uplo=letter("L"))))
GPU_RULES[Cholesky] = _lower(calling(of_cuda("cusolver_potrf_ffi", lower=truth(True))))


def _in_float32(rule: RuleFor[P]) -> RuleFor[P]:
    """There are no routines for narrower floats, and XLA would round at every step."""

    def wide(primitive: P, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
        if types[0].dtype in MATRICES:
            return rule(primitive, ctx, args, types)
        own = [evolve(aval, dtype=FLOAT32) for aval in types]
        found = rule(primitive, ctx, [convert(ctx, x, FLOAT32) for x in args], own)
        return [convert(ctx, x, aval.dtype) for x, aval in zip(found, types, strict=True)]

    return wide


@RULES.register(TriangularSolve)
@_in_float32
def _triangular_solve(
    primitive: TriangularSolve, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    (a, b), (out,) = _conjugated(primitive, ctx, args), types
    transpose = ("ADJOINT" if primitive.conjugate_a else "TRANSPOSE") if primitive.transpose_a else "NO_TRANSPOSE"
    fields = {
        "left_side": truth(primitive.left_side),
        "lower": truth(primitive.lower),
        "transpose_a": f"#stablehlo<transpose {transpose}>",
        "unit_diagonal": truth(primitive.unit_diagonal),
    }
    written = ", ".join([f"{name} = {text}" for name, text in fields.items()])
    signature = f"{types_text([a.aval, b.aval])} -> {type_text(out)}"
    return (ctx.emit(f'"stablehlo.triangular_solve"({a.name}, {b.name}) <{{{written}}}> : {signature}', out),)


@CPU_RULES.register(TriangularSolve)
@_in_float32
def _trsm(
    primitive: TriangularSolve, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    args = _conjugated(primitive, ctx, args)
    attributes = {
        "side": letter("L" if primitive.left_side else "R"),
        "uplo": letter("L" if primitive.lower else "U"),
        "trans_x": letter(("C" if primitive.conjugate_a else "T") if primitive.transpose_a else "N"),
        "diag": letter("U" if primitive.unit_diagonal else "N"),
    }
    return library_call(ctx, lapack_target("trsm", args[0].aval.dtype), args, types, attributes, [(1, 0)])


def _conjugated(primitive: TriangularSolve, ctx: LoweringContext, args: Sequence[SSA]) -> Sequence[SSA]:
    """Only a transpose is conjugated by the routines."""
    a, b = args
    own = primitive.conjugate_a and not primitive.transpose_a and a.aval.dtype in COMPLEXES
    return (conj(ctx, a), b) if own else args


@GPU_RULES.register(CholeskyUpdate)
def _cholesky_update(
    primitive: CholeskyUpdate, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    if args[0].aval.ndim > 2:
        return primitive.expand(ctx, args)
    both = [arg.aval for arg in args]
    return library_call(ctx, "cu_cholesky_update_ffi", args, both, None, [(0, 0), (1, 1)], column_major=False)[:1]


# LU.


def _lu_by(find: Routine) -> Rule:
    def rule(
        primitive: Primitive, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
    ) -> Sequence[SSA]:
        target, attributes = find(primitive, args[0])
        whole, pivots, order = types
        factors, places, status = library_call(
            ctx, target, args, [whole, pivots, status_type(whole)], attributes, [(0, 0)]
        )
        (factors,) = unless_failed(ctx, status, [factors], "GE")
        places = sub(ctx, places, constant_like(ctx, places, 1))
        return [factors, places, *ctx.bind(LuPivotsToPermutation(order.shape[-1]), places)]

    return rule


CPU_RULES[Lu] = _lu_by(of_lapack("getrf"))
GPU_RULES[Lu] = _lu_by(of_cuda("cusolver_getrf_ffi"))


@RULES.register(LuPivotsToPermutation)
def _permutation(
    primitive: LuPivotsToPermutation, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """One exchange after the other, of each row with that which the pivots say."""
    (pivots,), (out,) = args, types
    shape, axis, count = out.shape, out.ndim - 1, pivots.aval.shape[-1]
    start = iota(ctx, INT32, shape, axis)
    if 0 in (*shape, count):
        return [start]

    def cond(inner: LoweringContext, now: Sequence[SSA]) -> Sequence[SSA]:
        return [lt(inner, now[0], inner.scalar(count, INT32))]

    def body(inner: LoweringContext, now: Sequence[SSA]) -> Sequence[SSA]:
        i, order = now
        places = iota(inner, INT32, shape, axis)

        def spread(x: SSA) -> SSA:
            return broadcast_in_dim(inner, x, shape, tuple(range(out.ndim)))

        def at(x: SSA) -> SSA:
            zeros = [inner.scalar(0, INT32)] * axis
            return spread(dynamic_slice(inner, x, (*shape[:-1], 1), *zeros, i))

        # Negative rows are counted from the end. A row outside is read from the nearest within, and nothing written.
        zero, most = inner.scalar(0, INT32), inner.scalar(shape[-1] - 1, INT32)
        row = at(pivots)
        row = select(inner, lt(inner, row, zero), add(inner, row, inner.scalar(shape[-1], INT32)), row)
        nearest = clamp(inner, zero, row, most)
        here, there, own = eq(inner, places, i), eq(inner, places, row), at(order)
        other = reduce_sum(inner, select(inner, eq(inner, places, nearest), order, zero), (axis,))
        other = broadcast_in_dim(inner, other, shape, tuple(range(axis)))
        return [add(inner, i, inner.scalar(1, INT32)), select(inner, there, own, select(inner, here, other, order))]

    return repeat(ctx, [ctx.scalar(0, INT32), start], cond, body)[1:]


@GPU_RULES.register(LuPivotsToPermutation)
def _permutation_on_gpu(
    primitive: LuPivotsToPermutation, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    return library_call(ctx, "cu_lu_pivots_to_permutation", args, types, column_major=False)


# QR.

CPU_RULES[Geqrf] = calling(of_lapack("geqrf"), checked=False)
GPU_RULES[Geqrf] = calling(of_cuda("cusolver_geqrf_ffi"), checked=False)
CPU_RULES[HouseholderProduct] = calling(of_lapack("orgqr"), checked=False)
GPU_RULES[HouseholderProduct] = calling(of_cuda("cusolver_orgqr_ffi"), checked=False)


@CPU_RULES.register(Geqp3)
def _geqp3(primitive: Geqp3, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    return library_call(ctx, lapack_target("geqp3", args[0].aval.dtype), args, types, None, [(0, 0), (1, 1)])


GPU_RULES[Geqp3] = on_host_of_gpu


def _sides(primitive: Primitive) -> dict[str, str]:
    assert isinstance(primitive, Ormqr)
    return {"left": truth(primitive.left), "transpose": truth(primitive.adjoint)}


CPU_RULES[Ormqr] = calling(lambda own, x: (lapack_target("ormqr", x.aval.dtype), _sides(own)), 2, checked=False)
GPU_RULES[Ormqr] = calling(lambda own, x: ("cusolver_ormqr_ffi", _sides(own)), 2, checked=False)


# Tridiagonal equations.


@CPU_RULES.register(TridiagonalSolve)
def _gtsv(
    primitive: TridiagonalSolve, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    b = args[-1].aval
    if primitive.perturb_singular:
        return library_call(ctx, "tridiagonal_solve_perturbed_ffi", args, types)
    made = [*(arg.aval for arg in args), status_type(b)]
    found = library_call(ctx, lapack_target("gtsv", b.dtype), args, made, None, [(i, i) for i in range(4)])
    return unless_failed(ctx, found[-1], found[-2:-1])


@GPU_RULES.register(TridiagonalSolve)
def _gtsv_on_gpu(
    primitive: TridiagonalSolve, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """cuSPARSE wants at least 3 equations."""
    if primitive.perturb_singular:
        return library_call(ctx, "cu_tridiagonal_solve_perturbed", args, types)
    if types[0].shape[-2] < 3:
        return on_host_of_gpu(primitive, ctx, args, types)
    return library_call(ctx, "cusparse_gtsv2_ffi", args, types, None, [(3, 0)])
