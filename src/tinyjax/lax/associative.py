"""`associative_scan`: all prefixes of a sequence at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError, InputError
from tinyjax.lax.shaping import concatenate, expand_dims, reshape, rev, slice_in_dim
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import as_arrays, check_callable, function_name
from tinyjax.transforms.arguments import flag

_T = TypeVar("_T")


def associative_scan(
    fn: Callable[[Any, Any], object],  # the user's trees
    elems: _T,
    reverse: bool = False,
    axis: int = 0,
) -> _T:
    """The results of combining the first, the first two, the first three … elements along an axis, in parallel.

    `fn` must be associative. It combines two trees such as `elems`, element by element along the axis, and is applied
    to several elements at once, about twice as many times as the number of elements has binary digits. `reverse`: the
    last, the last two, …, combined from the end.

    Raises:
      InputError: the arrays have no such axis, or differ in its size; fn changes a shape.
      TreeError: fn changes the structure.

    >>> import numpy as np
    >>> associative_scan(lambda x, y: x * y, np.arange(1.0, 6.0))
    Array([  1.,   2.,   6.,  24., 120.], dtype=float64)
    """
    check_callable("associative_scan", fn)
    leaves, treedef = tree.flatten(elems)
    paths = tree.paths(treedef)
    arrays = as_arrays(leaves, lambda i: f"associative_scan: elems{paths[i]}")
    if not arrays:
        return elems
    shown = ", ".join(f"elems{path}: {array.aval}" for path, array in zip(paths, arrays, strict=True))
    axis = integer(axis, "associative_scan: the axis")
    if any(not -array.aval.ndim <= axis < array.aval.ndim for array in arrays):
        raise ChoiceError(f"associative_scan: not every array has an axis {axis}: {shown}")
    at = axis % arrays[0].aval.ndim
    if len({array.aval.shape[axis] for array in arrays}) > 1 or any(axis % x.aval.ndim != at for x in arrays):
        raise InputError(f"associative_scan: the arrays must have one size along axis {axis}: {shown}")

    def combine(x: Sequence[Array], y: Sequence[Array]) -> list[Array]:
        found, structure = tree.flatten(fn(tree.unflatten(treedef, x), tree.unflatten(treedef, y)))
        name = function_name(fn)
        tree.check_same_structure("associative_scan", treedef, structure, "elems", f"the result of {name}")
        results = as_arrays(found, lambda i: f"associative_scan: result{paths[i]} of {name}")
        for path, result, part in zip(paths, results, x, strict=True):
            if result.aval.shape != part.aval.shape:
                raise InputError(
                    f"associative_scan: {name} must keep shapes, but takes {part.aval} and returns {result.aval} at "
                    f"elems{path}"
                )
        return results

    if flag("associative_scan: reverse", reverse):
        arrays = [rev(array, (at,)) for array in arrays]
    arrays = _prefixes(combine, arrays, at)
    if reverse:
        arrays = [rev(array, (at,)) for array in arrays]
    result: _T = tree.unflatten(treedef, arrays)
    return result


def _prefixes(
    combine: Callable[[Sequence[Array], Sequence[Array]], list[Array]], xs: Sequence[Array], axis: int
) -> list[Array]:
    """All prefixes, from those of half as many elements: neighbours combined."""
    n = xs[0].aval.shape[axis]
    if n < 2:
        return list(xs)

    def every_other(arrays: Sequence[Array], start: int, stop: int) -> list[Array]:
        return [slice_in_dim(x, start, stop, 2, axis) for x in arrays]

    pairs = n // 2
    odd = _prefixes(combine, combine(every_other(xs, 0, 2 * pairs), every_other(xs, 1, n)), axis)
    first = [slice_in_dim(x, 0, 1, 1, axis) for x in xs]
    if n == 2:
        return [concatenate(parts, axis) for parts in zip(first, odd, strict=True)]
    before = odd if n % 2 else [slice_in_dim(x, 0, pairs - 1, 1, axis) for x in odd]
    even = combine(before, every_other(xs, 2, n))
    return [_interleaved(concatenate((x, rest), axis), y, axis) for x, rest, y in zip(first, even, odd, strict=True)]


def _interleaved(x: Array, y: Array, axis: int) -> Array:
    """Elements of x and y in turn; x has as many as y, or one more."""
    n, m = x.aval.shape[axis], y.aval.shape[axis]
    shape = y.aval.shape
    paired = concatenate(
        (expand_dims(slice_in_dim(x, 0, m, 1, axis), (axis + 1,)), expand_dims(y, (axis + 1,))), axis + 1
    )
    joined = reshape(paired, (*shape[:axis], 2 * m, *shape[axis + 1 :]))
    return joined if n == m else concatenate((joined, slice_in_dim(x, m, n, 1, axis)), axis)
