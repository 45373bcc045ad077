"""What a callback raises reaches the caller: interrupts as themselves, other errors as the cause of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax.backend.host_calls import _FAILURES
from tinyjax.errors import CallbackError, XlaError

F64 = tj.ir.ShapedArray((), "float64")
X = np.ones(3)

CALLS: dict[str, Callable[[Callable[..., Any]], Callable[[Any], Any]]] = {
    "pure": lambda f: lambda x: tj.pure_callback(f, F64, x, vmap_method="sequential"),
    "io": lambda f: lambda x: tj.io_callback(f, F64, x),
    "ordered io": lambda f: lambda x: tj.io_callback(f, F64, x, ordered=True),
    "debug": lambda f: lambda x: (tj.debug.callback(f, x), x)[1],
}
ROUTES: dict[str, Callable[[Callable[[Any], Any]], object]] = {
    "eager": lambda f: f(1.0),
    "jit": lambda f: tj.jit(f)(1.0),
    "jit of jit": lambda f: tj.jit(lambda x: tj.jit(f)(x) * 2.0)(1.0),
    "vmap": lambda f: tj.vmap(f)(X),
    "jit of vmap": lambda f: tj.jit(tj.vmap(f))(X),
    "grad": lambda f: tj.grad(lambda x: f(lax.stop_gradient(x)) * x)(1.0),
    "jit of grad": lambda f: tj.jit(tj.grad(lambda x: f(lax.stop_gradient(x)) * x))(1.0),
    "scan": lambda f: lax.scan(lambda c, x: (f(c), x), 1.0, X),
    "jit of scan": lambda f: tj.jit(lambda x: lax.scan(lambda c, x: (f(c), x), x, X))(1.0),
    "cond": lambda f: tj.jit(lambda x: lax.cond(x > 0.0, f, lambda x: x, x))(1.0),
    "while_loop": lambda f: lax.while_loop(lambda x: x < 2.0, lambda x: f(x) + 1.0, 0.0),
    "compiled": lambda f: tj.jit(f).lower(1.0).compile()(1.0),
}
NOT_MAPPED = {("ordered io", "vmap"), ("ordered io", "jit of vmap")}
CASES = [(call, route) for call in CALLS for route in ROUTES if (call, route) not in NOT_MAPPED]


class Stop(BaseException):
    """Not an Exception."""


@pytest.fixture(autouse=True)
def none_left() -> None:
    """Where several devices fail at once, the error of one is raised, and those of the others stay for a while."""
    _FAILURES.entries.clear()


@pytest.mark.parametrize(("call", "route"), CASES)
def test_what_is_no_error_reaches_the_caller_as_it_is(call: str, route: str) -> None:
    error = (KeyboardInterrupt("stop"), SystemExit(3), Stop("here"))[CASES.index((call, route)) % 3]

    def fails(*_: object) -> Any:
        raise error

    with pytest.raises(type(error)) as caught:
        ROUTES[route](CALLS[call](fails))
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert not _FAILURES.entries


@pytest.mark.parametrize(("call", "route"), CASES)
def test_errors_are_the_cause(call: str, route: str) -> None:
    errors = (ZeroDivisionError("my message"), MemoryError("my message"), StopIteration("my message"))
    error = errors[CASES.index((call, route)) % 3]

    def fails(*_: object) -> Any:
        raise error

    with pytest.raises((XlaError, type(error)), match="my message") as caught:
        ROUTES[route](CALLS[call](fails))
    assert error in (caught.value, caught.value.__cause__)
    if caught.value is not error:
        assert "the callback " in str(caught.value)
        assert f"raised {type(error).__name__}" in str(caught.value)
    assert not _FAILURES.entries


def test_a_function_is_usable_after_its_callback_has_failed() -> None:
    answers: list[Any] = [KeyboardInterrupt(), 5.0, ValueError(), 7.0]

    def answer(x: Any) -> Any:
        found = answers.pop(0)
        if isinstance(found, BaseException):
            raise found
        return np.float64(found)

    f = tj.jit(lambda x: tj.io_callback(answer, F64, x) * 2.0)
    with pytest.raises(KeyboardInterrupt):
        f(1.0)
    assert float(f(1.0)) == 10.0
    with pytest.raises(XlaError):
        f(1.0)
    assert float(f(1.0)) == 14.0


def test_messages_about_results_have_no_mark_of_ours() -> None:
    f = tj.jit(lambda x: tj.pure_callback(lambda x: np.ones(2), F64, x))
    with pytest.raises(XlaError, match="must return an array of type") as caught:
        f(1.0)
    assert "#" not in str(caught.value)
    assert isinstance(caught.value.__cause__, CallbackError)


def test_callbacks_that_call_the_library() -> None:
    twice = tj.jit(lambda x: x * 2.0)
    f = tj.jit(lambda x: tj.pure_callback(lambda x: np.asarray(twice(x)), F64, x) + 1.0)
    assert float(f(3.0)) == 7.0
    g = tj.jit(lambda x: tj.pure_callback(lambda x: np.asarray(tj.grad(lambda y: y * y)(x)), F64, x) + 1.0)
    assert float(g(3.0)) == 7.0


def test_callbacks_that_call_the_library_on_several_devices() -> None:
    """The devices wait for the callback: what it launches on them would never begin."""
    rows = tj.NamedSharding(tj.make_mesh((8,), "x"), tj.P("x"))
    one, several = (tj.jit(lambda x: x.sum() * 2.0, in_shardings=where) for where in (None, rows))

    def calling(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: tj.pure_callback(lambda x: np.asarray(inner(x)), F64, x) + x.sum()

    x = np.ones(8)
    assert float(tj.jit(calling(one), in_shardings=rows)(x)) == 24.0
    assert float(tj.jit(calling(several))(x)) == 24.0  # one device waits for several
    with pytest.raises(XlaError, match="is a callback of a program on several devices, which wait for it") as caught:
        tj.jit(calling(several), in_shardings=rows)(x)
    assert isinstance(caught.value.__cause__, CallbackError)
    assert float(several(x)) == 16.0
