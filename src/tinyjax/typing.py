"""What annotations of functions name, as in `jax.typing`."""

from typing import TypeAlias

import numpy.typing as npt

from tinyjax.tracing.array import ArrayLike

#: Whatever names a dtype, as NumPy has it.
DTypeLike: TypeAlias = npt.DTypeLike

__all__ = ["ArrayLike", "DTypeLike"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
