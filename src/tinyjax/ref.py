"""Refs, cells that hold an array: made, read, written and frozen by functions, as `jax.ref` has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyjax.arrays.basic_indexing import Index
from tinyjax.errors import UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.refs.ref import Ref
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike

__all__ = ["Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


@filtered
def new_ref(init_val: ArrayLike, *, memory_space: object = None, kind: str | None = None) -> Ref:
    """A Ref that holds an array.

    `memory_space` and `kind` are for kernels, which aren't written here: None.

    >>> x_ref = new_ref([1.0, 2.0, 3.0])
    >>> x_ref[0] += 10.0
    >>> x_ref
    Ref([11.,  2.,  3.], dtype=float64)
    """
    if memory_space is not None or kind is not None:
        raise UnsupportedError("new_ref: a Ref is where its array is; leave out memory_space and kind")
    return Ref(init_val)
