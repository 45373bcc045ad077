"""Programs of JAX that do more than compute: they print, call back, write to places, and name axes of meshes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from jax.experimental import checkify
from jax.sharding import PartitionSpec

import tinyjax as tj
from tinyjax.interop.jax import of_jax

X: Final[npt.NDArray[np.float64]] = np.asarray([0.5, 1.5, 2.5])
Z: Final = jnp.asarray([3.0, 4.0, 5.0])
MESH: Final = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))


def written(x: Any) -> jax.Array:
    place = jax.new_ref(x)
    place[0] = 5.0
    place[...] += Z
    return jnp.asarray(jnp.sin(place[...]) * x)


def summed(x: Any) -> jax.Array:
    total = jax.new_ref(jnp.zeros(()))

    def step(carry: float, element: jax.Array) -> tuple[float, jax.Array]:
        total[...] += element**2
        return carry, total[...]

    return jnp.asarray(jax.lax.scan(step, 0.0, x)[1])


def chosen(x: Any) -> jax.Array:
    place = jax.new_ref(jnp.asarray(x))

    def first() -> None:
        place[0] = 3.0

    def second() -> None:
        place[1] = 4.0 * x[1]

    jax.lax.cond(x[0] > 1.0, first, second)
    return jax.freeze(place)


def inner(x: Any) -> jax.Array:
    return jnp.asarray(jax.jit(written)(jax.jit(summed)(x)))


def on_a_mesh(x: Any) -> jax.Array:
    def body(x: jax.Array) -> jax.Array:
        return jnp.asarray(jax.lax.psum(jnp.sin(x), "i") * x + jax.lax.axis_index("i"))

    mapped = jax.shard_map(body, mesh=MESH, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"))
    return jnp.asarray(mapped(x))


def checked(x: Any) -> jax.Array:
    def body(x: jax.Array) -> jax.Array:
        checkify.check(jnp.all(x > 0.0), "not positive")
        return jnp.log(x)

    return jnp.asarray(checkify.checkify(body, errors=checkify.float_checks | checkify.user_checks)(x)[1])


@pytest.mark.parametrize("function", [written, summed, chosen, inner, on_a_mesh, checked])
def test_values_and_derivatives(function: Callable[[Any], jax.Array]) -> None:
    ours, theirs = of_jax(function), jax.jit(function)
    np.testing.assert_allclose(ours(X), theirs(X))
    np.testing.assert_allclose(tj.jit(ours)(X), theirs(X))

    def total(x: npt.NDArray[np.float64]) -> float:  # JAX can't differentiate all
        return float(np.sum(np.sin(theirs(x))))

    expected = [(total(X + step) - total(X - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(tj.grad(lambda x: tj.numpy.sin(ours(x)).sum())(X), expected, rtol=1e-6)
    np.testing.assert_allclose(tj.vmap(ours)(np.stack([X, 2 * X])), [theirs(x) for x in (X, 2 * X)])


@pytest.mark.parametrize("ordered", [False, True])
def test_what_is_printed(ordered: bool, capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> jax.Array:
        jax.debug.print("{} and {y}", x[0], y=x[1:], ordered=ordered)
        return jnp.asarray(2.0 * x)

    ours = of_jax(f)
    np.testing.assert_allclose(ours(X), 2 * X)
    assert capfd.readouterr().out == "0.5 and [1.5 2.5]\n"
    np.testing.assert_allclose(tj.jit(tj.grad(lambda x: ours(x).sum()))(X), np.full(3, 2.0))
    jax.effects_barrier()
    assert capfd.readouterr().out == "0.5 and [1.5 2.5]\n"


def test_functions_that_say_how_they_are_mapped() -> None:
    @jax.custom_batching.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    @f.def_vmap
    def _rule(size: int, mapped: list[bool], x: Any, y: Any) -> tuple[Any, bool]:
        assert mapped == [True, False]
        return 3.0 * f(x[0], y), False

    ours = of_jax(f)
    np.testing.assert_allclose(ours(0.5, 2.0), f(0.5, 2.0))
    np.testing.assert_allclose(tj.vmap(ours, (0, None))(X, 2.0), jax.vmap(f, (0, None))(X, 2.0))
    np.testing.assert_allclose(tj.grad(ours)(0.5, 2.0), 2 * np.cos(0.5))
