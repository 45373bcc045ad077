"""Callbacks that only look: `debug.print`, `debug.log` and `debug.callback`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import TYPE_CHECKING, Any, Final, final, overload

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.api.host_callbacks import TreeFunction
from tinyjax.control.callbacks import DebugCallback, HostFunction
from tinyjax.errors import InputError, UnsupportedError
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.source import SourceInfo, user_source
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, flatten_arguments
from tinyjax.transforms.arguments import flag

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

#: Where `debug.log` writes.
_LOGGER: Final = logging.getLogger("tinyjax.debug")


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


def _comparable(options: Mapping[str, object]) -> object:
    return tuple([(name, _hashable(value)) for name, value in options.items()])


@final
@frozen
class Print(HostFunction):
    """Prints the arrays in a format, or logs that for a line. `statics` stand where the arguments hold something else
    than arrays; `options` are NumPy's."""

    format: str
    in_tree: PyTreeDef
    statics: tuple[_Static | None, ...]
    options: Mapping[str, Any] = field(eq=_comparable)  # keywords of numpy.printoptions
    logged: SourceInfo | None

    @override
    def __call__(self, *args: HostArray) -> Sequence[object]:
        arrays = iter(args)
        leaves = [next(arrays) if static is None else static.value for static in self.statics]
        positional, named = tree.unflatten(self.in_tree, leaves)
        with np.printoptions(**self.options):
            text = self.format.format(*positional, **named)
        if self.logged is None:
            sys.stdout.write(text + "\n")
        else:
            place = self.logged
            _LOGGER.handle(_LOGGER.makeRecord(_LOGGER.name, logging.INFO, place.file, place.line, text, (), None))
        return ()

    @override
    def __str__(self) -> str:
        return f"{'print' if self.logged is None else 'log'}({self.format!r})"


@overload
def debug_callback(
    callback: None = None, *, ordered: bool = False, partitioned: bool = False
) -> Callable[..., None]: ...
@overload
def debug_callback(
    callback: Callable[..., object],
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> None: ...
@filtered
def debug_callback(
    callback: Callable[..., object] | None = None,
    *args: Any,  # the callback's own arguments
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Calls a Python function that only looks: as `tinyjax.debug.callback`.

    It is called in the order of the program, from compiled programs too; under `vmap`, for one element after another;
    under `grad` and `jvp`, with primals. What it returns is ignored. (`ordered` is JAX's: here the order is kept
    always. So is `partitioned`: what lies on several devices is passed as a whole, and in `shard_map` each device
    passes its part.) Without a function, the result takes it and the arguments.
    """
    _as_a_whole("debug.callback", partitioned)
    flag("debug.callback: ordered", ordered)
    if callback is None:
        _alone("debug.callback", args, kwargs)
        return debug_callback
    check_callable("debug.callback", callback)
    arrays, in_tree = flatten_arguments(callback, args, kwargs)
    bind(DebugCallback(TreeFunction(callback, in_tree, None), ()), *arrays)
    return None


@overload
def debug_print(
    fmt: None = None, *, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False
) -> Callable[..., None]: ...
@overload
def debug_print(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None: ...
@filtered
def debug_print(
    fmt: str | None = None,
    *args: Any,  # what the format is for
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Prints values, from compiled programs too: as `tinyjax.debug.print`.

    `fmt` is a format as for `str.format`; arrays are formatted as NumPy's, by the options (`numpy.printoptions`) that
    are in force at this call. Under `vmap` it prints one element after another; under `grad` and `jvp`, primals. With
    `skip_format_check` it is printed as it is, braces and all, and the arguments after it. (`ordered` and `partitioned`
    are JAX's: see `debug.callback`.) Without a format, the result takes it and the arguments.

    >>> from tinyjax import grad
    >>> def f(x):
    ...     debug_print("x is {x}", x=x)
    ...     return x * x
    >>> grad(f)(3.0)
    x is 3.0
    Array(6., dtype=float64, weak_type=True)
    """
    return _shown("debug.print", False, fmt, args, ordered, partitioned, skip_format_check, kwargs)


@overload
def debug_log(
    fmt: None = None, *, ordered: bool = False, partitioned: bool = False, skip_format_check: bool = False
) -> Callable[..., None]: ...
@overload
def debug_log(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None: ...
@filtered
def debug_log(
    fmt: str | None = None,
    *args: Any,  # what the format is for
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Like `debug.print`, into a log: the logger "tinyjax.debug", level INFO, with this line as where it comes from.

    >>> import logging
    >>> with_lines = logging.StreamHandler(sys.stdout)
    >>> logging.getLogger("tinyjax.debug").addHandler(with_lines)
    >>> debug_log("x is {x}", x=3.0)
    x is 3.0
    >>> logging.getLogger("tinyjax.debug").removeHandler(with_lines)
    """
    return _shown("debug.log", True, fmt, args, ordered, partitioned, skip_format_check, kwargs)


def _shown(
    what: str,
    logs: bool,
    fmt: object,
    args: tuple[Any, ...],
    ordered: object,
    partitioned: object,
    as_it_is: object,
    kwargs: dict[str, Any],
) -> Callable[..., None] | None:
    _as_a_whole(what, partitioned)
    flag(f"{what}: ordered", ordered)
    as_it_is = flag(f"{what}: skip_format_check", as_it_is)
    if fmt is None:
        _alone(what, args, kwargs)

        def rest(fmt: str, *args: Any, **kwargs: Any) -> None:
            _shown(what, logs, fmt, args, ordered, partitioned, as_it_is, kwargs)

        return filtered(rest)
    if not isinstance(fmt, str):
        raise InputError(f"{what} needs a format string first, got {fmt!r}. Use {what}('{{}}', x).")
    if as_it_is:
        if kwargs:
            raise InputError(f"{what}: a string that is no format has no places for {', '.join(kwargs)}")
        fmt = " ".join([fmt.replace("{", "{{").replace("}", "}}"), *["{}"] * len(args)])
    else:
        _check_format(what, fmt, args, kwargs)
    leaves, in_tree = tree.flatten((args, kwargs))
    arrays: list[Array] = []
    statics: list[_Static | None] = []
    for leaf in leaves:
        try:
            arrays.append(as_array(leaf))
            statics.append(None)
        except InputError:
            statics.append(_Static(leaf))
    options = np.get_printoptions()
    logged = (user_source() or SourceInfo("", 0, "")).untransformed if logs else None
    bind(DebugCallback(Print(fmt, in_tree, tuple(statics), options, logged), ()), *arrays)
    return None


def _as_a_whole(what: str, partitioned: object) -> None:
    if flag(f"{what}: partitioned", partitioned):
        raise UnsupportedError(
            f"{what}: values that lie on several devices are shown as a whole. For the parts, call it in a function of "
            "shard_map, which each device runs: tinyjax.shard_map(f, mesh=mesh, in_specs=..., out_specs=...)"
        )


def _alone(what: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    if args or kwargs:
        raise InputError(f"{what}: arguments are given together with what shows them, in the second call")


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
            raise InputError(f"the format doesn't use the arguments {', '.join(unused)}")


def _check_format(what: str, fmt: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    try:
        _UsesAll().vformat(fmt, args, kwargs)
    except (IndexError, KeyError) as error:
        raise InputError(f"{what}: the format {fmt!r} refers to the argument {error}, which isn't there") from None
