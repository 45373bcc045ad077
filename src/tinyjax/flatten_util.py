"""`ravel_pytree`, under the name that it has in JAX: it is `tinyjax.tree.ravel`."""

from __future__ import annotations

from tinyjax.tree.raveling import ravel as ravel_pytree

__all__ = ["ravel_pytree"]
