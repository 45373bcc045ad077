"""Refs as arguments: a function of Refs as one of arrays, which also returns what they hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any, final

from attrs import frozen

from tinyjax.errors import RefError
from tinyjax.refs.ref import Ref
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.functions import argument_path, function_name


@final
@frozen(eq=False)
class Lent:
    """Arguments with arrays in the place of Refs, whose positions among the leaves these are."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    refs: tuple[Ref, ...]
    positions: tuple[int, ...]

    def run(self, call: Callable[[], tuple[Any, Sequence[Array]]]) -> Any:  # the user's tree
        """Calls what gives results and what the Refs hold at the end, and has them hold it. Meanwhile they can't be
        used, as the function has others in their place."""
        with ExitStack() as stack:
            for ref in self.refs:
                stack.enter_context(ref.lent())
            result, last = call()
        for ref, value in zip(self.refs, last, strict=True):
            ref.store(value)
        return result


def lend(
    fun: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    wanted: Callable[[int], bool] = lambda i: True,
) -> Lent | None:
    """The arguments of a call, if there are Refs among them, or among the leaves that are `wanted`. A RefError if one
    is there twice."""
    leaves, treedef = tree.flatten((tuple(args), dict(kwargs)))
    found = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, Ref) and wanted(i)}
    if not found:
        return None
    first: dict[Ref, int] = {}
    for i, ref in found.items():
        if first.setdefault(ref, i) != i:
            both = " and ".join(argument_path(fun, treedef, at) for at in (first[ref], i))
            raise RefError(f"{both} of {function_name(fun)} are one Ref, of type {ref.aval}. Pass it once.")
    arrays = [found[i].current() if i in found else leaf for i, leaf in enumerate(leaves)]
    positional, named = tree.unflatten(treedef, arrays)
    return Lent(positional, named, tuple(found.values()), tuple(found))


def lending(fun: Callable[..., Any], positions: Sequence[int]) -> Callable[..., tuple[Any, tuple[Array, ...]]]:
    """The function of arrays in the place of Refs, at these positions among the leaves of its arguments. It returns
    what `fun` does, and what the Refs hold at the end."""

    @wraps(fun)
    def lent(*args: Any, **kwargs: Any) -> tuple[Any, tuple[Array, ...]]:
        leaves, treedef = tree.flatten((args, kwargs))
        refs = [Ref(as_array(leaves[i])) for i in positions]
        for i, ref in zip(positions, refs, strict=True):
            leaves[i] = ref
        positional, named = tree.unflatten(treedef, leaves)
        result = fun(*positional, **named)
        return result, tuple([ref.current() for ref in refs])

    return lent


def without_refs(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A function and arguments for it: if there are Refs among them, with arrays in their places, and what they hold at
    the end a second result."""
    lent = lend(fun, args, kwargs)
    return (fun, args, kwargs) if lent is None else (lending(fun, lent.positions), lent.args, lent.kwargs)


def closing_over_refs(
    functions: Sequence[Callable[..., Any]], args: Sequence[object]
) -> tuple[Sequence[Callable[..., Any]], Sequence[object]]:
    """Functions that get Refs among these arguments as they are, and the other leaves as arguments."""
    leaves, treedef = tree.flatten(tuple(args))
    if not any(isinstance(leaf, Ref) for leaf in leaves):
        return functions, args

    def closed(fun: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fun)
        def without(*others: object) -> Any:
            given = iter(others)
            return fun(*tree.unflatten(treedef, [x if isinstance(x, Ref) else next(given) for x in leaves]))

        return without

    return list(map(closed, functions)), [leaf for leaf in leaves if not isinstance(leaf, Ref)]
