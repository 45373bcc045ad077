"""`debug_nans` and `debug_infs`: the error comes exactly if a result has one, and names operation and line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import NonFiniteError

Function: TypeAlias = Callable[[Any], Any]
X: Final = np.array([3.0, -1.0, 0.5])


def bad_log(x: Any) -> tj.Array:
    return tnp.log(x)


LINE: Final = inspect.getsourcelines(bad_log)[1] + 1


@tj.custom_jvp
def with_rule(x: tj.Array) -> tj.Array:
    return bad_log(x)


with_rule.defjvps(lambda t, out, x: t / x)


@tj.custom_vjp
def with_reverse_rule(x: tj.Array) -> tj.Array:
    return bad_log(x)


with_reverse_rule.defvjp(lambda x: (bad_log(x), x), lambda x, ct: (ct / x,))

#: `bad_log`, at the bottom of whatever holds a program.
WITHIN: Final[dict[str, Function]] = {
    "plain": bad_log,
    "jit": tj.jit(bad_log),
    "checkpoint": tj.checkpoint(bad_log),
    "cond": lambda x: lax.cond(tnp.sum(x) > 0.0, bad_log, lambda x: x, x),
    "scan": lambda x: lax.scan(lambda c, e: (c, bad_log(e)), 0.0, x)[1],
    "fori_loop": lambda x: lax.fori_loop(0, 2, lambda _, c: bad_log(c), x),
    "while_loop": lambda x: lax.while_loop(lambda c: tnp.all(c == x), bad_log, x),
    "custom_jvp": with_rule,
    "custom_vjp": with_reverse_rule,
    "vmap": tj.vmap(bad_log),
}


@pytest.mark.parametrize("name", WITHIN)
def test_the_operation_and_the_line_are_found(name: str) -> None:
    f = tj.jit(WITHIN[name], debug_nans=True)
    with pytest.raises(NonFiniteError) as raised:
        f(X)
    message = str(raised.value)
    assert "has nan in its result, and debug_nans=True. The first operation that gives one is log at " in message
    assert f"test_non_finite.py:{LINE} (bad_log)" in message
    assert "of -1.0" in message
    assert isinstance(raised.value, FloatingPointError)
    assert np.isfinite(np.asarray(f(np.abs(X) + 2.0))).all()


@pytest.mark.parametrize("name", [name for name in WITHIN if name != "while_loop"])
def test_derivatives(name: str) -> None:
    def loss(x: Any) -> tj.Array:
        return tnp.sum(WITHIN[name](x))

    for f in (
        tj.grad(loss, debug_nans=True),
        tj.value_and_grad(loss, debug_nans=True),
        tj.jit(tj.value_and_grad(loss), debug_nans=True),
    ):
        with pytest.raises(NonFiniteError, match=rf"is log at .*test_non_finite\.py:{LINE} \(bad_log\)"):
            f(X)
        f(np.abs(X) + 2.0)


def test_the_backward_pass_has_lines_too() -> None:
    def f(x: Any) -> tj.Array:
        return tnp.where(x > 0.0, tnp.sqrt(x), 0.0)

    with pytest.raises(NonFiniteError, match=r"is mul at transpose of jvp of .* \(.*f\): .* of 0.0 and inf"):
        tj.grad(f, debug_nans=True)(0.0)
    assert np.isnan(tj.grad(f)(0.0))


@pytest.mark.parametrize(
    ("nans", "infs", "x"),
    [(True, False, [0.0, np.nan]), (False, True, [0.0, 1.0]), (True, True, [2.0, np.nan]), (True, True, [0.0, 1.0])],
)
def test_what_is_asked_for(nans: bool, infs: bool, x: list[float]) -> None:
    f = tj.jit(lambda x: 1.0 / x, debug_nans=nans, debug_infs=infs)
    kind = "nan" if np.isnan(x).any() and nans else "inf"
    with pytest.raises(NonFiniteError, match=f"has {kind} in its result, and debug_{kind}s=True"):
        f(np.array(x))


def test_what_is_not_asked_for() -> None:
    assert np.isinf(tj.jit(lambda x: 1.0 / x, debug_nans=True)(0.0))
    assert np.isnan(tj.jit(tnp.log, debug_infs=True)(-1.0))
    tj.jit(lambda x: tnp.log(x) * 0 + tnp.where(x > 0, x, 1.0), debug_infs=True)(1.0)
    counts = tj.jit(lambda x: (x, tnp.isnan(x)), debug_nans=True)(np.arange(3))
    np.testing.assert_array_equal(counts[0], np.arange(3))


def test_intermediate_values_do_not_count() -> None:
    assert tj.jit(lambda x: tnp.where(x > 0.0, tnp.log(x), 0.0), debug_nans=True)(-1.0) == 0.0


def test_what_is_passed_through() -> None:
    with pytest.raises(NonFiniteError, match=r"No single operation on the host makes it: it is in an argument"):
        tj.jit(lambda x: x, debug_nans=True)(np.nan)


def test_inside_of_other_transformations() -> None:
    f = tj.jit(bad_log, debug_nans=True)
    with pytest.raises(NonFiniteError, match=r"jit of bad_log .* is log at"):  # the value is known there
        tj.grad(lambda x: tnp.sum(f(x)))(X)
    tj.vmap(f)(X)  # here it isn't
    gradient = tj.grad(tj.grad(tnp.sqrt, debug_nans=True))
    with pytest.raises(NonFiniteError, match="is sqrt at"):
        gradient(-1.0)
    scale = np.float64(-1.0)
    with pytest.raises(NonFiniteError, match="transformation further out"):
        tj.grad(lambda s: tj.grad(lambda x: tnp.log(x * s), debug_nans=True)(1.0))(np.nan * scale)


def test_static_and_donated_arguments() -> None:
    x = tj.jit(tnp.asarray)(X)
    f = tj.jit(lambda x, n: tnp.log(x) * n, static_argnums=1, donate_argnums=0, debug_nans=True)
    with pytest.raises(NonFiniteError, match="is log at"):
        f(x, 2)
    np.testing.assert_array_equal(x, X)  # not donated


def test_as_a_decorator() -> None:
    @tj.jit(debug_nans=True)
    def f(x: Any) -> tj.Array:
        return tnp.sqrt(x)

    assert f(4.0) == 2.0
    with pytest.raises(NonFiniteError, match="is sqrt at"):
        f(-4.0)
