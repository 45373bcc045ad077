"""Functions made of several primitives, replayed within transformations: nobody sees a difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, ShapedArray, nn
from tinyjax.errors import LeakedTracerError, TinyjaxError
from tinyjax.ir import Jaxpr, SourceInfo
from tinyjax.ir.traverse import nested_programs
from tinyjax.prepared.functions import REPLAYING

F: TypeAlias = Callable[[Array], Array]

X = ShapedArray((3, 3), "float64")

FUNCTIONS: dict[str, F] = {
    "floor_divide": lambda x: x // (x + 1.0),
    "by a number": lambda x: x // 2.0,
    "of a number": lambda x: 2 // x,
    "remainder": lambda x: x % 0.3,
    "divmod": lambda x: tnp.divmod(x, x)[1],
    "fmod": lambda x: tnp.fmod(x, 0.3),
    "mean": lambda x: tnp.mean(x, axis=1, keepdims=True),
    "var": tnp.var,
    "var along an axis": lambda x: tnp.var(x, axis=0, ddof=1),
    "std": tnp.std,
    "sum": tnp.sum,
    "prod": tnp.prod,
    "max": lambda x: tnp.max(x, axis=0),
    "ptp": tnp.ptp,
    "all": lambda x: tnp.all(x > 0.0) * x,
    "logaddexp": lambda x: tnp.logaddexp(x, 1.0),
    "logaddexp2": lambda x: tnp.logaddexp2(x, x),
    "tril": tnp.tril,
    "triu": lambda x: tnp.triu(x, 1),
    "sign": tnp.sign,
    "clip": lambda x: tnp.clip(x, 0.2, None),
    "where": lambda x: tnp.where(x > 0.5, x, 0.0),
    "median": tnp.median,
    "outer": lambda x: tnp.outer(x, x),
    "isclose": lambda x: tnp.isclose(x, x + 1e-9) * x,
    "hypot": lambda x: tnp.hypot(x, x),
    "tile": lambda x: tnp.tile(x, (2, 1)),
    "diagonal": tnp.diagonal,
    "trace": tnp.trace,
    "take": lambda x: tnp.take(x, tnp.asarray([0, 1]), axis=0),
    "take_along_axis": lambda x: tnp.take_along_axis(x, tnp.argsort(x, axis=0), axis=0),
    "elements": lambda x: x[tnp.argmax(x, axis=0)],
    "round": lambda x: tnp.round(x, 1),
    "linspace": lambda x: tnp.linspace(x, x + 1.0, 4),
    "cholesky": lambda x: tnp.linalg.cholesky(x @ x.T + tnp.eye(3)),
    "gelu": nn.gelu,
    "relu": nn.relu,
    "elu": nn.elu,
    "silu": nn.silu,
    "sparse_plus": nn.sparse_plus,
}

CONTEXTS: dict[str, Callable[[F], Callable[[Array], object]]] = {
    "staged": lambda f: f,
    "jit": tj.jit,
    "jvp": lambda f: lambda x: tj.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: tj.vjp(f, x)[1](f(x)),
    "linearize": lambda f: lambda x: tj.linearize(f, x)[1](x),
    "vmap": lambda f: lambda x: tj.vmap(f)(tnp.stack([x, x])),
    "vmap with another": lambda f: lambda x: tj.vmap(lambda row: f(x * row))(x[0]),
    "vmap of grad": lambda f: tj.vmap(tj.grad(lambda row: tnp.sum(f(tnp.outer(row, row))))),
    "grad of grad": lambda f: tj.grad(lambda x: tnp.sum(tj.grad(lambda y: tnp.sum(f(y)))(x))),
    "scan": lambda f: lambda x: tj.lax.scan(lambda c, _: (c + tnp.sum(f(c * x)), None), tnp.sum(x), None, 2)[0],
    "checkpoint": lambda f: tj.grad(lambda x: tnp.sum(tj.checkpoint(f)(x))),
    "named scope": lambda f: lambda x: _scoped(f, x),
}
QUICK = ("staged", "jvp", "vmap of grad")


def _scoped(f: F, x: Array) -> Array:
    with tj.named_scope("part"):
        return f(x)


def traced(f: Callable[[Array], object]) -> Jaxpr | str:
    try:
        return tj.make_jaxpr(f)(X).jaxpr
    except TinyjaxError as error:  # no derivative of that function: replayed or not
        return str(error)


def sources(jaxpr: Jaxpr) -> list[SourceInfo | None]:
    return [eqn.source for program in nested_programs(jaxpr) for eqn in program.eqns]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "context", [name if name in QUICK else pytest.param(name, marks=pytest.mark.sweep) for name in CONTEXTS]
)
def test_programs_and_their_lines_are_the_same(name: str, context: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transformed = CONTEXTS[context](FUNCTIONS[name])
    with monkeypatch.context() as patch:
        patch.setattr(REPLAYING, "use", lambda function, args, kwargs: None)
        expected = traced(transformed)
    for _ in range(3):  # called, traced, replayed
        found = traced(transformed)
        assert found == expected
        if isinstance(found, Jaxpr) and isinstance(expected, Jaxpr):
            assert sources(found) == sources(expected)


def replays(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of `logaddexp` is replayed, from now on."""
    found: list[bool] = []
    use = REPLAYING.use

    def noted(function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        result = use(function, args, kwargs)
        if function.__name__ == "logaddexp":
            found.append(result is not None)
        return result

    monkeypatch.setattr(REPLAYING, "use", noted)
    return found


def test_the_second_call_with_these_types_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    tj.clear_caches()
    found = replays(monkeypatch)
    tj.make_jaxpr(lambda x: tnp.logaddexp(x, x))(X)
    assert found == [False]
    tj.make_jaxpr(lambda x: (tnp.logaddexp(x, x), tnp.logaddexp(x, x)))(X)
    assert found == [False, True, True]
    tj.make_jaxpr(lambda x: tnp.logaddexp(x, x))(ShapedArray((4,), "float32"))
    assert found[-1] is False


def test_numbers_among_the_operands_are_told_apart_to_the_bit() -> None:
    def program(number: float) -> str:
        return str(tj.make_jaxpr(lambda x: tnp.logaddexp(x, number))(X))

    for _ in range(3):
        assert program(0.0) != program(-0.0)
        assert "nan" in program(float("nan"))
        assert program(1.0).replace("1.0", "2.0") == program(2.0)


def test_lines_are_those_of_the_call() -> None:
    def f(x: Array) -> Array:
        x = tnp.logaddexp(x, x)
        x = tnp.logaddexp(x, x)
        return tnp.logaddexp(x, x)

    for _ in range(3):
        lines = [source.line for source in sources(tj.make_jaxpr(f)(X).jaxpr) if source is not None]
        first = f.__code__.co_firstlineno
        assert sorted(set(lines)) == [first + 1, first + 2, first + 3]


def test_operands_of_several_transformations_are_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Array) -> Array:
        return tj.vmap(lambda y: tnp.logaddexp(x, y))(x)

    expected = str(tj.make_jaxpr(f)(X))
    found = replays(monkeypatch)
    for _ in range(3):
        assert str(tj.make_jaxpr(f)(X)) == expected
    assert not any(found)


def test_a_tracer_that_has_escaped_is_caught() -> None:
    kept: list[Array] = []

    def escaping(x: Array) -> Array:
        kept.append(x)
        return tnp.logaddexp(x, x)

    for _ in range(3):
        tj.make_jaxpr(escaping)(X)
        with pytest.raises(LeakedTracerError):
            tnp.logaddexp(kept[-1], kept[-1])
        with pytest.raises(LeakedTracerError):
            tj.make_jaxpr(lambda x: tnp.logaddexp(x, kept[-1]))(X)


def test_values_are_those_of_a_call() -> None:
    x = np.linspace(0.1, 0.9, 9).reshape(3, 3)
    for f in FUNCTIONS.values():
        expected = f(tnp.asarray(x))
        for _ in range(3):
            np.testing.assert_allclose(tj.vmap(f)(tnp.asarray(x)[None])[0], expected, rtol=1e-12, atol=1e-12)
