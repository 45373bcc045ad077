"""Samplers of the gamma distribution, and of those that are made of it."""

from __future__ import annotations

from typing import SupportsIndex

import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.shifts import shift
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import DType
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.prepared.functions import prepared_with_loops
from tinyjax.random.approximate import Method, approximate_gamma, is_approximate
from tinyjax.random.arguments import (
    ShapeLike,
    check_shapes,
    converted,
    dtype_of,
    full_shape,
    halves,
    index,
    parameter,
    single,
)
from tinyjax.random.continuous import exponential
from tinyjax.random.drawing import gaussian
from tinyjax.random.rejection import random_gamma
from tinyjax.random.uniform import rademacher
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

# What is checked is one program, as there are loops in it.


@prepared_with_loops
def _gamma(
    key: Array, a: Array, shape: Shape, dtype: DType, log_space: bool = False, approximate: bool = False
) -> Array:
    if approximate:
        return approximate_gamma(key, a, shape, dtype, log_space)
    found: Array = random_gamma(key, tnp.broadcast_to(converted(a, dtype), shape), log_space)
    return found


def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    method: Method = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Positive numbers with the gamma distribution of shape a, and scale 1. Differentiable in a.

    The method "approximate" has no loops; its numbers are almost so distributed.

    >>> from tinyjax.random import key
    >>> gamma(key(0), 3.0, (2,))
    Array([2.26291139, 1.96213947], dtype=float64)
    """
    one, found = single("gamma", key), dtype_of("gamma", dtype, float)
    approximate = is_approximate("gamma", method)
    return laid_out(_gamma(one, as_array(a), full_shape("gamma", shape, a), found, False, approximate), out_sharding)


def loggamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    method: Method = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """The logarithms of what `gamma` gives, which are exact where a is small and the numbers are next to nothing; with
    the method "approximate", almost.

    >>> from tinyjax.random import key
    >>> loggamma(key(0), 0.001, (2,))
    Array([-1113.02584633, -2280.53575798], dtype=float64)
    """
    one, found = single("loggamma", key), dtype_of("loggamma", dtype, float)
    approximate = is_approximate("loggamma", method)
    return laid_out(_gamma(one, as_array(a), full_shape("loggamma", shape, a), found, True, approximate), out_sharding)


def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    method: Method = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers from 0 to 1 with the beta distribution. Differentiable in a and b. `method` as for gamma.

    >>> from tinyjax.random import key
    >>> beta(key(0), 2.0, 3.0, (2,))
    Array([0.32795607, 0.61380901], dtype=float64)
    """
    one, found = single("beta", key), dtype_of("beta", dtype, float)
    sizes, approximate = full_shape("beta", shape, a, b), is_approximate("beta", method)
    x, y = (parameter("beta", p, found) for p in (a, b))
    return laid_out(_beta(one, x, y, sizes, found, approximate), out_sharding)


@prepared_with_loops
def _beta(key: Array, a: Array, b: Array, shape: Shape, dtype: DType, approximate: bool) -> Array:
    x, y = (_gamma(part, p, shape, dtype, True, approximate) for part, p in zip(halves(key), (a, b), strict=True))
    most = tnp.maximum(x, y)
    above, rest = lax.exp(x - most), lax.exp(y - most)
    return above / (above + rest)


def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Vectors of positive numbers whose sum is 1, with Dirichlet's distribution. Differentiable in alpha.

    The last axis is that of alpha, the shape that of the others.

    >>> from tinyjax.random import key
    >>> dirichlet(key(0), [1.0, 2.0, 3.0])
    Array([0.07065346, 0.16705569, 0.76229085], dtype=float64)
    """
    one, found = single("dirichlet", key), dtype_of("dirichlet", dtype, float)
    weights = tnp.asarray(alpha)
    if not weights.ndim:
        raise ShapeError("dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0")
    *batch, last = weights.aval.shape
    sizes = tuple(batch) if shape is None else as_shape(shape)
    check_shapes("dirichlet", sizes, [tuple(batch)])
    return laid_out(_dirichlet(one, weights, (*sizes, last), found), out_sharding)


@prepared_with_loops
def _dirichlet(key: Array, weights: Array, shape: Shape, dtype: DType) -> Array:
    logs = _gamma(key, weights, shape, dtype, True)
    values = lax.exp(logs - shift(lax.stop_gradient(logs), -1))
    return values / tnp.sum(values, axis=-1, keepdims=True)


def chisquare(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    method: Method = "exact",
    out_sharding: OutSharding = None,
) -> Array:
    """Positive numbers with the chi-square distribution of `df` degrees of freedom. `method` as for gamma.

    >>> from tinyjax.random import key
    >>> chisquare(key(0), 4.0, (2,))
    Array([2.70406159, 2.2487189 ], dtype=float64)
    """
    one, found = single("chisquare", key), dtype_of("chisquare", dtype, float)
    sizes, approximate = full_shape("chisquare", shape, df), is_approximate("chisquare", method)
    return laid_out(_chisquare(one, parameter("chisquare", df, found), sizes, found, approximate), out_sharding)


@prepared_with_loops
def _chisquare(key: Array, df: Array, shape: Shape, dtype: DType, approximate: bool) -> Array:
    return lax.exp(_gamma(key, df / 2, shape, dtype, True, approximate)) * 2


def f(
    key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None, *,  out_sharding: OutSharding = None,
) -> Array:  # fmt: skip
    """Positive numbers with the F distribution, of a quotient of two chi-square ones.

    >>> from tinyjax.random import key
    >>> f(key(0), 4.0, 6.0, (2,))
    Array([1.47160001, 0.41216472], dtype=float64)
    """
    one, found = single("f", key), dtype_of("f", dtype, float)
    sizes = full_shape("f", shape, dfnum, dfden)
    above, below = parameter("f", dfnum, found), parameter("f", dfden, found)
    return laid_out(_quotient(one, above, below, sizes, found), out_sharding)


@prepared_with_loops
def _quotient(key: Array, above: Array, below: Array, shape: Shape, dtype: DType) -> Array:
    second, first = halves(key)
    x, y = _chisquare(first, above, shape, dtype, False), _chisquare(second, below, shape, dtype, False)
    return (x / above) / (y / below)


def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers with Student's distribution of `df` degrees of freedom.

    >>> from tinyjax.random import key
    >>> t(key(0), 4.0, (2,))
    Array([ 1.43881401, -0.57618965], dtype=float64)
    """
    one, found = single("t", key), dtype_of("t", dtype, float)
    sizes = full_shape("t", shape, df)
    return laid_out(_t(one, parameter("t", df, found), sizes, found), out_sharding)


@prepared_with_loops
def _t(key: Array, df: Array, shape: Shape, dtype: DType) -> Array:
    half = df / 2
    first, second = halves(key)
    return gaussian(first, shape, dtype) * lax.sqrt(half / _gamma(second, half, shape, dtype))


def generalized_normal(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike = (),
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Numbers whose probability falls as exp(-|x| ** p).

    >>> from tinyjax.random import key
    >>> generalized_normal(key(0), 3.0, (2,))
    Array([ 0.74663734, -1.07920374], dtype=float64)
    """
    one, found, sizes = single("generalized_normal", key), dtype_of("generalized_normal", dtype, float), as_shape(shape)
    return laid_out(_generalized(one, as_array(p), sizes, found), out_sharding)


@prepared_with_loops
def _generalized(key: Array, p: Array, shape: Shape, dtype: DType) -> Array:
    first, second = halves(key)
    power = 1 / p
    return rademacher(second, shape, dtype) * _gamma(first, power, shape, dtype) ** power


def ball(
    key: ArrayLike,
    d: SupportsIndex,
    p: ArrayLike = 2,
    shape: ShapeLike = (),
    dtype: npt.DTypeLike | None = None,
    *,
    out_sharding: OutSharding = None,
) -> Array:
    """Points that are uniformly distributed in the unit ball of the p-norm, in d dimensions, along the last axis.

    >>> from tinyjax.random import key
    >>> ball(key(0), 3)
    Array([-0.86703795, -0.45310376,  0.084509  ], dtype=float64)
    """
    one, found, sizes = single("ball", key), dtype_of("ball", dtype, float), as_shape(shape)
    return laid_out(_ball(one, as_array(p), (*sizes, index("ball", "d", d)), found), out_sharding)


@prepared_with_loops
def _ball(key: Array, p: Array, shape: Shape, dtype: DType) -> Array:
    first, second = halves(key)
    point = _generalized(first, p, shape, dtype)
    norm = tnp.sum(tnp.abs(point) ** p, axis=-1) + exponential(second, shape[:-1], dtype)
    return point / (norm ** (1 / p))[..., None]
