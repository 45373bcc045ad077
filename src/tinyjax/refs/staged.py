"""Refs of functions that are programs already: what they hold goes in and comes out with each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, final

from attrs import field, frozen

from tinyjax.contexts.cells import Cell, written
from tinyjax.errors import RefError
from tinyjax.ir.program import Jaxpr
from tinyjax.refs.backward import state_for
from tinyjax.refs.lending import Places, lending, refs_among
from tinyjax.refs.ref import AnyRef
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import argument_path

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

S = TypeVar("S")
T = TypeVar("T")
#: A function, and its arguments.
Given: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
_NOWHERE: Final = Places((), ())


def stands_for_ref(leaf: object) -> bool:
    """Whether an argument is a Ref, or the type of one."""
    return isinstance(leaf, AnyRef) or getattr(leaf, "is_ref", False) is True


def places_among(fun: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> Places | None:
    """Where Refs, or types of Refs, are among the arguments; None without any. A RefError if one is there twice."""
    leaves, treedef = tree.flatten((tuple(args), dict(kwargs)))
    at = [i for i, leaf in enumerate(leaves) if stands_for_ref(leaf)]
    if not at:
        return None
    found = refs_among(fun, leaves, treedef)
    return Places(tuple(at), tuple([i in found and found[i].detached for i in at]))


def with_arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with what Refs hold in their place. Types of Refs are types of arrays, too."""
    leaves, treedef = tree.flatten((args, kwargs))
    positional, named = tree.unflatten(treedef, [x.current() if isinstance(x, AnyRef) else x for x in leaves])
    return positional, named


@final
@frozen
class StagedRefs:
    """The Refs that a program takes.

    `places` are those among the function's arguments: what they hold is an input there, and comes out after the results
    of the function. `cells` are those that it closes over: what they hold are the last inputs and results. `function`
    is what `lending` has made, if some are arguments.
    """

    places: Places
    cells: tuple[Cell[Array], ...]
    function: object = field(default=None, eq=False)

    @staticmethod
    def of(places: Places | None, cells: tuple[Cell[Array], ...], function: object) -> StagedRefs | None:
        """None if there are no Refs."""
        return None if places is None and not cells else StagedRefs(places or _NOWHERE, cells, function)

    def own(self, ins: Sequence[S], outs: Sequence[T]) -> tuple[tuple[S, ...], tuple[T, ...]]:
        """Of something for each input, and for each output of the program, what is for the function's own."""
        cells = len(self.cells)
        return tuple(ins[: len(ins) - cells]), tuple(outs[: len(outs) - len(self.places.positions) - cells])

    def taken(
        self, what: str, fun: Callable[..., object], leaves: Sequence[object], treedef: PyTreeDef, alike: bool = False
    ) -> tuple[list[object], tuple[AnyRef, ...]]:
        """The leaves of arguments with what Refs hold in their place, and the Refs. A RefError unless they are where
        they were when the function was traced; if they have to be `alike`, of the same kinds, too."""
        found = refs_among(fun, leaves, treedef)
        wanted = dict(zip(self.places.positions, self.places.detached, strict=True))
        for i in sorted({*found} ^ {*wanted}):
            traced, better = (
                ("an array", "what it holds, ref[...]") if i in found else ("a Ref", "tinyjax.new_ref(array)")
            )
            raise RefError(
                f"{what}: argument {argument_path(fun, treedef, i)} must be {traced}, as it was traced for, got "
                f"{leaves[i]!r}. Pass {better}, or trace the function again."
            )
        for i, ref in found.items():
            if alike and ref.detached != wanted[i]:
                raise RefError(
                    f"{what}: argument {argument_path(fun, treedef, i)} is a Ref of another kind than the one that the "
                    "function was traced for, which decides about derivatives. Trace the function again."
                )
        return [found[i].current() if i in found else leaf for i, leaf in enumerate(leaves)], tuple(found.values())

    def run(
        self, jaxpr: Jaxpr, refs: Sequence[AnyRef], call: Callable[[Sequence[Array]], Sequence[Array]]
    ) -> Sequence[Array]:
        """The function's own results, of those of the program, which `call` gives for what the cells hold. Then Refs
        and cells hold what it has left in them."""
        cells = [state_for(cell, self.function, refs) for cell in self.cells]
        with ExitStack() as stack:
            for ref in refs:
                stack.enter_context(ref.lent())
            outs = call([cell.current() for cell in cells])
        own = len(outs) - len(refs) - len(cells)
        held, last = outs[own : own + len(refs)], outs[own + len(refs) :]
        for ref, value in zip(refs, held, strict=True):
            ref.store(value)
        for cell, value in compress(zip(cells, last, strict=True), written(jaxpr, len(last))):
            cell.store(value)
        return outs[:own]


def without_refs(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
    """A function and arguments for it: if there are Refs among them, or types of Refs, with arrays in their places, and
    what they hold at the end a second result."""
    places = places_among(fun, args, kwargs)
    return (fun, args, kwargs) if places is None else (lending(fun, places), *with_arrays(args, kwargs))
