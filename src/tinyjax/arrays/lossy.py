"""What is put into an array whose dtype can't hold it: cast, as by NumPy and JAX, which is seldom meant."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tinyjax.errors import LossyUpdateWarning
from tinyjax.ir.dtypes import BOOL, COMPLEXES, INEXACT, INTEGERS
from tinyjax.tracebacks import users_level

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array


def warn_of_loss(x: Array, values: Array) -> None:
    """A LossyUpdateWarning if the values have no place in x: floats among integers, complex numbers among floats."""
    ours, theirs = x.aval.dtype, values.aval.dtype
    if (
        (ours == BOOL and theirs != BOOL)
        or (ours in INTEGERS and theirs in INEXACT)
        or (ours not in COMPLEXES and theirs in COMPLEXES)
    ):
        warnings.warn(
            f"values of type {values.aval} can't be stored in an array of type {x.aval} without loss: scatter inputs "
            "have incompatible types, and the results are cast. In later versions of JAX this will be an error. "
            "Convert one of them with astype.",
            LossyUpdateWarning,
            stacklevel=users_level(),
        )
