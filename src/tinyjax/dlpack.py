"""Arrays shared with other libraries, by the names of `jax.dlpack`."""

from __future__ import annotations

from typing import Final

import numpy.typing as npt

from tinyjax.ir.dtypes import NARROW_FLOATS, NARROW_SIGNED, NARROW_UNSIGNED, SUPPORTED, as_dtype
from tinyjax.numpy.info import from_dlpack
from tinyjax.tracebacks import filter_package

__all__ = ["from_dlpack", "is_supported_dtype"]

_SUPPORTED: Final = SUPPORTED - {*NARROW_FLOATS, *NARROW_SIGNED, *NARROW_UNSIGNED}


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
