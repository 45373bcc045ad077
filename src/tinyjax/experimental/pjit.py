"""`pjit`, which is `jit`: the name of `jax.experimental.pjit`."""

from __future__ import annotations

from typing import Final

from tinyjax.api.jit import jit

__all__ = ["pjit"]

pjit: Final = jit


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
