"""Layers made of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import random
from tinyjax.example_libraries.arguments import checked, entries, one_each

#: From a key and a shape to the shape of the output and parameters; and from parameters and inputs to the output.
Layer: TypeAlias = tuple[Callable[..., Any], Callable[..., Any]]


def _keys(kwargs: dict[str, Any], count: int) -> Sequence[Any]:
    """A key for each of several layers, of what they are applied with."""
    rng = kwargs.pop("rng", None)
    return [None] * count if rng is None else list(random.split(rng, count))


@checked
def serial(*layers: Layer) -> Layer:
    """The layers one after the other.

    >>> import numpy as np
    >>> from tinyjax.example_libraries.stax import Dense, LogSoftmax, Relu
    >>> init, apply = serial(Dense(8), Relu, Dense(2), LogSoftmax)
    >>> shape, params = init(random.key(0), (-1, 4))
    >>> shape, apply(params, np.ones((3, 4))).shape
    ((-1, 2), (3, 2))
    """

    def init(rng: Any, input_shape: Any) -> Any:
        params: list[Any] = []
        for layer_init, _ in layers:
            rng, own = random.split(rng)
            input_shape, found = layer_init(own, input_shape)
            params.append(found)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        own_params = one_each("params", layers, params)
        for (_, layer_apply), own, rng in zip(layers, own_params, _keys(kwargs, len(layers)), strict=True):
            inputs = layer_apply(own, inputs, rng=rng, **kwargs)
        return inputs

    return entries(init, apply)


@checked
def parallel(*layers: Layer) -> Layer:
    """The layers side by side: they take a list of inputs, and give one of outputs.

    >>> from tinyjax.example_libraries.stax import Dense, FanInSum, FanOut, Identity
    >>> init, apply = serial(FanOut(2), parallel(Dense(2), Identity), FanInSum)
    >>> init(random.key(0), (3, 2))[0]
    (3, 2)
    """

    def init(rng: Any, input_shape: Sequence[Any]) -> Any:
        keys, shapes = random.split(rng, len(layers)), one_each("input_shape", layers, input_shape)
        pairs = [one(key, shape) for (one, _), key, shape in zip(layers, keys, shapes, strict=True)]
        return [shape for shape, _ in pairs], [params for _, params in pairs]

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs, len(layers))
        own, xs = one_each("params", layers, params), one_each("inputs", layers, inputs)
        given = zip(layers, own, xs, keys, strict=True)
        return [one(found, x, rng=rng, **kwargs) for (_, one), found, x, rng in given]

    return entries(init, apply)


@checked
def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """The layer that is made for the shape of the input, once that is known.

    >>> from tinyjax.example_libraries.stax import Dense
    >>> init, apply = shape_dependent(lambda shape: Dense(2 * shape[-1]))
    >>> init(random.key(0), (5, 3))[0]
    (5, 6)
    """

    def init(rng: Any, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(tnp.shape(inputs))[1](params, inputs, **kwargs)

    return entries(init, apply)
