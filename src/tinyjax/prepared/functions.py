"""Functions made of several primitives, applied as one outside of all transformations.

On the host that is a list of kernels, on a device a compiled program. What the function does is found out by tracing
it, once for each kind of arguments; within a transformation it is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, Protocol, TypeAlias, TypeVar, final

import numpy as np
from attrs import frozen

from tinyjax.caching import PlainCache, register
from tinyjax.prepared.elements import Elements, of_host
from tinyjax.prepared.executables import Ready
from tinyjax.prepared.kernels import HostProgram

P = ParamSpec("P")
R = TypeVar("R")

#: The function, and for each argument the identity of an array's type, or the type and the value of anything else.
Key: TypeAlias = tuple[object, ...]


@final
@frozen(eq=False)
class Whole:
    """A function for one kind of arguments, as one program. `single`: it returns an array, not a tuple of them."""

    program: HostProgram | Ready
    single: bool
    #: What the key identifies.
    kept: tuple[object, ...]


class Stager(Protocol):
    """The function for arguments like these as one program; None if it can't be one."""

    def __call__(
        self,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        arrays: Sequence[Elements],
        on_device: bool,
    ) -> Whole | None: ...


#: What finds out what a function does, for each class of arrays: it is handed in by who has that class.
STAGING: Final[dict[type[Elements], Stager]] = {}
#: Functions by their arguments: True if they have been called once, False if they can't be one program.
_WHOLES: Final[PlainCache[Key, Whole | bool]] = PlainCache(4096, "prepared.functions")
register(_WHOLES)
#: Arguments other than arrays that a function may depend on: what can be told apart by type and value.
_STATIC: Final = frozenset({int, bool, str, type(None), type})


def as_one(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function whose first argument is an array, which depends on nothing but the types of its arrays, and on
    small other arguments, such as axes. It returns an array, or a tuple of them."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        first = args[0]
        if isinstance(first, Elements) and first.evaluated:
            done = _run(function, first, args, kwargs)
            if done is not None:
                result: R = done
                return result
        return function(*args, **kwargs)

    return run


def _run(
    function: Callable[..., object], first: Elements, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Any:  # what the function returns
    """The result; None if it has to be called."""
    kind = type(first)
    key: list[object] = [function, *kwargs]
    arrays: list[Elements] = []
    on_device = False
    for arg in (*args, *kwargs.values()):
        cls = type(arg)
        if isinstance(arg, Elements):
            key.append(id(arg.aval))
            arrays.append(arg)
            on_device = on_device or arg.host is None
        elif cls in _STATIC or isinstance(arg, np.dtype) or (cls is tuple and _are_integers(arg)):
            key.append(cls)
            key.append(arg)
        else:
            return None
    key.append(on_device)
    found = _WHOLES.entries.get(tuple(key))
    if type(found) is not Whole:
        if found is False:
            return None
        # On the host it is quicker to call it once than to look what it does.
        if found is None and not on_device:
            _WHOLES.put(tuple(key), True)
            return None
        found = STAGING[kind](function, args, kwargs, arrays, on_device)
        _WHOLES.put(tuple(key), found or False)
        if found is None:
            return None
    program = found.program
    if isinstance(program, Ready):
        outs = program.run(arrays, kind)
        if outs is None:
            return None
    else:
        results = program.run([array.host for array in arrays if array.host is not None])
        outs = [of_host(kind, result, aval) for result, aval in zip(results, program.out_avals, strict=True)]
    return outs[0] if found.single else tuple(outs)


def _are_integers(xs: object) -> bool:
    return isinstance(xs, tuple) and all(type(x) is int for x in xs)
