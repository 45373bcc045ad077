"""Functions within which JAX treats axes of a mesh in another way: `auto_axes`, `explicit_axes`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar, overload

from tinyjax.errors import InputError, ShardingError
from tinyjax.lax.explicit import explicit_mesh, explicit_sharding, left_open
from tinyjax.lax.layouts import left_to_xla
from tinyjax.lax.mesh_in_force import enter_mesh, mesh_in_force
from tinyjax.lax.resharding import reshard
from tinyjax.meshes import AxisType, Mesh, PartitionSpec
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import check_callable, function_name
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")


@overload
def auto_axes(
    f: Callable[P, R],
    /,
    *,
    axes: str | Sequence[str] | None = None,
    out_sharding: Any = None,  # a tree of shardings, as the others
) -> Callable[P, R]: ...
@overload
def auto_axes(
    *, axes: str | Sequence[str] | None = None, out_sharding: Any = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@filtered
def auto_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | Sequence[str] | None = None,
    out_sharding: Any = None,
) -> Any:
    """`f`, within which XLA decides how arrays lie along Explicit axes of the mesh; its results lie as `out_sharding`
    says.

    Args:
      f: a function of trees of arrays. Without it, the result is a decorator.
      axes: the axes of the mesh that are Auto within; None: all.
      out_sharding: a tree of shardings that is a prefix of the results. None: calls say it.

    Source: JAX's `jax.sharding.auto_axes`.

    >>> import numpy as np
    >>> from tinyjax.sharding import AbstractMesh, NamedSharding, PartitionSpec
    >>> rows = NamedSharding(AbstractMesh((2,), ("x",)), PartitionSpec("x"))
    >>> auto_axes(lambda x: 2.0 * x, out_sharding=rows)(np.ones(2))
    Array([2., 2.], dtype=float64)
    """
    if f is None:
        return partial(auto_axes, axes=axes, out_sharding=out_sharding)
    check_callable("auto_axes", f)
    _check_axes("auto_axes", axes)
    function = f

    @filtered
    @wraps(function)
    def laid(*args: Any, **kwargs: Any) -> Any:  # the user's trees
        wanted = _wanted("auto_axes", function, "out_sharding", out_sharding, kwargs)
        leaves, treedef = tree.flatten((args, kwargs))
        mesh = explicit_mesh(leaves)
        if mesh is None:
            results, force = function(*args, **kwargs), mesh_in_force()
            nowhere = force is None or force.empty
            return results if nowhere and not _named(wanted) else reshard(results, wanted)
        within = _with_axes(mesh, axes, AxisType.Auto)
        kept = within.explicit_axes
        given, named = tree.unflatten(treedef, [left_open(x, kept) if isinstance(x, Array) else x for x in leaves])
        with enter_mesh(within):
            results = function(*given, **named)
        with enter_mesh(mesh):
            return reshard(results, wanted)

    return laid


@overload
def explicit_axes(
    f: Callable[P, R], /, *, axes: str | Sequence[str] | None = None, in_sharding: Any = None
) -> Callable[P, R]: ...
@overload
def explicit_axes(
    *, axes: str | Sequence[str] | None = None, in_sharding: Any = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@filtered
def explicit_axes(
    f: Callable[..., Any] | None = None,
    /,
    *,
    axes: str | Sequence[str] | None = None,
    in_sharding: Any = None,
) -> Any:
    """`f`, within which the program says how arrays lie along axes of the mesh, and whose positional arguments lie as
    `in_sharding` says.

    Args:
      f: a function of trees of arrays. Without it, the result is a decorator.
      axes: the axes of the mesh that are Explicit within; None: all.
      in_sharding: a tree of shardings that is a prefix of the tuple of arguments. None: calls say it.

    Raises:
      ShardingError: there is no mesh in force.

    Source: JAX's `jax.sharding.explicit_axes`.

    >>> import numpy as np
    >>> from tinyjax.sharding import AbstractMesh, PartitionSpec, use_abstract_mesh
    >>> with use_abstract_mesh(AbstractMesh((2,), ("x",))):
    ...     explicit_axes(lambda x: 2.0 * x, in_sharding=PartitionSpec("x"))(np.ones(2))
    Array([2., 2.], dtype=float64)
    """
    if f is None:
        return partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    check_callable("explicit_axes", f)
    _check_axes("explicit_axes", axes)
    function = f

    @filtered
    @wraps(function)
    def given(*args: Any, **kwargs: Any) -> Any:  # the user's trees
        wanted = _wanted("explicit_axes", function, "in_sharding", in_sharding, kwargs)
        mesh = mesh_in_force()
        if mesh is None:
            raise ShardingError(
                f"explicit_axes: {function_name(function)} is called without a mesh. Set one around the call: "
                "with tinyjax.set_mesh(mesh): ..."
            )
        with enter_mesh(_with_axes(mesh, axes, AxisType.Explicit)):
            results = function(*reshard(args, wanted), **kwargs)
            leaves, treedef = tree.flatten(results)
            for leaf in leaves:
                if isinstance(leaf, Array):
                    explicit_sharding(leaf)  # which is an error if it is open
        if mesh.explicit_axes:
            return results
        return tree.unflatten(treedef, [left_to_xla(x) if isinstance(x, Array) else x for x in leaves])

    return given


def _with_axes(mesh: Mesh, axes: str | Sequence[str] | None, axis_type: AxisType) -> Mesh:
    """The mesh with these axes of that type; all of them that aren't Manual if none are named."""
    named = (axes,) if isinstance(axes, str) else axes
    chosen = [n for n in mesh.axis_names if n not in mesh.manual_axes] if named is None else named
    return mesh.update_axis_types(dict.fromkeys(chosen, axis_type))


def _check_axes(what: str, axes: object) -> None:
    named = (axes,) if isinstance(axes, str) else axes
    if named is not None and not (isinstance(named, Sequence) and all(isinstance(name, str) for name in named)):
        raise InputError(f"{what}: axes are names of axes of the mesh, such as ('x', 'y'), got {axes!r}")


def _wanted(what: str, f: Callable[..., object], word: str, said: object, kwargs: dict[str, Any]) -> Any:
    """What was said when the function was made, or is said by the call."""
    found = kwargs.pop(word, None) if said is None else said
    if found is None:
        raise InputError(f"{what}: {function_name(f)} needs {word}=NamedSharding(mesh, P('x', None)), here or in calls")
    return found


def _named(wanted: Any) -> bool:
    """Whether a tree of shardings has one that says of which mesh, or names its axes."""
    leaves = tree.flatten(wanted)[0]
    return any(not isinstance(leaf, PartitionSpec) or leaf.names for leaf in leaves)
