"""Entries of an index that say where a slice begins and how long it is, so that the beginning may be traced."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, SupportsIndex, final

from attrs import frozen

from tinyjax.errors import IndexKindError
from tinyjax.tracebacks import filtered

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array, ArrayLike


@final
@frozen(eq=False)
class Window:
    """So many positions along an axis, from `start` on, each `stride` after the one before: what `ds` makes."""

    start: ArrayLike
    size: int
    stride: int = 1


@final
@frozen(eq=False)
class Placed:
    """A window along a known axis: negative beginnings are counted from its end."""

    start: int | Array
    size: int
    stride: int


@filtered
def ds(
    start: ArrayLike | None, size: SupportsIndex | None = None, stride: SupportsIndex | None = None
) -> Window | slice:
    """An entry of an index for `size` elements from `start` on, of which only the number must be known: `x[ds(i, 2)]`
    is `x[i : i + 2]`, and `x.at[ds(i, 2)]` can be updated.

    When it is read, a negative beginning is counted from the end, and a window that reaches beyond the axis is moved to
    where it fits, as by `lax.dynamic_slice`. In `x.at` nothing is moved, and `mode` decides: by default nothing beyond
    the axis is updated. `ds(n)` is `:n`, and `ds(None)` is `:`, or `::stride`. Source: JAX.

    Raises:
      IndexKindError: the size isn't known, or it or the stride isn't as large as it must be.

    >>> import numpy as np
    >>> import tinyjax as tj
    >>> x = tj.numpy.arange(10)
    >>> tj.jit(lambda i: x[ds(i, 3)])(4)
    Array([4, 5, 6], dtype=int64)
    >>> x.at[ds(np.array(1), 3, 2)].set(0)
    Array([0, 0, 2, 0, 4, 0, 6, 7, 8, 9], dtype=int64)
    """
    step = 1 if stride is None else _known(stride, "stride", 1)
    if size is None:
        return slice(None, None, stride and step) if start is None else Window(0, _known(start, "size", 0), step)
    return Window(0 if start is None else start, _known(size, "size", 0), step)


def _known(value: object, what: str, least: int) -> int:
    if not isinstance(value, SupportsIndex):
        raise IndexKindError(f"ds: the {what} is an integer, got {value!r}")
    found = operator.index(value)
    if found < least:
        raise IndexKindError(f"ds: the {what} is at least {least}, got {found}")
    return found
