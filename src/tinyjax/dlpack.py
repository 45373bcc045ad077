"""Arrays shared with other libraries, by the names of `jax.dlpack`."""

from __future__ import annotations

from typing import Final

import numpy.typing as npt

from tinyjax.backend import DeviceLike
from tinyjax.ir.dtypes import NARROW_FLOATS, NARROW_SIGNED, NARROW_UNSIGNED, SUPPORTED, as_dtype
from tinyjax.numpy.info import from_dlpack as _from_dlpack
from tinyjax.tracebacks import filter_package
from tinyjax.tracing.array import Array

__all__ = ["from_dlpack", "is_supported_dtype"]

_SUPPORTED: Final = SUPPORTED - {*NARROW_FLOATS, *NARROW_SIGNED, *NARROW_UNSIGNED}


def from_dlpack(external_array: object, device: DeviceLike | None = None, copy: bool | None = None) -> Array:
    """An array of another library that has `__dlpack__`: `numpy.from_dlpack`, whose arguments may be named.

    >>> import numpy as np
    >>> from_dlpack(external_array=np.arange(3))
    Array([0, 1, 2], dtype=int64)
    """
    return _from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: npt.DTypeLike) -> bool:
    """Whether arrays of a dtype are passed on to every library: those of 4 and of 8-bit floats aren't.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("float8_e5m2")
    (True, False)
    """
    return as_dtype(dtype) in _SUPPORTED


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
