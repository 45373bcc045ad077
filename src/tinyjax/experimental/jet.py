"""Derivatives of higher orders along a curve: the names of `jax.experimental.jet`."""

from tinyjax.interpreters.jet import jet

__all__ = ["jet"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
