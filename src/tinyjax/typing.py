"""What annotations of functions name, as in `jax.typing`."""

from numpy.typing import DTypeLike

from tinyjax.tracing.array import ArrayLike

__all__ = ["ArrayLike", "DTypeLike"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
