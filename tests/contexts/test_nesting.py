"""Contexts by hand: their values, and what becomes of them when contexts nest."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from tinyjax.contexts import transposition
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import Partial, PartialEvalContext, Unknown
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import LinearityError
from tinyjax.ir import BatchAxis, ConcreteValue, Context, Literal, ShapedArray, UndefPrimal, Zero, interpret
from tinyjax.primitives.collectives import PSum
from tinyjax.primitives.elementwise import add, mul, neg
from tinyjax.primitives.structure import ReduceSum
from tinyjax.primitives.trigonometric import cos, sin

V = TypeVar("V")
F64 = ShapedArray((), "float64")
VECTOR = ShapedArray((3,), "float64")
X = ConcreteValue.of(np.float64(0.5))
ROW = ConcreteValue.of(np.arange(3.0))


def wave(ctx: Context[V], x: V) -> V:
    """sin(x) x, in any context."""
    return mul(ctx, ctx.bind(sin, x)[0], x)


def number(value: ConcreteValue | Zero) -> float:
    assert isinstance(value, ConcreteValue)
    return float(np.asarray(value))


def elements(value: object) -> npt.NDArray[np.float64]:
    assert isinstance(value, ConcreteValue)
    return np.asarray(value).astype(np.float64)


# One at a time.


def test_evaluation() -> None:
    ctx = EvalContext()
    assert number(wave(ctx, X)) == pytest.approx(np.sin(0.5) * 0.5)
    assert ctx.aval(X) == F64
    assert ctx.concrete(X) is X
    assert number(ctx.constant(Literal.of(2.0))) == 2.0
    (out,) = ctx.bind(neg, ROW)
    assert isinstance(out.data, np.ndarray)
    assert not out.data.flags.writeable


def test_evaluation_never_shares_memory_that_can_be_written_to() -> None:
    data = np.arange(6.0).reshape(2, 3)
    ctx = EvalContext()
    outs = [ctx.bind(ReduceSum(()), ConcreteValue.of(data))[0], ctx.bind(mul, ConcreteValue.of(data), X)[0]]
    data[:] = 100.0
    np.testing.assert_array_equal(elements(outs[0]), np.arange(6.0).reshape(2, 3))


def test_jvp() -> None:
    ctx = JvpContext(EvalContext())
    out = wave(ctx, Dual(X, ConcreteValue.of(np.float64(2.0))))
    assert number(out.primal) == pytest.approx(np.sin(0.5) * 0.5)
    assert number(out.tangent) == pytest.approx(2 * (np.cos(0.5) * 0.5 + np.sin(0.5)))
    assert ctx.aval(out) == F64
    assert ctx.concrete(out) is out.primal


def test_zero_tangents_stay_symbolic() -> None:
    parent = StagingContext()
    ctx = JvpContext(parent)
    x = ctx.pure(parent.argument(F64))
    out = wave(ctx, x)
    assert out.tangent == Zero(F64)
    (shifted,) = ctx.bind(add, Dual(x.primal, parent.argument(F64)), ctx.constant(Literal.of(1.0)))
    assert not isinstance(shifted.tangent, Zero)
    assert [eqn.primitive.name for eqn in parent.finish([]).jaxpr.eqns] == ["sin", "mul", "add"]


def test_batching() -> None:
    ctx = BatchContext(EvalContext(), BatchAxis(3))
    out = wave(ctx, Batched(ROW, 0))
    assert out.axis == 0
    np.testing.assert_allclose(elements(out.value), np.sin(np.arange(3.0)) * np.arange(3.0))
    assert ctx.aval(out) == F64
    assert ctx.concrete(out) is None
    same = wave(ctx, Batched(X, None))
    assert same.axis is None
    assert ctx.concrete(same) is same.value


def test_names_of_axes() -> None:
    ctx = BatchContext(EvalContext(), BatchAxis(3, "i"))
    (total,) = ctx.bind(PSum("i"), Batched(ROW, 0))
    assert (number(total.value), total.axis) == (3.0, None)
    (repeated,) = ctx.bind(PSum("i"), Batched(X, None))
    assert (number(repeated.value), repeated.axis) == (1.5, None)


def test_partial_evaluation() -> None:
    ctx = PartialEvalContext(EvalContext())
    known: Known[ConcreteValue] = Known(X)
    unknown = ctx.unknown(F64)
    sine = ctx.bind(sin, known)[0]
    assert isinstance(sine, Known)
    (product,) = ctx.bind(mul, sine, unknown)
    (twice,) = ctx.bind(mul, sine, product)
    (shifted,) = ctx.bind(add, twice, ctx.constant(Literal.of(1.0)))
    assert isinstance(shifted, Unknown)
    assert ctx.aval(shifted) == F64
    assert ctx.concrete(sine) is sine.value
    assert ctx.concrete(shifted) is None
    unfinished = ctx.finish([shifted.atom])
    assert str(unfinished.jaxpr) == (
        "{ lambda ; a:f64[] b:f64[]. let\n"
        "    c:f64[] = mul a b\n"
        "    d:f64[] = mul a c\n"
        "    e:f64[] = add d 1.0\n"
        "  in (e,) }"
    )
    (residual,) = unfinished.residuals
    assert number(residual) == np.sin(0.5)


def test_transposition() -> None:
    linear = stage([F64, VECTOR], lambda ctx, ins: [mul(ctx, ins[1], ctx.bind(cos, ins[0])[0]), ins[1]])
    ctx = EvalContext()
    ct = ConcreteValue.of(np.array([1.0, 2.0, 3.0]))
    args: list[ConcreteValue | UndefPrimal] = [X, UndefPrimal(VECTOR)]
    cts: list[ConcreteValue | Zero] = [ct, ct]
    none, found = transposition.transpose(ctx, linear, args, cts)
    assert none is None
    np.testing.assert_allclose(elements(found), np.array([1.0, 2.0, 3.0]) * (np.cos(0.5) + 1))
    zeros: list[ConcreteValue | Zero] = [Zero(VECTOR)] * 2
    assert transposition.transpose(ctx, linear, args, zeros) == [None, Zero(VECTOR)]
    square = stage([F64], lambda ctx, ins: [mul(ctx, ins[0], ins[0])])
    with pytest.raises(LinearityError, match="but not in both together") as caught:
        transposition.transpose(ctx, square, [UndefPrimal(F64)], [X])
    assert len(caught.value.__notes__) == 1
    assert "mul a a" in caught.value.__notes__[0]


def test_a_tape_is_transposed_as_it_was_recorded() -> None:
    """A residual that is handed over late has a number between those of equations, and comes first."""
    partial = PartialEvalContext(EvalContext())
    tangent = partial.unknown(VECTOR)
    (product,) = partial.bind(mul, partial.bind(sin, Known(X))[0], tangent)
    (total,) = partial.bind(add, partial.bind(mul, partial.bind(cos, Known(X))[0], product)[0], tangent)
    assert isinstance(total, Unknown)
    unfinished = partial.finish([total.atom])
    tape = unfinished.tape
    assert [var.index for var in tape.invars] == [1, 3, 0]
    assert [var.index for eqn in tape.eqns for var in eqn.outvars] == [2, 4, 5]
    assert tape.count == 6
    assert str(unfinished.jaxpr).endswith("    f:f64[3] = add e c\n  in (f,) }")
    args: list[ConcreteValue | UndefPrimal] = [*unfinished.residuals, UndefPrimal(VECTOR)]
    cts: list[ConcreteValue | Zero] = [ROW]
    found = [transposition.transpose(EvalContext(), program, args, cts)[-1] for program in (tape, unfinished.jaxpr)]
    np.testing.assert_allclose(elements(found[0]), np.arange(3.0) * (np.sin(0.5) * np.cos(0.5) + 1))
    np.testing.assert_array_equal(elements(found[0]), elements(found[1]))


# Nested.


def test_jvp_of_jvp() -> None:
    inner = JvpContext(EvalContext())
    outer = JvpContext(inner)
    one = ConcreteValue.of(np.float64(1.0))
    out = wave(outer, Dual(Dual(X, one), inner.pure(one)))
    assert not isinstance(out.tangent, Zero)
    assert number(out.tangent.tangent) == pytest.approx(2 * np.cos(0.5) - 0.5 * np.sin(0.5))
    assert outer.concrete(out) is out.primal.primal


def test_batch_of_jvp_and_jvp_of_batch() -> None:
    expected = np.cos(np.arange(3.0)) * np.arange(3.0) + np.sin(np.arange(3.0))
    ones = ConcreteValue.of(np.ones(3))
    jvp = JvpContext(EvalContext())
    mapped = wave(BatchContext(jvp, BatchAxis(3)), Batched(Dual(ROW, ones), 0))
    np.testing.assert_allclose(elements(mapped.value.tangent), expected)
    batch = BatchContext(EvalContext(), BatchAxis(3))
    derived = wave(JvpContext(batch), Dual(Batched(ROW, 0), Batched(ones, 0)))
    assert not isinstance(derived.tangent, Zero)
    np.testing.assert_allclose(elements(derived.tangent.value), expected)
    one = Batched(ConcreteValue.of(np.float64(1.0)), None)
    unmapped_tangent = wave(JvpContext(batch), Dual(Batched(ROW, 0), one))
    assert not isinstance(unmapped_tangent.tangent, Zero)
    np.testing.assert_allclose(elements(unmapped_tangent.tangent.value), expected)


def test_linearization_is_jvp_over_partial_evaluation() -> None:
    partial = PartialEvalContext(EvalContext())
    ctx = JvpContext(partial)
    pair: Dual[Partial[ConcreteValue]] = Dual(Known(X), partial.unknown(F64))
    out = wave(ctx, pair)
    assert isinstance(out.primal, Known)
    assert isinstance(out.tangent, Unknown)
    unfinished = partial.finish([out.tangent.atom])
    two = ConcreteValue.of(np.float64(2.0))
    (tangent,) = interpret(EvalContext(), unfinished.jaxpr, [*unfinished.residuals, two])
    assert number(tangent) == pytest.approx(2 * (np.cos(0.5) * 0.5 + np.sin(0.5)))


def test_origins_of_unknown_values() -> None:
    """Each context passes the question on to the one that doesn't know."""
    staging = StagingContext()
    x = staging.argument(F64)
    batch = BatchContext(staging, BatchAxis(3))
    jvp = JvpContext(batch)
    assert jvp.origin(jvp.pure(Batched(x, None))).context is staging
    assert jvp.origin(jvp.pure(Batched(staging.argument(VECTOR), 0))).context is batch
    partial = PartialEvalContext(jvp)
    assert partial.origin(Known(jvp.pure(Batched(x, None)))).context is staging
    assert partial.origin(partial.unknown(F64)).context is partial.staged
