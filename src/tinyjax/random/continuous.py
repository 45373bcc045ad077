"""Samplers of continuous distributions, by the inverse of the distribution's function or from normal numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.ir.dtypes import DType
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.prepared.functions import prepared
from tinyjax.random.arguments import (
    ShapeLike,
    converted,
    dtype_of,
    full_shape,
    halves,
    number,
    parameter,
    single,
)
from tinyjax.random.drawing import fractions, gaussian
from tinyjax.random.uniform import rademacher
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def normal(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, *, out_sharding: OutSharding = None
) -> Array:
    """Standard normal numbers; complex ones have a variance of 1, too. The dtype is float64 unless it is given.

    >>> from tinyjax.random import key
    >>> normal(key(0), (2,))
    Array([-0.20584214, -0.78476578], dtype=float64)
    """
    one, found, sizes = single("normal", key), dtype_of("normal", dtype, float, "a float or complex"), as_shape(shape)
    return laid_out(gaussian(one, sizes, found), out_sharding)


def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None, *,  out_sharding: OutSharding = None,
) -> Array:  # fmt: skip
    """Normal numbers that are between two bounds, which are broadcast to the shape.

    >>> from tinyjax.random import key
    >>> truncated_normal(key(0), -1.0, 2.0, (2,))
    Array([ 0.00301295, -0.42419022], dtype=float64)
    """
    one, found = single("truncated_normal", key), dtype_of("truncated_normal", dtype, float)
    sizes = full_shape("truncated_normal", shape, lower, upper)
    return laid_out(_truncated(one, converted(lower, found), converted(upper, found), sizes), out_sharding)


@prepared
def _truncated(key: Array, low: Array, high: Array, shape: Shape) -> Array:
    dtype = low.aval.dtype
    root, infinity = number(math.sqrt(2), dtype), number(math.inf, dtype)
    drawn = root * lax.erf_inv(fractions(key, shape, dtype, lax.erf(low / root), lax.erf(high / root)))
    return tnp.clip(
        drawn,
        lax.nextafter(lax.stop_gradient(low), tnp.broadcast_to(infinity, low.aval.shape)),
        lax.nextafter(lax.stop_gradient(high), tnp.broadcast_to(-infinity, high.aval.shape)),
    )


def exponential(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, *, out_sharding: OutSharding = None
) -> Array:
    """Exponentially distributed numbers, with mean 1.

    >>> from tinyjax.random import key
    >>> exponential(key(0), (2,))
    Array([0.54207056, 0.24372319], dtype=float64)
    """
    one, found = single("exponential", key), dtype_of("exponential", dtype, float)
    return laid_out(_exponential(one, as_shape(shape), found), out_sharding)


@prepared
def _exponential(key: Array, shape: Shape, dtype: DType) -> Array:
    return -lax.log1p(-fractions(key, shape, dtype))


def laplace(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, *, out_sharding: OutSharding = None
) -> Array:
    """Numbers with Laplace's distribution, of the difference of two exponential ones.

    >>> from tinyjax.random import key
    >>> laplace(key(0), (2,))
    Array([0.17803369, 0.83796278], dtype=float64)
    """
    one, found = single("laplace", key), dtype_of("laplace", dtype, float)
    return laid_out(_laplace(one, as_shape(shape), found), out_sharding)


@prepared
def _laplace(key: Array, shape: Shape, dtype: DType) -> Array:
    drawn = fractions(key, shape, dtype, number(-1 + tnp.finfo(dtype).eps / 2, dtype), 1.0)
    return tnp.sign(drawn) * lax.log1p(-tnp.abs(drawn))


def logistic(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, *, out_sharding: OutSharding = None
) -> Array:
    """Numbers with the logistic distribution.

    >>> from tinyjax.random import key
    >>> logistic(key(0), (2,))
    Array([-0.32911032, -1.28738678], dtype=float64)
    """
    one, found = single("logistic", key), dtype_of("logistic", dtype, float)
    return laid_out(_logistic(one, as_shape(shape), found), out_sharding)


@prepared
def _logistic(key: Array, shape: Shape, dtype: DType) -> Array:
    drawn = fractions(key, shape, dtype, number(tnp.finfo(dtype).tiny, dtype), 1.0)
    return lax.log(drawn) - lax.log1p(-drawn)


def cauchy(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, *, out_sharding: OutSharding = None
) -> Array:
    """Numbers with Cauchy's distribution.

    >>> from tinyjax.random import key
    >>> cauchy(key(0), (2,))
    Array([-0.26192951, -1.23784602], dtype=float64)
    """
    one, found = single("cauchy", key), dtype_of("cauchy", dtype, float)
    return laid_out(_cauchy(one, as_shape(shape), found), out_sharding)


@prepared
def _cauchy(key: Array, shape: Shape, dtype: DType) -> Array:
    drawn = fractions(key, shape, dtype, number(tnp.finfo(dtype).eps, dtype), 1.0)
    return lax.tan(number(math.pi, dtype) * (drawn - number(0.5, dtype)))


def _with_parameter(
    name: str,
    sampler: Callable[[Array, Array, Shape], Array],
    key: ArrayLike,
    x: ArrayLike,
    shape: ShapeLike | None,
    dtype: npt.DTypeLike | None,
    kind: str = "a float",
) -> Array:
    """What a sampler draws with one parameter, which is broadcast to the shape, once all is checked."""
    one, found, sizes = single(name, key), dtype_of(name, dtype, float, kind), full_shape(name, shape, x)
    return sampler(one, parameter(name, x, found), sizes)


def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers of at least 1 with Pareto's distribution of exponent b.

    >>> from tinyjax.random import key
    >>> pareto(key(0), 3.0, (2,))
    Array([1.19804395, 1.08463233], dtype=float64)
    """
    return laid_out(_with_parameter("pareto", _pareto, key, b, shape, dtype), out_sharding)


@prepared
def _pareto(key: Array, b: Array, shape: Shape) -> Array:
    return lax.exp(_exponential(key, shape, b.aval.dtype) / b)


def rayleigh(
    key: ArrayLike,
    scale: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers with Rayleigh's distribution: lengths of vectors of two normal numbers, times `scale`.

    >>> from tinyjax.random import key
    >>> rayleigh(key(0), 2.0, (2,))
    Array([2.63997102, 3.49983995], dtype=float64)
    """
    return laid_out(_with_parameter("rayleigh", _rayleigh, key, scale, shape, dtype), out_sharding)


@prepared
def _rayleigh(key: Array, scale: Array, shape: Shape) -> Array:
    return scale * lax.sqrt(-2.0 * lax.log(fractions(key, shape, scale.aval.dtype)))


def maxwell(
    key: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None, *, out_sharding: OutSharding = None
) -> Array:
    """Numbers with Maxwell's distribution: lengths of vectors of three normal numbers.

    >>> from tinyjax.random import key
    >>> maxwell(key(0), (2,))
    Array([1.98906991, 0.42460738], dtype=float64)
    """
    one, found = single("maxwell", key), dtype_of("maxwell", dtype, float)
    return laid_out(_maxwell(one, as_shape(shape), found), out_sharding)


@prepared
def _maxwell(key: Array, shape: Shape, dtype: DType) -> Array:
    return lax.sqrt(tnp.sum(lax.square(gaussian(key, (*shape, 3), dtype)), axis=-1))


def double_sided_maxwell(
    key: ArrayLike, loc: ArrayLike, scale: ArrayLike, shape: ShapeLike = (), dtype: npt.DTypeLike | None = None
) -> Array:
    """Numbers of Maxwell's distribution with a random sign, times `scale`, plus `loc`.

    As in JAX, the shape of the result is the given one followed by that of the parameters; without one, theirs twice.

    >>> from tinyjax.random import key
    >>> double_sided_maxwell(key(0), 1.0, 2.0, (2,))
    Array([ 4.96922408, -3.9564148 ], dtype=float64)
    """
    one, found = single("double_sided_maxwell", key), dtype_of("double_sided_maxwell", dtype, float)
    own = full_shape("double_sided_maxwell", None, loc, scale)
    sizes = (as_shape(shape) or own) + own
    return _double_sided(one, as_array(loc), as_array(scale), sizes, found)


@prepared
def _double_sided(key: Array, loc: Array, scale: Array, shape: Shape, dtype: DType) -> Array:
    first, second = halves(key)
    return rademacher(second, shape, dtype) * _maxwell(first, shape, dtype) * scale + loc


def wald(
    key: ArrayLike,
    mean: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Positive numbers with Wald's distribution, the inverse Gaussian one.

    >>> from tinyjax.random import key
    >>> wald(key(0), 2.0, (2,))
    Array([0.22327945, 3.90085525], dtype=float64)
    """
    return laid_out(_with_parameter("wald", _wald, key, mean, shape, dtype), out_sharding)


@prepared
def _wald(key: Array, mean: Array, shape: Shape) -> Array:
    dtype, middle = mean.aval.dtype, tnp.broadcast_to(mean, shape)
    first, second = halves(key)
    y, z = lax.square(gaussian(first, shape, dtype)), fractions(second, shape, dtype)
    square = lax.square(middle)
    x = middle + square * y / 2 - middle / 2 * lax.sqrt(4 * middle * y + square * lax.square(y))
    return tnp.where(z <= middle / (middle + x), x, square / x)


def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: ShapeLike = (),
    dtype: npt.DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Positive numbers with Weibull's distribution.

    >>> from tinyjax.random import key
    >>> weibull_min(key(0), 2.0, 1.5, (2,))
    Array([1.32963939, 0.78035921], dtype=float64)
    """
    one, found = single("weibull_min", key), dtype_of("weibull_min", dtype, float)
    return _weibull_min(one, as_array(scale), as_array(concentration), as_shape(shape), found)


@prepared
def _weibull_min(key: Array, scale: Array, concentration: Array, shape: Shape, dtype: DType) -> Array:
    return _exponential(key, shape, dtype) ** (1.0 / concentration) * scale


def triangular(
    key: ArrayLike, left: ArrayLike, mode: ArrayLike, right: ArrayLike, shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None, *,  out_sharding: OutSharding = None,
) -> Array:  # fmt: skip
    """Numbers from `left` to `right`, of which those near `mode`, between them, are most probable.

    >>> from tinyjax.random import key
    >>> triangular(key(0), 0.0, 1.0, 4.0, (2,))
    Array([1.35831216, 0.9301515 ], dtype=float64)
    """
    one, found = single("triangular", key), dtype_of("triangular", dtype, float)
    sizes = full_shape("triangular", shape, left, mode, right)
    low, peak, high = (parameter("triangular", x, found) for x in (left, mode, right))
    return laid_out(_triangular(one, low, peak, high, sizes), out_sharding)


@prepared
def _triangular(key: Array, left: Array, mode: Array, right: Array, shape: Shape) -> Array:
    low, peak, high = (tnp.broadcast_to(x, shape) for x in (left, mode, right))
    u = fractions(key, shape, low.aval.dtype)
    rising = low + lax.sqrt(u * (high - low) * (peak - low))
    falling = high - lax.sqrt((1 - u) * (high - low) * (high - peak))
    return tnp.where(u < (peak - low) / (high - low), rising, falling)


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None, *,  out_sharding: OutSharding = None,
) -> Array:  # fmt: skip
    """Exponentials of normal numbers of standard deviation `sigma`.

    >>> from tinyjax.random import key
    >>> lognormal(key(0), 0.5, (2,))
    Array([0.90219818, 0.67544544], dtype=float64)
    """
    found = _with_parameter("lognormal", _lognormal, key, sigma, shape, dtype, "a float or complex")
    return laid_out(found, out_sharding)


@prepared
def _lognormal(key: Array, sigma: Array, shape: Shape) -> Array:
    return lax.exp(gaussian(key, shape, sigma.aval.dtype) * sigma)
