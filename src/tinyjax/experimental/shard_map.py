"""`shard_map` with the arguments that it had before it left `jax.experimental`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tinyjax.api import shard_map as api
from tinyjax.meshes import Mesh
from tinyjax.tracebacks import filtered

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["shard_map"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


@filtered
def shard_map(f: Callable[P, R], mesh: Mesh, in_specs: Any, out_specs: Any, check_rep: bool = True) -> Callable[P, R]:
    """`tinyjax.shard_map` with its arguments by position.

    Args:
      f: the function.
      mesh: the mesh.
      in_specs: how the arguments are divided.
      out_specs: how the results are put together.
      check_rep: what is called `check_vma` now.

    >>> import numpy as np, tinyjax as tj
    >>> mesh, halves = tj.sharding.AbstractMesh((2,), ("x",)), tj.P("x")
    >>> shard_map(lambda x: tj.lax.psum(x.sum(), "x"), mesh, in_specs=halves, out_specs=tj.P())(np.ones(4))
    Array(4., dtype=float64)
    """
    return api.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep)
