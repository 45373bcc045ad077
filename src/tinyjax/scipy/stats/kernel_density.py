"""Estimation of a density by Gaussian kernels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, final

from attrs import frozen

import tinyjax.numpy as tnp
from tinyjax import lax, random
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.errors import ChoiceError, ShapeError, UnsupportedError
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.scipy.linalg.decompositions import cholesky
from tinyjax.scipy.linalg.equations import solve_triangular
from tinyjax.scipy.special.entropies import logsumexp
from tinyjax.scipy.special.errors import ndtr
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tree.nodes import register_pytree_node_class

#: How wide kernels are: a rule's name, a factor, or a function of the estimate that has the factor 1.
Bandwidth: TypeAlias = "str | ArrayLike | Callable[[gaussian_kde], ArrayLike] | None"


@final
@frozen(init=False, eq=False)
class gaussian_kde:  # noqa: N801  (SciPy's name)
    """The density of which a dataset is a sample, estimated by a normal density around each of its points.

    The dataset has a column for each point, or is a vector of numbers. The covariance of kernels is that of the data
    times the square of a factor: "scott" (the default) and "silverman" are rules for it; it may be a number, or a
    function of the estimate. `weights` are those of points. An estimate is a tree of its arrays, so that functions
    under `jit`, `grad` and `vmap` take it.

    Attributes:
      neff: the effective number of points.
      dataset: the points, as columns.
      weights: their weights; they add up to 1.
      covariance: that of kernels.
      inv_cov: its inverse.

    Raises:
      UnsupportedError: the dataset is complex.
      ShapeError: it has less than two elements, or there isn't a weight for each point.
      ChoiceError: there is no such rule.

    >>> import numpy as np
    >>> gaussian_kde(np.array([0.0, 1.0, 3.0])).evaluate(np.array([0.5]))
    Array([0.21316576], dtype=float64)
    """

    neff: Array
    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array

    def __init__(self, dataset: ArrayLike, bw_method: Bandwidth = None, weights: ArrayLike | None = None) -> None:
        _register()
        points = _rows(dataset, "data")
        if points.size <= 1:
            raise ShapeError(f"gaussian_kde: `dataset` input should have multiple elements, got {points.aval}")
        (points,) = promote_inexact(points)
        d, n = points.shape
        shares = tnp.full(n, 1 / n, points.dtype)
        if weights is not None:
            points, given = promote_inexact(points, tnp.asarray(weights))
            shares = tnp.reshape(given, (-1,)) if not given.ndim else given
            if shares.ndim != 1:
                raise ShapeError(f"gaussian_kde: `weights` input should be one-dimensional, got {given.aval}")
            if shares.shape != (n,):
                raise ShapeError(f"gaussian_kde: `weights` input should be of length {n}, got {given.aval}")
            shares = shares / tnp.sum(shares)
        neff = 1 / tnp.sum(shares**2)
        spread = tnp.reshape(tnp.cov(points, bias=False, aweights=shares), (d, d))
        self.__attrs_init__(neff, points, shares, spread, tnp.linalg.inv(spread))
        factor = self._factor("scott" if bw_method is None else bw_method)
        self.__attrs_init__(neff, points, shares, spread * factor**2, self.inv_cov / factor**2)

    def _factor(self, method: str | ArrayLike | Callable[[gaussian_kde], ArrayLike]) -> Array:
        if callable(method):
            return tnp.asarray(method(self))
        if isinstance(method, str):
            if method not in ("scott", "silverman"):
                raise ChoiceError(
                    f"gaussian_kde: `bw_method` should be 'scott', 'silverman', a scalar, or a callable, got {method!r}"
                )
            size = self.neff if method == "scott" else self.neff * (self.d + 2) / 4.0
            return size ** (-1.0 / (self.d + 4))
        found = tnp.asarray(method)
        if found.ndim:
            raise ChoiceError(
                f"gaussian_kde: `bw_method` should be 'scott', 'silverman', a scalar, or a callable, got {found.aval}"
            )
        return found

    def tree_flatten(self) -> tuple[tuple[Array, ...], None]:
        """Its arrays."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Iterable[Array]) -> gaussian_kde:
        """An estimate of these arrays."""
        found = cls.__new__(cls)
        found.__attrs_init__(*children)
        return found

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points: columns, or a vector of numbers, or one point."""
        return tnp.exp(self._logarithms(points)) @ self.weights

    def __call__(self, points: ArrayLike) -> Array:
        """The density at points."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """The density at points."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """The logarithm of the density at points, also where that is too small a number."""
        return logsumexp(self._logarithms(x) + lax.log(self.weights), axis=1)

    def _logarithms(self, points: ArrayLike) -> Array:
        """Of the kernels of the points of the dataset, along the last axis, at these."""
        x = _rows(points, "coordinates")
        if x.shape[0] != self.d:
            if x.shape != (1, self.d):
                raise ShapeError(f"gaussian_kde: points have dimension {x.shape[0]}, dataset has dimension {self.d}")
            x = x.mT
        x, data, inverse = promote_inexact(x, self.dataset, self.inv_cov)
        white = cholesky(inverse, lower=True)
        away = (x.mT @ white)[:, None, :] - data.mT @ white
        scale = tnp.sum(lax.log(tnp.diagonal(white))) - self.d / 2 * math.log(2 * math.pi)
        return scale - tnp.sum(tnp.square(away), -1) / 2

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal one."""
        middle, spread = tnp.asarray(mean), tnp.asarray(cov)
        if middle.size != self.d:
            raise ShapeError(f"gaussian_kde: mean does not have dimension {self.d}, but is {middle.aval}")
        if spread.size != self.d**2:
            raise ShapeError(f"gaussian_kde: covariance does not have dimension {self.d}, but is {spread.aval}")
        both = self.covariance + tnp.reshape(spread, (self.d, self.d))
        return _overlaps(both, self.dataset, tnp.reshape(middle, (self.d, 1)))[:, 0] @ self.weights

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The integral of a density of one dimension between two numbers."""
        if self.d != 1:
            raise ShapeError(f"integrate_box_1d() only handles 1D pdfs, this one has dimension {self.d}")
        ends = [tnp.asarray(low), tnp.asarray(high)]
        if any(end.ndim for end in ends):
            listed = " and ".join(str(end.aval) for end in ends)
            raise ShapeError(f"the limits of integration in integrate_box_1d must be scalars, got {listed}")
        below, above = (ndtr((end - self.dataset[0]) / tnp.sqrt(self.covariance[0, 0])) for end in ends)
        return tnp.sum(self.weights * (above - below))

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product with another one."""
        if other.d != self.d:
            raise ShapeError(f"KDEs are not the same dimensionality: {self.d} and {other.d}")
        return self.weights @ _overlaps(self.covariance + other.covariance, self.dataset, other.dataset) @ other.weights

    def resample(self, key: ArrayLike, shape: Sequence[int] = ()) -> Array:
        """Points from the density: an array of shape `(d, *shape)`."""
        first, second = random.split(key)
        chosen = random.choice(first, self.n, shape, p=self.weights)
        zero = tnp.zeros(self.d, self.covariance.dtype)
        away = random.multivariate_normal(second, zero, self.covariance, shape, self.dataset.dtype)
        return self.dataset[:, chosen] + tnp.moveaxis(away, -1, 0)

    def integrate_box(self, low_bounds: object, high_bounds: object, maxpts: object = None) -> Array:
        """Not here, as not in JAX: an UnsupportedError."""
        raise UnsupportedError("only 1D box integrations are supported; use `integrate_box_1d`")

    def set_bandwidth(self, bw_method: object = None) -> None:
        """Not here, as not in JAX: an UnsupportedError."""
        raise UnsupportedError(
            "dynamically changing the bandwidth method is not supported: write "
            "gaussian_kde(kde.dataset, bw_method, kde.weights)"
        )


@functools.cache
def _register() -> None:
    """At the first estimate, so that importing this imports nothing of JAX."""
    register_pytree_node_class(gaussian_kde)


def _rows(x: ArrayLike, what: str) -> Array:
    found = tnp.asarray(x)
    if found.dtype in COMPLEXES:
        raise UnsupportedError(f"gaussian_kde does not support complex {what}, got {found.aval}")
    if found.ndim > 2:
        raise ShapeError(f"gaussian_kde takes {what} as a vector, or as columns of a matrix; got {found.aval}")
    return found if found.ndim == 2 else tnp.reshape(found, (1, -1))


def _overlaps(covariance: Array, first: Array, second: Array) -> Array:
    """The normal density with this covariance of each difference of two columns."""
    factor = cholesky(covariance, lower=True)
    d, m, n = first.shape[0], first.shape[1], second.shape[1]
    away = tnp.reshape(first[:, :, None] - second[:, None, :], (d, m * n))
    white = solve_triangular(factor, away, lower=True)
    scale = tnp.sum(lax.log(tnp.diagonal(factor))) + d / 2 * math.log(2 * math.pi)
    return tnp.reshape(tnp.exp(-tnp.sum(tnp.square(white), 0) / 2 - scale), (m, n))
