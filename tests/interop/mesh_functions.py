"""Functions of JAX of an array of 8 by 4 and one of 4 by 4 that say how values lie on a mesh of 4 by 2 devices, or what
each of them does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

Function: TypeAlias = Callable[[Any, Any], Any]  # arrays of JAX, and trees of them
Applied: TypeAlias = Callable[[Any], Any]
MESH: Final = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT: Final = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
FUNCTIONS: Final[dict[str, Function]] = {}


def function(f: Function) -> Function:
    FUNCTIONS[f.__name__] = f
    return f


def lies(*parts: Any) -> NamedSharding:
    return NamedSharding(MESH, P(*parts))


def mapped(in_specs: Any, out_specs: Any, **options: Any) -> Applied:
    return partial(jax.shard_map, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options)


@function
def constraint(x: Any, w: Any) -> Any:
    return lax.with_sharding_constraint(jnp.sin(x @ w), lies("x", "y")) * 2


@function
def constraint_of_one_axis(x: Any, w: Any) -> Any:
    return lax.with_sharding_constraint(jnp.sin(x @ w), lies(P.UNCONSTRAINED, "y")) * 2


@function
def compiled(x: Any, w: Any) -> Any:
    product = jax.jit(lambda x, w: x @ w, in_shardings=(lies("x"), lies(None, "y")), out_shardings=lies("x", "y"))
    return product(x, w).sum(0) + jax.jit(lambda x, w: x @ w, in_shardings=(lies("x"), None))(x, w)


@function
def moved(x: Any, w: Any) -> Any:
    a, b = jax.device_put((x, w), (lies("x"), lies("y")))
    return jax.device_put(a, lies("x", "y")) @ b


@function
def indices(x: Any, w: Any) -> Any:
    def body(x: Any) -> Any:
        return x[:1] * lax.axis_index(("y", "x")) + lax.axis_index("y") * 10 + lax.axis_index("x")

    return mapped(P("x"), P(("x", "y")))(body)(x), mapped(P("x"), P(("x", "y")), check_vma=False)(body)(x)


@function
def exchanged(x: Any, w: Any) -> Any:
    def body(x: Any) -> Any:
        gathered = lax.all_gather(x, "x", axis=1).sum(1) * lax.axis_index("x")
        shuffled = lax.pshuffle(x, "x", [1, 2, 3, 0]) + lax.pswapaxes(jnp.sin(x.sum(0)), "x", 0).sum()
        return gathered + shuffled

    return mapped(P("x"), P("x"))(body)(x)


@function
def divided(x: Any, w: Any) -> Any:
    scattered = mapped(P(None, "x"), P("x"))(lambda x: lax.psum_scatter(jnp.sin(x).reshape(4, 2), "x"))(x)
    across = mapped(P("x"), P(None, "x"))(lambda x: jnp.cos(lax.all_to_all(x, "x", 1, 0, tiled=True)))(x)
    return scattered, across, mapped(P(None, "x"), P(None, "x"))(lambda x: lax.all_to_all(x, "x", 0, 0, tiled=True))(x)


@function
def reductions(x: Any, w: Any) -> Any:
    def body(x: Any) -> Any:
        sums = lax.pmean(lax.pmean(x, "x"), "y") * lax.psum(1, "x"), lax.psum(2.5, "y") * jnp.ones(2)
        return lax.pmax(x, "x"), lax.pmin(x, ("x",)), sums

    return mapped(P("x"), P())(body)(lax.stop_gradient(x))


@function
def random(x: Any, w: Any) -> Any:
    def body(x: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(0), lax.axis_index("x"))
        old = jax.random.fold_in(jax.random.PRNGKey(0), lax.axis_index("x"))
        return x * jax.random.normal(key, x.shape) + jax.random.uniform(old, x.shape)

    return mapped(P("x"), P("x"))(body)(x)


@jax.custom_vjp
def summed_sine(x: Any, w: Any) -> Any:
    return lax.psum(jnp.sin(x @ w), "x")


def _forward(x: Any, w: Any) -> Any:
    return summed_sine(x, w), (x, w)


def _backward(residuals: Any, ct: Any) -> Any:
    x, w = residuals
    ct = lax.pcast(ct, "x", to="varying") * jnp.cos(x @ w)
    return 2.0 * ct @ w.T, lax.psum(x.T @ ct, "x")


summed_sine.defvjp(_forward, _backward)


@function
def rule_with_a_sum(x: Any, w: Any) -> Any:
    return mapped((P("x"), P()), P())(summed_sine)(x, w)


@jax.custom_vjp
def doubled_cosine(x: Any) -> Any:
    return jnp.sin(x)


doubled_cosine.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (2.0 * ct * jnp.cos(x),))


@function
def rules(x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        y = jax.nn.silu(x) + jax.nn.softmax(x) + jax.scipy.special.logsumexp(x)
        return doubled_cosine(x @ w) + jax.nn.relu(x @ w) + y

    return mapped((P("x"), P()), P("x"))(body)(x, w)


@jax.custom_batching.custom_vmap
def twice_the_sine(x: Any) -> Any:
    return 2.0 * jnp.sin(x)


@twice_the_sine.def_vmap
def _rows(size: int, marks: list[bool], x: Any) -> tuple[Any, bool]:
    return 2.0 * jnp.sin(x), marks[0]


@function
def rule_for_batches(x: Any, w: Any) -> Any:
    return mapped(P("x"), P("x"))(lambda x: twice_the_sine(x) + lax.psum(x, "x"))(x)


@function
def explicit(x: Any, w: Any) -> Any:
    x, w = jax.reshard(x, NamedSharding(EXPLICIT, P("x", None))), jax.reshard(w, NamedSharding(EXPLICIT, P(None, "y")))
    y = jnp.sin(x @ w)
    return jax.reshard(jnp.zeros_like(y) + y.sum(0), NamedSharding(EXPLICIT, P(None, None)))


@function
def explicit_products(x: Any, w: Any) -> Any:
    x, w = jax.reshard(x, NamedSharding(EXPLICIT, P("x", "y"))), jax.reshard(w, NamedSharding(EXPLICIT, P("y", None)))
    y = jnp.einsum("ij,jk->ik", x, w, out_sharding=NamedSharding(EXPLICIT, P("x", None)))
    z = y.reshape(2, 4, 4, out_sharding=NamedSharding(EXPLICIT, P(None, "x", None)))
    return jax.reshard(z, NamedSharding(EXPLICIT, P()))


@function
def explicit_parts(x: Any, w: Any) -> Any:
    x = jax.reshard(x, NamedSharding(EXPLICIT, P("x", None)))
    y = jax.shard_map(lambda x: lax.psum(jnp.sin(x), "x"), mesh=EXPLICIT, in_specs=P("x", None), out_specs=P())(x)
    return jax.reshard(y, NamedSharding(EXPLICIT, P()))


@function
def constraint_along_the_other_axis(x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return lax.psum(jnp.sin(lax.with_sharding_constraint(x @ w, P(None, "y"))), "x")

    return mapped((P("x"), P()), P(), axis_names={"x"})(body)(x, w)


@function
def batch_along_an_axis(x: Any, w: Any) -> Any:
    each = mapped(P("x"), P("x"))(lambda r: r * lax.psum(r.sum(), "x"))
    return jax.vmap(each, spmd_axis_name="y", in_axes=1)(x)


def _step(x: Any, w: Any) -> Any:
    return mapped((P("x"), P()), P("x"))(lambda x, w: jnp.sin(x @ w) + lax.pmean(x, "x"))(x, w)


@function
def loops(x: Any, w: Any) -> Any:
    scanned = lax.scan(lambda c, _: (_step(c, w), c.sum()), x, None, length=3)
    return scanned, lax.fori_loop(0, 3, lambda i, x: _step(x, w), x)


@function
def branches(x: Any, w: Any) -> Any:
    return lax.cond(x.sum() > 0, lambda x: _step(x, w), lambda x: x * 2, x)


@function
def recomputed(x: Any, w: Any) -> Any:
    return jax.checkpoint(lambda x: jnp.sin(_step(x, w)))(x)


@function
def rule_around(x: Any, w: Any) -> Any:
    @jax.custom_jvp
    def f(x: Any, w: Any) -> Any:
        return _step(jnp.sin(x), w)

    @f.defjvp
    def _rule(primals: Any, tangents: Any) -> Any:
        return f(*primals), 3 * mapped(P("x"), P("x"))(lambda t: lax.pmean(t, "x"))(tangents[0])

    return f(x, w)


@function
def one_within_another(x: Any, w: Any) -> Any:
    def outer(x: Any) -> Any:
        inner: Applied = jax.shard_map(lambda x: lax.psum(x, "y"), in_specs=P("y"), out_specs=P(), axis_names={"y"})
        return lax.psum(inner(jnp.sin(x)).sum(), "x") * x

    return jax.jit(mapped(P("x"), P("x"), axis_names={"x"})(outer))(x)


@function
def loop_of_each(x: Any, w: Any) -> Any:
    """Its counter doesn't vary by JAX's types, but by ours, as devices go round as often as they like."""

    def body(x: Any, w: Any) -> Any:
        return lax.while_loop(lambda c: c[1].sum() < 5, lambda c: (c[0] + 1, c[1] + w.sum() ** 2), (0, x))[1]

    return mapped((P("x"), P()), P("x"))(body)(x, w)


@function
def choice_of_each(x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        wave = jax.jit(lambda x, w: jnp.cos(x @ w))
        return lax.switch(lax.axis_index("x"), [lambda x: x @ w, lambda x: x, lambda x: wave(x, w)], x)

    return mapped((P("x"), P()), P("x"))(body)(x, w)


@function
def solutions(x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return jnp.linalg.solve(w, x.T).T + jnp.sort(x) + jnp.cumsum(x, 0)

    return mapped((P("x"), P()), P("x"))(body)(x, w)
