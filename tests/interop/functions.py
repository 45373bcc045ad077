"""Functions of JAX of one matrix, for import: between them they have all kinds of primitives and of programs within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from tinyjax.ir.dtypes import FLOAT0

Function: TypeAlias = Callable[[jax.Array], jax.Array]
KEY: Final = jax.random.PRNGKey(0)
TYPED_KEY: Final = jax.random.key(1)


@jax.custom_vjp
def scaled(x: jax.Array, y: jax.Array) -> jax.Array:
    return x * y


def _scaled_fwd(x: jax.Array, y: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return x * y, (x, y)


def _scaled_bwd(residuals: tuple[jax.Array, jax.Array], g: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, y = residuals
    return 3.0 * g * y, g * x


scaled.defvjp(_scaled_fwd, _scaled_bwd)


@jax.custom_vjp
def repeated(x: jax.Array, n: int) -> jax.Array:
    """Its rules apply it again; its second argument has no cotangent."""
    return jnp.sin(x) * n


def _repeated_fwd(x: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    return repeated(x, n), x


def _repeated_bwd(x: jax.Array, g: jax.Array) -> tuple[jax.Array, None]:
    return 2.0 * g * jnp.cos(x) + repeated(x, 1), None


repeated.defvjp(_repeated_fwd, _repeated_bwd)


@jax.custom_jvp
def wave(x: jax.Array) -> jax.Array:
    """Its rule applies it twice."""
    return jnp.sin(x)


@wave.defjvp
def _wave_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    return wave(*primals), 2.0 * tangents[0] * wave(primals[0])


@jax.custom_jvp
def counted(x: jax.Array, n: int) -> tuple[jax.Array, int]:
    """An argument and a result that can't have tangents."""
    return jnp.sin(x) * n, n


@counted.defjvp
def _counted_jvp(primals: tuple[jax.Array, int], tangents: tuple[jax.Array, Any]) -> tuple[Any, Any]:
    return counted(*primals), (2.0 * tangents[0], np.zeros((), FLOAT0))


def elementwise(x: jax.Array) -> jax.Array:
    y = jnp.abs(x) + 0.5
    smooth = jnp.exp(x) + jnp.exp2(x) + jnp.tanh(x) + jnp.log1p(y) + jnp.expm1(x) + jnp.cbrt(x) + lax.rsqrt(y)
    powers = x**2 + x**-1 + y**2.5 + jnp.sqrt(y) + jnp.hypot(x, y) + jnp.logaddexp(x, y)
    special = jax.scipy.special.erf(x) + jax.scipy.special.gammaln(y) + jax.scipy.special.digamma(y)
    steps = jnp.round(x) + jnp.floor(x) * jnp.sign(x) + jnp.fmod(x, 0.3) + jnp.where(jnp.isfinite(x), x, 0)
    return jnp.asarray(smooth + powers + special + steps + jnp.arctan2(x, y) + jnp.sinc(x) + jnp.clip(x, -1, 1))


def integers(x: jax.Array) -> jax.Array:
    n = jnp.argsort(x, axis=None).reshape(x.shape)
    bits = (n << 2) ^ (n >> 1) | lax.population_count(n) & ~n
    return jnp.asarray(x * (bits + n // 3 + n % 4) + (n > 2) * x)


def shapes(x: jax.Array) -> jax.Array:
    joined = jnp.stack([x, x], 1)[0] + jnp.tile(x, (2, 1))[:2] + jnp.outer(x[:2, 0], x[0]) + jnp.roll(x, 1, 0)[:2]
    parts = jnp.split(x, 2, axis=0)[0] + jnp.pad(x, 1)[1:3, 1:-1] + x[::-1][:2] + jnp.concatenate([x, x])[3:5]
    return jnp.asarray(joined + parts + jnp.kron(x, x).mean() + jnp.trace(x) + jnp.tril(x)[:2])


def reductions(x: jax.Array) -> jax.Array:
    whole = jnp.sum(x) + jnp.max(x) + jnp.prod(x) + jnp.var(x) + jnp.linalg.norm(x) + jnp.median(x) + jnp.any(x > 1)
    running = jnp.cumsum(x, 0) + jnp.cumprod(x, 1) + lax.cummax(x) + lax.cumlogsumexp(x, reverse=True)
    return jnp.asarray(x * whole + running + jax.scipy.special.logsumexp(x) + jnp.argmax(x, 0))


def contractions(x: jax.Array) -> jax.Array:
    high = jnp.matmul(x, x.T, precision="highest")
    return jnp.asarray(high + jnp.einsum("ij,kj->ik", x, x) + jnp.tensordot(x, x, ((1,), (1,))))


def indexing(x: jax.Array) -> jax.Array:
    rows = jnp.array([0, 1])
    written = x.at[rows].set(1.0) + x.at[rows].multiply(2.0) + x.at[rows].min(0.0) + x.at[0].subtract(x[1])
    taken = (
        x[rows].sum() + jnp.take_along_axis(x, jnp.zeros((4, 1), int), 1) + lax.dynamic_slice(x, (0, 1), (2, 2))[0, 0]
    )
    return jnp.asarray(written + taken + lax.dynamic_update_slice(x, x[:1, :1], (1, 1)) + x[jnp.argmax(x[:, 0])])


def ordering(x: jax.Array) -> jax.Array:
    largest, places = lax.top_k(x, 2)
    found = jnp.searchsorted(jnp.sort(x[:, 0]), x[:, 1])
    return jnp.asarray(jnp.sort(x, 0)[:, :2] + largest * (1 + places) + found[:, None])


def complexes(x: jax.Array) -> jax.Array:
    z = x + 1j * x[::-1]
    return jnp.asarray(jnp.abs(z) + jnp.real(jnp.conj(z) * z) + jnp.imag(jnp.exp(z)))


def loops(x: jax.Array) -> jax.Array:
    def step(carry: tuple[jax.Array, jax.Array], row: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        total, kept = carry
        return (total + row * kept, kept), total * row

    (total, _), ys = lax.scan(step, (x[0], x[1]), x, reverse=True, unroll=2)
    powers: jax.Array = lax.fori_loop(0, 3, lambda i, y: y * x + i, x)
    return jnp.asarray(total + ys + powers + lax.map(jnp.sum, x)[:, None] + lax.associative_scan(jnp.add, x))


def branches(x: jax.Array) -> jax.Array:
    chosen = lax.cond(x[0, 0] > 0, jnp.sin, lambda y: y * x[1, 1], x)
    return jnp.asarray(chosen + lax.switch(jnp.argmax(x[0]), [jnp.sin, jnp.cos, jnp.tanh], x))


def rematerialised(x: jax.Array) -> jax.Array:
    policies = jax.checkpoint_policies
    dots = jax.checkpoint(lambda y: jnp.sin(y @ x.T) @ x, policy=policies.dots_saveable)
    named = jax.checkpoint(
        lambda y: jnp.sin(checkpoint_name(jnp.sin(y), "s")), policy=policies.save_only_these_names("s")
    )
    return jnp.asarray(dots(x) + named(x) + jax.checkpoint(jnp.cos)(x))


def constants(x: jax.Array) -> jax.Array:
    inner = jax.jit(lambda y: y * np.arange(3.0))
    return jnp.asarray(x + np.arange(12.0).reshape(4, 3) + inner(x) + inner(x * 2))


def derivatives(x: jax.Array) -> jax.Array:
    gradient: jax.Array = jax.grad(lambda y: jnp.sum(jax.nn.relu(y) * scaled(y, y) * wave(y)))(x)
    _, tangent = jax.jvp(jax.nn.gelu, (x,), (x,))
    mapped: jax.Array = jax.vmap(jax.grad(lambda row: jnp.sum(scaled(row, row))))(x)
    return jnp.asarray(gradient + tangent + mapped)


def random_numbers(x: jax.Array) -> jax.Array:
    return jnp.asarray(x * jax.random.normal(KEY, (4, 3)) + jax.random.randint(jax.random.fold_in(KEY, 7), (3,), 0, 9))


def typed_keys(x: jax.Array) -> jax.Array:
    one, *_ = jax.random.split(TYPED_KEY, 3)
    rows = jax.vmap(lambda key, row: jax.random.uniform(key, (3,)) * row)(jax.random.split(one, 4), x)
    return jnp.asarray(rows)


def named_axes(x: jax.Array) -> jax.Array:
    return jnp.asarray(jax.vmap(lambda row: row - lax.pmean(row, "rows"), axis_name="rows")(x))


FUNCTIONS: Final[dict[str, Function]] = {
    "activations": lambda x: jax.nn.relu(x) + jax.nn.gelu(x) + jax.nn.silu(x) + jax.nn.softplus(x) + jax.nn.elu(x),
    "softmax": lambda x: jax.nn.log_softmax(x) + jax.nn.softmax(x) * jax.nn.one_hot(jnp.argmax(x, 1), 3),
    "custom_vjp": lambda x: scaled(x, x * x) + repeated(x, 3),
    "custom_jvp": lambda x: wave(x) + counted(x, 3)[0],
    "stop_gradient": lambda x: lax.stop_gradient(x) * x + jnp.asarray(2.0) * x,
    "elementwise": elementwise,
    "integers": integers,
    "shapes": shapes,
    "reductions": reductions,
    "contractions": contractions,
    "indexing": indexing,
    "ordering": ordering,
    "complexes": complexes,
    "loops": loops,
    "branches": branches,
    "rematerialised": rematerialised,
    "constants": constants,
    "derivatives": derivatives,
    "random_numbers": random_numbers,
    "typed_keys": typed_keys,
    "named_axes": named_axes,
}
