"""The classes that a text may name as parameters."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Final

import ml_dtypes
import numpy as np

from tinyjax.ir.dtypes import SUPPORTED

#: Classes that may be parameters themselves, by their full names.
HELD_TYPES: Final[Mapping[str, type]] = types.MappingProxyType(
    {
        f"{cls.__module__}.{cls.__qualname__}": cls
        for cls in (
            *(bool, bytes, complex, float, int, object, str, tuple, type(None)),
            np.generic,
            *sorted({dtype.type for dtype in SUPPORTED} | set(np.sctypeDict.values()), key=lambda cls: cls.__name__),
            ml_dtypes.bfloat16,
        )
    }
)
