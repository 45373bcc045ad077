"""Whole programs of JAX as functions of ours: a step of a sampler, a planner, layers that route or remember, an
optimiser, transport. Values, and derivatives of first and second order, against jax; on the host, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import tinyjax as tj
from tinyjax.interop.jax import of_jax

pytestmark = pytest.mark.sweep
Program = Callable[..., Any]  # from arrays of floats to a tree of them


def hamiltonian(x: jax.Array, scale: jax.Array) -> Any:
    """Three steps of Hamiltonian Monte Carlo, each accepted or not."""

    def energy(q: jax.Array) -> jax.Array:
        return scale * jnp.sum((q[1:] - q[:-1] ** 2) ** 2 + (1 - q[:-1]) ** 2)

    def leap(state: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], None]:
        q, p = state
        p = p - 0.005 * jax.grad(energy)(q)
        q = q + 0.01 * p
        return (q, p - 0.005 * jax.grad(energy)(q)), None

    def step(q: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        first, second = jax.random.split(key)
        p = jax.random.normal(first, q.shape, q.dtype)
        (moved, turned), _ = lax.scan(leap, (q, p), None, length=4)
        ratio = jnp.exp(energy(q) + jnp.sum(p**2) / 2 - energy(moved) - jnp.sum(turned**2) / 2)
        return jnp.where(jax.random.uniform(second) < ratio, moved, q), ratio

    return lax.scan(step, x, jax.random.split(jax.random.PRNGKey(0), 3))


def planner(x: jax.Array, us: jax.Array, a: jax.Array, b: jax.Array) -> Any:
    """Controls after steps of gradient descent through a rollout, and the gains of a Riccati recursion along it."""

    def dynamics(x: jax.Array, u: jax.Array) -> jax.Array:
        return jnp.tanh(a @ x + b @ u)

    def rollout(us: jax.Array) -> tuple[jax.Array, jax.Array]:
        return lax.scan(lambda x, u: (dynamics(x, u), x), x, us)

    def cost(us: jax.Array) -> jax.Array:
        last, xs = rollout(us)
        return jnp.sum(xs**2) + 0.1 * jnp.sum(us**2) + 10 * jnp.sum(last**2)

    def back(p: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        f, g = step
        gain = jnp.linalg.solve(g.T @ p @ g + jnp.eye(1), g.T @ p @ f)
        return f.T @ p @ (f - g @ gain) + jnp.eye(2), gain

    _, xs = rollout(us)
    steps = jax.vmap(jax.jacfwd(dynamics, 0))(xs, us), jax.vmap(jax.jacrev(dynamics, 1))(xs, us)
    improved = lax.fori_loop(0, 3, lambda _, us: us - 0.05 * jax.grad(cost)(us), us)
    return improved, lax.scan(back, jnp.eye(2), steps, reverse=True)


def routed(gate: jax.Array, experts: jax.Array, x: jax.Array) -> Any:
    """Each row goes to two experts of three, sorted by expert and back."""
    weights, chosen = lax.top_k(jax.nn.softmax(x @ gate), 2)
    order = jnp.argsort(chosen.ravel())
    sizes = jnp.bincount(chosen.ravel(), length=experts.shape[0]).astype("int32")
    rows = jnp.repeat(x, 2, 0)
    done = lax.ragged_dot(rows[order], experts, sizes)
    return jnp.zeros_like(rows).at[order].set(done).reshape(-1, 2, x.shape[1]) * weights[..., None]


def state_space(decay: jax.Array, b: jax.Array, c: jax.Array, x: jax.Array) -> Any:
    """A selective state space layer, in parallel, and a long convolution by Fourier transforms."""
    size = jax.nn.softplus(x @ b)
    factors, terms = jnp.exp(-jnp.exp(decay) * size), size * (x @ c)
    _, states = lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (factors, terms))
    return states, jnp.fft.irfft(jnp.fft.rfft(x, 8, axis=0) * jnp.fft.rfft(states[:, :3], 8, axis=0), axis=0)


def penalty(critic: dict[str, jax.Array], real: jax.Array, made: jax.Array) -> Any:
    """A penalty on the gradient of a critic, and its gradient."""

    def score(critic: dict[str, jax.Array], x: jax.Array) -> Any:
        return jnp.tanh(x @ critic["in"]) @ critic["out"]

    def cost(critic: dict[str, jax.Array]) -> jax.Array:
        slopes = jax.vmap(jax.grad(score, 1), (None, 0))(critic, 0.3 * made + 0.7 * real)
        return jnp.mean((jnp.linalg.norm(slopes, axis=-1) - 1) ** 2)

    return jax.value_and_grad(cost)(critic)


def preconditioned(w: jax.Array, x: jax.Array) -> Any:
    """A step of descent with inverse roots on both sides, by iteration and by eigenvalues."""

    def inverse_root(m: jax.Array) -> jax.Array:
        def body(_: Any, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            y, z = state
            t = 0.5 * (3 * jnp.eye(3) - z @ y)
            return y @ t, t @ z

        size = jnp.linalg.norm(m)
        root: jax.Array = lax.fori_loop(0, 8, body, (m / size, jnp.eye(3)))[1] / jnp.sqrt(size)
        return root

    g = jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w)
    left, right = g @ g.T + jnp.eye(3), g.T @ g + jnp.eye(3)
    values, vectors = jnp.linalg.eigh(left)
    return w - 0.1 * inverse_root(left) @ g @ inverse_root(right), (vectors * values**-0.25) @ vectors.T


@jax.custom_vjp
def _total(x: jax.Array) -> jax.Array:
    return jax.scipy.special.logsumexp(x, axis=-1)


_total.defvjp(lambda x: (_total(x), x), lambda x, ct: (jax.nn.softmax(x) * ct[:, None],))


def transport(cost: jax.Array, mass: jax.Array, scan: Callable[..., Any] = lax.scan) -> Any:
    """Sinkhorn's iteration, with a rule for the derivative of its sums."""

    def body(state: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        u = jnp.log(mass) - _total(state[1] - cost)
        v = -_total((u[:, None] - cost).T)
        return (u, v), jnp.sum(u)

    (u, v), totals = scan(body, (jnp.zeros(4), jnp.zeros(4)), None, length=5)
    return jnp.exp(u[:, None] - cost + v), totals


def _unrolled(body: Program, carry: Any, _: None, length: int) -> Any:
    ys = []
    for _step in range(length):
        carry, y = body(carry, None)
        ys.append(y)
    return carry, jnp.stack(ys)


def _normal(*shape: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape)


PROGRAMS: Final[dict[str, tuple[Program, tuple[Any, ...]]]] = {
    "hamiltonian": (hamiltonian, (_normal(3), np.float64(1.0))),
    "planner": (planner, (_normal(2), _normal(5, 1), _normal(2, 2) * 0.5, _normal(2, 1))),
    "routed": (routed, (_normal(4, 3), _normal(3, 4, 4), _normal(5, 4))),
    "state space": (state_space, (_normal(4), _normal(3, 4), _normal(3, 4) * 0.5, _normal(4, 3))),
    "penalty": (penalty, ({"in": _normal(3, 4), "out": _normal(4)}, _normal(5, 3), _normal(5, 3) ** 2)),
    "preconditioned": (preconditioned, (_normal(3, 3), _normal(4, 3))),
    "transport": (transport, (_normal(4, 4) ** 2, np.full(4, 0.25))),
}
#: Of these the rules are for reverse mode; of those jax can't transpose the gradient.
REVERSE: Final = ("transport",)
ONCE: Final = ("routed",)
#: What jax is asked for instead: its gradients of gradients of such rules within loops aren't the differences of its
#: gradients (0.10.2 and 0.11.2).
INSTEAD: Final[dict[str, Program]] = {"transport": partial(transport, scan=_unrolled)}


def _computed(lib: Any, numpy: Any, f: Program, args: tuple[Any, ...], name: str) -> dict[str, Any]:
    """What is compared of derivatives, by jax or by us."""
    directions = lib.tree.map(lambda x: np.cos(np.arange(x.size)).reshape(x.shape), args)

    def loss(args: tuple[Any, ...]) -> Any:
        leaves = lib.tree.leaves(f(*args))
        return sum(numpy.sum(numpy.sin(leaf) * (1.0 + i)) for i, leaf in enumerate(leaves))

    def slope(args: tuple[Any, ...]) -> Any:
        gradient = lib.tree.leaves(lib.grad(loss)(args))
        return sum(numpy.sum(one * other) for one, other in zip(gradient, lib.tree.leaves(directions), strict=True))

    both = lib.tree.map(lambda x: numpy.stack([x, 0.9 * x]), args)
    results = {"mapped": lib.vmap(lib.grad(loss))(both)}
    if name not in ONCE:
        results["reverse twice"] = lib.grad(slope)(args)
    if name not in REVERSE:
        results["forward"] = lib.jvp(lambda args: f(*args), (args,), (directions,))[1]
        results["both"] = lib.jvp(lib.grad(loss), (args,), (directions,))[1]
    return results


def _agree(found: object, expected: object, what: str) -> None:
    for one, other in zip(tj.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        scale = float(np.max(np.abs(other), initial=1.0))
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9 * scale, err_msg=what)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_computes_and_is_differentiated_as_in_jax(name: str) -> None:
    f, args = PROGRAMS[name]
    ours, theirs = of_jax(f), INSTEAD.get(name, f)
    expected = jax.jit(theirs)(*args)
    _agree(ours(*args), expected, "value")
    _agree(tj.jit(ours)(*args), expected, "compiled")
    want = jax.jit(lambda args: _computed(jax, jnp, theirs, args, name))(args)
    found = tj.jit(lambda args: _computed(tj, tj.numpy, ours, args, name))(args)
    assert found.keys() == want.keys()
    for what, derived in want.items():
        _agree(found[what], derived, what)
