"""JAX's functions that make arrays like others take ours, wherever they lie, and give JAX's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.sharding import NamedSharding
from tinyjax.sharding import PartitionSpec as P

X = np.linspace(0.1, 0.9, 4, dtype="float32")
MAKERS: dict[str, Callable[[], tj.Array]] = {
    "host": lambda: tnp.asarray(X),
    "device": lambda: tj.jit(lambda x: x)(X),
    "committed": lambda: tj.device_put(X, tj.devices("cpu")[0]),
    "mesh": lambda: tj.device_put(X, NamedSharding(tj.make_mesh((1,), ("x",)), P("x"))),
    "explicit": lambda: tj.device_put(
        X, NamedSharding(tj.make_mesh((1,), ("x",), (tj.sharding.AxisType.Explicit,)), P("x"))
    ),
}
FUNCTIONS: dict[str, Callable[..., object]] = {
    "zeros_like": jnp.zeros_like,
    "ones_like": jnp.ones_like,
    "empty_like": jnp.empty_like,
    "full_like": partial(jnp.full_like, fill_value=2.0),
    "full_like of another shape": partial(jnp.full_like, fill_value=2.0, shape=(2,)),
    "lax": partial(jax.lax.full_like, fill_value=3),
    "asarray": jnp.asarray,
    "array": jnp.array,
}


@pytest.mark.parametrize("made", MAKERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_jax(made: str, name: str) -> None:
    function = FUNCTIONS[name]
    found, expected = function(MAKERS[made]()), function(X)
    assert isinstance(found, jax.Array)
    assert isinstance(expected, jax.Array)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if name != "empty_like":
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["adam", "sgd", "lion", "adafactor", "rmsprop", "lamb", "adagrad"])
@pytest.mark.parametrize("made", MAKERS)
def test_states_of_optimisers(made: str, name: str) -> None:
    """Optax makes them with functions of JAX; what it computes with them is for `of_jax`."""
    optimiser = getattr(optax, name)(0.1)
    found, expected = optimiser.init({"w": MAKERS[made]()}), optimiser.init({"w": jnp.asarray(X)})
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)
