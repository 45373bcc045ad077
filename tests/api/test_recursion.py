"""Functions that call themselves through the library: without end, an error that names them, soon; with one, well."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.errors import RecursiveTracingError
from tinyjax.tracing.nesting import same_function

X = np.ones(3)


def direct(x: Any) -> Any:
    return tj.jit(direct)(x) + 1.0


def mutual(x: Any) -> Any:
    def other(y: Any) -> Any:
        return tj.grad(tj.jit(mutual))(y)

    return tj.jit(other)(x) * 2.0


def closure(x: Any) -> Any:
    return tj.jit(lambda: closure(x) + 1.0)()


def factorial(x: Any) -> Any:
    return tj.jit(lambda y: tnp.where(y < 1.0, 1.0, y * factorial(y - 1.0)))(x)


def programs(x: Any) -> Any:
    return tj.make_jaxpr(programs)(x)


def mapped(x: Any) -> Any:
    return tj.vmap(tj.jit(mapped))(tnp.asarray(x)[None])[0]


def differentiated(x: Any) -> Any:
    return tj.jit(tj.grad(differentiated))(x)


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, y: (scanned(c), y), x, X)[0]


def branching(x: Any) -> Any:
    return lax.cond(x > 0.0, branching, lambda x: x, x)


def looping(x: Any) -> Any:
    return lax.while_loop(lambda x: x < 1.0, looping, x)


def recomputed(x: Any) -> Any:
    return tj.checkpoint(recomputed)(x)


def shaped(x: Any) -> Any:
    return tj.eval_shape(shaped, x)


class Model:
    def run(self, x: Any) -> Any:
        return tj.jit(self.run)(x)


ENDLESS: dict[str, Callable[[Any], Any]] = {
    "direct": direct,
    "mutual": mutual,
    "closure": closure,
    "factorial": factorial,
    "programs": programs,
    "mapped": mapped,
    "differentiated": differentiated,
    "scanned": scanned,
    "branching": tj.jit(branching),
    "looping": looping,
    "recomputed": recomputed,
    "shaped": shaped,
    "run": Model().run,
}


@pytest.fixture(autouse=True)
def _usable_afterwards() -> Iterator[None]:
    yield
    assert float(tj.jit(lambda x: x * 2.0)(3.0)) == 6.0
    assert float(tj.grad(tj.jit(lambda x: x * x))(3.0)) == 6.0


@pytest.mark.parametrize("name", ENDLESS)
def test_without_end(name: str) -> None:
    before = threading.active_count()
    with pytest.raises(RecursiveTracingError, match=r"inside itself \d+ times over, for the same types") as caught:
        ENDLESS[name](0.5)
    assert isinstance(caught.value, RecursionError)
    named = {"mutual": "(mutual|other)", "closure": "<lambda>", "factorial": "<lambda>", "scanned": "<lambda>"}
    assert re.search(rf" of {named.get(name, name)} \({__file__}:\d+\) is being traced", str(caught.value))
    repeats = re.search(r"(\d+) times over", str(caught.value))
    assert repeats is not None
    assert int(repeats[1]) < 200
    assert threading.active_count() <= before


def test_python_s_own_error_where_nothing_is_traced() -> None:
    def endless(x: Any) -> Any:
        return tj.grad(lambda y: tj.vmap(endless)(y[None])[0])(x)

    with pytest.raises(RecursionError):
        endless(tnp.asarray(1.0))


@pytest.mark.sweep
def test_what_is_another_function_at_each_level_has_a_limit() -> None:
    f: Any = tj.jit(lambda x, n: f(x, n + 1) * 2.0, static_argnums=1)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(500)  # the limit is a multiple of it
    try:
        with pytest.raises(RecursiveTracingError, match=r"1500 functions .* the innermost is jit of <lambda>"):
            f(1.0, 0)
    finally:
        sys.setrecursionlimit(before)


def test_with_an_end() -> None:
    power: Any = tj.jit(lambda x, n: x * power(x, n - 1) if n else x * 0.0 + 1.0, static_argnums=1)
    assert str(tj.make_jaxpr(power, static_argnums=1)(1.01, 300)).count("call") >= 300

    def halves(x: Any) -> Any:
        return x if x.shape == (1,) else tj.jit(halves)(x[: x.shape[0] // 2])

    assert tj.jit(halves)(np.ones(1 << 12)).shape == (1,)
    left = [80]

    def counted(x: Any) -> Any:  # an end that can't be seen from outside
        left[0] -= 1
        return tj.jit(counted)(x) * 1.0 if left[0] else x

    assert "mul" in str(tj.make_jaxpr(counted)(1.0))


def test_the_same_function() -> None:
    def make(n: object) -> Callable[[Any], Any]:
        return lambda x: (x, n)

    tracers: list[Any] = []
    tj.make_jaxpr(lambda x, y: tracers.extend((x, y)))(1.0, 2.0)
    assert same_function(direct, direct, 4)
    for n in (1, "text", 2.5, direct, (1, "two"), {"a": 1}, None, tracers[0]):
        assert same_function(make(n), make(n), 4)
        assert same_function(partial(make(n), 1), partial(make(n), 1), 4)
    assert same_function(make(tracers[0]), make(tracers[1]), 4)
    for m, n in ((1, 2), (1, 1.0), ("a", "b"), (direct, closure), ((1, 2), (1, 3)), (tnp.ones(2), tnp.ones(2))):
        assert not same_function(make(m), make(n), 4)
        assert not same_function(partial(direct, m), partial(direct, n), 4)
    assert not same_function(direct, closure, 4)
    assert same_function(Model.run, Model.run, 4)
    assert not same_function(Model().run, Model().run, 4)
