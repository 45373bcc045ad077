"""Layers and optimizers for examples: the numbers of jax's for the same keys."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.example_libraries import optimizers as their_optimizers
from jax.example_libraries import stax as their_stax

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.errors import InputError, ShapeError, TinyjaxError, TreeError
from tinyjax.example_libraries import optimizers, stax

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(2, 7, 6, 3))
ROWS = RNG.normal(size=(4, 5))


def network(lib: Any) -> Any:
    """A convolution network."""
    return lib.serial(
        lib.Conv(4, (3, 3), padding="SAME"), lib.BatchNorm(), lib.Relu, lib.MaxPool((2, 2), strides=(2, 2)),
        lib.Conv(2, (2, 2), (2, 1)), lib.Gelu, lib.AvgPool((2, 2), padding="SAME"), lib.Flatten,
        lib.FanOut(2), lib.parallel(lib.Dense(6), lib.serial(lib.Dense(6), lib.Tanh)), lib.FanInSum,
        lib.FanOut(2), lib.parallel(lib.Identity, lib.Sigmoid), lib.FanInConcat(), lib.Dropout(0.7), lib.LogSoftmax,
    )  # fmt: skip


LAYERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "network": (network, IMAGES),
    "transposed": (lambda lib: lib.ConvTranspose(3, (2, 3), strides=(2, 2), padding="SAME"), IMAGES),
    "transposed, valid": (lambda lib: lib.ConvTranspose(3, (2, 3)), IMAGES),
    "transposed in one dimension": (lambda lib: lib.Conv1DTranspose(3, (2,), (2,)), IMAGES[0]),
    "channels first": (lambda lib: lib.GeneralConv(("NCHW", "OIHW", "NCHW"), 3, (2, 2)), IMAGES),
    "pooling, channels first": (lambda lib: lib.AvgPool((2, 3), (2, 1), "SAME", spec="NCHW"), IMAGES),
    "sums": (lambda lib: lib.SumPool((2, 3), (2, 1), "SAME"), IMAGES),
    "greatest": (lambda lib: lib.MaxPool((2, 3), padding="SAME"), IMAGES),
    "not centred": (lambda lib: lib.BatchNorm(axis=0, center=False), ROWS),
    "not scaled": (lambda lib: lib.BatchNorm(axis=(0,), scale=False), ROWS),
    "nothing learned": (lambda lib: lib.BatchNorm(axis=(0,), scale=False, center=False), ROWS),
    "not dropped": (lambda lib: lib.Dropout(0.5, mode="test"), ROWS),
    "dropped": (lambda lib: lib.Dropout(0.5), ROWS),
    "by shape": (lambda lib: lib.shape_dependent(lambda shape: lib.Dense(shape[-1])), ROWS),
    "initializers": (lambda lib: lib.Dense(3, lib.glorot(), lib.randn()), ROWS),
}
PLAIN = ["Tanh", "Relu", "Exp", "LogSoftmax", "Softmax", "Softplus", "Sigmoid", "Elu", "LeakyRelu", "Selu", "Gelu"]
LAYERS |= {name: (attrgetter(name), ROWS) for name in PLAIN}


def close(found: object, expected: object) -> None:
    ours, theirs = tj.tree.leaves(found), jax.tree.leaves(expected)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-9, atol=1e-12)


SLOW = ("network", "transposed", "channels first", "transposed in one dimension")


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.sweep) if x in SLOW else x for x in LAYERS])
def test_layers(name: str) -> None:
    make, inputs = LAYERS[name]
    (init, apply), (their_init, their_apply) = make(stax), make(their_stax)
    shape, params = init(tj.random.key(3), inputs.shape)
    their_shape, their_params = their_init(jax.random.key(3), inputs.shape)
    assert tuple(shape) == tuple(their_shape)
    close(params, their_params)
    found = apply(params, inputs, rng=tj.random.key(5))
    assert found.shape == tuple(shape)
    close(found, their_apply(their_params, jnp.asarray(inputs), rng=jax.random.key(5)))
    close(tj.jit(lambda p, x, key: apply(p, x, rng=key))(params, tnp.asarray(inputs), tj.random.key(5)), found)


RULES: dict[str, Callable[[Any, Any], Any]] = {
    "sgd": lambda lib, m: lib.sgd(0.1),
    "momentum": lambda lib, m: lib.momentum(lib.exponential_decay(0.1, 3, 0.5), 0.9),
    "nesterov": lambda lib, m: lib.nesterov(lib.inverse_time_decay(0.1, 3, 2.0), mass=0.8),
    "adagrad": lambda lib, m: lib.adagrad(lib.inverse_time_decay(0.1, 3, 2.0, staircase=True)),
    "rmsprop": lambda lib, m: lib.rmsprop(lib.polynomial_decay(0.1, 4, 0.01, 2.0)),
    "rmsprop_momentum": lambda lib, m: lib.rmsprop_momentum(lib.piecewise_constant([1, 3], [0.1, 0.05, 0.01])),
    "adam": lambda lib, m: lib.adam(lib.constant(0.1)),
    "adamax": lambda lib, m: lib.adamax(0.1),
    "sm3": lambda lib, m: lib.sm3(0.1),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", RULES)
def test_optimizers(name: str) -> None:
    start = {"w": RNG.normal(size=(3, 2)), "b": np.float64(0.5), "v": np.zeros(4, "float32")}

    def run(lib: Any, np_: Any, library: Any, jit: bool) -> Any:
        def loss(p: Any) -> Any:
            return np_.sum((np_.sin(p["w"]) - 1.0) ** 2) + (p["b"] - 2.0) ** 2 + np_.sum((p["v"] - 1.0) ** 2)

        init, update, params = RULES[name](lib, np_)

        def step(i: Any, state: Any) -> Any:
            return update(i, library.grad(loss)(params(state)), state)

        state = init({key: np_.asarray(x) for key, x in start.items()})
        step = library.jit(step) if jit and name != "sm3" else step  # whose state has shapes in it
        for i in range(5):
            state = step(i, state)
        again = lib.pack_optimizer_state(lib.unpack_optimizer_state(state))
        assert library.tree.structure(again) == library.tree.structure(state)
        return params(again), lib.l2_norm(params(state)), lib.clip_grads(params(state), 0.5), lib.clip_grads(start, 1e6)

    expected = run(their_optimizers, jnp, jax, False)
    for jit in (False, True):
        found: Any = run(optimizers, tnp, tj, jit)
        ours, theirs = tj.tree.leaves(found), jax.tree.leaves(expected)
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5)


def test_a_network_learns() -> None:
    init, apply = stax.serial(stax.Dense(8), stax.Tanh, stax.Dense(1))
    _, params = init(tj.random.key(0), (-1, 5))
    begin, update, params_of = optimizers.adam(0.05)
    target = np.sin(ROWS.sum(1, keepdims=True))

    def loss(p: Any) -> Any:
        return tnp.mean((apply(p, ROWS) - target) ** 2)

    step = tj.jit(lambda i, state: update(i, tj.grad(loss)(params_of(state)), state))
    state = begin(params)
    for i in range(100):
        state = step(i, state)
    assert float(loss(params_of(state))) < 0.1 * float(loss(params))


def test_errors() -> None:
    state = optimizers.sgd(0.1).init_fn([tnp.ones(2)])
    with pytest.raises(TreeError, match="Pass a gradient for each parameter"):
        optimizers.sgd(0.1).update_fn(0, (tnp.ones(2),), state)
    with pytest.raises(TypeError, match="Pass a gradient"):
        optimizers.sgd(0.1).update_fn(0, (tnp.ones(2),), state)
    grows = optimizers.optimizer(lambda: ((lambda x: x), (lambda i, g, x: (x, x)), (lambda x: x)))()
    with pytest.raises(TreeError, match="the update of an optimizer returns the tree"):
        grows.update_fn(0, tnp.ones(2), grows.init_fn(tnp.ones(2)))
    with pytest.raises(ShapeError, match="one element more than boundaries"):
        optimizers.piecewise_constant([1, 2], [0.1, 0.2])
    with pytest.raises(InputError, match=r"a step size is a number or a function of the step, got shape \(2,\)"):
        optimizers.make_schedule(tnp.ones(2))
    with pytest.raises(InputError, match="takes a tree of JoinPoints"):
        optimizers.pack_optimizer_state([1.0])
    with pytest.raises(ValueError, match=r"apply\(params, inputs, rng=tinyjax.random.key\(seed\)\)"):
        stax.Dropout(0.5)[1]((), tnp.ones(2))


def test_odd_arguments_are_named() -> None:
    """Of the makers, by their annotations, and of the functions that they make."""
    layers: Any = stax
    init, apply = stax.Dense(3)
    key = tj.random.key(0)
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: layers.GeneralConv(3, 4, (3, 3)), "GeneralConv: dimension_numbers are three strings"),
        (lambda: layers.Conv(4, 5), "GeneralConv: filter_shape is a tuple of sizes, got 5"),
        (lambda: layers.Dense(3, W_init=2), "Dense: W_init is a function, got 2"),
        (lambda: layers.serial(stax.Dense(3), "x"), "serial: layers is a pair of functions, init and apply"),
        (lambda: init(key, "a"), "init: input_shape is a tuple of sizes, got 'a'"),
        (lambda: apply(None, ROWS), "params are the pair that the layer's init returns, got None"),
        (lambda: optimizers.sgd(0.1).params_fn(3), "the state of an optimizer is what its init_fn"),
        (lambda: optimizers.adam(0.1, b1=layers), "not an array"),
        (lambda: optimizers.constant(0.1)("x"), "i, the number of the step, is a number, got 'x'"),
    ]
    for call, said in calls:
        with pytest.raises(TinyjaxError, match=said) as caught:
            call()
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert {frame.filename for frame in frames} == {__file__}


def test_shapes_of_batches_of_every_size() -> None:
    """As the examples of JAX have them: -1 for the batch, of which JAX's layers make 0."""

    def shapes(lib: Any, key: Any, spec: str | None) -> list[tuple[int, ...]]:
        pooling = lib.MaxPool((2, 2), (1, 2), spec=spec), lib.AvgPool((2, 1), padding="SAME", spec=spec)
        network = lib.serial(*pooling, lib.Flatten, lib.Dense(3))
        return [layer[0](key, (-1, 6, 6, 4))[0] for layer in (network, *pooling)]

    for spec in (None, "NCHW"):
        found, expected = shapes(stax, tj.random.key(0), spec), shapes(their_stax, jax.random.key(0), spec)
        assert [shape[1:] for shape in found] == [shape[1:] for shape in expected]
        assert {shape[0] for shape in found} == {-1}
