"""Polynomials that fit points, and where polynomials are zero: linear algebra on their coefficients."""

from __future__ import annotations

from typing import Literal, SupportsIndex, TypeAlias, overload

import numpy as np

from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ConcretizationError, InputError, ShapeError
from tinyjax.numpy.arguments import with_axes
from tinyjax.numpy.creation import arange, asarray, zeros
from tinyjax.numpy.elementwise import sqrt
from tinyjax.numpy.joining import concatenate
from tinyjax.numpy.linalg import eigvals, inv, lstsq
from tinyjax.numpy.logic import where
from tinyjax.numpy.manipulation import roll
from tinyjax.numpy.matrices import eye
from tinyjax.numpy.products import outer
from tinyjax.numpy.reductions import argmax, argsort
from tinyjax.numpy.reductions import sum as total
from tinyjax.numpy.sequences import vander
from tinyjax.numpy.signatures import Nested
from tinyjax.numpy.types import finfo
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array

#: The coefficients, the sums of squares that are left, the rank, the singular values, and what counts as zero.
_Full: TypeAlias = tuple[Array, Array, Array, Array, Array]
_Solution: TypeAlias = tuple[Array, Array, Array, Array]


@overload
def polyfit(
    x: Nested,
    y: Nested,
    deg: SupportsIndex,
    rcond: float | None = None,
    full: Literal[False] = False,
    w: Nested | None = None,
    cov: Literal[False] = False,
) -> Array: ...
@overload
def polyfit(
    x: Nested,
    y: Nested,
    deg: SupportsIndex,
    rcond: float | None = None,
    *,
    full: Literal[True],
    w: Nested | None = None,
    cov: bool | Literal["unscaled"] = False,
) -> _Full: ...
@overload
def polyfit(
    x: Nested,
    y: Nested,
    deg: SupportsIndex,
    rcond: float | None = None,
    full: Literal[False] = False,
    w: Nested | None = None,
    *,
    cov: Literal[True, "unscaled"],
) -> tuple[Array, Array]: ...
def polyfit(
    x: Nested,
    y: Nested,
    deg: SupportsIndex,
    rcond: float | None = None,
    full: bool = False,
    w: Nested | None = None,
    cov: bool | Literal["unscaled"] = False,
) -> Array | _Full | tuple[Array, Array]:
    """The polynomial of this degree that comes nearest to the points (x, y), in the sense of least squares.

    y may have a column for each of several polynomials. `w` are weights of the differences, not of their squares.
    `full` returns what `lstsq` does, too; `cov` the covariance of the coefficients, "unscaled" if the weights are the
    inverse standard deviations of y.

    Raises:
      InputError: the degree is negative.
      ShapeError: x, y and w don't fit together.

    >>> polyfit(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 7.0]), 2).round(6)
    Array([1., 1., 1.], dtype=float64)
    """
    degree = integer(deg, "polyfit: the degree")
    if degree < 0:
        raise InputError(f"polyfit: the degree must not be negative, got {degree}")
    at, values = promote_inexact(asarray(x), asarray(y))
    if at.ndim != 1 or at.size == 0 or values.ndim not in (1, 2) or values.shape[0] != at.size:
        raise ShapeError(
            f"polyfit takes vectors x and y of the same length, y with columns; got {at.aval}, {values.aval}"
        )
    powers = vander(at, degree + 1)
    if w is not None:
        weights = asarray(w)
        if weights.shape != at.shape:
            raise ShapeError(f"polyfit: the weights must be like x, {at.aval}, got {weights.aval}")
        powers = powers * weights[:, None]
        values = values * (weights[:, None] if values.ndim == 2 else weights)
    small = _smallest(at) if rcond is None else rcond
    if rcond is None:
        found, left, rank, singular = _nearest(powers, values)
    else:
        found, left, rank, singular = _nearest_but_for(powers, values, small)
    if full:
        return found, left, rank, singular, asarray(small)
    if not cov:
        return found
    sizes = _sizes(powers)
    base = inv((powers / sizes).T.conj() @ (powers / sizes)) / outer(sizes, sizes)
    if values.ndim == 2:
        base = base[:, :, None]
    if cov == "unscaled":
        return found, base
    if at.size <= degree + 1:
        raise InputError(
            f"polyfit: {at.size} points leave no freedom to {degree + 1} coefficients to estimate a covariance; "
            "pass more points, or cov='unscaled'"
        )
    return found, base * (left / (at.size - degree - 1))


@prepared
def _nearest(powers: Array, values: Array) -> _Solution:
    return _nearest_but_for(powers, values, _smallest(powers))


def _nearest_but_for(powers: Array, values: Array, small: float) -> _Solution:
    """The coefficients of columns of equal length, as `lstsq` finds them."""
    sizes = _sizes(powers)
    scaled, left, rank, singular = lstsq(powers / sizes, values, small)
    return (scaled.T / sizes).T, left, rank, singular


def _smallest(x: Array) -> float:
    return x.shape[0] * float(finfo(x.dtype).eps)


def _sizes(powers: Array) -> Array:
    return sqrt(total((powers.conj() * powers).real, axis=0))


def roots(p: Nested, *, strip_zeros: bool = True) -> Array:
    """Where a polynomial is zero: complex numbers, the eigenvalues of its companion matrix.

    How many there are depends on how many of the first coefficients are zero. With `strip_zeros=False`, which works on
    traced coefficients too, there are as many as the degree would be, and for each of those a nan at the end.

    Raises:
      ShapeError: the coefficients aren't a vector.
      ConcretizationError: the coefficients are traced, and `strip_zeros` isn't False.

    >>> roots(np.array([1.0, -3.0, 2.0]))
    Array([2.+0.j, 1.+0.j], dtype=complex128)
    """
    (coefficients,) = promote_inexact(with_axes(asarray(p), 1))
    if coefficients.ndim != 1:
        raise ShapeError(f"roots takes a vector of coefficients, got {coefficients.aval}")
    kind = np.result_type(coefficients.dtype, np.complex64)
    last, first = 0, None
    if coefficients.size < 2:
        return zeros((0,), kind)
    if strip_zeros:
        try:
            present = np.flatnonzero(np.asarray(coefficients))
        except ConcretizationError:
            raise ConcretizationError(
                "roots: how many there are depends on which coefficients are zero, and these are traced. Pass "
                "strip_zeros=False for a nan at the end for each zero that they begin with."
            ) from None
        if present.size == 0:
            return zeros((0,), kind)
        last = coefficients.size - 1 - int(present[-1])
        coefficients = coefficients[int(present[0]) : int(present[-1]) + 1]
    n = coefficients.size - 1
    if n < 1:
        return zeros((last,), kind)
    if not strip_zeros:
        nonzero = coefficients != 0
        first = where(nonzero.any(), argmax(nonzero), n)
        coefficients = roll(where(nonzero.any(), coefficients, 1), -first)
    found = _companion_roots(coefficients, last)
    if first is None:
        return found
    # The zeros that have been moved to the end make as many roots, which are no roots of the polynomial.
    found = found[argsort(found == 0, stable=True)]
    return where(arange(n) < n - first, found, complex(np.nan, np.nan))


@prepared
def _companion_roots(coefficients: Array, zero: int) -> Array:
    """The roots of a polynomial whose first and last coefficients aren't zero, and so many zeros."""
    n, kind = coefficients.size - 1, np.result_type(coefficients.dtype, np.complex64)
    first = -coefficients[1:] / coefficients[0]
    companion = concatenate([first[None], eye(n - 1, n, dtype=first.dtype)])
    return concatenate([eigvals(companion).astype(kind), zeros((zero,), kind)])
