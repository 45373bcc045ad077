"""How exact elementary functions have to be: a parameter of the primitives, as in JAX."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import ir, lax
from tinyjax.errors import InputError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.ir.dtypes import HostArray

Accuracy = lax.Tolerance | lax.AccuracyMode
NAMES = ("exp", "exp2", "expm1", "log", "log1p", "logistic", "sqrt", "rsqrt", "cbrt", "sin", "cos", "tan", "tanh")
ACCURACIES: list[Accuracy] = [
    lax.AccuracyMode.HIGHEST,
    lax.AccuracyMode.DEFAULT,
    lax.Tolerance(rtol=1e-3),
    lax.Tolerance(atol=2.5, rtol=1e-30, ulps=3),
]
X: HostArray = np.array([0.25, 0.5, 0.75], np.float32)


def of_jax_too(accuracy: Accuracy) -> jax.lax.Tolerance | jax.lax.AccuracyMode:
    if isinstance(accuracy, lax.AccuracyMode):
        return jax.lax.AccuracyMode[accuracy.name]
    return jax.lax.Tolerance(accuracy.atol, accuracy.rtol, accuracy.ulps)


def attributes(text: str) -> list[tuple[str, object]]:
    """What StableHLO is told of accuracy, numbers as such."""
    return [
        (name, float(value) if name in ("atol", "rtol", "ulps") else value)
        for found in re.findall(r"result_accuracy<(.*)>}", text)
        for name, value in (part.split(" = ") for part in found.split(", "))
    ]


@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_kept_everywhere(name: str, accuracy: Accuracy) -> None:
    ours: Callable[..., tj.Array] = getattr(lax, name)
    theirs: Callable[..., jax.Array] = getattr(jax.lax, name)

    def f(x: tj.ArrayLike) -> tj.Array:
        return ours(x, accuracy=accuracy)

    program = tj.make_jaxpr(f)(X)
    assert program.eqns[0].primitive.params == {"accuracy": accuracy}
    assert ir.parse(str(program.jaxpr)) == program.jaxpr
    traced = jax.make_jaxpr(lambda x: theirs(x, accuracy=of_jax_too(accuracy)))(X)
    assert from_jax(traced) == program
    exported = jax.make_jaxpr(to_jax(program))(X).eqns[0].params["accuracy"]
    if isinstance(accuracy, lax.AccuracyMode):
        assert exported == of_jax_too(accuracy)
        assert ir.parse(str(traced)) == program.jaxpr
    else:
        assert vars(exported) == vars(of_jax_too(accuracy))
        assert ir.parse(str(traced)) == tj.make_jaxpr(ours)(X).jaxpr  # JAX prints where in memory it is


@pytest.mark.sweep
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("name", NAMES)
def test_what_xla_is_told_and_computes_is_as_in_jax(name: str, accuracy: Accuracy) -> None:
    def f(x: tj.ArrayLike) -> tj.Array:
        found: tj.Array = getattr(lax, name)(x, accuracy=accuracy)
        return found

    def expected(x: jax.Array) -> jax.Array:
        found: jax.Array = getattr(jax.lax, name)(x, accuracy=of_jax_too(accuracy))
        return found

    text = tj.jit(f).lower(X).as_text()
    assert attributes(text) == attributes(jax.jit(expected).lower(X).as_text())
    assert bool(attributes(text)) == (accuracy is not lax.AccuracyMode.DEFAULT and name != "logistic")
    for ours in (f, tj.jit(f)):
        found, slopes = tj.jvp(ours, (X,), (np.ones_like(X),))
        value, tangent = jax.jvp(expected, (X,), (np.ones_like(X),))
        np.testing.assert_allclose(np.asarray(found), value, rtol=1e-4)
        np.testing.assert_allclose(np.asarray(slopes), tangent, rtol=1e-4)


@pytest.mark.parametrize("name", ["tanh", "logistic", "expm1"])
def test_the_highest_derivative_does_not_cancel(name: str) -> None:
    def slope(x: float, accuracy: lax.AccuracyMode | None) -> float:
        return float(tj.grad(lambda y: getattr(lax, name)(y, accuracy=accuracy))(x))

    x, exact = (-40.0, np.exp(-40.0)) if name == "expm1" else (40.0, np.exp(-40.0))
    if name == "tanh":
        exact = 4 * np.exp(-80.0)
    assert slope(x, lax.AccuracyMode.HIGHEST) == pytest.approx(exact, rel=1e-10, abs=0)
    assert slope(x, None) != pytest.approx(exact, rel=1e-10, abs=0)


def test_objects_of_jax_are_taken() -> None:
    functions: list[Callable[..., tj.Array]] = [lax.exp, lax.log2]
    for function in functions:
        for accuracy in ACCURACIES:
            found = tj.make_jaxpr(lambda x: function(x, accuracy=of_jax_too(accuracy)))(X)  # noqa: B023
            assert found == tj.make_jaxpr(lambda x: function(x, accuracy=accuracy))(X)  # noqa: B023


def test_wrong_accuracies() -> None:
    with pytest.raises(ValueError, match=r"Tolerances must be non-negative, got Tolerance\(atol=0.0, rtol=-1.0"):
        lax.Tolerance(rtol=-1.0)
    with pytest.raises(ValueError, match=r"At least one of atol, rtol, or ulps must be set"):
        lax.Tolerance()
    exp: Callable[..., object] = lax.exp
    with pytest.raises(InputError, match=r"exp: accuracy is a lax.Tolerance or a lax.AccuracyMode, got 'high'"):
        exp(1.0, accuracy="high")
