"""The rules of elementwise primitives under staging and nesting: the same numbers as when they run on arrays."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.primitives.apply import dense, pushed, run, staged_jvp, values
from tests.primitives.catalog import (
    ELEMENTWISE,
    Domain,
    Entry,
    case_name,
    check_close,
    check_same,
    compiled,
    numbers,
    tangents,
)
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import Partial, PartialEvalContext, Unknown
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.transposition import transpose
from tinyjax.errors import MissingRuleError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOAT0, FLOAT32, FLOAT64, FLOATS, INT32, DType, HostArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import UndefPrimal, Zero
from tinyjax.ir.typecheck import typecheck
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.arithmetic import nextafter
from tinyjax.primitives.conversion import ConvertElementType, stop_gradient
from tinyjax.primitives.selection import clamp
from tinyjax.primitives.special import polygamma

INEXACT = FLOATS | COMPLEXES
SMOOTH = [entry for entry in ELEMENTWISE if any(entry.smooth(dtype) for dtype in entry.dtypes)]


@pytest.mark.parametrize("entry", SMOOTH, ids=case_name)
def test_staged_jvp_is_the_evaluated_one(entry: Entry) -> None:
    for dtype in entry.dtypes:
        xs = entry.samples(dtype)
        smooth = entry.smooth(dtype)
        for count in range(1, len(smooth) + 1):
            for chosen in itertools.combinations(smooth, count):
                moving = [i in chosen for i in range(len(xs))]
                ts = [tangents(x.dtype, len(x), 1) if moves else None for x, moves in zip(xs, moving, strict=True)]
                avals = [ConcreteValue.of(x).aval for x in xs]
                jaxpr, has_tangent = staged_jvp(entry.primitive, avals, moving)
                typecheck(jaxpr)
                outs = run(jaxpr, [*xs, *[t for t in ts if t is not None]])
                primal, tangent = pushed(entry.primitive, xs, ts)
                check_same(outs[0], primal)
                if has_tangent:
                    check_same(outs[1], tangent)
                else:
                    assert not np.any(tangent) or tangent.dtype.kind == "V"


@st.composite
def mixed_shapes(draw: st.DrawFn) -> tuple[Entry, list[ShapedArray], list[bool]]:
    """Types of operands, scalars and weak ones among them, and which of them move."""
    entry = draw(st.sampled_from(SMOOTH))
    dtype = draw(st.sampled_from([dtype for dtype in entry.dtypes if entry.smooth(dtype)]))
    shape = draw(st.sampled_from([(), (0,), (3,), (2, 3)]))
    avals = [
        ShapedArray(draw(st.sampled_from([(), shape])), dt, dt in INEXACT and draw(st.booleans()))
        for dt in entry.operands(dtype)
    ]
    moving = [i in entry.smooth(dtype) and draw(st.booleans()) for i in range(len(avals))]
    moving[entry.smooth(dtype)[0]] = True
    return entry, avals, moving


@given(mixed_shapes())
@settings(max_examples=150, deadline=None)
def test_tangents_have_the_type_of_the_result(case: tuple[Entry, list[ShapedArray], list[bool]]) -> None:
    entry, avals, moving = case
    jaxpr, has_tangent = staged_jvp(entry.primitive, avals, moving)
    typecheck(jaxpr)
    if has_tangent:
        primal, tangent = jaxpr.out_avals
        assert tangent.matches(primal)
        assert primal == entry.primitive.type_of(*avals)[0]


def inner_points(entry: Entry, dtype: DType) -> list[HostArray]:
    """A few points well inside the domain of each operand: no kinks, no poles, no cancellation."""
    points = np.asarray([[0.3, 0.6, 0.8], [0.7, 0.45, 0.35], [0.9, 0.75, 0.95], [0.5, 0.65, 0.4]])
    found: list[HostArray] = []
    for i, dt in enumerate(entry.operands(dtype)):
        domain = entry.domain(i)
        if dt not in FLOATS:
            found.append(numbers(dt, Domain(1))[[0, 1, 0]] if dt.kind in "iu" else np.asarray([True, False, True]))
        elif domain.whole:
            found.append(np.asarray([1.0, 2.0, 1.0], dt))
        else:
            found.append((points[i] + max(domain.low, 0)).astype(dt))
    return found


TWICE = [entry for entry in SMOOTH if entry.smooth(FLOAT64) and FLOAT64 in entry.dtypes]


@pytest.mark.sweep
@pytest.mark.parametrize("entry", compiled(TWICE))
def test_second_derivatives_agree_with_jax(entry: Entry) -> None:
    xs = inner_points(entry, FLOAT64)
    for i in set(entry.smooth(FLOAT64)) - set(entry.once):

        def first(x: jax.Array, i: int = i) -> jax.Array:
            out: jax.Array = jax.jvp(lambda x: entry.oracle(*xs[:i], x, *xs[i + 1 :]), (x,), (np.ones(3),))[1]
            return out

        if entry.oracle(*xs).dtype not in INEXACT:
            continue
        expected = jax.jit(lambda x, first=first: jax.jvp(first, (x,), (np.ones(3),))[1])(xs[i])
        inner = JvpContext(EvalContext())
        outer = JvpContext(inner)
        one = ConcreteValue.of(np.ones(3))
        duals: list[Dual[Dual[ConcreteValue]]] = [
            Dual(Dual(x, one), inner.pure(one)) if k == i else outer.pure(inner.pure(x))
            for k, x in enumerate(values(xs))
        ]
        (out,) = outer.bind(entry.primitive, *duals)
        second = Zero(out.tangent.aval) if isinstance(out.tangent, Zero) else out.tangent.tangent
        check_close(dense(second), np.asarray(expected), 1000, 1)


@pytest.mark.parametrize("entry", TWICE, ids=case_name)
def test_linearizing_and_transposing_gives_the_derivative(entry: Entry) -> None:
    """Partial evaluation of the jvp leaves a linear program; its transpose is the reverse derivative."""
    xs = inner_points(entry, FLOAT64)
    ctx = EvalContext()
    for i in entry.smooth(FLOAT64):
        partial = PartialEvalContext(ctx)
        forward = JvpContext(partial)
        known = [Known(x) for x in values(xs)]
        unknown = partial.unknown(ConcreteValue.of(xs[i]).aval)
        duals: list[Dual[Partial[ConcreteValue]]] = [
            Dual(x, unknown) if k == i else forward.pure(x) for k, x in enumerate(known)
        ]
        (out,) = forward.bind(entry.primitive, *duals)
        if isinstance(out.tangent, Zero):
            continue
        assert isinstance(out.tangent, Unknown)
        unfinished = partial.finish([out.tangent.atom])
        linear, residuals = unfinished.jaxpr, list(unfinished.residuals)
        # Few digits, so that no conversion rounds them.
        t = ConcreteValue.of(np.asarray([0.5, -1.0, 2.0]))
        (forwards,) = interpret(ctx, linear, [*residuals, t])
        ct = ConcreteValue.of(np.asarray([1.0, -0.5, 4.0]).astype(forwards.dtype))
        args: list[ConcreteValue | UndefPrimal] = [*residuals, UndefPrimal(t.aval)]
        *_, backwards = transpose(ctx, linear, args, [ct])
        assert backwards is not None
        # The pairings agree, <ct, J t> = <J^T ct, t>; of complex numbers their real part counts.
        left = np.sum(np.multiply(forwards, ct).real)
        right = np.sum(np.multiply(dense(backwards), t).real)
        np.testing.assert_allclose(float(left), float(right), rtol=1e-12)


def test_jvp_rules_that_do_not_exist_say_so() -> None:
    x, y = np.asarray(1.0), np.asarray(2.0)
    with pytest.raises(MissingRuleError, match="Differentiation rule for 'nextafter' not implemented"):
        pushed(nextafter, [x, y], [x, None])
    with pytest.raises(MissingRuleError, match="no derivative with respect to its order"):
        pushed(polygamma, [x, y], [x, None])
    assert pushed(polygamma, [x, y], [None, y])[1].item() < 0
    with pytest.raises(TypingError, match="gt does not accept c128"):
        pushed(clamp, [x + 0j] * 3, [None, x + 0j, None])


def test_stop_gradient_stops_every_order() -> None:
    inner = JvpContext(EvalContext())
    outer = JvpContext(inner)
    one = ConcreteValue.of(np.ones(3))
    (out,) = outer.bind(stop_gradient, Dual(Dual(one, one), inner.pure(one)))
    assert isinstance(out.tangent, Zero)
    assert isinstance(out.primal.tangent, Zero)
    assert out.tangent.aval == ShapedArray((3,), FLOAT64)


def test_an_integer_result_has_a_float0_tangent() -> None:
    ctx = JvpContext(EvalContext())
    one = ConcreteValue.of(np.ones(3, FLOAT32))
    (out,) = ctx.bind(ConvertElementType(INT32), Dual(one, one))
    assert out.tangent == Zero(ShapedArray((3,), FLOAT0))
