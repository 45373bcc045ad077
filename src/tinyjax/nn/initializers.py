"""How the parameters of networks begin: functions of a key, a shape and a dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final, Literal, Protocol, SupportsFloat, TypeAlias

import numpy as np
import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import random
from tinyjax.arrays.shaping import canonical_axes
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.dtypes import FLOAT64, FLOATS, complex_dtype, real_dtype
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.tracebacks import filter_package, filtered
from tinyjax.tracing.array import Array, ArrayLike

_Axes: TypeAlias = int | Sequence[int]
_Dtype: TypeAlias = npt.DTypeLike | None
_MODES = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
_DISTRIBUTIONS = ("truncated_normal", "normal", "uniform")


class Initializer(Protocol):
    """What makes an array of parameters. The dtype is that of the initializer, or float64. `out_sharding` says how the
    array lies on a mesh.

    >>> initialize: Initializer = zeros
    >>> initialize(None, (2,))
    Array([0., 0.], dtype=float64)
    """

    def __call__(
        self, key: ArrayLike, shape: Sequence[int], dtype: _Dtype = None, out_sharding: OutSharding = None
    ) -> Array: ...


def zeros(key: ArrayLike | None, shape: Sequence[int], dtype: _Dtype = None, out_sharding: OutSharding = None) -> Array:
    """Zeros; the key isn't used.

    >>> zeros(None, (2,))
    Array([0., 0.], dtype=float64)
    """
    return tnp.zeros(shape, dtype, out_sharding=out_sharding)


def ones(key: ArrayLike | None, shape: Sequence[int], dtype: _Dtype = None, out_sharding: OutSharding = None) -> Array:
    """Ones; the key isn't used.

    >>> ones(None, (2,))
    Array([1., 1.], dtype=float64)
    """
    return tnp.ones(shape, dtype, out_sharding=out_sharding)


def _lying(initialize: Callable[[ArrayLike, Sequence[int], _Dtype], Array]) -> Initializer:
    """An initializer whose arrays lie on a mesh as they are told to."""

    @filtered
    @wraps(initialize)
    def lying(key: ArrayLike, shape: Sequence[int], dtype: _Dtype = None, out_sharding: OutSharding = None) -> Array:
        return laid_out(initialize(key, shape, dtype), out_sharding)

    return lying


def constant(value: ArrayLike, dtype: _Dtype = None) -> Initializer:
    """Makes arrays of one value, or of values that are broadcast.

    >>> constant(0.5)(None, (2,))
    Array([0.5, 0.5], dtype=float64)
    """
    usual = dtype

    def initialize(key: ArrayLike | None, shape: Sequence[int], dtype: _Dtype = None) -> Array:
        return tnp.full(tuple(shape), value, _chosen(dtype, usual))

    return _lying(initialize)


def _chosen(dtype: _Dtype, usual: _Dtype) -> np.dtype[np.generic]:
    given = usual if dtype is None else dtype
    return FLOAT64 if given is None else tnp.dtype(given)


def _times(x: Array, factor: ArrayLike) -> Array:
    """Keeps the dtype, whatever that of the factor is."""
    return x * tnp.asarray(factor, x.dtype)


def uniform(scale: float = 1e-2, dtype: _Dtype = None) -> Initializer:
    """Makes numbers between 0 and `scale`.

    >>> from tinyjax.random import key
    >>> uniform()(key(0), (2,))
    Array([0.00418457, 0.00216295], dtype=float64)
    """
    usual = dtype

    def initialize(key: ArrayLike, shape: Sequence[int], dtype: _Dtype = None) -> Array:
        return _times(random.uniform(key, tuple(shape), _chosen(dtype, usual)), scale)

    return _lying(initialize)


def normal(stddev: float = 1e-2, dtype: _Dtype = None) -> Initializer:
    """Makes normal numbers of mean 0.

    >>> from tinyjax.random import key
    >>> normal()(key(0), (2,))
    Array([-0.00205842, -0.00784766], dtype=float64)
    """
    usual = dtype

    def initialize(key: ArrayLike, shape: Sequence[int], dtype: _Dtype = None) -> Array:
        return _times(random.normal(key, tuple(shape), _chosen(dtype, usual)), stddev)

    return _lying(initialize)


def truncated_normal(
    stddev: float = 1e-2, dtype: _Dtype = None, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Makes normal numbers between `lower` and `upper`, multiplied by `stddev`.

    >>> from tinyjax.random import key
    >>> truncated_normal()(key(0), (2,))
    Array([-0.00196352, -0.00741471], dtype=float64)
    """
    usual = dtype

    def initialize(key: ArrayLike, shape: Sequence[int], dtype: _Dtype = None) -> Array:
        return _times(random.truncated_normal(key, lower, upper, tuple(shape), _chosen(dtype, usual)), stddev)

    return _lying(initialize)


def _size(shape: Sequence[int], axes: _Axes) -> int:
    return math.prod(shape[axis] for axis in canonical_axes(axes, len(shape), "variance_scaling"))


def _fans(shape: Sequence[int], in_axis: _Axes, out_axis: _Axes, batch_axis: _Axes) -> tuple[float, float]:
    """How many inputs each output has, and how many outputs each input."""
    if in_axis == -2 and len(shape) <= 1:
        raise ShapeError(
            f"variance_scaling: an array of shape {tuple(shape)} has no axis of inputs; make it of two axes or more, "
            "or say which one it is by in_axis"
        )
    inputs, outputs, batch = (_size(shape, axes) for axes in (in_axis, out_axis, batch_axis))
    field = math.prod(shape) / inputs / outputs / batch
    return inputs * field, outputs * field


def variance_scaling(
    scale: float,
    mode: Literal["fan_in", "fan_out", "fan_avg", "fan_geo_avg"],
    distribution: Literal["truncated_normal", "normal", "uniform"],
    in_axis: _Axes = -2,
    out_axis: _Axes = -1,
    batch_axis: _Axes = (),
    dtype: _Dtype = None,
) -> Initializer:
    """Makes numbers of the variance scale / n, where n is how many inputs an output has, how many outputs an input, or
    a mean of both: so that what layers compute keeps its size. Axes that are none of these are of a field of inputs.

    Raises:
      ChoiceError: there is no such mode or distribution.
      ShapeError: the shape has no axis of inputs.

    >>> from tinyjax.random import key
    >>> variance_scaling(1.0, "fan_in", "normal")(key(0), (3, 2))
    Array([[-0.11884301, -0.45308473],
           [ 1.04851813,  0.10845179],
           [ 0.04668909, -0.21483827]], dtype=float64)
    """
    if not isinstance(scale, SupportsFloat):
        raise InputError(f"variance_scaling: scale is a number, got {scale!r}")
    if mode not in _MODES:
        raise ChoiceError(f"variance_scaling: mode is one of {', '.join(_MODES)}; got {mode!r}")
    if distribution not in _DISTRIBUTIONS:
        raise ChoiceError(f"variance_scaling: distribution is one of {', '.join(_DISTRIBUTIONS)}; got {distribution!r}")
    usual = dtype

    def initialize(key: ArrayLike, shape: Sequence[int], dtype: _Dtype = None) -> Array:
        sizes, found = tuple(shape), _chosen(dtype, usual)
        before, after = _fans(sizes, in_axis, out_axis, batch_axis)
        number = {"fan_in": before, "fan_out": after, "fan_avg": (before + after) / 2}.get(
            mode, math.sqrt(before * after)
        )
        deviation = math.sqrt(scale / number)
        if distribution == "normal":
            return random.normal(key, sizes, found) * deviation
        if found not in FLOATS:
            return _complex(key, sizes, found, distribution == "uniform") * deviation
        if distribution == "uniform":
            return random.uniform(key, sizes, found, -1) * (math.sqrt(3) * deviation)
        return random.truncated_normal(key, -2, 2, sizes, found) * (deviation / 0.87962566103423978)

    return _lying(initialize)


def _complex(key: ArrayLike, shape: tuple[int, ...], dtype: np.dtype[np.generic], uniformly: bool) -> Array:
    """Complex numbers of variance 1: in a disc, or normal ones up to a magnitude of 2."""
    first, second = random.split(key)
    part = real_dtype(dtype)
    share, turn = random.uniform(first, shape, part), 2 * math.pi * random.uniform(second, shape, part)
    if uniformly:
        radius = tnp.sqrt(2 * share)
    else:
        radius = tnp.sqrt(-tnp.log(1 - (1 - math.exp(-4)) * share)) / 0.95311164380491208
    return tnp.astype(radius, complex_dtype(part)) * tnp.exp(1j * turn)


def glorot_uniform(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: _Dtype = None
) -> Initializer:
    """Glorot's and Bengio's: uniform numbers of variance 1 by the mean of the numbers of inputs and outputs.

    >>> from tinyjax.random import key
    >>> glorot_uniform()(key(0), (3, 2))
    Array([[-0.17865152, -0.62156552],
           [ 1.01946824,  0.16322249],
           [ 0.0706047 , -0.31788682]], dtype=float64)
    """
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


def glorot_normal(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: _Dtype = None
) -> Initializer:
    """Glorot's and Bengio's: truncated normal numbers of variance 1 by the mean of the numbers of inputs and outputs.

    >>> from tinyjax.random import key
    >>> glorot_normal()(key(0), (3, 2))
    Array([[-0.14117813, -0.53312128],
           [ 1.14364363,  0.12884772],
           [ 0.05549346, -0.25483954]], dtype=float64)
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def lecun_uniform(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: _Dtype = None
) -> Initializer:
    """LeCun's: uniform numbers of variance 1 divided by how many inputs there are.

    >>> from tinyjax.random import key
    >>> lecun_uniform()(key(0), (3, 2))
    Array([[-0.16308578, -0.56740909],
           [ 0.93064292,  0.14900107],
           [ 0.06445298, -0.29018964]], dtype=float64)
    """
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def lecun_normal(
    in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: _Dtype = None
) -> Initializer:
    """LeCun's: truncated normal numbers of variance 1 divided by how many inputs there are.

    >>> from tinyjax.random import key
    >>> lecun_normal()(key(0), (3, 2))
    Array([[-0.12887741, -0.48667092],
           [ 1.04399903,  0.11762133],
           [ 0.05065837, -0.23263561]], dtype=float64)
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def he_uniform(in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: _Dtype = None) -> Initializer:
    """He's, for networks of `relu`: uniform numbers of variance 2 divided by how many inputs there are.

    >>> from tinyjax.random import key
    >>> he_uniform()(key(0), (3, 2))
    Array([[-0.23063812, -0.80243763],
           [ 1.31612784,  0.21071933],
           [ 0.09115027, -0.41039012]], dtype=float64)
    """
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


def he_normal(in_axis: _Axes = -2, out_axis: _Axes = -1, batch_axis: _Axes = (), dtype: _Dtype = None) -> Initializer:
    """He's, for networks of `relu`: truncated normal numbers of variance 2 divided by how many inputs there are.

    >>> from tinyjax.random import key
    >>> he_normal()(key(0), (3, 2))
    Array([[-0.18226018, -0.68825662],
           [ 1.47643758,  0.16634169],
           [ 0.07164175, -0.32899643]], dtype=float64)
    """
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: _Dtype = None) -> Initializer:
    """Makes arrays that are orthogonal matrices, times `scale`, when all axes but `column_axis` are one.

    >>> from tinyjax.random import key
    >>> matrix = orthogonal()(key(0), (3, 2))
    >>> tnp.abs(tnp.round(matrix.T @ matrix, 6))
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    usual = dtype

    def initialize(key: ArrayLike, shape: Sequence[int], dtype: _Dtype = None) -> Array:
        sizes, found = tuple(shape), _chosen(dtype, usual)
        if len(sizes) < 2:
            raise ShapeError(f"orthogonal: the shape has two axes at least, got {sizes}")
        if 0 in sizes:
            return tnp.zeros(sizes, found)
        (along,) = canonical_axes(column_axis, len(sizes), "orthogonal")
        columns, rest = sizes[along], sizes[:along] + sizes[along + 1 :]
        matrix = random.orthogonal(key, math.prod(rest), (), found, columns)
        return _times(tnp.moveaxis(tnp.reshape(matrix, (*rest, columns)), -1, along), scale)

    return _lying(initialize)


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: _Dtype = None) -> Initializer:
    """Makes kernels of convolutions, of 3 to 5 axes: an orthogonal matrix in the middle, and zeros elsewhere.

    >>> from tinyjax.random import key
    >>> delta_orthogonal()(key(0), (3, 1, 1)).ravel()
    Array([ 0., -1.,  0.], dtype=float64)
    """
    usual = dtype

    def initialize(key: ArrayLike, shape: Sequence[int], dtype: _Dtype = None) -> Array:
        sizes, found = tuple(shape), _chosen(dtype, usual)
        if len(sizes) not in (3, 4, 5) or sizes[-1] < sizes[-2]:
            raise ShapeError(
                f"delta_orthogonal: the shape has 3 to 5 axes, the last one no shorter than that before; got {sizes}"
            )
        matrix = orthogonal(scale, column_axis)(key, sizes[-2:], found)
        middle = tuple((size - 1) // 2 for size in sizes[:-2])
        return tnp.zeros(sizes, found).at[middle].set(matrix)

    return _lying(initialize)


xavier_uniform: Final = glorot_uniform
xavier_normal: Final = glorot_normal
kaiming_uniform: Final = he_uniform
kaiming_normal: Final = he_normal

_own: Final = [name for name, found in vars().copy().items() if getattr(found, "__module__", "") == __name__]
filter_package(__name__, _own)
