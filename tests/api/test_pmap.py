"""`pmap`: the numbers, shapes and places that jax's gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tests.api.matching import assert_matches
from tinyjax.errors import BatchSizeError, ChoiceError, InputError, ShardingError, StaticArgumentError, TreeError

X = np.linspace(-1.0, 2.0, 24).reshape(8, 3)
W = np.array([1.0, -2.0, 0.5])
KEYS = np.arange(16, dtype=np.uint32).reshape(8, 2)


def step(m: ModuleType, w: Any, x: Any) -> Any:
    loss, grads = m.value_and_grad(lambda w: m.numpy.tanh(x @ w) ** 2)(w)
    return m.lax.pmean(loss, "i"), {"w": m.lax.pmean(grads, "i")}


#: Each with a library: a function of no arguments.
PROGRAMS: dict[str, Callable[[ModuleType], Any]] = {
    "normalized": lambda m: m.pmap(lambda x: x / m.lax.psum(x, "i"), axis_name="i")(X),
    "some devices": lambda m: m.pmap(lambda x: m.lax.psum(x, "i"), axis_name="i")(X[:3]),
    "broadcast": lambda m: m.pmap(lambda x, y: (x + y, 2.0 * y), in_axes=(0, None))(X, 4.0),
    "trees": lambda m: m.pmap(lambda p, y: {"s": p["a"] + p["b"], "y": y}, in_axes=({"a": 1, "b": None}, 0))(
        {"a": X.T, "b": X[0, 0]}, X
    ),
    "other axes": lambda m: m.pmap(lambda x: (x, x.sum()), in_axes=1, out_axes=(1, 0))(X.T),
    "by name": lambda m: m.pmap(lambda x, *, s: x * s["a"])(X, s={"a": X[:, 0]}),
    "static": lambda m: m.pmap(lambda x, n, y: x**n + y, in_axes=(0, None, 0), static_broadcasted_argnums=1)(X, 3, X),
    "step": lambda m: m.pmap(partial(step, m), "i", in_axes=(None, 0), out_axes=(0, None))(W, X),
    "gradient of a sum": lambda m: m.pmap(m.grad(lambda x: m.lax.psum((x**2).sum(), "i")), "i")(X),
    "gather": lambda m: m.pmap(lambda x: m.lax.all_gather(x, "i"), "i")(X),
    "rotated": lambda m: m.pmap(lambda x: m.lax.ppermute(x, "i", [(i, (i + 1) % 8) for i in range(8)]), "i")(X),
    "exchanged": lambda m: m.pmap(lambda x: m.lax.all_to_all(x, "i", 0, 0), "i")(X[:, :1] + np.arange(8.0)),
    "index": lambda m: m.pmap(lambda x: x + m.lax.axis_index("i") * m.lax.psum(1, "i"), "i")(X),
    "keys": lambda m: m.pmap(lambda k: m.random.normal(m.random.wrap_key_data(k), (3,)))(KEYS),
    "loop": lambda m: m.pmap(lambda x: m.lax.fori_loop(0, 3, lambda _, c: m.lax.pmean(c, "i") + x, x), "i")(X),
    "vmap": lambda m: m.vmap(m.pmap(lambda x: x * m.lax.psum(x, "i"), "i"), in_axes=1)(X),
    "grad": lambda m: m.grad(lambda x: (m.pmap(lambda x: m.lax.psum(m.numpy.sin(x), "i") * x, "i")(x) ** 2).sum())(X),
    "jvp": lambda m: m.jvp(m.pmap(lambda x: m.lax.pmean(x**3, "i"), "i"), (X,), (X,)),
    "jit": lambda m: m.jit(lambda x: 2.0 * m.pmap(lambda x: x + m.lax.pmax(x, "i"), "i")(x))(X),
    "within vmap": lambda m: m.pmap(m.vmap(lambda x: m.lax.psum(x, "i") * m.lax.psum(x, "j"), axis_name="j"), "i")(X),
    "donated": lambda m: m.pmap(lambda x, y: x + y, donate_argnums=1)(X, m.numpy.asarray(X)),
    "other devices": lambda m: m.pmap(lambda x: m.lax.psum(x, "i"), "i", devices=m.devices("cpu")[::-1])(X),
    "no results": lambda m: m.pmap(lambda x: ())(X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_jax(name: str) -> None:
    ours = PROGRAMS[name](tj)
    theirs = jax.block_until_ready(PROGRAMS[name](jax))
    assert_matches(ours, theirs)
    for one, other in zip(tj.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert [d.id for d in one.sharding.flat_devices] == [d.id for d in other.sharding.mesh.devices.flat]
        assert tuple(one.sharding.spec)[-1:] == () or one.sharding.shard_shape(one.shape) == other.sharding.shard_shape(
            other.shape
        )


def test_calls_are_traced_once() -> None:
    traces: list[None] = []

    @tj.pmap
    def double(x: Any) -> Any:
        traces.append(None)
        return 2.0 * x

    for _ in range(3):
        np.testing.assert_array_equal(double(X), 2.0 * X)
    assert len(traces) == 1
    double(X[:4])
    assert len(traces) == 2
    assert double.__name__ == "double"


def test_arrays_that_lie_otherwise_are_moved() -> None:
    backwards = tj.pmap(lambda x: x + 1.0, devices=tj.devices("cpu")[::-1])
    y = tj.pmap(lambda x: x)(X)
    np.testing.assert_array_equal(backwards(y), X + 1.0)
    np.testing.assert_array_equal(backwards(tj.device_put(X, tj.devices("cpu")[3])), X + 1.0)
    assert [shard.device.id for shard in backwards(y).addressable_shards] == [7, 6, 5, 4, 3, 2, 1, 0]


def test_donated_arrays_are_gone() -> None:
    f = tj.pmap(lambda x, n, y: x * n + y, static_broadcasted_argnums=1, donate_argnums=2, in_axes=(0, None, 0))
    y = tj.pmap(lambda x: x)(X)
    f(y, 2, z := tj.pmap(lambda x: x + 1.0)(X))
    assert z.is_deleted()
    assert not y.is_deleted()


def test_lowered_for_types() -> None:
    f = tj.pmap(lambda x: tj.lax.psum(x, "i"), "i")
    lowered = f.lower(tj.ShapeDtypeStruct((8, 3), np.float64))
    assert "all_reduce" in lowered.as_text()
    np.testing.assert_allclose(lowered.compile()(X)[0], X.sum(0))


def test_methods() -> None:
    class Model:
        w = 3.0

        @tj.pmap
        def __call__(self, x: Any) -> Any:
            return self.w * x

    with pytest.raises(InputError, match="Model"):
        Model()(X)  # it isn't an array, nor marked static

    class Static(Model):
        __call__ = tj.pmap(lambda self, x: self.w * x, static_broadcasted_argnums=0)

    np.testing.assert_array_equal(Static()(X), 3.0 * X)


def test_axes_from_the_end() -> None:
    np.testing.assert_array_equal(tj.pmap(lambda x: x.sum(), in_axes=-1)(X.T), X.sum(1))


def test_tangents_of_integers_pass() -> None:
    zeros = np.zeros(8, tj.float0)
    both = tj.pmap(lambda x, y: (x, y))(zeros, X)
    assert both[0].shape == (8,)
    assert both[0].dtype == tj.float0
    np.testing.assert_array_equal(both[1], X)


def test_errors() -> None:
    options: dict[str, Any] = {"axis_name": 3}
    f = tj.pmap(lambda x, y: x)
    with pytest.raises(BatchSizeError, match=r"(?s)one size, but have\n  8 along axis 0 of argument x.*2 along axis 0"):
        f(X, X[:2])
    with pytest.raises(BatchSizeError, match="no argument is mapped"):
        tj.pmap(lambda x: x, in_axes=None)(X)
    with pytest.raises(
        ShardingError, match=r"each of the 9 elements takes a device of its own, and there are 8\. vmap"
    ):
        tj.pmap(lambda x: x)(np.ones(9))
    with pytest.raises(ShardingError, match="there are 2, of which all are used"):
        tj.pmap(lambda x: x, devices=tj.devices("cpu")[:2])(X)
    with pytest.raises(ShardingError, match="mapped over devices already, along i: for several axes"):
        tj.pmap(tj.pmap(lambda x: x), "i")(np.ones((2, 2)))
    with pytest.raises(ChoiceError, match="counted from 0, or None, not -1"):
        tj.pmap(lambda x: x, out_axes=-1)
    with pytest.raises(ChoiceError, match="devices are one or more"):
        tj.pmap(lambda x: x, devices=[])
    with pytest.raises(InputError, match="axis_name is a string, not 3"):
        tj.pmap(lambda x: x, **options)
    with pytest.raises(StaticArgumentError, match="argument 1 is static, but only 1 are given by position"):
        tj.pmap(lambda *xs: xs[0] * xs[1], static_broadcasted_argnums=1)(X)
    with pytest.raises(StaticArgumentError, match="must be hashable"):
        tj.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)(X, [2])
    with pytest.raises(TreeError, match="pmap: out_axes must be a prefix of the tree of the results"):
        tj.pmap(lambda x: (x, x), out_axes=(0, 0, 0))(X)
    with pytest.raises(BatchSizeError, match=r"8 along axis 0 of argument x.*\n  4 asked for by axis_size"):
        tj.pmap(lambda x: x, axis_size=4)(X)
