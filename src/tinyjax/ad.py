"""What is to become of the gradients of a function's arguments: entries of `with_refs`, as `jax.ad` names them."""

from __future__ import annotations

from tinyjax.api.gradient_places import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
