"""The array API standard's entries: what there is, and arrays of other libraries through DLPack."""

from __future__ import annotations

from typing import Final

from tinyjax import backend
from tinyjax.backend import DeviceLike
from tinyjax.errors import ChoiceError
from tinyjax.numpy.arguments import placed
from tinyjax.numpy.namespace_info import ArrayNamespaceInfo
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray

__array_api_version__: Final = "2024.12"


def __array_namespace_info__() -> ArrayNamespaceInfo:  # noqa: N807 (the standard's name)
    """What devices and dtypes there are, for programs written against the array API standard.

    >>> __array_namespace_info__().default_dtypes()["integral"]
    dtype('int64')
    """
    return ArrayNamespaceInfo()


def from_dlpack(x: object, /, *, device: DeviceLike | None = None, copy: bool | None = None) -> Array:
    """An array of another library that has `__dlpack__`, as one of ours.

    Elements on the host are copied, since others might write to them. `copy=False` shares them: then nobody may.
    Those on a device are shared in any case. With a `device` the array is put there.

    >>> import numpy as np
    >>> from_dlpack(np.arange(3))
    Array([0, 1, 2], dtype=int64)
    """
    found = x if isinstance(x, Array) else None
    if found is None:
        value = backend.from_jax(x)
        found = ConcreteArray(backend.from_dlpack(x, copy) if value is None else value)
    if copy and isinstance(x, Array):
        found = found.copy()
    moved = placed(found, device)
    if copy is False and moved is not found:
        raise ChoiceError(f"from_dlpack: {found.aval} isn't on {device} and can't get there without a copy")
    return moved
