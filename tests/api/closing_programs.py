"""Programs that close over arrays, written once for either library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import jax
import numpy as np
from jax import numpy as jnp

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.ir.dtypes import HostArray

#: A module of functions of arrays: `jax.numpy`, or ours. Any: the programs are for both.
Numpy: TypeAlias = Any
Function: TypeAlias = Callable[..., Any]

N, E, D, H = 24, 80, 8, 16
RNG = np.random.default_rng(0)


def _floats(*shape: int) -> HostArray:
    return RNG.normal(size=shape).astype("float32")


X, Y, Q = _floats(N, D), _floats(N, D), _floats(N)
W1, W2, B, INERTIA, LIMITS = _floats(D, H), _floats(H, D), _floats(H), np.abs(_floats(N)), _floats(N, 2)
SQUARE, POSITIONS = _floats(D, D), _floats(N, D)
SENDERS, RECEIVERS = (RNG.integers(0, N, E).astype("int32") for _ in range(2))
ORDER, LABELS = RNG.permutation(N).astype("int32"), RNG.integers(0, D, N).astype("int32")
PARENTS = (np.maximum(np.arange(N) - 1, 0) // 2).astype("int32")
MASK = RNG.random((N, N)) < 0.5


def graph(m: Numpy) -> Function:
    """Messages along edges."""
    senders, receivers, w1, w2 = map(m.asarray, (SENDERS, RECEIVERS, W1, W2))

    def run(x: Any) -> Any:
        for _ in range(2):
            messages = m.tanh((x[senders] - x[receivers]) @ w1)
            x = x + m.zeros((N, H), "float32").at[receivers].add(messages) @ w2
        return x

    return run


def degrees(m: Numpy) -> Function:
    """Means over neighbours, whose number depends on the graph only."""
    senders, receivers = map(m.asarray, (SENDERS, RECEIVERS))

    def run(x: Any) -> Any:
        count = m.zeros(N, "float32").at[receivers].add(m.ones(E, "float32"))
        return m.zeros((N, D), "float32").at[receivers].add(x[senders]) / m.maximum(count, 1.0)[:, None]

    return run


def permutation(m: Numpy) -> Function:
    order, back = m.asarray(ORDER), m.asarray(np.argsort(ORDER))
    return lambda x: m.sin(x[order])[back]


def attention(m: Numpy) -> Function:
    mask, queries, keys = map(m.asarray, (MASK, W1, 2 * W1))

    def run(x: Any) -> Any:
        scores = m.exp(m.where(mask, (x @ queries) @ (x @ keys).T, -1e9) * 0.1)
        return (scores / scores.sum(-1, keepdims=True)) @ x

    return run


def positions(m: Numpy) -> Function:
    where, scale = m.asarray(POSITIONS), m.asarray(np.float32(2.0))
    return lambda x: m.tanh(x + where * scale) * m.sqrt(where * where + 1.0)


def weights(m: Numpy) -> Function:
    w1, w2, b = map(m.asarray, (W1, W2, B))
    return lambda x: m.tanh(x @ w1 + b) @ w2


def normalisation(m: Numpy) -> Function:
    mean, variance = m.asarray(Y.mean(0)), m.asarray(Y.var(0))
    return lambda x: (x - mean) / m.sqrt(variance + 1e-5)


def bodies(m: Numpy) -> Function:
    """Steps of bodies on springs, each of which hangs on another one."""
    inertia, parents, limits, gravity = map(m.asarray, (INERTIA, PARENTS, LIMITS, np.asarray([0, 0, -9.8], "float32")))

    def run(x: Any) -> Any:
        q, v = x[:, 0], x[:, 1]
        for _ in range(3):
            v = v + 0.01 * ((q[parents] - q) * 10.0 - v * 0.1 + gravity.sum() / inertia)
            q = m.clip(q + 0.01 * v, limits.min(1), limits.max(1))
        return q, v

    return run


def window(m: Numpy) -> Function:
    weighting = m.asarray(POSITIONS)
    return lambda x: (x * weighting).cumsum(0)


def likelihood(m: Numpy) -> Function:
    labels = m.asarray(LABELS)

    def run(x: Any) -> Any:
        logs = x - m.log(m.exp(x).sum(-1, keepdims=True))
        return -m.mean(m.take_along_axis(logs, labels[:, None], axis=-1))

    return run


def training(m: Numpy) -> Function:
    """A step of gradient descent through a graph."""
    senders, receivers, w, y = map(m.asarray, (SENDERS, RECEIVERS, W2, Y))
    grad: Function = jax.grad if m is jnp else tj.grad

    def loss(p: Any, x: Any) -> Any:
        hidden = m.zeros((N, H), "float32").at[receivers].add(m.tanh(x @ p)[senders])
        return m.mean((hidden @ w - y) ** 2)

    return lambda x: W1 - 0.1 * grad(loss)(m.asarray(W1), x)


def recurrence(m: Numpy) -> Function:
    w, order = m.asarray(SQUARE), m.asarray(ORDER)
    scan: Function = jax.lax.scan if m is jnp else tj.lax.scan
    return lambda x: scan(lambda c, _: (m.tanh(c @ w)[order], c.sum()), x, None, length=5)


def nested(m: Numpy) -> Function:
    order, where = m.asarray(ORDER), m.asarray(POSITIONS)
    jit: Function = jax.jit if m is jnp else tj.jit
    inner = jit(lambda x: m.sin(x[order]) * where)
    return lambda x: inner(inner(x))


PROGRAMS: Final = (
    graph,
    degrees,
    permutation,
    attention,
    positions,
    weights,
    normalisation,
    bodies,
    window,
    likelihood,
    training,
    recurrence,
    nested,
)
LIBRARIES: Final[tuple[tuple[Numpy, Function], ...]] = ((jnp, jax.jit), (tnp, tj.jit))
