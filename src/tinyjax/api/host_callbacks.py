"""Callbacks to Python: `pure_callback`, `io_callback`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar, final, get_args, overload

from attrs import field, frozen
from typing_extensions import override

from tinyjax.api.make_jaxpr import abstractify
from tinyjax.control.callbacks import HostFunction, IOCallback, PureCallback, VmapMethod
from tinyjax.errors import CallbackError, InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.meshes.sharding import Sharding
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, flatten_arguments, function_name

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


#: The keys of a dictionary.
K = TypeVar("K")


def _identity(function: Callable[..., object]) -> tuple[int, int]:
    """Functions are told apart by who they are; a method, by its function and its object."""
    if isinstance(function, MethodType):
        return id(function.__func__), id(function.__self__)
    return id(function), 0


@final
@frozen
class TreeFunction(HostFunction):
    """A user's function, on the leaves of its arguments. Without `out_tree`, its results are ignored."""

    function: Callable[..., object] = field(eq=_identity)
    in_tree: PyTreeDef
    out_tree: PyTreeDef | None

    @override
    def __call__(self, *args: HostArray) -> Sequence[object]:
        positional, named = tree.unflatten(self.in_tree, args)
        outs = self.function(*positional, **named)
        if self.out_tree is None:
            return ()
        leaves, found = tree.flatten(outs)
        if len(leaves) != self.out_tree.num_leaves:  # a list will do for a tuple, as in JAX
            raise CallbackError(
                f"the callback {self} must return as many arrays as `result_shape_dtypes` has, "
                f"{tree.shown(self.out_tree)}; it returned {tree.shown(found)}{tree.difference(self.out_tree, found)}"
            )
        return leaves

    @override
    def __str__(self) -> str:
        return function_name(self.function)


def _result_types(result_shape_dtypes: object) -> tuple[tuple[ShapedArray, ...], PyTreeDef]:
    leaves, treedef = tree.flatten(result_shape_dtypes)
    avals = [abstractify(leaf) for leaf in leaves]
    return tuple(ShapedArray(aval.shape, aval.dtype) for aval in avals), treedef


def _check_sharding(name: str, sharding: object) -> None:
    if sharding is not None and not isinstance(sharding, Sharding):
        raise InputError(f"{name}: sharding is a Sharding or None, got {sharding!r}")


@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: ShapedArray,
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> Array: ...
@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: list[ShapedArray],
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> list[Array]: ...
@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: tuple[ShapedArray, ShapedArray],
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> tuple[Array, Array]: ...
@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: dict[K, ShapedArray],
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> dict[K, Array]: ...
@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> Any: ...
@filtered
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: Any,  # a tree of types
    *args: Any,  # the callback's own arguments
    sharding: Sharding | None = None,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> Any:
    """What a Python function without side effects returns; under `jit`, the compiled program calls it.

    The function gets the arguments with NumPy arrays in place of arrays, and must return a tree of arrays of the types
    that `result_shape_dtypes` says (ShapedArray, or anything with a shape and a dtype). It may be called more than
    once, or not at all. It has no derivative: give it one with `custom_jvp` or `custom_vjp`.

    Args:
      sharding: where JAX calls the function from. Here it is called once, on the host, with whole arrays, wherever they
        lie, so this changes nothing.
      vmap_method: how `vmap` maps the call. "sequential": one call for each element. "expand_dims": one call for the
        batch, on arrays with one more axis in front, of size 1 where an argument isn't mapped; "broadcast_all": of full
        size everywhere; "legacy_vectorized": only where an argument is mapped. None: it can't be mapped.

    Raises:
      CallbackError: the function returned something else, or the call is transformed in a way that it doesn't support.
        A compiled program that fails raises an XlaError with the message instead.

    >>> import numpy as np
    >>> from tinyjax import ShapedArray, jit
    >>> jit(lambda x: 2.0 * pure_callback(np.sort, ShapedArray((3,), "float64"), x))(
    ...     np.array([3.0, 1.0, 2.0])
    ... )
    Array([2., 4., 6.], dtype=float64)
    """
    check_callable("pure_callback", callback)
    _check_sharding("pure_callback", sharding)
    if vmap_method is not None and vmap_method not in get_args(VmapMethod):
        allowed = ", ".join(map(repr, get_args(VmapMethod)))
        raise InputError(f"pure_callback: vmap_method must be one of {allowed} or None, got {vmap_method!r}")
    arrays, in_tree = flatten_arguments(callback, args, kwargs)
    results, out_tree = _result_types(result_shape_dtypes)
    function = TreeFunction(callback, in_tree, out_tree)
    return tree.unflatten(out_tree, bind(PureCallback(function, results, vmap_method), *arrays))


@overload
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: ShapedArray,
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Array: ...
@overload
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: list[ShapedArray],
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> list[Array]: ...
@overload
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: tuple[ShapedArray, ShapedArray],
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> tuple[Array, Array]: ...
@overload
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: dict[K, ShapedArray],
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> dict[K, Array]: ...
@overload
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any: ...
@filtered
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: Any,  # a tree of types
    *args: Any,  # the callback's own arguments
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """What a Python function with side effects returns; under `jit`, the compiled program calls it.

    Like `pure_callback`, but it is called exactly once for each time that the program comes there, in the order of the
    program, whether or not anything reads the results. Under `vmap` it is called for one element after another, unless
    `ordered` says that this would be wrong.
    """
    check_callable("io_callback", callback)
    _check_sharding("io_callback", sharding)
    arrays, in_tree = flatten_arguments(callback, args, kwargs)
    results, out_tree = _result_types(result_shape_dtypes)
    return tree.unflatten(
        out_tree, bind(IOCallback(TreeFunction(callback, in_tree, out_tree), results, ordered), *arrays)
    )


@filtered
def effects_barrier() -> None:
    """Returns when what calls made so far do besides computing is done. A call of a program that calls the host returns
    when that is so, here, so there is nothing left to wait for.

    >>> effects_barrier()
    """
