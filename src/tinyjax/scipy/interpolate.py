"""Values between those on a grid, as `scipy.interpolate` has them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import final

import tinyjax.numpy as tnp
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.errors import ChoiceError, ShapeError, UnsupportedError
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tree import register_pytree_node_class

__all__ = ["RegularGridInterpolator"]


@final
@register_pytree_node_class
class RegularGridInterpolator:
    """A function of points that has these values on a grid, given by the coordinates along each of its n axes.

    `points` are n vectors, each ascending or descending; `values` may have more than n axes. Between the points of the
    grid, `method` "linear" interpolates, "nearest" takes the value at the nearest one. Beyond the grid there is
    `fill_value`; None extrapolates. An interpolator is a tree of its arrays.

    Raises:
      ShapeError: the values don't fit the coordinates, of which there are at least two along each axis.
      ChoiceError: there is no such method.
      UnsupportedError: `bounds_error` is asked for, which depends on values.

    >>> import numpy as np
    >>> at = RegularGridInterpolator(
    ...     (np.array([1.0, 2.0]), np.array([0.0, 4.0])), np.array([[0.0, 4.0], [10.0, 14.0]])
    ... )
    >>> at(np.array([[1.5, 1.0], [2.0, 5.0]]))
    Array([ 6., nan], dtype=float64)
    """

    method: str
    values: Array
    grid: tuple[Array, ...]
    fill_value: Array | None

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike | None = math.nan,
    ) -> None:
        if bounds_error:
            raise UnsupportedError("RegularGridInterpolator: bounds_error=True would depend on values; use fill_value")
        self.method = _checked(method)
        (self.values,) = promote_inexact(as_array(values))
        self.grid = tuple(map(as_array, points))
        self.fill_value = None if fill_value is None else as_array(fill_value)
        sizes = tuple(axis.size if axis.ndim == 1 else None for axis in self.grid)
        if sizes != self.values.shape[: len(sizes)] or not all(size and size > 1 for size in sizes):
            raise ShapeError(
                "RegularGridInterpolator: points are vectors of at least two coordinates, one for each axis of the "
                f"values; got shapes {[axis.shape for axis in self.grid]} for values of shape {self.values.shape}"
            )

    def __call__(self, xi: ArrayLike | Sequence[ArrayLike], method: str | None = None) -> Array:
        """The values at points: an array (..., n), or n arrays of coordinates, which are broadcast.

        Raises:
          ShapeError: the points have another number of coordinates.

        >>> import numpy as np
        >>> RegularGridInterpolator((np.arange(3.0),), np.array([0.0, 1.0, 4.0]))((np.array([0.5, 1.5]),))
        Array([0.5, 2.5], dtype=float64)
        """
        chosen = self.method if method is None else _checked(method)
        places = self._places(xi)
        values, lower, shares = self.values, [], []
        outside = tnp.zeros(places[0].shape, bool)
        for axis, (x, coordinates) in enumerate(zip(places, self.grid, strict=True)):
            descending = coordinates[0] > coordinates[-1]
            grid = tnp.where(descending, coordinates[::-1], coordinates)
            values = tnp.where(descending, tnp.flip(values, axis), values)
            at = tnp.clip(tnp.searchsorted(grid, x) - 1, 0, grid.size - 2)
            lower.append(at)
            shares.append((x - grid[at]) / (grid[at + 1] - grid[at]))
            outside = outside | (x < grid[0]) | (x > grid[-1])
        more = (...,) + (None,) * (values.ndim - len(lower))
        if chosen == "nearest":
            found = values[tuple(tnp.where(share <= 0.5, at, at + 1) for at, share in zip(lower, shares, strict=True))]
        else:
            found = tnp.zeros((), values.dtype)
            for corner in itertools.product((0, 1), repeat=len(lower)):
                weight = math.prod(share if up else 1 - share for share, up in zip(shares, corner, strict=True))
                there = tuple(at + up for at, up in zip(lower, corner, strict=True))
                found = found + as_array(weight)[more] * values[there]
        return found if self.fill_value is None else tnp.where(outside[more], self.fill_value, found)

    def _places(self, xi: ArrayLike | Sequence[ArrayLike]) -> Sequence[Array]:
        n = len(self.grid)
        if isinstance(xi, tuple | list):
            places: Sequence[Array] = tnp.broadcast_arrays(*xi)
        else:
            x = as_array(xi)
            x = x[:, None] if n == 1 and x.ndim == 1 else x[None] if x.ndim == 1 else x
            places = [x[..., axis] for axis in range(x.shape[-1] if x.ndim else 0)]
        if len(places) != n:
            raise ShapeError(f"RegularGridInterpolator: points need {n} coordinates each, got {len(places)}")
        return promote_inexact(*places)

    def tree_flatten(self) -> tuple[tuple[object, ...], str]:
        """The arrays; and what isn't one."""
        return (self.grid, self.values, self.fill_value), self.method

    @classmethod
    def tree_unflatten(cls, method: str, children: Iterable[object]) -> RegularGridInterpolator:
        """The interpolator of these: also of what stands for arrays."""
        made = object.__new__(cls)
        made.method = method
        vars(made).update(zip(("grid", "values", "fill_value"), children, strict=True))
        return made


def _checked(method: str) -> str:
    if method not in ("linear", "nearest"):
        raise ChoiceError(f"RegularGridInterpolator: method is 'linear' or 'nearest', got {method!r}")
    return method
