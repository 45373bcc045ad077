"""`smap`: `shard_map` along one axis of the mesh in force, said by axes of arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

from tinyjax.api.shard_map import INFER, shard_map
from tinyjax.errors import InputError
from tinyjax.meshes import PartitionSpec
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree

P = ParamSpec("P")
R = TypeVar("R")


@overload
def smap(
    f: Callable[P, R],
    /,
    *,
    in_axes: Any = ...,  # a tree of axes, as the next one
    out_axes: Any,
    axis_name: str,
) -> Callable[P, R]: ...
@overload
def smap(*, in_axes: Any = ..., out_axes: Any, axis_name: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@filtered
def smap(f: Callable[..., Any] | None = None, /, *, in_axes: Any = INFER, out_axes: Any, axis_name: str) -> Any:
    """`f`, which devices run on their parts along one axis of the mesh in force: see `shard_map` and `set_mesh`.

    Args:
      f: a function of positional arguments. Without it, the result is a decorator.
      in_axes: along which of its axes each argument is divided: a tree of numbers that is a prefix of the tuple of
        arguments, None where all devices have the same. Left out, arrays are divided as they lie already.
      out_axes: along which axes results are put together; None: they are the same on all devices.
      axis_name: the axis of the mesh.

    Raises:
      InputError: a TypeError, for axes that are no numbers from 0 on, or another axis name than a string.
      ShardingError: as for `shard_map`.

    Source: JAX's `smap`.

    >>> import numpy as np
    >>> from tinyjax import lax, set_mesh
    >>> from tinyjax.sharding import AbstractMesh
    >>> with set_mesh(AbstractMesh((2, 2), ("x", "y"))):
    ...     smap(lambda a: lax.psum(a, "x"), in_axes=1, out_axes=None, axis_name="x")(np.ones((2, 2)))
    Array([[2.],
           [2.]], dtype=float64)
    """
    if f is None:
        return partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    if not isinstance(axis_name, str):
        raise InputError(f"smap: axis_name is one axis of the mesh, not {axis_name!r}")
    if in_axes is not None and in_axes is not INFER and not isinstance(in_axes, int | tuple):
        raise InputError(
            f"smap: in_axes is a number, None, or a tuple with an entry for each argument, not {in_axes!r}"
        )
    in_specs = in_axes if in_axes is INFER else _specs("in_axes", in_axes, axis_name)
    return shard_map(f, in_specs=in_specs, out_specs=_specs("out_axes", out_axes, axis_name), axis_names={axis_name})


def _specs(what: str, axes: Any, name: str) -> Any:
    """The specifications that say the same as axes."""

    def spec(axis: object) -> PartitionSpec:
        if axis is None:
            return PartitionSpec()
        if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
            raise InputError(f"smap: {what} has the number of an axis, counted from 0, or None, not {axis!r}")
        return PartitionSpec(*[None] * axis, name)

    leaves, treedef = tree.flatten(axes, lambda x: x is None)
    return tree.unflatten(treedef, list(map(spec, leaves)))
