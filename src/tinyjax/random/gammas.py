"""Samplers of the gamma distribution, and of those that are made of it."""

from __future__ import annotations

from typing import SupportsIndex

import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax
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


def _gamma(
    key: Array, a: ArrayLike, shape: Shape, dtype: DType, log_space: bool = False, approximate: bool = False
) -> Array:
    if approximate:
        return approximate_gamma(key, a, shape, dtype, log_space)
    return _exact(key, tnp.broadcast_to(converted(a, dtype), shape), log_space)


@prepared_with_loops
def _exact(key: Array, a: Array, log_space: bool) -> Array:
    found: Array = random_gamma(key, a, log_space)
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
    return laid_out(_gamma(one, a, full_shape("gamma", shape, a), found, False, approximate), out_sharding)


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
    return laid_out(_gamma(one, a, full_shape("loggamma", shape, a), found, True, approximate), out_sharding)


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
    x, y = (
        _gamma(part, parameter("beta", p, found), sizes, found, True, approximate)
        for part, p in zip(halves(one), (a, b), strict=True)
    )
    most = tnp.maximum(x, y)
    above, rest = lax.exp(x - most), lax.exp(y - most)
    return laid_out(above / (above + rest), out_sharding)


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
    logs = _gamma(one, weights, (*sizes, last), found, True)
    values = lax.exp(logs - tnp.max(lax.stop_gradient(logs), axis=-1, keepdims=True))
    return laid_out(values / tnp.sum(values, axis=-1, keepdims=True), out_sharding)


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
    logs = _gamma(one, parameter("chisquare", df, found) / 2, sizes, found, True, approximate)
    return laid_out(lax.exp(logs) * 2, out_sharding)


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
    second, first = halves(one)
    return laid_out(
        (chisquare(first, above, sizes, found) / above) / (chisquare(second, below, sizes, found) / below), out_sharding
    )


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
    half = parameter("t", df, found) / 2
    first, second = halves(one)
    return laid_out(gaussian(first, sizes, found) * lax.sqrt(half / _gamma(second, half, sizes, found)), out_sharding)


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
    first, second = halves(one)
    power = 1 / as_array(p)
    return laid_out(rademacher(second, sizes, found) * _gamma(first, power, sizes, found) ** power, out_sharding)


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
    first, second = halves(one)
    point = generalized_normal(first, p, (*sizes, index("ball", "d", d)), found)
    norm = tnp.sum(tnp.abs(point) ** as_array(p), axis=-1) + exponential(second, sizes, found)
    return laid_out(point / (norm ** (1 / as_array(p)))[..., None], out_sharding)
