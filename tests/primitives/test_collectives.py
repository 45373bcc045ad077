"""Collectives under batching, alone and with derivatives, against jax.vmap with named axes."""

from __future__ import annotations

from typing import Protocol, TypeVar

import jax
import numpy as np
import numpy.typing as npt
import pytest
from jax import lax

from tests.primitives.array_catalog import aval
from tests.primitives.array_checks import EVAL
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import Partial, PartialEvalContext
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.staging import StagingContext
from tinyjax.contexts.transposition import transpose
from tinyjax.errors import AxisNameError, TinyjaxError, TypingError
from tinyjax.ir.context import Context
from tinyjax.ir.effects import NamedAxisEffect
from tinyjax.ir.primitive import BatchAxis, Primitive, UndefPrimal, Zero
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.collectives import AxisIndex, PMax, PMin, PSum, axis_index, pmax, pmin, psum
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.structure import full

V = TypeVar("V")
X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
T = np.array([[0.5, 1.0, 0.0], [-1.0, 2.0, 3.0]])


class Rule(Protocol):
    def __call__(self, ctx: Context[V], x: V) -> V: ...


def in_jax(name: str, x: jax.Array) -> jax.Array:
    """What `Over(name)` computes."""
    index = lax.axis_index(name).astype(x.dtype)
    out: jax.Array = lax.psum(x * x, name) * x + lax.psum(index * x, name)
    return out


class Over:
    """x ↦ psum(x²) x + psum(index · x) over the named axis."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, ctx: Context[V], x: V) -> V:
        index = convert(ctx, axis_index(ctx, self.name), ctx.aval(x).dtype)
        first = mul(ctx, psum(ctx, mul(ctx, x, x), self.name), x)
        return add(ctx, first, psum(ctx, mul(ctx, index, x), self.name))


def concrete(x: npt.NDArray[np.generic]) -> ConcreteValue:
    return ConcreteValue.of(x)


def stacked(out: Batched[ConcreteValue], size: int) -> npt.NDArray[np.float64]:
    """The results for all elements, along a new first axis."""
    array = np.asarray(out.value).astype(np.float64)
    return np.stack([array] * size) if out.axis is None else np.moveaxis(array, out.axis, 0)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_over_the_mapped_axis(dtype: str, at: int) -> None:
    x = X.astype(dtype)
    for rule, function in ((psum, lax.psum), (pmax, lax.pmax), (pmin, lax.pmin)):
        if dtype == "bool" and rule is psum:
            continue
        ctx = BatchContext(EVAL, BatchAxis(x.shape[at], "i"))
        out = rule(ctx, Batched(concrete(x), at), "i")
        assert out.axis is None
        expected = jax.vmap(lambda row, function=function: function(row, "i"), in_axes=at, axis_name="i")(x)
        np.testing.assert_array_equal(stacked(out, x.shape[at]), expected)
        assert out.value.dtype == expected.dtype


def test_of_what_is_not_mapped() -> None:
    ctx = BatchContext(EVAL, BatchAxis(3, "i"))
    same = Batched(concrete(X), None)
    assert psum(ctx, same, "i") == Batched(concrete(3 * X), None)
    assert pmax(ctx, same, "i") == same
    assert pmin(ctx, same, "i") == same


def test_over_another_axis() -> None:
    x = Batched(Batched(concrete(X), 0), 0)
    axes = {"i": 2, "j": 3}
    for name in axes:
        outer = BatchContext(EVAL, BatchAxis(2, "i"))
        inner = BatchContext(outer, BatchAxis(3, "j"))
        out = Over(name)(inner, x)
        expected = jax.vmap(jax.vmap(lambda v, name=name: in_jax(name, v), axis_name="j"), axis_name="i")(X)
        rows = out.value if out.axis == 0 else Batched(out.value.value, out.value.axis)
        assert out.axis == 0
        np.testing.assert_allclose(stacked(rows, 2), expected)


def test_axis_index() -> None:
    ctx = BatchContext(EVAL, BatchAxis(3, "i"))
    assert axis_index(ctx, "i") == Batched(concrete(np.arange(3, dtype=np.int32)), 0)
    inner = BatchContext(ctx, BatchAxis(2, "j"))
    assert axis_index(inner, "i") == Batched(Batched(concrete(np.arange(3, dtype=np.int32)), 0), None)


def gradient(ctx: Context[V], rule: Rule, x: V) -> V | Zero | None:
    """Reverse mode, for a rule whose result has the shape of x: the cotangent of x where that of the result is one."""
    partial = PartialEvalContext(ctx)
    forward = JvpContext(partial)
    dual: Dual[Partial[V]] = Dual(Known(x), partial.unknown(ctx.aval(x)))
    out = rule(forward, dual).tangent
    assert not isinstance(out, Zero)
    linear = partial.finish([partial.instantiate(out)])
    args: list[V | UndefPrimal] = [*linear.residuals, UndefPrimal(ctx.aval(x))]
    return transpose(ctx, linear.jaxpr, args, [full(ctx, ctx.aval(x), 1)])[-1]


def test_gradient_of_an_element_within_the_mapped_function() -> None:
    ctx = BatchContext(EVAL, BatchAxis(3, "i"))
    got = gradient(ctx, Over("i"), Batched(concrete(X[0]), 0))
    assert isinstance(got, Batched)
    expected = jax.vmap(jax.grad(lambda x: in_jax("i", x)), axis_name="i")(X[0])
    np.testing.assert_allclose(stacked(got, 3), expected)


class Mapped:
    """A rule mapped over the elements of a vector."""

    def __init__(self, rule: Rule, size: int) -> None:
        self.rule = rule
        self.size = size

    def __call__(self, ctx: Context[V], x: V) -> V:
        out = self.rule(BatchContext(ctx, BatchAxis(self.size, "i")), Batched(x, 0))
        assert out.axis == 0
        return out.value


def test_gradient_of_the_mapped_function() -> None:
    got = gradient(EVAL, Mapped(Over("i"), 3), concrete(X[0]))
    expected = jax.grad(lambda x: jax.vmap(lambda v: in_jax("i", v), axis_name="i")(x).sum())(X[0])
    assert isinstance(got, ConcreteValue)
    np.testing.assert_allclose(np.asarray(got), expected)


def test_forward_mode_on_both_sides() -> None:
    expected = jax.jvp(jax.vmap(lambda v: in_jax("i", v), axis_name="i"), (X[0],), (T[0],))[1]
    outside = Mapped(Over("i"), 3)(JvpContext(EVAL), Dual(concrete(X[0]), concrete(T[0]))).tangent
    assert isinstance(outside, ConcreteValue)
    np.testing.assert_allclose(np.asarray(outside), expected)
    within = BatchContext(EVAL, BatchAxis(3, "i"))
    inside = Over("i")(JvpContext(within), Dual(Batched(concrete(X[0]), 0), Batched(concrete(T[0]), 0))).tangent
    assert isinstance(inside, Batched)
    np.testing.assert_allclose(stacked(inside, 3), expected)


class Largest:
    def __call__(self, ctx: Context[V], x: V) -> V:
        return mul(ctx, x, pmax(ctx, x, "i"))


def test_pmax_has_the_same_derivative_before_and_after_it_is_mapped() -> None:
    expected = X[0].max() + X[0].sum() * (X[0] == X[0].max())
    within = gradient(BatchContext(EVAL, BatchAxis(3, "i")), Largest(), Batched(concrete(X[0]), 0))
    assert isinstance(within, Batched)
    np.testing.assert_allclose(stacked(within, 3), expected)
    got = gradient(EVAL, Mapped(Largest(), 3), concrete(X[0]))
    assert isinstance(got, ConcreteValue)
    np.testing.assert_allclose(np.asarray(got), expected)


@pytest.mark.parametrize("primitive", [PSum("i"), PMax("i"), PMin("i"), AxisIndex("i")], ids=lambda p: str(p.name))
def test_unbound_axis(primitive: Primitive) -> None:
    args = [] if isinstance(primitive, AxisIndex) else [concrete(X)]
    with pytest.raises(AxisNameError, match="unbound axis name: i"):
        EVAL.bind(primitive, *args)
    other = BatchContext(EVAL, BatchAxis(2, "j"))
    with pytest.raises(AxisNameError, match=r"vmap\(\.\.\., axis_name='i'\)"):
        other.bind(primitive, *[Batched(arg, 0) for arg in args])


def test_effects_name_the_axis() -> None:
    staging = StagingContext()
    out = psum(staging, staging.argument(aval("float32[3]")), "i")
    jaxpr = staging.finish([out, axis_index(staging, "j")]).jaxpr
    assert jaxpr.effects == frozenset({NamedAxisEffect("i"), NamedAxisEffect("j")})
    assert jaxpr.out_avals == (aval("float32[3]"), aval("int32[]"))


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (PSum("i"), "bool[3]", TypingError, "psum does not accept bool"),
        (PSum("i"), "", TypingError, "takes 1 operand, got 0"),
        (AxisIndex("i"), "float32[]", TypingError, "takes 0 operands, got 1"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))


def test_sum_of_what_is_the_same_everywhere_has_a_transpose() -> None:
    x = concrete(X)
    ctx = BatchContext(EVAL, BatchAxis(4, "i"))
    (ct,) = PSum("i").transpose(ctx, [Batched(x, None)], [UndefPrimal(x.aval)])
    assert ct == Batched(concrete(4 * X), None)
