"""Programs from libraries for jax, which tinyjax imports: compiling, a run, and the memory that each takes.

The libraries are the optional dependencies `benchmarks`. What isn't installed, can't be imported or fails in jax's own
hands is left out, and a line says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Final, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from attrs import frozen

import tinyjax as tj
from benchmarks.library import kept_by_jax, kept_by_us, our_sizes, their_sizes
from benchmarks.running import RUNS, repeat
from benchmarks.timing import Comparison, check, compare, compare_sizes
from tinyjax.interop.jax import of_jax

#: A function of one tree of arrays.
Function: TypeAlias = Callable[..., object]


@final
@frozen
class Made:
    """What a library has made: a function of a tree with a number as its result, and the tree. A `step`, if that isn't
    the gradient."""

    loss: Callable[..., jax.Array]
    point: object
    step: Function | None = None


@final
@frozen
class Imported:
    """A program, and what has to be installed for it."""

    name: str
    library: str
    make: Callable[[], Made]


def _normal(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype("float32"))


def flax_transformer() -> Made:
    """Two blocks of attention under a mask."""
    nn = import_module("flax.linen")
    x, key = _normal(0, 4, 32, 64), jax.random.key(0)
    norm, attend = nn.LayerNorm(), nn.MultiHeadDotProductAttention(num_heads=4)
    network = nn.Sequential([nn.Dense(256), nn.gelu, nn.Dense(64)])
    mask = nn.make_causal_mask(jnp.ones(x.shape[:2]))
    blocks = [
        {"norm": norm.init(key, x), "attend": attend.init(key, x, x), "network": network.init(key, x)} for _ in range(2)
    ]

    def loss(blocks: list[dict[str, object]]) -> jax.Array:
        y = x
        for block in blocks:
            z = norm.apply(block["norm"], y)
            y = y + attend.apply(block["attend"], z, z, mask=mask)
            y = y + network.apply(block["network"], norm.apply(block["norm"], y))
        return jnp.mean(y**2)

    return Made(loss, blocks)


def flax_convolutions() -> Made:
    """A small network for images, with statistics of a batch."""
    nn = import_module("flax.linen")
    x, labels = _normal(0, 8, 16, 16, 3), jnp.arange(8) % 4
    pool = partial(nn.avg_pool, window_shape=(2, 2), strides=(2, 2))
    layers = [nn.Conv(16, (3, 3)), nn.GroupNorm(4), nn.relu, pool, nn.Conv(32, (3, 3)), nn.relu, pool]
    network = nn.Sequential([*layers, lambda y: y.reshape(len(y), -1), nn.Dense(4)])

    def loss(parameters: object) -> jax.Array:
        logs = jax.nn.log_softmax(network.apply(parameters, x))
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))

    return Made(loss, network.init(jax.random.key(0), x))


def equinox_mlp() -> Made:
    """A network with a batch mapped over."""
    eqx = import_module("equinox")
    network = eqx.nn.MLP(16, 8, 64, 3, activation=jax.nn.silu, key=jax.random.key(0))
    parameters, rest = eqx.partition(network, eqx.is_array)
    x, leaves = _normal(0, 128, 16), jax.tree.leaves(parameters)

    def loss(leaves: list[jax.Array]) -> jax.Array:
        model = eqx.combine(jax.tree.unflatten(jax.tree.structure(parameters), leaves), rest)
        return jnp.mean(jax.vmap(model)(x) ** 2)

    return Made(loss, leaves)


def optax_step() -> Made:
    """A step of Adam, with the norm of the gradient bounded."""
    optax = import_module("optax")
    widths = (16, 64, 64, 8)
    weights = [_normal(i, m, n) / m**0.5 for i, (m, n) in enumerate(pairwise(widths))]
    x, labels = _normal(9, 128, 16), jnp.arange(128) % 8
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    state = optimiser.init(weights)

    def loss(weights: list[jax.Array]) -> jax.Array:
        y = x
        for w in weights[:-1]:
            y = jnp.tanh(y @ w)
        found: jax.Array = optax.softmax_cross_entropy_with_integer_labels(y @ weights[-1], labels).mean()
        return found

    def step(weights: list[jax.Array]) -> object:
        updates, after = optimiser.update(jax.grad(loss)(weights), state, weights)
        return optax.apply_updates(weights, updates), after

    return Made(loss, weights, step)


def jraph_network() -> Made:
    """Two rounds on a graph, with attention over the edges of a node."""
    jraph = import_module("jraph")
    rng = np.random.default_rng(0)
    nodes, edges, width = 64, 256, 16
    senders, receivers = (jnp.asarray(rng.integers(0, nodes, edges).astype("int32")) for _ in range(2))
    features = _normal(0, nodes, width)
    weights = [_normal(1 + i, width, width) / width for i in range(4)]

    def loss(weights: list[jax.Array]) -> jax.Array:
        x = features
        for w, v in zip(weights[::2], weights[1::2], strict=True):
            scores = jnp.sum((x @ w)[senders] * x[receivers], axis=-1)
            shares = jraph.segment_softmax(scores, receivers, nodes)
            x = x + jnp.tanh(jraph.segment_sum(shares[:, None] * (x @ v)[senders], receivers, nodes))
        return jnp.sum(x**2)

    return Made(loss, weights)


def brax_step() -> Made:
    """A step of a simulated pendulum on a cart."""
    envs = import_module("brax.envs")
    environment = envs.get_environment("inverted_pendulum", backend="positional")
    state = jax.jit(environment.reset)(jax.random.key(0))

    def loss(action: jax.Array) -> jax.Array:
        return jnp.sum(environment.step(state, action).obs ** 2)

    return Made(loss, jnp.asarray([0.1], "float32"))


IMPORTED: Final[tuple[Imported, ...]] = (
    Imported("transformer (Flax)", "flax", flax_transformer),
    Imported("convolutional network (Flax)", "flax", flax_convolutions),
    Imported("MLP (Equinox)", "equinox", equinox_mlp),
    Imported("step of Adam (Optax)", "optax", optax_step),
    Imported("graph network (Jraph)", "jraph", jraph_network),
    Imported("pendulum (Brax)", "brax", brax_step),
)


def installed(programs: tuple[Imported, ...] = IMPORTED) -> list[Imported]:
    """Those whose library is there; a line on stderr names the others."""
    lacking = sorted({program.library for program in programs if find_spec(program.library) is None})
    if lacking:
        print(f"not installed, so left out: {', '.join(lacking)} (pip install 'tinyjax[benchmarks]')", file=sys.stderr)
    return [program for program in programs if program.library not in lacking]


def working(programs: tuple[Imported, ...] = IMPORTED) -> Iterator[tuple[str, Made, object]]:
    """Those that can be measured, with what jax makes of them; a line on stderr says which can't, and why.

    A library may be there and not load, or not work with this version of jax. That is no fault of ours, and what comes
    after it is measured all the same. Where jax succeeds and we don't, nothing is left out: that is an error.
    """
    for program in installed(programs):
        try:
            made = program.make()
            expected = jax.block_until_ready(jax.jit(steps(made)[1])(made.point))
        except Exception as error:  # noqa: BLE001 (whatever a library raises)
            reason = (str(error).splitlines() or [""])[0]
            print(f"fails in jax, so left out: {program.name}: {type(error).__name__}: {reason}", file=sys.stderr)
        else:
            yield program.name, made, expected


def steps(made: Made) -> tuple[Function, Function]:
    """The program in our hands, and in jax's: the gradient, which each takes itself, or the whole step."""
    if made.step is None:
        return tj.grad(of_jax(made.loss)), jax.grad(made.loss)
    return of_jax(made.step), made.step


def runs(made: Made) -> tuple[Callable[[], object], Callable[[], object]]:
    """A run of each, compiled, that waits for its results."""
    ours, theirs = steps(made)
    f, g = tj.jit(ours), jax.jit(theirs)
    point = jax.tree.map(lambda x: tj.device_put(np.asarray(x)), made.point)
    return lambda: tj.block_until_ready(f(point)), lambda: jax.block_until_ready(g(made.point))


def builds(made: Made) -> tuple[Callable[[], object], Callable[[], object]]:
    """Traces, lowers and compiles what is another object each time, without what either library remembers."""

    def ours() -> object:
        tj.clear_caches()
        fresh = Made(partial(made.loss), made.point, None if made.step is None else partial(made.step))
        return tj.jit(steps(fresh)[0]).lower(made.point).compile()

    def theirs() -> object:
        jax.clear_caches()
        fresh = Made(partial(made.loss), made.point, None if made.step is None else partial(made.step))
        return jax.jit(steps(fresh)[1]).lower(made.point).compile()

    return ours, theirs


def kept(made: Made) -> tuple[float, float]:
    """The bytes that reverse mode keeps, ours and theirs."""
    return float(kept_by_us(of_jax(made.loss), made.point)), float(kept_by_jax(made.loss, made.point))


def imported(rounds: int, programs: tuple[Imported, ...] = IMPORTED) -> Iterator[Comparison]:
    """All that are there. As their users run them, with numbers of 32 bits."""
    with jax.enable_x64(False):
        for name, made, expected in working(programs):
            ours, theirs = runs(made)
            check(name, ours(), expected, rtol=1e-3, atol=1e-4)
            build, other_build = builds(made)
            yield compare(
                "programs of libraries: compiling", name, build, other_build, rounds=min(rounds, 3), warm=False
            )
            yield compare(
                "programs of libraries: a run",
                name,
                repeat(ours, RUNS),
                repeat(theirs, RUNS),
                units=RUNS,
                rounds=2 * rounds + 1,
            )
            mine, other = kept(made)
            yield Comparison("programs of libraries: kept by vjp", name, 1, (mine,), (other,), unit="bytes")
            f, g = steps(made)
            yield from compare_sizes(
                "programs of libraries: ", name, our_sizes(f, made.point), their_sizes(g, made.point)
            )
