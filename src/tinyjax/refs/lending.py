"""Refs as arguments: a function of Refs as one of arrays, which also returns what they hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, final

from attrs import evolve, frozen

from tinyjax import refs
from tinyjax.errors import RefError
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.functions import argument_path, function_name
from tinyjax.tracing.programs import Traced
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

    from tinyjax.refs.ref import AnyRef, Ref


@final
@frozen
class Places:
    """Where Refs are among the leaves of arguments, and which of them cut off derivatives."""

    positions: tuple[int, ...]
    detached: tuple[bool, ...]


@final
@frozen(eq=False)
class Lent:
    """Arguments with arrays in the place of Refs, which are in these places among the leaves."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    refs: tuple[AnyRef, ...]
    places: Places

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of Refs among the leaves of the arguments."""
        return self.places.positions

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

    def linked(self, traced: Traced, function: object) -> Traced:
        """A function that `lending` has made, staged out: with the states of these Refs in the place of those that
        stand for them in it."""
        state_for = refs.backward.state_for
        return evolve(traced, cells=tuple([state_for(cell, function, self.refs) for cell in traced.cells]))


def refs_among(fun: Callable[..., object], leaves: Sequence[object], treedef: PyTreeDef) -> dict[int, AnyRef]:
    """The Refs, and parts of Refs, among the leaves of a function's arguments. A RefError if one is there twice."""
    found = {i: leaf for i, leaf in enumerate(leaves) if isinstance(leaf, refs.ref.Ref | refs.ref.Part)}
    first: dict[Ref, int] = {}
    for i, ref in found.items():
        if first.setdefault(ref.whole, i) != i:
            both = " and ".join(argument_path(fun, treedef, at) for at in (first[ref.whole], i))
            raise RefError(f"{both} of {function_name(fun)} are one Ref, of type {ref.whole.aval}. Pass it once.")
    return found


def lend(
    fun: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    wanted: Callable[[int], bool] = lambda i: True,
) -> Lent | None:
    """The arguments of a call, if there are Refs among them, or among the leaves that are `wanted`. A RefError if one
    is there twice."""
    leaves, treedef = tree.flatten((tuple(args), dict(kwargs)))
    found = {i: ref for i, ref in refs_among(fun, leaves, treedef).items() if wanted(i)}
    if not found:
        return None
    arrays = [found[i].current() if i in found else leaf for i, leaf in enumerate(leaves)]
    positional, named = tree.unflatten(treedef, arrays)
    places = Places(tuple(found), tuple([ref.detached for ref in found.values()]))
    return Lent(positional, named, tuple(found.values()), places)


def lending(
    fun: Callable[..., Any], places: Places, linked: bool = False
) -> Callable[..., tuple[Any, tuple[Array, ...]]]:
    """The function of arrays in the place of Refs, in these places among the leaves of its arguments. It returns
    what `fun` does, and what the Refs hold at the end. `linked`: who stages it asks `Lent.linked`."""

    @wraps(fun)
    def lent(*args: Any, **kwargs: Any) -> tuple[Any, tuple[Array, ...]]:
        leaves, treedef = tree.flatten((args, kwargs))
        lendings: list[Ref] = []
        for n, (i, detached) in enumerate(zip(places.positions, places.detached, strict=True)):
            lendings.append(refs.ref.Ref(as_array(leaves[i]), detached, (lent, n) if linked else None))
            leaves[i] = lendings[-1]
        positional, named = tree.unflatten(treedef, leaves)
        result = fun(*positional, **named)
        return result, tuple([ref.current() for ref in lendings])

    return lent


def closing_over_refs(
    functions: Sequence[Callable[..., Any]], args: Sequence[object]
) -> tuple[Sequence[Callable[..., Any]], Sequence[object]]:
    """Functions that get Refs among these arguments as they are, and the other leaves as arguments."""
    leaves, treedef = tree.flatten(tuple(args))
    kinds = refs.ref.Ref | refs.ref.Part
    if not any(isinstance(leaf, kinds) for leaf in leaves):
        return functions, args

    def closed(fun: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fun)
        def without(*others: object) -> Any:
            given = iter(others)
            return fun(*tree.unflatten(treedef, [x if isinstance(x, kinds) else next(given) for x in leaves]))

        return without

    return list(map(closed, functions)), [leaf for leaf in leaves if not isinstance(leaf, kinds)]
