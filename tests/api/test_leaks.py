"""`checking_leaks`: what JAX's finds, and what is no leak."""

import gc
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.api.leaks import LeakCheck
from tinyjax.errors import LeakedTracerError, UnsupportedError

LEAKS = {
    "jit": lambda m, keep: m.jit(lambda x: keep(x) + 1.0)(1.0),
    "pmap": lambda m, keep: m.pmap(lambda x: keep(x) + 1.0)(np.ones(1)),
    "scan": lambda m, keep: m.lax.scan(lambda c, x: (keep(c) + x, None), 0.0, np.ones(3)),
    "while": lambda m, keep: m.lax.while_loop(lambda c: c < 3.0, lambda c: keep(c) + 1.0, 0.0),
    "cond": lambda m, keep: m.lax.cond(True, keep, lambda x: x, 1.0),
    "within": lambda m, keep: m.jit(lambda x: 2.0 * m.jit(lambda y: keep(y) + 1.0)(x))(1.0),
    "vmap": lambda m, keep: m.vmap(lambda x: keep(x) + 1.0)(np.ones(2)),
}


@pytest.fixture(autouse=True)
def what_other_tests_left_is_not_looked_through() -> None:
    """Each look for leaks is a full collection of garbage, or two: of thousands of tests' in one process."""
    gc.freeze()


@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.parametrize("of_jax", [False, True], ids=["ours", "jax"])
def test_leaks_are_found(name: str, of_jax: bool) -> None:
    kept: list[object] = []

    def keep(x: object) -> object:
        kept.append(lambda: x)
        return x

    module = jax if of_jax else tj
    with pytest.raises(Exception, match="Leaked trace"), module.checking_leaks():
        LEAKS[name](module, keep)


@pytest.mark.parametrize("of_jax", [False, True], ids=["ours", "jax"])
def test_a_leak_is_reported_once(of_jax: bool) -> None:
    module = jax if of_jax else tj
    kept: list[object] = []

    def keep(x: object) -> object:
        kept.append(x)
        return x

    with module.checking_leaks():
        with pytest.raises(Exception, match="Leaked trace"):
            LEAKS["jit"](module, keep)
        assert kept


def test_the_error_says_what_and_where() -> None:
    kept: list[object] = []

    def grows(x: Any) -> Any:
        kept.append(x)
        return x + 1.0

    words = r"f64\[2\] outlives jit of grows .*: list\. Return"
    with pytest.raises(LeakedTracerError, match=words), tj.check_tracer_leaks():
        tj.jit(grows)(np.ones(2))
    kept.clear()
    with pytest.raises(LeakedTracerError, match="outlives grad of grows"), tj.checking_leaks():
        tj.grad(grows)(1.0)


NONE: dict[str, Callable[[], object]] = {
    "jit": lambda: tj.jit(lambda x: x)(3),
    "vmap": lambda: tj.vmap(tj.jit(lambda x: x))(np.arange(3.0)),
    "grad": lambda: tj.grad(tj.jit(tnp.sin))(3.0),
    "hessian": lambda: tj.jit(tj.hessian(lambda x: tnp.sum(x**3)))(np.arange(3.0)),
    "scan": lambda: tj.lax.scan(lambda c, x: (tnp.sin(c), None), 1.0, np.arange(3.0)),
    "scan of jvp": lambda: tj.jvp(lambda x: tj.lax.scan(lambda c, _: (c, None), x, None, length=1), (3.0,), (1.0,)),
    "scan of vmap": lambda: tj.vmap(lambda x: tj.lax.scan(lambda c, _: (1.0, c), x, None, length=1))(np.arange(5.0)),
    "checkpoint": lambda: tj.jit(tj.grad(tj.checkpoint(lambda y: tnp.sin(tnp.sin(y)))))(1.0),
    "vjp": lambda: tj.vjp(tj.jit(tnp.sin), 1.0)[1](1.0),
    "linearize": lambda: tj.linearize(lambda x: tj.lax.fori_loop(0, 3, lambda i, y: y * x, x), 2.0)[1](1.0),
    "while": lambda: tj.lax.while_loop(lambda c: c < 3.0, lambda c: c + 1.0, 0.0),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_leak(name: str) -> None:
    with tj.checking_leaks():
        first = NONE[name]()
        NONE[name]()
    for one, other in zip(tj.tree.leaves(first), tj.tree.leaves(NONE[name]()), strict=True):
        np.testing.assert_array_equal(one, other)


def test_custom_rules_are_no_leak() -> None:
    @tj.custom_jvp
    def f(x: Any) -> Any:
        return tnp.sin(x)

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return f(*primals), tangents[0]

    with tj.checking_leaks():
        assert tj.jit(tj.grad(f))(0.0) == 1.0


def test_what_leaked_before_is_left_alone() -> None:
    kept: list[Any] = []
    tj.jit(kept.append)(1.0)
    with tj.checking_leaks():
        assert tj.jit(lambda x: 2.0 * x)(1.0) == 2.0
    tj.jit(kept.append)(2.0)  # outside of the block, an error only where it is used
    with pytest.raises(LeakedTracerError):
        kept[-1] + 1.0


def test_a_decorator_and_a_setting() -> None:
    kept: list[Any] = []

    def program() -> None:
        tj.jit(kept.append)(1.0)

    with pytest.raises(LeakedTracerError):
        tj.checking_leaks()(program)()
    with tj.check_tracer_leaks(False):
        tj.jit(kept.append)(2.0)
    for block in (tj.checking_leaks, tj.check_tracer_leaks):
        assert isinstance(block, LeakCheck)
        assert block.value is False
        assert repr(block) == f"<{repr(block)[1:].partition(':')[0]}: False>"
    with pytest.raises(UnsupportedError, match="check_tracer_leaks"):
        tj.check_tracer_leaks("sometimes")


def test_an_error_within_stays_what_it_is() -> None:
    kept: list[Any] = []

    def fails(x: Any) -> Any:
        kept.append(x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), tj.checking_leaks():
        tj.jit(fails)(1.0)
