"""Trees of arrays in files: saved by the processes that have them, and loaded onto any mesh."""

from tinyjax.checkpoints.loading import load
from tinyjax.checkpoints.saving import save

__all__ = ["load", "save"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
