"""Callbacks to Python: `pure_callback`, `io_callback`, and those that only show values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar, final, get_args, overload

from attrs import field, frozen
from typing_extensions import override

from tinyjax.api.make_jaxpr import abstractify
from tinyjax.control.callbacks import DebugCallback, HostFunction, IOCallback, PureCallback, VmapMethod
from tinyjax.errors import CallbackError, InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
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
        if found != self.out_tree and (leaves or self.out_tree.num_leaves):  # None will do for (), as in JAX
            raise CallbackError(
                f"the callback {self} must return a tree like `result_shape_dtypes`, {tree.shown(self.out_tree)}; it "
                f"returned {tree.shown(found)}{tree.difference(self.out_tree, found)}"
            )
        return leaves

    @override
    def __str__(self) -> str:
        return function_name(self.function)


@final
@frozen
class _Static:
    """A leaf that is no array, and part of the format."""

    value: object = field(eq=lambda value: (type(value), _hashable(value)))


def _hashable(value: object) -> object:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


@final
@frozen
class Print(HostFunction):
    """Prints the arrays in a format. `statics` stand where the arguments hold something else than arrays."""

    format: str
    in_tree: PyTreeDef
    statics: tuple[_Static | None, ...]

    @override
    def __call__(self, *args: HostArray) -> Sequence[object]:
        arrays = iter(args)
        leaves = [next(arrays) if static is None else static.value for static in self.statics]
        positional, named = tree.unflatten(self.in_tree, leaves)
        sys.stdout.write(self.format.format(*positional, **named) + "\n")
        return ()

    @override
    def __str__(self) -> str:
        return f"print({self.format!r})"


def _result_types(result_shape_dtypes: object) -> tuple[tuple[ShapedArray, ...], PyTreeDef]:
    leaves, treedef = tree.flatten(result_shape_dtypes)
    avals = [abstractify(leaf) for leaf in leaves]
    return tuple(ShapedArray(aval.shape, aval.dtype) for aval in avals), treedef


@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: ShapedArray,
    *args: Any,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> Array: ...
@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: list[ShapedArray],
    *args: Any,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> list[Array]: ...
@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: tuple[ShapedArray, ShapedArray],
    *args: Any,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> tuple[Array, Array]: ...
@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: dict[K, ShapedArray],
    *args: Any,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> dict[K, Array]: ...
@overload
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> Any: ...
@filtered
def pure_callback(
    callback: Callable[..., object],
    result_shape_dtypes: Any,  # a tree of types
    *args: Any,  # the callback's own arguments
    vmap_method: VmapMethod | None = None,
    **kwargs: Any,
) -> Any:
    """What a Python function without side effects returns; under `jit`, the compiled program calls it.

    The function gets the arguments with NumPy arrays in place of arrays, and must return a tree of arrays of the types
    that `result_shape_dtypes` says (ShapedArray, or anything with a shape and a dtype). It may be called more than
    once, or not at all. It has no derivative: give it one with `custom_jvp` or `custom_vjp`.

    Args:
      vmap_method: how `vmap` maps the call. "sequential": one call for each element. "expand_dims": one call for the
        batch, on arrays with one more axis in front, of size 1 where an argument isn't mapped; "broadcast_all": of full
        size everywhere. None: it can't be mapped.

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
    if vmap_method is not None and vmap_method not in get_args(VmapMethod):
        allowed = ", ".join(map(repr, get_args(VmapMethod)))
        raise InputError(f"pure_callback: vmap_method must be one of {allowed} or None, got {vmap_method!r}")
    arrays, in_tree = flatten_arguments(callback, args, kwargs)
    results, out_tree = _result_types(result_shape_dtypes)
    function = TreeFunction(callback, in_tree, out_tree)
    return tree.unflatten(out_tree, bind(PureCallback(function, results, vmap_method), *arrays))


@overload
def io_callback(
    callback: Callable[..., object], result_shape_dtypes: ShapedArray, *args: Any, ordered: bool = False, **kwargs: Any
) -> Array: ...
@overload
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: list[ShapedArray],
    *args: Any,
    ordered: bool = False,
    **kwargs: Any,
) -> list[Array]: ...
@overload
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: tuple[ShapedArray, ShapedArray],
    *args: Any,
    ordered: bool = False,
    **kwargs: Any,
) -> tuple[Array, Array]: ...
@overload
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: dict[K, ShapedArray],
    *args: Any,
    ordered: bool = False,
    **kwargs: Any,
) -> dict[K, Array]: ...
@overload
def io_callback(
    callback: Callable[..., object], result_shape_dtypes: Any, *args: Any, ordered: bool = False, **kwargs: Any
) -> Any: ...
@filtered
def io_callback(
    callback: Callable[..., object],
    result_shape_dtypes: Any,  # a tree of types
    *args: Any,  # the callback's own arguments
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """What a Python function with side effects returns; under `jit`, the compiled program calls it.

    Like `pure_callback`, but it is called exactly once for each time that the program comes there, in the order of the
    program, whether or not anything reads the results. Under `vmap` it is called for one element after another, unless
    `ordered` says that this would be wrong.
    """
    check_callable("io_callback", callback)
    arrays, in_tree = flatten_arguments(callback, args, kwargs)
    results, out_tree = _result_types(result_shape_dtypes)
    return tree.unflatten(
        out_tree, bind(IOCallback(TreeFunction(callback, in_tree, out_tree), results, ordered), *arrays)
    )


@filtered
def debug_callback(callback: Callable[..., object], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Calls a Python function that only looks: as `tinyjax.debug.callback`.

    It is called in the order of the program, from compiled programs too; under `vmap`, for one element after another;
    under `grad` and `jvp`, with primals. What it returns is ignored. (`ordered` is JAX's: here the order is kept
    always.)
    """
    check_callable("debug.callback", callback)
    arrays, in_tree = flatten_arguments(callback, args, kwargs)
    bind(DebugCallback(TreeFunction(callback, in_tree, None), ()), *arrays)


@filtered
def debug_print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Prints values, from compiled programs too: as `tinyjax.debug.print`.

    `fmt` is a format as for `str.format`; arrays are formatted as NumPy's. Under `vmap` it prints one element after
    another; under `grad` and `jvp`, primals. (`ordered` is JAX's: here the order of the program is always kept.)

    >>> from tinyjax import grad
    >>> def f(x):
    ...     debug_print("x is {x}", x=x)
    ...     return x * x
    >>> grad(f)(3.0)
    x is 3.0
    Array(6., dtype=float64, weak_type=True)
    """
    if not isinstance(fmt, str):
        raise InputError(f"debug.print needs a format string first, got {fmt!r}. Use debug.print('{{}}', x).")
    _check_format(fmt, args, kwargs)
    leaves, in_tree = tree.flatten((args, kwargs))
    arrays: list[Array] = []
    statics: list[_Static | None] = []
    for leaf in leaves:
        try:
            arrays.append(as_array(leaf))
            statics.append(None)
        except InputError:
            statics.append(_Static(leaf))
    bind(DebugCallback(Print(fmt, in_tree, tuple(statics)), ()), *arrays)


@filtered
def effects_barrier() -> None:
    """Returns when what calls made so far do besides computing is done. A call of a program that calls the host returns
    when that is so, here, so there is nothing left to wait for.

    >>> effects_barrier()
    """


class _UsesAll(Formatter):
    """Finds out which arguments a format refers to, and refuses one that leaves some out."""

    @override
    def format_field(self, value: object, format_spec: str) -> str:
        return ""

    @override
    def check_unused_args(
        self,
        used_args: Any,
        args: Sequence[object],
        kwargs: Mapping[str, object],  # what str.format passes
    ) -> None:
        unused = [str(i) for i in range(len(args)) if i not in used_args]
        unused += [name for name in kwargs if name not in used_args]
        if unused:
            raise InputError(f"debug.print: the format doesn't use the arguments {', '.join(unused)}")


def _check_format(fmt: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    try:
        _UsesAll().vformat(fmt, args, kwargs)
    except (IndexError, KeyError) as error:
        raise InputError(f"debug.print: the format {fmt!r} refers to the argument {error}, which isn't there") from None
