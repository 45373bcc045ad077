"""Within `shard_map`: tangents that vary along axes of the mesh along which the values don't whose they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj

X = np.array([1.0, 3.0], "float32")
P0 = np.array([1.0], "float32")


def run(m: Any, function: Callable[[Any, Any], Any], out: bool = True, jit: bool = False) -> Any:  # Any: two libraries
    """The results of a function of the same array on both devices, and of another one on each."""
    mesh = m.make_mesh((2,), ("x",), (m.sharding.AxisType.Auto,), devices=m.devices("cpu")[:2])
    specs = {"mesh": mesh, "in_specs": (m.P(), m.P("x")), "out_specs": m.P("x") if out else m.P()}
    mapped = m.shard_map(function, **specs)
    return np.asarray((m.jit(mapped) if jit else mapped)(P0, X))


#: What is differentiated at the first array, in the direction of the second one.
FUNCTIONS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "square": lambda m: lambda p: p**2,
    "mean": lambda m: lambda p: m.numpy.mean(p**2)[None],
    "compiled": lambda m: m.jit(lambda p: m.numpy.sin(p) * p),
    "checkpoint": lambda m: m.checkpoint(lambda p: m.numpy.sin(p) * p),
    "cond": lambda m: lambda p: m.lax.cond(True, lambda p: p * p, lambda p: p, p),
    "while": lambda m: lambda p: m.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * p), (0, p))[1],
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_device_has_its_derivative(name: str, jit: bool) -> None:
    def found(m: Any) -> Any:
        return run(m, lambda p, t: m.jvp(FUNCTIONS[name](m), (p,), (t,))[1], jit=jit)

    ours = found(tj)
    np.testing.assert_allclose(ours, found(jax), rtol=1e-6)
    if name == "square":
        assert ours.tolist() == [2.0, 6.0]


def test_each_device_has_its_derivative_of_a_loop() -> None:
    """In JAX a ValueError that asks for an issue."""
    loop = lambda p: tj.lax.scan(lambda c, _: (c * p, None), p, None, length=3)[0]  # noqa: E731
    assert run(tj, lambda p, t: tj.jvp(loop, (p,), (t,))[1]).tolist() == [4.0, 12.0]


def _pull(m: Any) -> Callable[[Any, Any], Any]:
    return lambda p, t: m.vjp(lambda p: p * 2, p)[1](t)[0]


#: Linear functions of what is the same on both devices, of what isn't.
REFUSED: dict[str, Callable[[Any], Callable[[Any, Any], Any]]] = {
    "linearize": lambda m: lambda p, t: m.linearize(lambda p: p**2, p)[1](t),
    "vjp": _pull,
    "linear_transpose": lambda m: lambda p, t: m.linear_transpose(lambda p: p * 2, p)(t)[0],
}


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_linear_functions_do_not_sum_over_devices(name: str, out: bool) -> None:
    with pytest.raises((TypeError, ValueError)):
        run(jax, REFUSED[name](jax), out)
    with pytest.raises(
        tj.errors.VaryingError, match=r"varies along axis 'x' of the mesh, but its .*lax\.pcast\(x, 'x'"
    ):
        run(tj, REFUSED[name](tj), out)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_message_says_helps(name: str) -> None:
    def results(m: Any) -> Any:
        return run(m, lambda p, t: REFUSED[name](m)(m.lax.pcast(p, "x", to="varying"), t))

    np.testing.assert_allclose(results(tj), results(jax))


def test_cotangents_that_are_the_same_are_taken() -> None:
    """In JAX a ValueError: it asks for `pcast` there, too."""
    assert run(tj, lambda p, t: tj.vjp(lambda x: x * 2, t)[1](p)[0]).tolist() == [2.0, 2.0]
