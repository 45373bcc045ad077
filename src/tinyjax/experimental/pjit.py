"""`pjit`, which is `jit` with its arguments by position: the name of `jax.experimental.pjit`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from tinyjax.api.jit import Jitted, jit
from tinyjax.api.jit_shardings import Everywhere
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["pjit"]


class _Unspecified(enum.Enum):
    """What isn't said."""

    NOTHING = "nothing"


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


@filtered
def pjit(
    fun: Callable[P, R],
    in_shardings: Any = None,
    out_shardings: Any = _Unspecified.NOTHING,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: Mapping[str, str | bool | int | float] | None = None,
) -> Jitted[P, R]:
    """The same as `tinyjax.jit`, but for None in `out_shardings`.

    Args:
      fun: the function.
      in_shardings: a prefix of the tree of the arguments: shardings, PartitionSpecs, and None.
      out_shardings: a prefix of the tree of the results. None: on all devices of the mesh in force, if its axes are
        Auto. Left out, XLA chooses.
      static_argnums: as in `jit`, with all that follows.
      static_argnames: these arguments are static, too.
      donate_argnums: the memory of these arguments may be used for results.
      donate_argnames: of these, too.
      keep_unused: inputs that nothing reads are kept, in any case.
      device: the device to run on.
      backend: a platform, on whose first device it runs.
      inline: within other transformations, no call is left.
      compiler_options: XLA's.

    >>> import numpy as np
    >>> pjit(lambda x: x + 1, None, None)(np.float64(1.0))
    Array(2., dtype=float64)
    """
    outs = None
    if out_shardings is not _Unspecified.NOTHING:
        leaves, structure = tree.flatten(out_shardings, lambda x: x is None)
        outs = tree.unflatten(structure, [Everywhere() if leaf is None else leaf for leaf in leaves])
    return jit(
        fun,
        in_shardings=in_shardings,
        out_shardings=outs,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        compiler_options=compiler_options,
    )
