"""Moving trees of arrays between the host and a device."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import numpy as np

from tinyjax import backend
from tinyjax.ir.dtypes import HostArray
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array

T = TypeVar("T")


@filtered
def device_put(x: T) -> T:
    """The tree with all arrays on the default device. What is being traced stays as it is."""

    def put(leaf: object) -> Array:
        array = as_array(leaf)
        return ConcreteArray(backend.device_put(array.value)) if isinstance(array, ConcreteArray) else array

    return tree.map_leaves(put, x)


@overload
def device_get(x: ArrayLike) -> HostArray: ...
@overload
def device_get(x: T) -> T: ...
@filtered
def device_get(x: Any) -> Any:  # the user's tree
    """The tree with all arrays as NumPy arrays; a ConcretizationError if one is being traced."""
    return tree.map_leaves(lambda leaf: np.asarray(as_array(leaf)), x)


@filtered
def block_until_ready(x: T) -> T:
    """Waits until all arrays of the tree are computed. Returns the tree itself."""
    buffers = []
    for leaf in tree.flatten(x)[0]:
        if isinstance(leaf, ConcreteArray) and leaf.buffer is not None:
            buffers.append(leaf.buffer)
        elif isinstance(leaf, Array):
            leaf.block_until_ready()
    backend.wait_for(buffers)
    return x
