"""Functions as callees: those made of several primitives, applied as one outside of all transformations.

On the host that is a list of kernels, on a device a compiled program. What the function does is found out by tracing
it, once for each kind of arguments; within a transformation it is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, Protocol, TypeVar, final

import numpy as np
from attrs import evolve, frozen

from tinyjax import backend
from tinyjax.ir.program import Atom, Jaxpr, Literal
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.elements import Elements, of_host
from tinyjax.prepared.primitives import kernel_of
from tinyjax.prepared.runners import Kernel, Kernels, Launch
from tinyjax.prepared.table import TABLE, Entry, Key

P = ParamSpec("P")
R = TypeVar("R")


@final
@frozen(eq=False)
class Whole:
    """What a function does, as one program, and the arrays that feed its first inputs. `single`: it returns an array,
    not a tuple of them."""

    jaxpr: Jaxpr
    captured: tuple[ConcreteValue, ...]
    single: bool


class Stager(Protocol):
    """What a function does with arguments like these; None if it can't be one program."""

    def __call__(
        self, function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> Whole | None: ...


#: What finds out what a function does, for each class of arrays: it is handed in by who has that class.
STAGING: Final[dict[type[Elements], Stager]] = {}
#: A function that was called once with such arguments, and one that can't be one program.
_MET: Final = Entry((), None, None, (), False, None)
_NEVER: Final = Entry((), None, None, (), False, None)
#: Arguments other than arrays that a function may depend on: what can be told apart by type and value.
_STATIC: Final = frozenset({int, bool, str, type(None), type})


def prepared(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function whose first argument is an array, which depends on nothing but the types of its arrays, and on
    small other arguments, such as axes. It returns an array, or a tuple of them."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if args:  # else the array was given by name, or is missing
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
    if len(args) == 1 and not kwargs:  # the most common case, which the general one would take twice as long for
        found = TABLE.entries.get((function, id(first.aval)))
        if found is not None and found.host is not None and found.aval is not None and first.host is not None:
            return of_host(kind, found.host.compute((first.host,)), found.aval)
    key: list[object] = [function, *kwargs]
    arrays: list[Elements] = []
    host = []
    for arg in (*args, *kwargs.values()):
        cls = type(arg)
        if cls is kind and isinstance(arg, Elements):
            key.append(id(arg.aval))
            arrays.append(arg)
            if arg.host is not None:
                host.append(arg.host)
        elif cls in _STATIC or isinstance(arg, np.dtype) or (cls is tuple and _are_integers(arg)):
            key.append(cls)
            key.append(arg)
        else:
            return None
    known = tuple(key)
    found = TABLE.entries.get(known)
    on_device = len(host) < len(arrays)
    if found is None or (found.device if on_device else found.host) is None:
        if found is _NEVER:
            return None
        # On the host it is quicker to call it once than to look what it does.
        if found is None and not on_device:
            TABLE.put(known, _MET)
            return None
        found = _prepare(known, found, function, args, kwargs, arrays, on_device)
    if not on_device and (runner := found.host) is not None:
        if found.aval is not None:
            return of_host(kind, runner.compute(host), found.aval)
        results = runner.compute_all(host)
        return tuple([of_host(kind, result, aval) for result, aval in zip(results, found.out_avals, strict=True)])
    outs = None if found.device is None else found.device.run(arrays, kind)
    if outs is None:
        return None
    return outs[0] if found.single else tuple(outs)


def _prepare(
    key: Key,
    known: Entry | None,
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    arrays: Sequence[Elements],
    on_device: bool,
) -> Entry:
    """The entry for a function, with a runner for the place where the arrays are, if there can be one."""
    whole = STAGING[type(arrays[0])](function, args, kwargs)
    if whole is None:
        return TABLE.put(key, _NEVER)
    if known is None or known is _MET:
        out_avals = whole.jaxpr.out_avals
        kept = (function, *(array.aval for array in arrays))
        known = Entry(kept, None, None, out_avals, whole.single, out_avals[0] if whole.single else None)
    if on_device:
        launch = _on_device(function.__name__, whole, arrays)
        return TABLE.put(key, _NEVER if launch is None else evolve(known, device=launch))
    kernels = _on_host(whole)
    return TABLE.put(key, _NEVER if kernels is None else evolve(known, host=kernels))


def _on_host(whole: Whole) -> Kernels | None:
    """The function's primitives one after the other; None if one of them isn't plain."""
    captured = [value.data for value in whole.captured if isinstance(value.data, np.ndarray)]
    if len(captured) < len(whole.captured):
        return None
    literals: list[np.ndarray[Any, Any]] = []
    kernels: list[tuple[Kernel, tuple[int, ...]]] = []

    def place(atom: Atom) -> int:
        if not isinstance(atom, Literal):
            return atom.index
        literals.append(np.asarray(atom.value, atom.aval.dtype))
        return -len(literals)

    for eqn in whole.jaxpr.eqns:
        made = kernel_of(eqn.primitive, [atom.aval for atom in eqn.invars]) if eqn.primitive.plain else None
        if made is None:
            return None
        kernels.append((made[0], tuple(map(place, eqn.invars))))
    outs = tuple(map(place, whole.jaxpr.outvars))
    n = len(literals)  # which come first, the last one first
    steps = [(kernel.function, kernel.dtype, tuple([n + at for at in places])) for kernel, places in kernels]
    return Kernels((*reversed(literals), *captured), tuple(steps), tuple([n + at for at in outs]))


def _on_device(name: str, whole: Whole, arrays: Sequence[Elements]) -> Launch | None:
    values = [*whole.captured, *(array.value for array in arrays)]
    executable = backend.execute.executable(whole.jaxpr, values, name)
    return Launch.of(executable, whole.captured, whole.jaxpr.out_avals, name)


def _are_integers(xs: object) -> bool:
    return isinstance(xs, tuple) and all(type(x) is int for x in xs)
