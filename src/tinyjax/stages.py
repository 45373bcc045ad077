"""A function on its way to being run: what `jit(f).trace`, `.lower` and `.compile` give, as `jax.stages` names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tinyjax.api.jit import Jitted as Wrapped
from tinyjax.api.lowered import Compiled, Lowered
from tinyjax.api.signature_info import ArgInfo
from tinyjax.api.traced import Traced

#: XLA's own options by name.
CompilerOptions: TypeAlias = Mapping[str, str | bool | int | float]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
