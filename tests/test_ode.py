"""`odeint` against JAX's, and against solutions that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import ode as of_jax

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import InputError
from tinyjax.experimental.ode import odeint
from tinyjax.interop.to_jax import to_jax

T: Final = np.linspace(0.0, 2.0, 5)
STATE: Final = {"a": np.array([1.0, 0.5]), "b": np.zeros(2)}


def pendulum(m: Any) -> Callable[..., Any]:
    def f(y: Any, t: Any, p: Any, q: Any) -> Any:
        return {"a": y["b"], "b": -p * m.sin(y["a"]) - q["k"] * y["b"] + 0.1 * m.cos(t)}

    return f


def loss(solve: Any, m: Any, y0: Any, t: Any, p: Any, k: Any) -> Any:
    ys = solve(pendulum(m), y0, t, p, {"k": k})
    return (ys["a"] ** 2).sum() + ys["b"][-1].sum() * t[1]


def close(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    ours, theirs = tj.tree.leaves(found), jax.tree.leaves(expected)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)


@pytest.mark.sweep
def test_values_and_gradients_are_those_of_jax() -> None:
    with jax.enable_x64(True):
        args = STATE, T, np.float64(9.8), np.float64(0.1)
        expected = of_jax.odeint(pendulum(jnp), STATE, jnp.asarray(T), 9.8, {"k": 0.1})
        close(odeint(pendulum(tnp), STATE, T, 9.8, {"k": 0.1}), expected)
        theirs = jax.grad(lambda *xs: loss(of_jax.odeint, jnp, *xs), (0, 1, 2, 3))(*jax.tree.map(jnp.asarray, args))
        close(tj.grad(lambda *xs: loss(odeint, tnp, *xs), (0, 1, 2, 3))(*args), theirs)


@pytest.mark.sweep
def test_known_solutions() -> None:
    def decay(y: Any, t: Any, rate: Any) -> Any:
        return -rate * y

    close(odeint(decay, 1.0, T, 2.0), np.exp(-2.0 * T))
    close(odeint(decay, 1, T, 2), np.exp(-2.0 * T))
    close(tj.jit(lambda y, r: odeint(decay, y, T, r))(3.0, 2.0), 3.0 * np.exp(-2.0 * T))
    rates = np.array([0.5, 2.0])
    close(tj.vmap(lambda r: odeint(decay, 1.0, T, r))(rates), np.exp(-rates[:, None] * T))
    close(odeint(lambda y, t: 1j * y, 1.0 + 0j, T), np.exp(1j * T))
    close(odeint(lambda y, t: 3.0 * t**2, 0.0, T), T**3)
    single = odeint(decay, np.float32(1.0), T.astype(np.float32), np.float32(2.0), rtol=1e-5, atol=1e-5)
    assert single.dtype == np.dtype("float32")
    close(single, np.exp(-2.0 * T), 1e-3)
    close(odeint(decay, 1.0, T[:1], 2.0), [1.0])


@pytest.mark.sweep
def test_derivatives_of_known_solutions() -> None:
    def last(rate: Any) -> Any:
        return odeint(lambda y, t: -rate * y, 1.0, np.array([0.0, 1.0]))[-1]  # closes over the rate

    close(tj.grad(last)(2.0), -np.exp(-2.0))
    close(tj.hessian(last)(2.0), np.exp(-2.0))
    close(tj.jit(tj.grad(last))(2.0), -np.exp(-2.0))
    close(tj.grad(lambda y: odeint(lambda y, t, n: -y * n, y, np.array([0.0, 1.0]), 2)[-1])(1.0), np.exp(-2.0))


@pytest.mark.sweep
def test_lists_of_scalars_stand_for_vectors() -> None:
    """And vectors for them."""

    def swing(y: Any, t: Any, k: Any) -> list[Any]:
        return [y[1], -k * tnp.sin(y[0])]

    def as_array(y: Any, t: Any, k: Any) -> Any:
        return tnp.stack(swing(y, t, k))

    start = np.array([1.0, 0.5])
    expected = odeint(as_array, start, T, 9.8)
    close(odeint(swing, start, T, 9.8), expected)
    close(tnp.stack(odeint(as_array, [1.0, 0.5], T, 9.8), -1), expected)
    gradient = tj.grad(lambda f, y: tnp.sum(odeint(f, y, T, 9.8) ** 2), 1)
    close(gradient(tj.tree_util.Partial(swing), start), gradient(tj.tree_util.Partial(as_array), start))


def test_steps_are_limited() -> None:
    stiff = odeint(lambda y, t: -1e4 * y, 1.0, np.array([0.0, 1.0]), mxstep=3)
    assert np.asarray(stiff).shape == (2,)
    close(odeint(lambda y, t: -y, 1.0, T, hmax=0.01), np.exp(-T))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda: odeint(lambda y, t: y, 1.0, np.arange(3)), "t must be a vector of floats"),
        (lambda: odeint(lambda y, t: y, 1.0, 2.0), "t must be a vector of floats"),
        (lambda: odeint(lambda y, t: (y, y), 1.0, T), "func must return a tree like the state"),
        (lambda: odeint(lambda y, t: [y[0], y[1]], np.ones(3), T), "func must return a tree like the state"),
        (lambda: odeint(lambda y, t: [y], np.ones(2), T), "func must return a tree like the state"),
        (lambda: odeint(lambda y, t: tnp.ones(3), 1.0, T), "func must return a tree like the state"),
    ],
)
def test_refused(f: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        f()


def of_rate(rate: Any) -> Any:
    return odeint(lambda y, t: -rate * y, 1.0, np.array([0.0, 0.4, 1.0]))[-1]


@pytest.mark.sweep
def test_derivatives_of_derivatives() -> None:
    """In every mode, and mapped."""
    rates = np.array([0.5, 2.0])
    pushed = tj.jvp(of_rate, (2.0,), (1.0,))
    close(pushed, (np.exp(-2.0), -np.exp(-2.0)))
    for outer in (tj.grad, tj.jacfwd):
        for inner in (tj.grad, tj.jacfwd):
            close(outer(inner(of_rate))(2.0), np.exp(-2.0))
    close(tj.vmap(tj.grad(tj.grad(of_rate)))(rates), np.exp(-rates))
    weighted = tj.grad(tj.grad(lambda s: tnp.sum(tj.vmap(lambda r: of_rate(r * s))(rates))))
    close(weighted(1.0), np.sum(rates**2 * np.exp(-rates)))
    close(tj.grad(tj.grad(tj.grad(of_rate)))(2.0), -np.exp(-2.0), 1e-4)


@pytest.mark.sweep
def test_second_derivatives_are_those_of_jax() -> None:
    """With respect to the state, times and arguments, in reverse over reverse mode; and in forward mode, which jax
    hasn't, they are the same."""
    with jax.enable_x64(True):
        args = STATE, T[:3], np.float64(9.8), np.float64(0.1)

        def slope(grad: Any, m: Any, solve: Any) -> Any:
            def total(*xs: Any) -> Any:
                found: Any = grad(lambda *ys: loss(solve, m, *ys), (0, 1, 2, 3))(*xs)
                state, times, p, k = found
                a, b = state["a"], state["b"]
                return m.sum(m.sin(a)) + m.sum(b**2) + m.sum(times**3) + p * k

            return total

        theirs = jax.grad(slope(jax.grad, jnp, of_jax.odeint), (0, 1, 2, 3))(*jax.tree.map(jnp.asarray, args))
        ours = tj.grad(slope(tj.grad, tnp, odeint), (0, 1, 2, 3))(*args)
        close(ours, theirs, 1e-4)
        close(tj.jacfwd(slope(tj.grad, tnp, odeint), (0, 1, 2, 3))(*args), theirs, 1e-4)


@pytest.mark.sweep
def test_one_equation_of_programs() -> None:
    """With its dynamics in it; named axes, constants and integers among what it closes over; as jax's program, too."""
    table, n = tnp.asarray(np.array([1.0, 2.0])), tnp.asarray(2)

    def f(y: Any, rate: Any) -> Any:
        return odeint(lambda y, t: -rate * y / n + 0.0 * table * tj.lax.axis_index("i"), y, T)[-1]

    found = tj.vmap(f, axis_name="i")(np.ones((3, 2)), np.arange(3.0))
    close(found, np.broadcast_to(np.exp(-np.arange(3.0)), (2, 3)).T)
    program = tj.make_jaxpr(lambda r: odeint(lambda y, t: -r * y, 1.0, T))(2.0)
    assert str(program).count("odeint[") == 1
    tj.ir.typecheck(program)
    assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr
    solve = tj.jit(lambda r: odeint(lambda y, t: -r * y, 1.0, T)[-1])
    again = tj.export.deserialize(tj.export.export(solve)(2.0).serialize())
    close(tj.grad(again.call)(2.0), -2.0 * np.exp(-4.0))
    with jax.enable_x64(True):
        close(to_jax(solve)(2.0), np.exp(-4.0))
    close(tj.grad(f_bf)(np.float32(1.0)), np.exp(-1.0), 1e-2)


def f_bf(y: Any) -> Any:
    """A state of floats of 32 bits, and an argument of 16."""
    rate = tnp.asarray(1.0, dtype=tnp.bfloat16)
    return odeint(lambda y, t, r: -r * y, y, np.array([0.0, 1.0], "float32"), rate, rtol=1e-5, atol=1e-5)[-1]
