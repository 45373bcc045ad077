"""Primitives that a user writes: rules that come one at a time, and decompositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar, final

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tinyjax import hlo, ir, transforms
from tinyjax.contexts.abstract import AbstractContext
from tinyjax.control.callbacks import DebugEffect
from tinyjax.control.composite import Composite
from tinyjax.errors import MissingRuleError, ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.effects import Effects
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.primitives.elementwise import add, mul, scale
from tinyjax.primitives.exponential import exp, log1p
from tinyjax.primitives.structure import instantiate, reduce_sum
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

V = TypeVar("V")


@frozen
class Named(Primitive):
    """multiply_add(x, y, z) = x * y + z, with no rule at all."""

    name: ClassVar[str] = "multiply_add"


@frozen
class Evaluated(Named):
    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, y, z = args
        return (np.add(np.multiply(x, y), z),)


@frozen
class Typed(Evaluated):
    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return (ShapedArray(avals[0].shape, avals[0].dtype),)


@frozen
class Lowered(Typed):
    pass


@frozen
class Differentiated(Lowered):
    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        x, y, z = primals
        tx, ty, tz = (instantiate(ctx, t) for t in tangents)
        (inner,) = ctx.bind(self, x, ty, tz)
        return ctx.bind(self, x, y, z), ctx.bind(self, tx, y, inner)


@frozen
class Transposed(Differentiated):
    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x, y, z) = cotangents, args
        assert not isinstance(ct, Zero)
        ct_z = ct if isinstance(z, UndefPrimal) else None
        if isinstance(x, UndefPrimal):
            assert not isinstance(y, UndefPrimal)
            return [mul(ctx, ct, y), None, ct_z]
        return [None, mul(ctx, x, ct) if isinstance(y, UndefPrimal) else None, ct_z]


@final
@frozen
class Batched(Transposed):
    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        assert axes[0] == axes[1] == axes[2]
        return ctx.bind(self, *args), [axes[0]]


@hlo.RULES.register(Lowered)
def _lower(
    primitive: Lowered, ctx: hlo.LoweringContext, args: Sequence[hlo.SSA], types: Sequence[ShapedArray]
) -> Sequence[hlo.SSA]:
    x, y, z = args
    return [add(ctx, mul(ctx, x, y), z)]


def square_add(primitive: Primitive) -> Callable[[tj.ArrayLike, tj.ArrayLike], tj.Array]:
    """f(a, b) = a * a + b, with the primitive."""

    def f(a: tj.ArrayLike, b: tj.ArrayLike) -> tj.Array:
        return bind(primitive, *map(as_array, (a, a, b)))[0]

    return f


A, B = np.array([2.0, 3.0]), np.array([10.0, 20.0])


def jvp(f: Callable[..., tj.Array], *primals: float) -> tuple[float, float]:
    out, tangent = tj.jvp(f, primals, (1.0, 1.0))
    return float(out), float(tangent)


@pytest.mark.parametrize(
    ("primitive", "use", "message"),
    [
        (Named(), lambda f: f(2.0, 10.0), "Evaluation rule for 'multiply_add' not implemented"),
        (Evaluated(), lambda f: tj.jit(f)(2.0, 10.0), "Abstract evaluation for 'multiply_add' not implemented"),
        (Typed(), lambda f: tj.jit(f)(2.0, 10.0), "Translation rule for 'multiply_add' not implemented"),
        (Lowered(), lambda f: jvp(f, 2.0, 10.0), "Differentiation rule for 'multiply_add' not implemented"),
        (
            Differentiated(),
            lambda f: tj.grad(f)(2.0, 10.0),
            "Transpose rule (for reverse-mode differentiation) for 'multiply_add' not implemented",
        ),
        (Transposed(), lambda f: tj.vmap(f)(A, B), "Batching rule for 'multiply_add' not implemented"),
    ],
)
def test_a_rule_is_missed_when_it_is_needed(
    primitive: Primitive, use: Callable[[Callable[..., tj.Array]], object], message: str
) -> None:
    with pytest.raises(MissingRuleError) as info:
        use(square_add(primitive))
    assert str(info.value).startswith(f"{message}. To add it, de")
    assert type(primitive).__name__ in str(info.value)


def test_each_rule_makes_one_thing_more_work() -> None:
    assert float(square_add(Evaluated())(2.0, 10.0)) == 14
    assert str(tj.make_jaxpr(square_add(Typed()))(2.0, 10.0).eqns[0]) == "c:f64[] = multiply_add a a b"
    f = square_add(Lowered())
    assert float(tj.jit(f)(2.0, 10.0)) == 14
    assert float(tj.jit(f, static_argnums=1)(2.0, 10.0)) == 14
    f = square_add(Differentiated())
    assert jvp(f, 2.0, 10.0) == (14, 5)
    assert [float(x) for x in tj.jit(lambda p, t: tj.jvp(f, p, t))((2.0, 10.0), (1.0, 1.0))] == [14, 5]
    f = square_add(Transposed())
    assert tj.grad(f)(2.0, 10.0) == 4
    assert tj.jit(tj.grad(f))(2.0, 10.0) == 4
    assert tj.grad(tj.grad(f))(2.0, 10.0) == 2
    f = square_add(Batched())
    assert tj.vmap(f)(A, B).tolist() == [14, 29]
    assert tj.jit(tj.vmap(f))(A, B).tolist() == [14, 29]


def test_eager_evaluation_of_arrays_on_a_device() -> None:
    x = tj.device_put(A)
    for primitive in (Evaluated(), Typed(), Batched()):
        assert np.array_equal(square_add(primitive)(x, B), A * A + B)


def test_evaluation_by_the_host_from_a_compiled_program() -> None:
    @final
    @frozen
    class OnHost(Typed):
        pass

    hlo.CPU_RULES[OnHost] = hlo.on_host
    hlo.GPU_RULES[OnHost] = hlo.on_host_of_gpu
    assert tj.jit(square_add(OnHost()))(A, B).tolist() == [14, 29]


@frozen
class Softplus(Composite):
    """log(1 + exp(slope * x)), by its decomposition."""

    slope: float
    name: ClassVar[str] = "softplus"

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        (x,) = args
        return [log1p(ctx, exp(ctx, scale(ctx, x, self.slope)))]


@final
@frozen
class LinearComposite(Composite):
    """(x * scale, the sum of it): linear in x, with two outputs."""

    name: ClassVar[str] = "scaled"

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        x, factor = args
        product = mul(ctx, x, factor)
        return [product, reduce_sum(ctx, product, (0,))]


def test_decompositions_are_transposed_in_any_context() -> None:
    """Also where the values of a context know nothing of their types."""

    def scaled(x: tj.Array, factor: tj.Array) -> tuple[tj.Array, ...]:
        return bind(LinearComposite(), x, factor)

    factors, ct = np.array([2.0, 3.0]), np.array([1.0, 10.0, 100.0])
    x = tj.ShapedArray((3,), "float64")

    def back(factor: tj.ArrayLike, total: tj.ArrayLike) -> tj.Array:
        factors = tnp.broadcast_to(tnp.asarray(factor), (3,))
        found: tj.Array = tj.linear_transpose(lambda y: scaled(y, factors), x)((ct, total))[0]
        return found

    expected = np.stack([factor * (ct + total) for factor, total in zip(factors, (4.0, 5.0), strict=True)])
    for f in (back, tj.jit(back)):
        np.testing.assert_allclose(tj.vmap(f)(tnp.asarray(factors), tnp.asarray([4.0, 5.0])), expected)
        _, tangent = tj.jvp(f, (tnp.asarray(2.0), tnp.asarray(4.0)), (tnp.asarray(1.0), tnp.asarray(0.0)))
        np.testing.assert_allclose(tangent, ct + 4.0)


def softplus(x: tj.ArrayLike) -> tj.Array:
    return bind(Softplus(2.0), as_array(x))[0]


def plain_softplus(x: tj.ArrayLike) -> tj.Array:
    return tnp.log1p(tnp.exp(2.0 * tnp.asarray(x)))


TRANSFORMED: dict[str, Callable[[Callable[..., tj.Array]], Callable[..., object]]] = {
    "value": lambda f: f,
    "grad": lambda f: tj.grad(lambda x: f(x).sum()),
    "vmap": tj.vmap,
    "jacfwd": tj.jacfwd,
    "hessian of vmap": lambda f: tj.hessian(lambda x: tj.vmap(f)(x).sum()),
    "vmap of grad": lambda f: tj.vmap(tj.grad(f)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("run", [lambda f: f, tj.jit], ids=["eager", "jit"])
def test_decompositions(name: str, run: Callable[[Callable[..., object]], Callable[..., object]]) -> None:
    found, expected = (run(TRANSFORMED[name](f))(A) for f in (softplus, plain_softplus))
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-14)


def test_a_composite_is_one_equation() -> None:
    program = tj.make_jaxpr(softplus)(A)
    assert str(program) == "{ lambda ; a:f64[2]. let b:f64[2] = softplus[slope=2.0] a in (b,) }"
    assert str(ir.typecheck(program)) == "(f64[2]) -> (f64[2])"
    weak = tj.make_jaxpr(softplus)(1.0)
    assert weak.out_avals[0].weak_type


def test_transpose_and_partial_evaluation() -> None:
    def f(x: tj.ArrayLike, scale: tj.ArrayLike) -> tuple[tj.Array, ...]:
        return bind(LinearComposite(), as_array(x), as_array(scale))

    (found,) = tj.linear_transpose(lambda x: f(x, B), A)((A, np.array(1.0)))
    assert np.array_equal(found, A * B + B)
    program = tj.make_jaxpr(lambda x, y: (softplus(x), *f(y, x)))(A, B).jaxpr
    parts = transforms.partial_eval(program, (False, True))
    assert [eqn.primitive.name for eqn in parts.known.eqns] == ["softplus"]
    assert [eqn.primitive.name for eqn in parts.staged.eqns] == ["mul", "reduce_sum"]
    assert parts.unknown_out == (False, True, True)
    whole = tj.make_jaxpr(softplus)(A).jaxpr
    kept = transforms.partial_eval(whole, (True,)).staged
    assert [eqn.primitive.name for eqn in kept.eqns] == ["softplus"]


def test_lowering(golden: Golden) -> None:
    f: Callable[..., object] = softplus
    golden("composite", tj.jit(f).lower(ShapedArray((2,), "float32")).as_text())


def test_rules_written_by_hand_win() -> None:
    used: list[str] = []

    @final
    @frozen
    class ByHand(Softplus):
        @override
        def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
            used.append("evaluate")
            return super().evaluate(*args)

        @override
        def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
            used.append("type_of")
            return avals

        @override
        def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
            used.append("jvp")
            return super().jvp(ctx, primals, tangents)

        @override
        def batch(
            self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
        ) -> tuple[Sequence[V], Sequence[int | None]]:
            used.append("batch")
            return ctx.bind(self, *args), axes

    @hlo.RULES.register(ByHand)
    def _(
        primitive: ByHand, ctx: hlo.LoweringContext, args: Sequence[hlo.SSA], types: Sequence[ShapedArray]
    ) -> Sequence[hlo.SSA]:
        used.append("lower")
        return primitive.decompose(ctx, *args)

    def f(x: tj.ArrayLike) -> tj.Array:
        return bind(ByHand(2.0), as_array(x))[0]

    expected = np.asarray(plain_softplus(A))
    for use, rules in [(f, {"evaluate", "type_of"}), (tj.vmap(f), {"batch", "evaluate", "type_of"})]:
        used.clear()
        np.testing.assert_allclose(np.asarray(use(A)), expected, rtol=1e-14)
        assert set(used) == rules
    used.clear()
    np.testing.assert_allclose(np.asarray(tj.jit(f)(A)), expected, rtol=1e-14)
    assert set(used) == {"type_of", "lower"}
    used.clear()
    tj.jvp(f, (A,), (A,))
    assert used == ["jvp", "type_of"]


def test_effects_must_be_declared() -> None:
    @frozen
    class Talking(Composite):
        name: ClassVar[str] = "talking"

        @override
        def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
            return ctx.bind(Quiet(), *args)

    @final
    @frozen
    class Quiet(Primitive):
        name: ClassVar[str] = "quiet"

        @property
        @override
        def effects(self) -> Effects:
            return frozenset({DebugEffect()})

        @override
        def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
            return avals

    @final
    @frozen
    class Declared(Talking):
        @property
        @override
        def effects(self) -> Effects:
            return frozenset({DebugEffect()})

    x = ShapedArray((), "float64")
    with pytest.raises(ParameterError, match="'talking' has effects that the primitive doesn't declare: Debug"):
        Talking().type_of(x)
    assert Declared().type_of(x) == (x,)


def test_abstract_evaluation() -> None:
    ctx = AbstractContext()
    x = ShapedArray((2,), "float32")
    assert ctx.aval(scale(ctx, x, 2.0)) == x
    assert ir.interpret(ctx, tj.make_jaxpr(softplus)(x).jaxpr, [x]) == [x]
