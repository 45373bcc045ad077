"""An interpreter of one's own, of the kind that docs/interpreters.md makes: the rest of the library sees to programs
within programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, final

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tinyjax import ir, lax
from tinyjax import numpy as tnp
from tinyjax.control.call import Call
from tinyjax.control.composite import Composite
from tinyjax.errors import InputError, MissingRuleError
from tinyjax.interpreters import Hidden, RuleContext, Rules, rule_table, stage_call, staged
from tinyjax.interpreters.base import register_all
from tinyjax.primitives.comparison import Gt, Lt
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.elementwise import Add, Mul, add, mul
from tinyjax.primitives.structure import BroadcastInDim
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.frames import OpenFrame

V = TypeVar("V")


@final
@frozen
class Error:
    """A number, and the error it may have to first order; None: it is exact."""

    value: Hidden
    error: Hidden | None


RULES: Rules[Error, bool] = rule_table("Error", name="RULES")


@final
class ErrorContext(RuleContext[Error, bool]):
    rules = RULES

    @override
    def flatten(self, value: Error) -> tuple[Sequence[Hidden], bool]:
        return ([value.value] if value.error is None else [value.value, value.error]), value.error is not None

    @override
    def unflatten(self, structure: bool, parts: Sequence[Hidden]) -> Error:
        return Error(parts[0], parts[1] if structure else None)

    @override
    def pure(self, value: Hidden) -> Error:
        return Error(value, None)

    @override
    def primal(self, value: Error) -> Hidden:
        return value.value

    @override
    def join(self, first: bool, second: bool) -> bool:
        return first or second

    @override
    def widen(self, value: Error, structure: bool) -> Error:
        zero = mul(self.parent, value.value, self.parent.constant(ir.Literal.of(0.0)))
        return Error(value.value, zero)


@RULES.register(Add)
def _add(primitive: Add, ctx: RuleContext[Error, bool], args: Sequence[Error]) -> Sequence[Error]:
    (x, y), p = args, ctx.parent
    error = y.error if x.error is None else x.error if y.error is None else add(p, x.error, y.error)
    return [Error(add(p, x.value, y.value), error)]


@RULES.register(Mul)
def _mul(primitive: Mul, ctx: RuleContext[Error, bool], args: Sequence[Error]) -> Sequence[Error]:
    (x, y), p = args, ctx.parent
    left = None if x.error is None else mul(p, x.error, y.value)
    right = None if y.error is None else mul(p, x.value, y.error)
    error = right if left is None else left if right is None else add(p, left, right)
    return [Error(mul(p, x.value, y.value), error)]


def _exact(primitive: ir.Primitive, ctx: RuleContext[Error, bool], args: Sequence[Error]) -> Sequence[Error]:
    return [Error(out, None) for out in ctx.parent.bind(primitive, *[arg.value for arg in args])]


register_all(RULES, _exact, (Gt, Lt, ConvertElementType, BroadcastInDim))


def with_error(f: Callable[[Any], Any]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """f of a number with an error; 0 for an exact result."""

    def run(x: Any, error: Any) -> tuple[Any, Any]:
        call = stage_call("with_error", f, (x,), {})

        def interpret(frame: OpenFrame[Hidden], ins: list[Hidden], errors: list[Hidden]) -> tuple[Any, Any]:
            ctx = ErrorContext(frame.context)
            args = [*map(ctx.pure, ins[:-1]), Error(ins[-1], errors[0])]
            (out,) = ir.interpret(ctx, call.jaxpr, args)
            return frame.wrap(out.value), as_array(0.0) if out.error is None else frame.wrap(out.error)

        return call.run([as_array(error)], interpret)

    return run


@final
@frozen
class Cube(Composite):
    name: ClassVar[str] = "cube"

    @override
    def decompose(self, ctx: ir.Context[V], *args: V) -> Sequence[V]:
        (x,) = args
        return [mul(ctx, x, mul(ctx, x, x))]


def cube(x: Any) -> Any:
    return bind(Cube(), as_array(x))[0]


@tj.custom_vjp
def special(x: Any) -> Any:
    return x * x


special.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * 1000.0,))

PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], float], Callable[[Any], float]]] = {
    "arithmetic": (lambda x: x * x + 3.0 * x, lambda x: x * x + 3 * x, lambda x: 2 * x + 3),
    "call": (tj.jit(lambda x: tj.jit(lambda y: y * y)(x) + x), lambda x: x * x + x, lambda x: 2 * x + 1),
    "exact": (lambda x: 2.0 * tj.jit(lambda: 3.0 * tnp.ones(()))(), lambda x: 6.0, lambda x: 0.0),
    "branches of two structures": (
        lambda x: lax.cond(x > 1.0, lambda x: x * x, lambda x: 2.0 * tnp.ones(()), x),
        lambda x: x * x if x > 1 else 2.0,
        lambda x: 2 * x if x > 1 else 0.0,
    ),
    "a loop that starts exact": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, 1.0),
        lambda x: x**3,
        lambda x: 3 * x * x,
    ),
    "scan": (
        lambda x: lax.scan(lambda c, y: (c + y * x, y), 0.0, np.array([1.0, 2.0]))[0],
        lambda x: 3 * x,
        lambda x: 3.0,
    ),
    "while": (lambda x: lax.while_loop(lambda c: c < 1.0, lambda c: c * 2.0, x * 0.25), lambda x: x, lambda x: 1.0),
    "primitive with a decomposition": (cube, lambda x: x**3, lambda x: 3 * x * x),
    "checkpoint": (tj.checkpoint(lambda x: x * x), lambda x: x * x, lambda x: 2 * x),
    "custom_vjp": (special, lambda x: x * x, lambda x: 2 * x),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("outside", ["", "jit", "vmap"])
def test_programs_within(name: str, outside: str) -> None:
    f, value, error = PROGRAMS[name]
    xs = np.array([1.5, 1.75])
    run = with_error(f)
    if outside == "vmap":
        found = tj.vmap(run)(xs, np.ones(2))
        np.testing.assert_allclose(found[0], [value(x) for x in xs], rtol=1e-6)
        np.testing.assert_allclose(found[1], [error(x) for x in xs], rtol=1e-6)
        return
    for x in xs:
        found = (tj.jit(run) if outside else run)(x, 1.0)
        np.testing.assert_allclose(found[0], value(x), rtol=1e-6)
        np.testing.assert_allclose(found[1], error(x), rtol=1e-6)


def test_derivative_of_an_interpreter() -> None:
    curvature = tj.grad(lambda x: with_error(tj.jit(lambda x: x * x * x))(x, 1.0)[1])
    np.testing.assert_allclose(curvature(2.0), 12.0)


def test_the_parent_applies_the_same_primitives() -> None:
    f = PROGRAMS["call"][0]
    program = tj.make_jaxpr(with_error(f))(1.0, 1.0)
    assert [type(eqn.primitive) for eqn in program.eqns] == [Call]
    assert program.eqns[0].primitive.params["jaxpr"] != tj.make_jaxpr(f)(1.0).eqns[0].primitive.params["jaxpr"]


def test_missing() -> None:
    def f(x: Any) -> Any:
        return lax.cond(x > 1.0, lambda x: tnp.sin(tnp.sin(x)), tj.jit(tnp.exp), x) + cube(special(x))

    program = tj.make_jaxpr(f)(1.0)
    missing = {cls.name: count for cls, count in ErrorContext.missing(program).items()}
    assert missing == {"sin": 2, "exp": 1}
    with pytest.raises(MissingRuleError, match=r"Error rule for '(sin|exp)' not implemented.*`@RULES.register\("):
        with_error(f)(1.0, 1.0)


@final
class Strict(RuleContext[Hidden, int]):
    """The structure is whether a value is weakly typed; nothing says what both can become."""

    rules: Rules[Hidden, int] = rule_table("Strict", name="STRICT")

    @override
    def flatten(self, value: Hidden) -> tuple[Sequence[Hidden], int]:
        return [value], int(self.parent.aval(value).weak_type)

    @override
    def unflatten(self, structure: int, parts: Sequence[Hidden]) -> Hidden:
        return parts[0]

    @override
    def pure(self, value: Hidden) -> Hidden:
        return value

    @override
    def primal(self, value: Hidden) -> Hidden:
        return value


def test_join_and_widen_are_asked_for_where_structures_differ() -> None:
    messages: list[str] = []

    def run(parent: ir.Context[Hidden], ins: list[Hidden]) -> Sequence[Hidden]:
        ctx = Strict(parent)
        assert ctx.join(1, 1) == 1
        for attempt in (lambda: ctx.join(0, 1), lambda: ctx.widened(ins[0], 1)):
            with pytest.raises(InputError) as caught:
                attempt()
            messages.append(str(caught.value))
        return ins

    staged([tj.ShapedArray((), "float64")], run)
    assert "structure 0 in one branch or iteration and 1 in another. Define `join` and `widen`" in messages[0]
    assert "has no method `widen`" in messages[1]


def test_hidden_has_no_instances() -> None:
    with pytest.raises(TypeError, match="has no instances"):
        Hidden()
