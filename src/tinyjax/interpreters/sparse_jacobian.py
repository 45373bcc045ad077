"""Jacobians from few directional derivatives: columns that share no row are found together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from tinyjax.api.arguments import resolve_position
from tinyjax.api.autodiff import linearize
from tinyjax.api.vectorize import vmap
from tinyjax.errors import InputError
from tinyjax.interpreters.sparsity import Bools, jacobian_sparsity
from tinyjax.numpy import zeros
from tinyjax.tracebacks import filtered
from tinyjax.tracing.core import Array, as_array
from tinyjax.tracing.functions import check_callable, describe
from tinyjax.tracing.shaping import ravel, reshape

Positions: TypeAlias = npt.NDArray[np.intp]


@final
@frozen(eq=False)
class SparseJacobian:
    """A Jacobian as the elements that may be other than zero, and where they are.

    `rows` and `columns` count the elements of the result and of the argument. `colors` says in which directional
    derivative each column was found.
    """

    values: Array
    rows: Positions
    columns: Positions
    colors: Positions
    shape: tuple[int, ...]
    matrix_shape: tuple[int, int]

    @property
    def num_colors(self) -> int:
        """How many directional derivatives were needed."""
        return int(self.colors.max(initial=-1)) + 1

    def todense(self) -> Array:
        """The array that `jacfwd` returns: the axes of the result, then those of the argument."""
        dense = zeros(self.matrix_shape, self.values.dtype).at[self.rows, self.columns].set(self.values)
        return reshape(dense, self.shape)


def color_columns(pattern: Bools) -> Positions:
    """A color for each column, such that no two columns of one color are true in the same row.

    Greedy, columns with the most others in their way first.

    >>> color_columns(np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool))
    array([1, 0, 1, 0])
    """
    weights = pattern.astype(np.float32)
    conflicts = weights.T @ weights > 0
    np.fill_diagonal(conflicts, False)
    colors = np.full(pattern.shape[1], -1, np.intp)
    for column in np.argsort(-conflicts.sum(axis=0), kind="stable"):
        taken = set(colors[conflicts[column]].tolist())
        colors[column] = next(color for color in range(len(colors)) if color not in taken)
    return colors


def sparse_jacobian(fun: Callable[..., object], argnums: int = 0) -> Callable[..., SparseJacobian]:
    """The Jacobian of `fun` with respect to one array, from as many directional derivatives as columns need colors.

    That is what `jacfwd` needs a derivative in each direction for. The result and the argument are arrays of floats.

    >>> import tinyjax.numpy as tnp
    >>> jacobian = sparse_jacobian(lambda x: tnp.diff(x) ** 2)(np.array([1.0, 2.0, 4.0, 8.0]))
    >>> jacobian.todense(), jacobian.num_colors
    (Array([[-2.,  2.,  0.,  0.],
           [ 0., -4.,  4.,  0.],
           [ 0.,  0., -8.,  8.]], dtype=float64), 2)
    """
    check_callable("sparse_jacobian", fun)

    @filtered
    def jacobian(*args: Any) -> SparseJacobian:  # the user's arguments
        number = resolve_position(argnums, len(args), "sparse_jacobian: argnums")
        x = as_array(args[number])

        def of_one(value: object) -> Any:  # the user's result
            return fun(*args[:number], value, *args[number + 1 :])

        out, push = linearize(of_one, x)
        if not isinstance(out, Array):
            raise InputError(f"{describe('sparse_jacobian', fun)} needs one array as result, got {out!r}")
        pattern = jacobian_sparsity(of_one, x)
        colors = color_columns(pattern)
        count = int(colors.max(initial=-1)) + 1
        seeds = (colors == np.arange(count)[:, None]).astype(x.dtype).reshape(count, *x.shape)
        rows, columns = np.nonzero(pattern)
        if count:
            compressed = reshape(vmap(push)(seeds), (count, pattern.shape[0]))
            values = compressed[colors[columns], rows]
        else:
            values = ravel(zeros((0,), out.dtype))
        return SparseJacobian(values, rows, columns, colors, (*out.shape, *x.shape), (out.size, x.size))

    return jacobian
