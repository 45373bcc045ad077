"""Compares everything a primitive's class says with jax, through the contexts alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tests.primitives.array_catalog import Case
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import Partial, PartialEvalContext
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.transposition import transpose
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BFLOAT16, BOOL, COMPLEXES, FLOAT0, FLOAT16, INEXACT, DType, HostArray, real_dtype
from tinyjax.ir.primitive import BatchAxis, Primitive, UndefPrimal, Zero
from tinyjax.ir.value import ConcreteValue

V = TypeVar("V")
EVAL = EvalContext()
SIZE = 3  # of mapped axes


def sample(aval: ShapedArray, rng: np.random.Generator, spread: int = 4) -> HostArray:
    """Numbers with ties and zeros among them, exact in every dtype."""
    steps = rng.integers(-spread, spread + 1, aval.shape)
    dtype = aval.dtype
    if dtype == BOOL:
        return np.asarray(steps > 0)
    if dtype in COMPLEXES:
        return np.asarray((steps + 1j * rng.integers(-spread, spread + 1, aval.shape)) / 2).astype(dtype)
    if dtype in INEXACT:
        return np.asarray(steps / 2).astype(dtype)
    return np.asarray(steps).astype(dtype)


def samples(avals: Sequence[ShapedArray], rng: np.random.Generator) -> list[HostArray]:
    return [sample(aval, rng) for aval in avals]


def value(x: HostArray, aval: ShapedArray) -> ConcreteValue:
    return ConcreteValue(x, ShapedArray(x.shape, x.dtype, aval.weak_type))


def values(case: Case, args: Sequence[HostArray]) -> list[ConcreteValue]:
    return [value(x, aval) for x, aval in zip(args, case.avals, strict=True)]


def close(got: npt.ArrayLike, expected: npt.ArrayLike, dtype: DType) -> None:
    """Equal but for rounding in this dtype."""
    tolerance = {BFLOAT16: 2e-2, FLOAT16: 4e-3}.get(dtype, 0.0)
    if not tolerance and dtype in INEXACT:
        tolerance = 1e-10 if real_dtype(dtype).itemsize == 8 else 2e-5
    wide = np.complex128 if dtype in COMPLEXES else np.float64
    if dtype in INEXACT:
        left, right = np.asarray(got).astype(wide), np.asarray(expected).astype(wide)
        np.testing.assert_allclose(left, right, tolerance, tolerance)
    else:
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


def listed(out: jax.Array | Sequence[jax.Array]) -> list[jax.Array]:
    return list(out) if isinstance(out, Sequence) else [out]


def apply(case: Case, *args: npt.ArrayLike) -> list[jax.Array]:
    return listed(case.reference(*args))


def differentiable(case: Case) -> list[int]:
    return [i for i, aval in enumerate(case.avals) if aval.dtype in INEXACT]


def check_value(case: Case, args: Sequence[HostArray]) -> None:
    """Types, weak ones too, and values."""
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in case.avals]
    expected_types = jax.eval_shape(lambda *xs: apply(case, *xs), *structs)
    out_avals = case.primitive.type_of(*case.avals)
    assert [(a.shape, a.dtype, a.weak_type) for a in out_avals] == [
        (s.shape, s.dtype, s.weak_type) for s in expected_types
    ]
    with np.errstate(all="ignore"):
        outs = case.primitive.evaluate(*args)
    assert [(out.shape, out.dtype) for out in outs] == [(a.shape, a.dtype) for a in out_avals]
    for got, expected in zip(outs, apply(case, *args), strict=True):
        close(got, expected, got.dtype)
    for bound, got in zip(EVAL.bind(case.primitive, *values(case, args)), outs, strict=True):
        close(bound, got, got.dtype)


def check_batch(primitive: Primitive, avals: Sequence[ShapedArray], rng: np.random.Generator) -> None:
    """Every position of the mapped axis in each operand, or none, against a loop over the elements."""
    outs = primitive.type_of(*avals)
    for axes in itertools.product(*[[None, *range(aval.ndim + 1)] for aval in avals]):
        if all(at is None for at in axes):
            continue
        args, batched = [], []
        for aval, at in zip(avals, axes, strict=True):
            shape = aval.shape if at is None else (*aval.shape[:at], SIZE, *aval.shape[at:])
            args.append(sample(ShapedArray(shape, aval.dtype), rng))
            batched.append(Batched(value(args[-1], aval), at))
        ctx = BatchContext(EVAL, BatchAxis(SIZE))
        results = ctx.bind(primitive, *batched)
        assert [ctx.aval(result) for result in results] == list(outs)
        elements = [
            primitive.evaluate(*[x if at is None else np.take(x, i, at) for x, at in zip(args, axes, strict=True)])
            for i in range(SIZE)
        ]
        for i, result in enumerate(results):
            got, expected = np.asarray(result.value), np.stack([element[i] for element in elements])
            close(got if result.axis is None else np.moveaxis(got, result.axis, 0),
                  expected[0] if result.axis is None else expected, got.dtype)  # fmt: skip


def _tangent(case: Case, i: int, t: HostArray | None) -> ConcreteValue | Zero:
    return Zero(case.avals[i].tangent) if t is None else value(t, case.avals[i])


def _jax_tangent(x: HostArray, t: HostArray | None) -> npt.ArrayLike:
    return np.zeros(x.shape, FLOAT0) if t is None and x.dtype not in INEXACT else np.zeros_like(x) if t is None else t


def check_jvp(case: Case, args: Sequence[HostArray], rng: np.random.Generator) -> None:
    """Every combination of operands with a tangent and without."""
    moving = differentiable(case)
    ctx = JvpContext(EVAL)
    for chosen in itertools.chain(*[itertools.combinations(moving, n) for n in range(len(moving) + 1)]):
        tangents = [sample(aval, rng) if i in chosen else None for i, aval in enumerate(case.avals)]
        duals = [
            Dual(v, _tangent(case, i, t)) for i, (v, t) in enumerate(zip(values(case, args), tangents, strict=True))
        ]
        outs = ctx.bind(case.primitive, *duals)
        jax_tangents = [_jax_tangent(x, t) for x, t in zip(args, tangents, strict=True)]
        primals, expected = jax.jit(lambda x, t: jax.jvp(lambda *xs: apply(case, *xs), x, t))(
            tuple(args), tuple(jax_tangents)
        )
        for out, primal, tangent in zip(outs, primals, expected, strict=True):
            close(out.primal, primal, out.primal.dtype)
            aval = ctx.aval(out).tangent
            assert out.tangent.aval.matches(aval)
            if isinstance(out.tangent, ConcreteValue):
                close(out.tangent, tangent, aval.dtype)
            elif chosen:  # where nothing moves, jax multiplies zeros by nan and inf
                assert aval.dtype == FLOAT0 or not np.any(tangent)


def check_second_order(case: Case, args: Sequence[HostArray], rng: np.random.Generator) -> None:
    """Forward over forward, in the floating operands."""
    moving = differentiable(case)
    inner = [sample(aval, rng) for aval in case.avals]
    outer = [sample(aval, rng) for aval in case.avals]
    low = JvpContext(EVAL)
    high = JvpContext(low)
    duals = []
    for i, v in enumerate(values(case, args)):
        if i in moving:
            duals.append(Dual(Dual(v, value(outer[i], case.avals[i])), low.pure(value(inner[i], case.avals[i]))))
        else:
            duals.append(high.pure(low.pure(v)))

    def along(*xs: jax.Array) -> list[jax.Array]:
        def of_moving(*ys: jax.Array) -> list[jax.Array]:
            full: list[npt.ArrayLike] = list(args)
            for i, y in zip(moving, ys, strict=True):
                full[i] = y
            return [out for out in apply(case, *full) if out.dtype in INEXACT]

        tangents: list[jax.Array] = jax.jvp(of_moving, xs, tuple(jnp.asarray(inner[i]) for i in moving))[1]
        return tangents

    expected = jax.jit(lambda x, t: jax.jvp(along, x, t)[1])(
        tuple(args[i] for i in moving), tuple(outer[i] for i in moving)
    )
    outs = [out for out in high.bind(case.primitive, *duals) if out.primal.primal.dtype in INEXACT]
    for out, second in zip(outs, expected, strict=True):
        if isinstance(out.tangent, Zero) or isinstance(out.tangent.tangent, Zero):
            assert not np.any(second)
        else:
            close(out.tangent.tangent, second, out.primal.primal.dtype)


def vjp(
    ctx: Context[V], primitive: Primitive, primals: Sequence[V], moving: Sequence[int], cts: Sequence[V]
) -> list[V | Zero | None]:
    """The cotangents of some operands: jvp, with the tangents staged, and the staged program transposed."""
    partial = PartialEvalContext(ctx)
    forward = JvpContext(partial)
    duals: list[Dual[Partial[V]]] = []
    for i, primal in enumerate(primals):
        kind = ctx.aval(primal).tangent
        tangent: Partial[V] | Zero = partial.unknown(kind) if i in moving else Zero(kind)
        duals.append(Dual(Known(primal), tangent))
    outs = [out.tangent for out in forward.bind(primitive, *duals) if forward.aval(out).dtype in INEXACT]
    kept = [(partial.instantiate(out), ct) for out, ct in zip(outs, cts, strict=True) if not isinstance(out, Zero)]
    unfinished = partial.finish([atom for atom, _ in kept])
    inputs = unfinished.jaxpr.invars[len(unfinished.residuals) :]
    args: list[V | UndefPrimal] = [*unfinished.residuals, *[UndefPrimal(var.aval) for var in inputs]]
    return transpose(ctx, unfinished.jaxpr, args, [ct for _, ct in kept])[len(unfinished.residuals) :]


def check_vjp(case: Case, args: Sequence[HostArray], rng: np.random.Generator) -> None:
    """Reverse mode, and reverse mode mapped over cotangents."""
    moving = differentiable(case)
    out_avals = [aval for aval in case.primitive.type_of(*case.avals) if aval.dtype in INEXACT]
    cts = [sample(ShapedArray((SIZE, *aval.shape), aval.dtype), rng) for aval in out_avals]

    def of_moving(*ys: jax.Array) -> list[jax.Array]:
        full: list[npt.ArrayLike] = list(args)
        for i, y in zip(moving, ys, strict=True):
            full[i] = y
        return [out for out in apply(case, *full) if out.dtype in INEXACT]

    def pulled(ys: list[HostArray], cts: list[HostArray]) -> tuple[jax.Array, ...]:
        _, pullback = jax.vjp(of_moving, *ys)
        results: tuple[jax.Array, ...] = jax.vmap(pullback)(cts)
        return results

    expected = jax.jit(pulled)([args[i] for i in moving], cts)
    first = [value(ct[0], aval) for ct, aval in zip(cts, out_avals, strict=True)]
    got_first = vjp(EVAL, case.primitive, values(case, args), moving, first)
    for got, want, i in zip(got_first, expected, moving, strict=True):
        compare_cotangent(got, np.asarray(want)[0], case.avals[i])
    ctx = BatchContext(EVAL, BatchAxis(SIZE))
    batched = [Batched(value(ct, aval), 0) for ct, aval in zip(cts, out_avals, strict=True)]
    primals = [Batched(v, None) for v in values(case, args)]
    results = vjp(ctx, case.primitive, primals, moving, batched)
    for result, want, i in zip(results, expected, moving, strict=True):
        if isinstance(result, Batched) and result.axis is not None:
            moved = np.moveaxis(np.asarray(result.value), result.axis, 0)
            assert ctx.aval(result).matches(case.avals[i])
            close(moved, want, case.avals[i].dtype)
        else:
            assert not np.any(np.asarray(want))


def compare_cotangent(got: ConcreteValue | Zero | None, want: npt.ArrayLike, aval: ShapedArray) -> None:
    if isinstance(got, ConcreteValue):
        assert got.aval.matches(aval)
        close(got, want, aval.dtype)
    else:
        assert not np.any(np.asarray(want))


def check_transpose(case: Case, args: Sequence[HostArray], rng: np.random.Generator) -> None:
    """All subsets of the linear operands."""
    out_avals = case.primitive.type_of(*case.avals)
    cts = samples(out_avals, rng)
    jaxpr = single_equation(case.primitive, case.avals)

    def of_linear(*ys: jax.Array) -> list[jax.Array]:
        full: list[npt.ArrayLike] = list(args)
        for i, y in zip(case.linear, ys, strict=True):
            full[i] = y
        return apply(case, *full)

    if not case.linear:
        return
    _, pullback = jax.vjp(of_linear, *[args[i] for i in case.linear])
    expected = dict(zip(case.linear, pullback(list(cts)), strict=True))
    for n in range(1, len(case.linear) + 1):
        for chosen in itertools.combinations(case.linear, n):
            undefined: list[ConcreteValue | UndefPrimal] = list(values(case, args))
            for i in chosen:
                undefined[i] = UndefPrimal(case.avals[i])
            got = transpose(EVAL, jaxpr, undefined, list(map(value, cts, out_avals)))
            for i, cotangent in enumerate(got):
                if i in chosen:
                    compare_cotangent(cotangent, expected[i], case.avals[i])
                else:
                    assert cotangent is None


def check_all(case: Case, seed: int = 0) -> None:
    """Everything that applies to a case."""
    rng = np.random.default_rng(seed)
    args = samples(case.avals, rng)
    check_value(case, args)
    if case.avals:
        check_batch(case.primitive, case.avals, rng)
    if not differentiable(case):
        return
    check_jvp(case, args, rng)
    check_transpose(case, args, rng)
    if any(aval.dtype in INEXACT for aval in case.primitive.type_of(*case.avals)):
        check_second_order(case, args, rng)
        check_vjp(case, args, rng)
