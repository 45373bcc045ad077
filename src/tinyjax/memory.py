"""Memories: the names of `jax.memory`."""

from tinyjax.meshes.memory import Space

__all__ = ["Space"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
