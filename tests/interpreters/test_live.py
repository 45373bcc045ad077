"""Contexts of one's own, interpreting Python code on the fly, outside and inside of transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tinyjax import ir, lax
from tinyjax import numpy as tnp
from tinyjax.errors import ConcretizationError, InputError, LeakedTracerError, TreeError
from tinyjax.interpreters import (
    BatchContext,
    Batched,
    EvalContext,
    Hidden,
    Known,
    PartialEvalContext,
    RuleContext,
    Rules,
    StagingContext,
    interpreting,
    partial_eval,
    rule_table,
)
from tinyjax.primitives.comparison import Comparison
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.elementwise import Add, Mul, add, mul
from tinyjax.primitives.structure import Linear
from tinyjax.primitives.trigonometric import Cos, Sin, cos

Function = Callable[..., Any]


@frozen
class Pair:
    """A value and its derivative."""

    primal: Hidden
    tangent: Hidden


#: All values have the same structure.
PairRules = Rules[Pair, None]
RULES: PairRules = rule_table("Pairing", name="RULES")


class Pairing(RuleContext[Pair, None]):
    """Forward mode, as a user would write it: with a rule for each of a few primitives."""

    rules = RULES

    @override
    def flatten(self, value: Pair) -> tuple[Sequence[Hidden], None]:
        return (value.primal, value.tangent), None

    @override
    def unflatten(self, structure: None, parts: Sequence[Hidden]) -> Pair:
        return Pair(*parts)

    @override
    def pure(self, value: Hidden) -> Pair:
        p = self.parent
        zero = ir.ConcreteValue.of(np.zeros(p.aval(value).shape, p.aval(value).dtype))
        return Pair(value, p.constant(zero))

    @override
    def primal(self, value: Pair) -> Hidden:
        return value.primal


@RULES.register(Add)
def _add(primitive: Add, ctx: RuleContext[Pair, None], args: Sequence[Pair]) -> Sequence[Pair]:
    x, y = args
    return [Pair(add(ctx.parent, x.primal, y.primal), add(ctx.parent, x.tangent, y.tangent))]


@RULES.register(Mul)
def _mul(primitive: Mul, ctx: RuleContext[Pair, None], args: Sequence[Pair]) -> Sequence[Pair]:
    (x, y), p = args, ctx.parent
    return [Pair(mul(p, x.primal, y.primal), add(p, mul(p, x.tangent, y.primal), mul(p, x.primal, y.tangent)))]


@RULES.register(Sin)
def _sin(primitive: Sin, ctx: RuleContext[Pair, None], args: Sequence[Pair]) -> Sequence[Pair]:
    (x,), p = args, ctx.parent
    return [Pair(p.bind(primitive, x.primal)[0], mul(p, x.tangent, p.bind(cos, x.primal)[0]))]


@RULES.register(Cos)
def _cos(primitive: Cos, ctx: RuleContext[Pair, None], args: Sequence[Pair]) -> Sequence[Pair]:
    (x,), p = args, ctx.parent
    slope = mul(p, x.tangent, p.bind(Sin(), x.primal)[0])
    return [Pair(p.bind(primitive, x.primal)[0], mul(p, slope, p.constant(ir.ConcreteValue.of(-1.0))))]


def _linear(primitive: ir.Primitive, ctx: RuleContext[Pair, None], args: Sequence[Pair]) -> Sequence[Pair]:
    (x,), p = args, ctx.parent
    return [Pair(p.bind(primitive, x.primal)[0], p.bind(primitive, x.tangent)[0])]


RULES[Linear] = _linear
RULES[ConvertElementType] = _linear


@RULES.register(Comparison)
def _compare(primitive: Comparison, ctx: RuleContext[Pair, None], args: Sequence[Pair]) -> Sequence[Pair]:
    (out,) = ctx.parent.bind(primitive, *[x.primal for x in args])
    return [ctx.pure(out)]


def derivative(f: Function) -> Function:
    """The tree of the derivatives of f's results in its one argument, in a tree of directions."""

    def derived(x: Any, t: Any) -> Any:
        with interpreting(Pairing) as run:
            inside, outside = run.inside, run.outside
            given = tj.tree.map(lambda x, t: inside.wrap(Pair(outside.read(x), outside.read(t))), x, t)
            return tj.tree.map(lambda y: outside.wrap(inside.read(y).tangent), f(given))

    return derived


def branching(x: Any) -> Any:
    return tnp.sin(x) * x if x > 0.0 else x * x


def test_control_flow_on_known_values() -> None:
    for x in (2.0, -2.0):
        np.testing.assert_allclose(derivative(branching)(x, 1.0), tj.grad(branching)(x))
    with pytest.raises(ConcretizationError):
        tj.vmap(derivative(branching))(np.ones(3), np.ones(3))


def smooth(x: Any) -> Any:
    return tnp.sin(x * x) + x * 3.0


#: Of a function and a derivative in one direction: mine, or the library's.
AROUND: dict[str, Callable[[Function, Function], Function]] = {
    "mine": lambda d, f: lambda x: d(f)(x, 1.0),
    "mine of mine": lambda d, f: lambda x: d(lambda x: d(f)(x, 1.0))(x, 1.0),
    "jit of mine": lambda d, f: tj.jit(lambda x: d(f)(x, 1.0)),
    "grad of mine": lambda d, f: tj.grad(lambda x: d(f)(x, 1.0)),
    "jvp of mine": lambda d, f: lambda x: tj.jvp(lambda x: d(f)(x, 1.0), (x,), (2.0,))[1],
    "vmap of mine": lambda d, f: lambda x: tj.vmap(lambda x: d(f)(x, 1.0))(np.array([0.5, 1.0]) * x),
    "mine of jit": lambda d, f: lambda x: d(tj.jit(f))(x, 1.0),
    "mine of jvp": lambda d, f: lambda x: d(lambda x: tj.jvp(f, (x,), (x,))[1])(x, 1.0),
    "mine of grad": lambda d, f: lambda x: d(tj.grad(f))(x, 1.0),
    "mine of vmap": lambda d, f: lambda x: d(lambda x: tj.vmap(f)(x * np.array([0.5, 1.0])))(x, 1.0),
    "mine of cond": lambda d, f: lambda x: d(lambda x: lax.cond(x > 0.0, f, lambda x: x, x))(x, 1.0),
    "mine of scan": lambda d, f: lambda x: d(lambda x: lax.scan(lambda c, _: (f(c), c), x, None, length=2)[0])(x, 1.0),
    "jit of grad of mine of jit of grad": lambda d, f: tj.jit(tj.grad(lambda x: d(tj.jit(tj.grad(f)))(x, 1.0))),
    "closing over": lambda d, f: tj.grad(lambda y: d(lambda x: f(x) * y)(2.0, 1.0)),
    "vmap, closing over": lambda d, f: lambda y: tj.vmap(lambda y: d(lambda x: f(x) * y)(2.0, 1.0))(np.array([1.0, y])),
    "watched": lambda d, f: lambda x: tj.watch(lambda x: d(f)(x, 1.0))(x).result,
}


@pytest.mark.parametrize("name", AROUND)
def test_nestings(name: str) -> None:
    nest = AROUND[name]

    def theirs(f: Function) -> Function:
        return lambda x, t: tj.jvp(f, (x,), (t,))[1]

    np.testing.assert_allclose(nest(derivative, smooth)(0.7), nest(theirs, smooth)(0.7), rtol=1e-12)


def test_trees_and_plain_results() -> None:
    def f(tree: Any) -> Any:
        return {"sum": tree["a"] + tree["b"][0], "number": 2.0, "same": tree["b"]}

    found = derivative(f)({"a": 1.0, "b": [np.ones(2)]}, {"a": 5.0, "b": [np.full(2, 3.0)]})
    np.testing.assert_array_equal(found["sum"], [8.0, 8.0])
    assert float(found["number"]) == 0.0
    np.testing.assert_array_equal(found["same"][0], [3.0, 3.0])


def test_what_escapes_is_an_error() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    derivative(f)(1.0, 1.0)
    with pytest.raises(LeakedTracerError, match="after the interpretation by Pairing had ended"):
        kept[0] + 1.0
    with pytest.raises(LeakedTracerError, match="after the interpretation by Pairing had ended"):
        bool(kept[0] > 1.0)
    assert repr(kept[0]).startswith("Tracer(~f64[], pairing")
    with pytest.raises(ZeroDivisionError), interpreting(Pairing):
        _ = 1 / 0
    assert float(tnp.sin(0.0)) == 0.0


class Tally(ir.Context[ir.ConcreteValue]):
    """Evaluation that counts what it applies."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.evaluation = EvalContext()

    @override
    def bind(self, primitive: ir.Primitive, *args: ir.ConcreteValue) -> tuple[ir.ConcreteValue, ...]:
        self.names.append(primitive.name)
        return self.evaluation.bind(primitive, *args)

    @override
    def constant(self, value: ir.ConcreteValue | ir.Literal) -> ir.ConcreteValue:
        return self.evaluation.constant(value)

    @override
    def aval(self, value: ir.ConcreteValue) -> ir.ShapedArray:
        return value.aval

    @override
    def concrete(self, value: ir.ConcreteValue) -> ir.ConcreteValue:
        return value


@pytest.mark.parametrize("constants", [False, True])
def test_operations_on_constants(constants: bool) -> None:
    tally = Tally()
    with interpreting(lambda _: tally, constants=constants) as run:
        x = run.inside.wrap(run.inside.read(np.float64(3.0)))
        for _ in range(2):
            x = x * 2.0 if x < 10.0 else x
        y = tnp.sin(tnp.asarray(0.0)) + x
        assert float(np.asarray(run.inside.read(y).data)) == 12.0
        assert float(np.asarray(run.inside.read(1.5).data)) == 1.5
    assert run.inside.context is tally
    assert tally.names == ["lt", "mul", "lt", "mul", *(["sin"] if constants else []), "add"]


def test_partial_evaluation() -> None:
    def f(known: Any, unknown: Any) -> Any:
        scale = tnp.sin(known["w"]) if known["w"] > 0.0 else known["w"]
        return {"y": scale * unknown[0] + unknown[1] * scale, "scale": scale, "n": 3, "u": unknown[1]}

    vector = ir.ShapedArray((2,), "float64")
    half = partial_eval(f, {"w": 2.0}, [vector, vector])
    assert [x.aval.shape for x in half.residuals] == [()]
    assert len(half.jaxpr.invars) == 3
    assert half.results["y"] == vector
    np.testing.assert_allclose(half.results["scale"], np.sin(2.0))
    x = np.array([1.0, 2.0])
    full = f({"w": 2.0}, [tnp.asarray(x), tnp.asarray(x)])
    tj.tree.map(np.testing.assert_allclose, half(x, x), full)
    nothing = partial_eval(lambda x: x * 2.0, 3.0)
    assert float(nothing.results) == 6.0 == float(nothing())
    everything = partial_eval(lambda x: x * x, vector)
    assert not everything.residuals
    np.testing.assert_array_equal(everything(x), x * x)


def staged(x: Any, y: Any) -> Any:
    """x * sin(y) + y, in two stages."""
    return partial_eval(lambda y, x: x * tnp.sin(y) + y, y, tj.ShapedArray((), "float64"))(x)


@pytest.mark.parametrize(
    "nest",
    [
        lambda f: f,
        tj.jit,
        tj.grad,
        lambda f: tj.grad(f, argnums=1),
        lambda f: tj.jit(tj.grad(tj.jit(f), argnums=(0, 1))),
        lambda f: lambda x, y: tj.vmap(f)(np.array([x, y]), np.array([y, y])),
        lambda f: tj.grad(lambda x, y: tj.vmap(lambda x: f(x, y))(np.array([1.0, 2.0]) * x).sum(), argnums=1),
        lambda f: lambda x, y: derivative(lambda v: f(x, v))(y, 1.0),
    ],
)
def test_partial_evaluation_within_transformations(nest: Callable[[Function], Function]) -> None:
    expected = nest(lambda x, y: x * tnp.sin(y) + y)(np.float64(0.5), np.float64(2.0))
    tj.tree.map(np.testing.assert_allclose, nest(staged)(np.float64(0.5), np.float64(2.0)), expected)


def test_transformations_within_partial_evaluation() -> None:
    scalar = ir.ShapedArray((), "float64")
    for f in (tj.grad(lambda x, y: tnp.sin(x) * y), tj.jit(lambda x, y: (tnp.sin(x) * y, x)), tj.checkpoint(tnp.add)):
        half = partial_eval(f, 2.0, scalar)
        tj.tree.map(np.testing.assert_allclose, half(np.float64(3.0)), f(2.0, np.float64(3.0)))


def test_partial_evaluation_says_what_is_wrong() -> None:
    scalar = ir.ShapedArray((), "float64")
    with pytest.raises(ConcretizationError, match="argument y, traced by partial_eval of"):
        partial_eval(lambda x, y: x if y else y, 1.0, scalar)
    with pytest.raises(InputError, match=r"argument x\['a'\] of <lambda>"):
        partial_eval(lambda x: x, {"a": "text"})
    with pytest.raises(InputError, match=r"are \(f64\[\]\), got \(f64\[2\]\)"):
        partial_eval(lambda x, y: x * y, 1.0, scalar)(np.ones(2))
    with pytest.raises(InputError, match="needs a function"):
        partial_eval(3)  # type: ignore[arg-type]


def test_closure_conversion() -> None:
    programs: list[str] = []

    def f(x: Any) -> Any:
        matrix = np.arange(4.0).reshape(2, 2)

        def inner(y: Any) -> Any:
            return {"out": matrix @ y * x}

        with pytest.raises(InputError, match="closure_convert"):
            tj.make_jaxpr(inner)(np.ones(2))
        converted, values = tj.closure_convert(inner, np.ones(2))
        closed = tj.make_jaxpr(converted)(np.ones(2), *values)
        programs.append(str(closed.jaxpr.type))
        assert len(values) == 1
        return (converted(np.ones(2), *values)["out"] + inner(np.ones(2))["out"]).sum()

    for transform in (tj.grad, tj.jit, lambda f: tj.jit(tj.grad(f)), lambda f: tj.vmap(tj.grad(f))):
        x = np.array([3.0]) if len(programs) == 3 else 3.0
        transform(f)(x)
    assert float(tj.grad(f)(3.0)) == 12.0
    assert set(programs) == {"(f64[2,2], f64[2], ~f64[]) -> (f64[2])", "(f64[2,2], f64[2], f64[]) -> (f64[2])"}
    converted, values = tj.closure_convert(lambda y: y, np.ones(2))
    assert values == []
    with pytest.raises(TreeError, match="takes 0 values"):
        converted(np.ones(2), 1.0)


def test_a_context_that_takes_nothing_from_outside() -> None:
    def f(x: Any) -> Any:
        with interpreting(lambda _: Tally()) as run:
            return run.inside.read(run.inside.wrap(run.inside.read(2.0)) * x)

    with pytest.raises(LeakedTracerError, match="Define the method `lift` of Tally"):
        tj.grad(f)(3.0)


def test_the_librarys_own_contexts() -> None:
    """Each is a context like a user's."""

    def batched(x: Any) -> Any:
        with interpreting(lambda parent: BatchContext(parent, ir.BatchAxis(3))) as run:
            out = run.inside.read(tnp.sin(run.inside.wrap(Batched(run.outside.read(x), 0))) * 2.0)
            assert out.axis == 0
            return run.outside.wrap(out.value)

    np.testing.assert_allclose(tj.jit(tj.grad(lambda x: batched(x).sum()))(np.ones(3)), 2.0 * np.cos(np.ones(3)))
    recording = StagingContext()
    with interpreting(lambda _: recording) as run:
        x = run.inside.wrap(recording.argument(tj.ShapedArray((), "float64")))
        out = run.inside.read(tnp.sin(x) * tnp.cos(0.0))
    expected = tj.make_jaxpr(lambda x: tnp.sin(x) * tnp.cos(0.0))(np.float64(1.0)).jaxpr
    assert recording.finish([out]).jaxpr == expected

    def halved() -> Any:
        with interpreting(PartialEvalContext[Hidden]) as run:
            context = run.inside.context
            assert isinstance(context, PartialEvalContext)
            unknown = run.inside.wrap(context.unknown(tj.ShapedArray((), "float64")))
            known = run.inside.wrap(Known(run.outside.read(3.0)))
            return str(context.finish([context.instantiate(run.inside.read(unknown * tnp.sin(known)))]).jaxpr)

    assert halved() == tj.watch(halved)().result == "{ lambda ; a:~f64[] b:f64[]. let c:f64[] = mul b a in (c,) }"
