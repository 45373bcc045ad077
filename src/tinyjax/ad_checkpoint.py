"""What reverse mode keeps, as `jax.ad_checkpoint` names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyjax import checkpoint_policies
from tinyjax.api.checkpointing import checkpoint, checkpoint_name, saved_residuals
from tinyjax.tracebacks import filtered

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "print_saved_residuals"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


@filtered
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints what `grad` or `vjp` of `f` would keep in memory, one value a line: its type and size, and what it is.

    `tinyjax.saved_residuals` gives the same as values.

    >>> from tinyjax import numpy as tnp
    >>> print_saved_residuals(checkpoint(lambda w, x: tnp.sin(w * x)), 2.0, 3.0)
    ~f64[], 8 bytes: argument w
    ~f64[], 8 bytes: argument x
    """
    for residual in saved_residuals(f, *args, **kwargs):
        print(residual.describe())  # noqa: T201 (its purpose)
