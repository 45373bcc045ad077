# ruff: noqa: N802, N803 (names in jax)
"""Layers of networks for examples, as `jax.example_libraries.stax` has them: two functions each.

`init(rng, input_shape)` gives the shape of the output and parameters, `apply(params, inputs, **kwargs)` the output.
Shapes have the size of the batch first; layers of several inputs take lists of shapes and of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import lax, random
from tinyjax.arrays.shaping import canonical_axis
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.example_libraries.arguments import axes_named, checked, entries, learned
from tinyjax.example_libraries.combinators import Layer, parallel, serial, shape_dependent
from tinyjax.nn import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    selu,
    sigmoid,
    softmax,
    softplus,
    standardize,
)
from tinyjax.nn.initializers import glorot_normal, normal, ones, zeros
from tinyjax.tracing.array import Array

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp",
    "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity",
    "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh",
    "elementwise", "elu", "gelu", "glorot", "glorot_normal", "leaky_relu", "log_softmax", "logsoftmax", "normal",
    "ones", "parallel", "randn", "relu", "selu", "serial", "shape_dependent", "sigmoid", "softmax", "softplus",
    "standardize", "zeros",
]  # fmt: skip


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


Shape: TypeAlias = Sequence[int]
#: From a key and a shape to parameters.
Initializer: TypeAlias = Callable[[Any, Sequence[int]], Array]
Dimensions: TypeAlias = tuple[str, str, str]
Axis: TypeAlias = int
Axes: TypeAlias = int | Sequence[int]
Number: TypeAlias = float

glorot: Final = glorot_normal
randn: Final = normal
logsoftmax: Final = log_softmax


@checked
def Dense(
    out_dim: int,
    W_init: Initializer = glorot_normal(),  # noqa: B008 (a function)
    b_init: Initializer = normal(),  # noqa: B008
) -> Layer:
    """A fully connected layer.

    >>> init, apply = Dense(3)
    >>> shape, params = init(random.key(0), (5, 2))
    >>> shape, apply(params, tnp.ones((5, 2))).shape
    ((5, 3), (5, 3))
    """

    def init(rng: Any, input_shape: Shape) -> Any:
        first, second = random.split(rng)
        weights = W_init(first, (input_shape[-1], out_dim)), b_init(second, (out_dim,))
        return (*input_shape[:-1], out_dim), weights

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Array:
        weights, bias = learned(params)
        found: Array = tnp.dot(inputs, weights) + bias
        return found

    return entries(init, apply)


@checked
def GeneralConv(
    dimension_numbers: Dimensions,
    out_chan: int,
    filter_shape: Shape,
    strides: Shape | None = None,
    padding: Any = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = normal(1e-6),  # noqa: B008
) -> Layer:
    """A convolution, of arrays whose axes are as `dimension_numbers` says: those of inputs, filters and outputs.

    >>> init, apply = GeneralConv(("NHWC", "HWIO", "NHWC"), 4, (3, 3))
    >>> init(random.key(0), (1, 8, 8, 2))[0]
    (1, 6, 6, 4)
    """
    steps = strides or (1,) * len(filter_shape)

    def out_shape(shape: Shape, kernel: Shape) -> Any:
        return lax.conv_general_shape_tuple(tuple(shape), tuple(kernel), tuple(steps), padding, dimension_numbers)

    def convolve(inputs: Any, weights: Array) -> Array:
        one = (1,) * len(filter_shape)
        return lax.conv_general_dilated(inputs, weights, steps, padding, one, one, dimension_numbers=dimension_numbers)

    return _convolution(dimension_numbers, out_chan, filter_shape, strides, W_init, b_init, out_shape, convolve)


@checked
def GeneralConvTranspose(
    dimension_numbers: Dimensions,
    out_chan: int,
    filter_shape: Shape,
    strides: Shape | None = None,
    padding: Any = "VALID",
    W_init: Initializer | None = None,
    b_init: Initializer = normal(1e-6),  # noqa: B008
) -> Layer:
    """A transposed convolution, which makes arrays larger where the convolution makes them smaller.

    >>> init, apply = GeneralConvTranspose(("NHWC", "HWIO", "NHWC"), 4, (3, 3))
    >>> init(random.key(0), (1, 6, 6, 2))[0]
    (1, 8, 8, 4)
    """
    steps = strides or (1,) * len(filter_shape)

    def out_shape(shape: Shape, kernel: Shape) -> Any:
        return lax.conv_transpose_shape_tuple(tuple(shape), tuple(kernel), tuple(steps), padding, dimension_numbers)

    def convolve(inputs: Any, weights: Array) -> Array:
        return lax.conv_transpose(inputs, weights, steps, padding, dimension_numbers=dimension_numbers)

    return _convolution(dimension_numbers, out_chan, filter_shape, strides, W_init, b_init, out_shape, convolve)


def _convolution(
    dimension_numbers: Dimensions,
    out_chan: int,
    filter_shape: Shape,
    strides: Shape | None,
    W_init: Initializer | None,
    b_init: Initializer,
    out_shape: Callable[[Shape, Shape], Any],
    convolve: Callable[[Any, Array], Array],
) -> Layer:
    ins, kernels, outs = dimension_numbers
    if not len(ins) == len(kernels) == len(outs) == len(filter_shape) + 2:
        raise ShapeError(
            f"a filter of shape {tuple(filter_shape)} is for arrays of {len(filter_shape) + 2} axes, which "
            f"dimension_numbers {dimension_numbers} have to name"
        )
    if strides is not None and len(strides) != len(filter_shape):
        raise ShapeError(f"strides are as many as the filter has axes, {len(filter_shape)}; got {tuple(strides)}")
    initialize = W_init or glorot_normal(kernels.index("I"), kernels.index("O"))

    def init(rng: Any, input_shape: Shape) -> Any:
        axes_named(input_shape, len(ins))
        sizes = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[ins.index("C")]}
        kernel = tuple([channels[c] if c in channels else next(sizes) for c in kernels])
        first, second = random.split(rng)
        bias = b_init(second, tuple([out_chan if c == "C" else 1 for c in outs]))
        return out_shape(input_shape, kernel), (initialize(first, kernel), bias)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Array:
        weights, bias = learned(params)
        found: Array = convolve(inputs, weights) + bias
        return found

    return entries(init, apply)


Conv: Final = partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose: Final = partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose: Final = partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


@checked
def BatchNorm(
    axis: Axes = (0, 1, 2),
    epsilon: Number = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Initializer = zeros,
    gamma_init: Initializer = ones,
) -> Layer:
    """Batch normalization: mean 0 and variance 1 over these axes, then a scale and a shift that are learned.

    >>> init, apply = BatchNorm(axis=0)
    >>> _, params = init(random.key(0), (2, 1))
    >>> apply(params, tnp.asarray([[1.0], [3.0]])).round(2)
    Array([[-1.],
           [ 1.]], dtype=float64)
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Shape) -> Any:
        shape = tuple([size for i, size in enumerate(input_shape) if i not in axes])
        first, second = random.split(rng)
        beta, gamma = beta_init(first, shape) if center else (), gamma_init(second, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply(params: Any, x: Any, **kwargs: Any) -> Array:
        (beta, gamma), x = learned(params), tnp.asarray(x)
        wide = tuple([None if i in axes else slice(None) for i in range(tnp.ndim(x))])
        found = standardize(x, axes, epsilon=epsilon)
        if scale:
            found = gamma[wide] * found
        return found + beta[wide] if center else found

    return entries(init, apply)


@checked
def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer that applies a function, and has no parameters.

    >>> elementwise(tnp.clip, min=0.0)[1]((), tnp.asarray([-1.0, 2.0]))
    Array([0., 2.], dtype=float64)
    """
    return _unlearned(lambda shape: shape, lambda inputs: fun(inputs, **fun_kwargs))


def _unlearned(shape_of: Callable[[Any], Any], fun: Callable[[Any], Any]) -> Layer:
    """A layer without parameters, from what it does to shapes and to arrays."""

    def init(rng: Any, input_shape: Any) -> Any:
        return shape_of(input_shape), ()

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return fun(inputs)

    return entries(init, apply)


Tanh: Final = elementwise(tnp.tanh)
Relu: Final = elementwise(relu)
Exp: Final = elementwise(tnp.exp)
LogSoftmax: Final = elementwise(log_softmax, axis=-1)
Softmax: Final = elementwise(softmax, axis=-1)
Softplus: Final = elementwise(softplus)
Sigmoid: Final = elementwise(sigmoid)
Elu: Final = elementwise(elu)
LeakyRelu: Final = elementwise(leaky_relu)
Selu: Final = elementwise(selu)
Gelu: Final = elementwise(gelu)
Identity: Final = elementwise(lambda x: x)
Flatten: Final = _unlearned(
    lambda shape: (shape[0], math.prod(shape[1:])), lambda inputs: tnp.reshape(inputs, (tnp.shape(inputs)[0], -1))
)
FanInSum: Final = _unlearned(lambda shapes: shapes[0], sum)


@checked
def MaxPool(
    window_shape: Shape, strides: Shape | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The greatest number in each window. `spec` names the axes: "NHWC" unless given.

    >>> init, apply = MaxPool((2, 2), strides=(2, 2))
    >>> init(random.key(0), (1, 4, 4, 3))[0], apply((), tnp.ones((1, 4, 4, 3))).shape
    ((1, 2, 2, 3), (1, 2, 2, 3))
    """
    return _pooling(lax.max, -math.inf, False, window_shape, strides, padding, spec)


@checked
def SumPool(
    window_shape: Shape, strides: Shape | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The sum of each window.

    >>> SumPool((2, 2))[1]((), tnp.ones((1, 2, 2, 1)))
    Array([[[[4.]]]], dtype=float64)
    """
    return _pooling(lax.add, 0.0, False, window_shape, strides, padding, spec)


@checked
def AvgPool(
    window_shape: Shape, strides: Shape | None = None, padding: Any = "VALID", spec: str | None = None
) -> Layer:
    """The mean of each window, without what is padded.

    >>> AvgPool((2, 2), padding="SAME")[1]((), tnp.ones((1, 2, 1, 1))).ravel()
    Array([1., 1.], dtype=float64)
    """
    return _pooling(lax.add, 0.0, True, window_shape, strides, padding, spec)


def _pooling(
    reducer: Callable[..., Array],
    initial: float,
    mean: bool,
    window_shape: Shape,
    strides: Shape | None,
    padding: Any,
    spec: str | None,
) -> Layer:
    count = len(window_shape)
    if spec is not None and not (len(spec) == count + 2 and "N" in spec and "C" in spec):
        raise ChoiceError(f"spec names the {count + 2} axes, of which one is N and one C, such as 'NHWC'; got {spec!r}")
    if strides is not None and len(strides) != count:
        raise ShapeError(f"strides are as many as the window has axes, {count}; got {tuple(strides)}")
    others = (0, count + 1) if spec is None else (spec.index("N"), spec.index("C"))
    window, steps = list(window_shape), list(strides or (1,) * count)
    for i in sorted(others):
        window.insert(i, 1)
        steps.insert(i, 1)

    def out_shape(shape: Shape) -> Any:
        axes_named(shape, len(window))
        batch = others[0]
        anything = shape[batch] == -1  # which stands for batches of every size
        sizes = tuple([1 if anything and i == batch else size for i, size in enumerate(shape)])
        pads = lax.padtype_to_pads(sizes, window, steps, padding)
        ones = (1,) * len(window)
        found = list(lax.reduce_window_shape_tuple(sizes, window, steps, pads, ones, ones))
        return (*found[:batch], -1, *found[batch + 1 :]) if anything else tuple(found)

    def pooled(inputs: Any) -> Array:
        inputs = tnp.asarray(inputs)
        start = tnp.asarray(initial, dtype=inputs.dtype)
        found: Array = lax.reduce_window(inputs, start, reducer, window, steps, padding)
        if not mean:
            return found
        same = tuple([1 if i in others else size for i, size in enumerate(inputs.shape)])
        ones = tnp.ones(same, dtype=inputs.dtype)
        counts: Array = lax.reduce_window(ones, tnp.zeros((), dtype=inputs.dtype), lax.add, window, steps, padding)
        return found / counts

    return _unlearned(out_shape, pooled)


@checked
def FanOut(num: int) -> Layer:
    """A layer that gives its input several times, as a list.

    >>> FanOut(2)[0](random.key(0), (3,))[0]
    [(3,), (3,)]
    """
    return _unlearned(lambda shape: [shape] * num, lambda inputs: [inputs] * num)


@checked
def FanInConcat(axis: Axis = -1) -> Layer:
    """A layer that joins its inputs along an axis.

    >>> FanInConcat()[0](random.key(0), [(5, 2), (5, 3)])[0]
    (5, 5)
    """

    def joined(shapes: Sequence[Shape]) -> Shape:
        at = canonical_axis(axis, len(shapes[0]), "FanInConcat")
        return (*shapes[0][:at], sum(shape[at] for shape in shapes), *shapes[0][at + 1 :])

    return _unlearned(joined, lambda inputs: tnp.concatenate(inputs, axis))


@checked
def Dropout(rate: Number, mode: str = "train") -> Layer:
    """A layer that keeps each number with the probability `rate`, and makes it larger by as much, while the mode is
    "train". It is applied with `rng=`, a key. A ChoiceError without one.

    >>> apply = Dropout(0.5)[1]
    >>> set(apply((), tnp.ones(100), rng=random.key(0)).tolist())
    {0.0, 2.0}
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ChoiceError(
                "Dropout layer requires apply_fun to be called with a PRNG key argument: "
                "apply(params, inputs, rng=tinyjax.random.key(seed))"
            )
        if mode != "train":
            return inputs
        return tnp.where(random.bernoulli(rng, rate, tnp.shape(inputs)), inputs / rate, 0)

    return entries(lambda rng, input_shape: (input_shape, ()), apply)
