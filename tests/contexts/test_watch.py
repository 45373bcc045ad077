"""`watch`: logs of what is applied, where, and by which rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.primitives.test_user_primitives import Batched, Typed, softplus, square_add
from tinyjax import lax
from tinyjax.api.observed import watching
from tinyjax.backend import execute
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.watching import Log, Step, Watcher
from tinyjax.errors import ConcretizationError, InputError, MissingRuleError
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.elementwise import Mul
from tinyjax.tracing.concrete import ROOT, active_frame

multiply_add: Callable[..., tj.Array] = square_add(Batched())
A, B = np.array([2.0, 3.0]), np.array([10.0, 20.0])


def f(x: tj.ArrayLike) -> tj.Array:
    return tnp.sin(x) * x


@tj.jit
def inner(x: tj.ArrayLike) -> tj.Array:
    return tnp.sin(x) * x


def steps(x: tj.ArrayLike) -> tj.Array:
    y = inner(x) + inner(2.0)
    return lax.cond(y > 0.0, lambda: lax.fori_loop(0, 3, lambda i, c: c * x, y), lambda: y)


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("evaluation", lambda: tj.watch(multiply_add)(2.0, 10.0)),
        ("jvp", lambda: tj.watch(lambda p, t: tj.jvp(multiply_add, p, t))((2.0, 10.0), (1.0, 1.0))),
        ("grad", lambda: tj.watch(tj.grad(multiply_add))(2.0, 10.0)),
        ("vmap", lambda: tj.watch(tj.vmap(multiply_add))(A, B)),
        ("jit", lambda: tj.watch(tj.jit(square_add(Batched())))(2.0, 10.0)),
        ("jit_of_grad", lambda: tj.watch(tj.jit(tj.grad(square_add(Batched()))))(2.0, 10.0)),
        ("jit_of_vmap", lambda: tj.watch(tj.jit(tj.vmap(square_add(Batched()))))(A, B)),
        ("jvp_of_grad", lambda: tj.watch(lambda x: tj.jvp(tj.grad(f), (x,), (1.0,)))(2.0)),
        ("vmap_of_grad", lambda: tj.watch(tj.vmap(tj.grad(f)))(A)),
        ("composite", lambda: tj.watch(lambda x: tj.jvp(softplus, (x,), (x,)))(A)),
        ("control_flow", lambda: tj.watch(tj.jit(steps))(1.0)),
        ("large", lambda: tj.watch(lambda x: tnp.sum(tnp.multiply(x, 2.0)))(np.ones((3, 4)))),
    ],
)
def test_logs(name: str, run: Callable[[], object], golden: Golden) -> None:
    execute.clear_cache()
    golden(name, str(run()))


def test_lowering_is_seen_once() -> None:
    execute.clear_cache()
    first, second = tj.watch(tj.jit(steps))(1.0), tj.watch(tj.jit(steps))(1.0)
    assert first.result == second.result
    (call,) = second.log.steps
    assert call.steps == ()
    lowered = [step for step in first.log if step.context == "lowering"]
    assert {step.primitive.name for step in lowered} >= {"call", "sin", "mul", "cond", "scan"}
    (sine,) = [step for step in lowered if step.primitive.name == "sin"]
    assert sine.rule == "tinyjax.hlo.RULES[Sin]"
    assert [(str(seen.aval), seen.concrete, str(seen)) for seen in sine.inputs] == [("~f64[]", None, "%arg0:~f64[]")]
    parents = [step for step in lowered if sine in step.steps]
    assert [step.primitive.name for step in parents] == ["call"]


def test_what_could_not_be_lowered_is_seen() -> None:
    logs: list[Log] = []

    def run() -> None:
        watcher = Watcher()
        with watching(watcher) as frame, frame:
            try:
                tj.jit(tj.jit(square_add(Typed())))(2.0, 10.0)
            finally:
                logs.append(watcher.log())

    with pytest.raises(MissingRuleError):
        run()
    errors = [step for step in logs[0] if step.error is not None and not step.steps]
    assert [(step.context, step.primitive.name) for step in errors] == [("lowering", "multiply_add")]


def test_logs_nest_deeply() -> None:
    def nested(depth: int) -> Callable[..., tj.Array]:
        found: Callable[..., tj.Array] = tnp.cos
        for _ in range(depth):
            found = partial(lambda inner, x: tj.jit(inner)(x), found)
        return found

    execute.clear_cache()
    log = tj.watch(nested(300))(1.0).log
    assert sum(step.context == "lowering" for step in log) == 300
    assert str(log).count("by tinyjax.hlo.RULES[Call]") == 299


def test_watching_changes_nothing() -> None:
    def g(x: tj.ArrayLike) -> tj.Array:
        y = tnp.asarray(x)
        return tj.jit(f)(y) if y > 2.5 else lax.cond(y > 0.0, f, tnp.cos, y)

    for h in (g, tj.grad(g), tj.grad(tj.grad(g))):
        for x in (1.0, 3.0):
            watched = tj.watch(h)(x)
            assert np.array_equal(watched.result, h(x))
            assert len(list(watched.log)) > 2
    assert active_frame() is ROOT


def test_results_are_ordinary_arrays() -> None:
    found = tj.watch(f)(2.0)
    assert type(found.result) is type(f(2.0))
    assert f(found.result) == f(f(2.0))
    program = tj.make_jaxpr(lambda x: tj.watch(f)(x).result)(2.0)
    assert program == tj.make_jaxpr(f)(2.0)


@pytest.mark.parametrize("transform", [tj.grad, tj.jit, lambda h: tj.vmap(h, axis_size=2), tj.jacfwd])
def test_watching_inside_a_transformation(transform: Callable[..., Callable[..., object]]) -> None:
    logs: list[Log] = []

    def g(x: tj.ArrayLike) -> tj.Array:
        watched = tj.watch(f)(x)
        logs.append(watched.log)
        return watched.result * 2.0

    x = A if transform not in (tj.grad, tj.jacfwd) else np.array(2.0)
    assert np.array_equal(np.asarray(transform(g)(x)), np.asarray(transform(lambda x: f(x) * 2.0)(x)))
    (log,) = logs
    assert [step.primitive.name for step in log.steps] == ["sin", "mul"]


def test_the_structure() -> None:
    log = tj.watch(tj.grad(f))(2.0).log
    assert all(type(step) is Step for step in log)
    assert [step.context for step in log.steps] == ["jvp", "jvp", *["transposition"] * 4, "evaluation"]
    evaluated = [step for step in log if step.context == "evaluation" and isinstance(step.primitive, Mul)]
    first = evaluated[0]
    assert first.rule == "evaluate"
    assert first.steps == ()
    assert [str(seen.aval) for seen in first.inputs] == ["~f64[]", "~f64[]"]
    assert first.inputs[1].concrete == ConcreteValue.of(2.0)
    assert float(np.asarray(first.outputs[0].concrete)) == float(f(2.0))
    assert str(first) in str(log)
    assert log == tj.watch(tj.grad(f))(2.0).log
    assert hash(log) == hash(tj.watch(tj.grad(f))(2.0).log)


def test_what_failed_is_seen() -> None:
    seen: list[Log] = []

    def g(x: tj.ArrayLike) -> tj.Array:
        def inner() -> None:
            with pytest.raises(MissingRuleError):
                tj.grad(lambda y: lax.nextafter(y, 3.0))(x)

        seen.append(tj.watch(inner)().log)
        return f(x)

    g(2.0)
    (step,) = seen[0].steps
    assert step.error is not None
    assert step.error.startswith("Differentiation rule for 'nextafter' not implemented")
    assert step.outputs == ()
    shown = "\n".join(str(block) for block in seen[0].blocks())
    assert "! Differentiation rule for 'nextafter' not implemented" in shown
    assert str(step).startswith("jvp: nextafter(dual(2., unknown ~f64[]), dual(3., 0)) by NextAfter.jvp ! Different")


def test_errors_name_the_function_all_the_same() -> None:
    def choose(x: tj.ArrayLike) -> tj.ArrayLike:
        return 1.0 if tnp.asarray(x) else 2.0

    with pytest.raises(ConcretizationError, match="vmap of choose"):
        tj.watch(tj.vmap(choose))(A)
    with pytest.raises(ConcretizationError, match="argument x, traced by jit of choose"):
        tj.watch(tj.jit(choose))(2.0)
    not_typed: Callable[..., object] = tj.watch
    with pytest.raises(InputError, match="watch needs a function"):
        not_typed(3)


def test_nothing_is_watched_by_default() -> None:
    assert isinstance(ROOT.context, EvalContext)
    assert ROOT.watcher is None
    watcher = Watcher()
    with watching(watcher) as frame, frame:
        f(2.0)
    f(2.0)
    assert len(watcher.log().steps) == 2


def test_a_transposition_shows_which_operands_are_linear() -> None:
    log = tj.watch(tj.grad(lambda x, w: tnp.sum(w * x)))(np.ones(2), np.array([3.0, 4.0])).log
    steps = {step.primitive.name: step for step in log if step.context == "transposition"}
    assert [str(value) for value in steps["reduce_sum"].inputs] == ["1.", "undefined f64[2]"]
    assert [str(value) for value in steps["mul"].inputs] == ["[1., 1.]", "[3., 4.]", "undefined f64[2]"]
    assert [str(value) for value in steps["mul"].outputs] == ["None", "[3., 4.]"]
    assert [str(value.aval) for value in steps["mul"].outputs] == ["f64[2]", "f64[2]"]


def test_traced_values_show_what_is_known() -> None:
    found: list[str] = []

    def f(x: Any) -> Any:
        found.append(repr(x))
        return x * 2.0

    a = np.array([1.0, 2.0])
    tj.jvp(f, (3.0,), (1.0,))
    tj.grad(f)(3.0)
    tj.vmap(f)(a)
    tj.vmap(tj.grad(f))(a)
    tj.grad(lambda x: tj.vmap(f)(x).sum())(a)
    tj.jit(f)(3.0)
    tj.jit(tj.grad(f))(3.0)
    tj.vmap(f)(np.ones((2, 50)))
    tj.watch(tj.grad(f))(3.0)
    assert found == [
        "Tracer(~f64[], jvp: dual(3., 1.))",
        "Tracer(~f64[], jvp: dual(3., unknown ~f64[]))",
        "Tracer(f64[], batching: [1., 2.] over axis 0)",
        "Tracer(f64[], jvp: dual([1., 2.] over axis 0, unknown f64[]))",
        "Tracer(f64[], batching: dual([1., 2.], unknown f64[2]) over axis 0)",
        "Tracer(~f64[], staging)",
        "Tracer(~f64[], jvp: dual(~f64[], unknown ~f64[]))",
        "Tracer(f64[50], batching: f64[2,50] over axis 0)",
        "Tracer(~f64[], jvp: dual(3., unknown ~f64[]))",
    ]


def test_values_in_rules_show_what_is_known() -> None:
    found: list[str] = []

    @tj.custom_jvp
    def square(x: Any) -> Any:
        return x * x

    @square.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        found.extend(map(repr, (*primals, *tangents)))
        return square(*primals), 2.0 * primals[0] * tangents[0]

    tj.jvp(square, (3.0,), (1.0,))
    tj.grad(square)(3.0)
    assert found[-2:] == [
        "Tracer(~f64[], partial evaluation: 3.)",
        "Tracer(~f64[], partial evaluation: unknown ~f64[])",
    ]
