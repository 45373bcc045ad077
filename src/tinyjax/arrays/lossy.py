"""What is put into an array whose dtype can't hold it: cast, as by NumPy and JAX, which is seldom meant."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import numpy as np

from tinyjax.arrays.promotion import result_type
from tinyjax.errors import LossyUpdateWarning
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT32,
    UINT64,
    DType,
)
from tinyjax.tracebacks import users_level

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

#: What NumPy makes in 64 bits unasked counts as of 32: what JAX makes of it by default.
_UNASKED: Final[dict[DType, DType]] = {FLOAT64: FLOAT32, COMPLEX128: COMPLEX64, INT64: INT32, UINT64: UINT32}


def warn_of_loss(x: Array, values: Array) -> None:
    """A LossyUpdateWarning if the values have no place in x, because promotion with its dtype gives another: floats
    among integers, complex numbers among floats, a wider or a signed dtype."""
    ours, theirs = x.aval.dtype, values.aval.dtype
    if ours == theirs:
        return
    counted = ShapedArray((), _UNASKED.get(theirs, theirs), values.aval.weak_type)
    if result_type([ShapedArray((), ours), counted])[0] != ours:
        warnings.warn(
            f"values of type {values.aval} can't be stored in an array of type {x.aval} without loss: scatter inputs "
            "have incompatible types, and the results are cast. In later versions of JAX this will be an error. "
            "Convert one of them with astype.",
            LossyUpdateWarning,
            stacklevel=users_level(),
        )


def warn_of_imaginary_parts(given: DType, dtype: DType) -> None:
    """A ComplexWarning, as NumPy's and JAX's, if numbers of the first dtype lose their imaginary parts in the other."""
    if given in COMPLEXES and dtype not in COMPLEXES and dtype != BOOL:
        warnings.warn(
            "Casting complex values to real discards the imaginary part. Where that is meant, take x.real",
            np.exceptions.ComplexWarning,
            stacklevel=users_level(),
        )
