"""What `jit` does with donated arguments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import final

from tinyjax import backend
from tinyjax.api.arguments import resolve_position, static_key
from tinyjax.caching import BoundedCache
from tinyjax.errors import DonationError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.programs import Traced

#: Positions and names of arguments.
Marked = tuple[tuple[int, ...], tuple[str, ...]]


@final
class Donating:
    """Which arguments of a function are donated, and which of them in vain, by the types that it was traced for."""

    def __init__(self, static: Marked, donated: Marked) -> None:
        self._static = static
        self._donated = donated
        #: For each leaf whether it was donated in vain, where any was.
        self._vain: BoundedCache[Hashable, tuple[bool, ...]] = BoundedCache(256, "arguments donated in vain")

    def __call__(
        self,
        args: Sequence[object],
        kwargs: dict[str, object],
        traced: Traced,
        avals: Sequence[ShapedArray],
    ) -> tuple[bool, ...]:
        """Which inputs of a program are donated: arguments, whose leaves have these types."""
        marks = self._marks(args, kwargs) if self._donated != ((), ()) else [False] * len(avals)
        kept = [i for i, aval in enumerate(avals) if aval.dtype != FLOAT0]
        first = len(traced.captured)
        given = (*[False] * first, *(marks[i] is True for i in kept), *[False] * len(traced.cells))
        if any(given) and (used := backend.usable(traced.jaxpr, given)) != given:
            vain = [False] * len(avals)
            for at, i in enumerate(kept, first):
                vain[i] = given[at] and not used[at]
            self._vain.put(self._key(args, kwargs), tuple(vain))
        return given

    def _marks(self, args: Sequence[object], kwargs: dict[str, object]) -> Sequence[object]:
        """For each leaf of the arguments that aren't static, whether it is donated."""
        positions, names = self._donated
        chosen = {resolve_position(n, len(args), "jit: donate_argnums") for n in positions if n < len(args)}
        left_out = {n % len(args) for n in self._static[0] if -len(args) <= n < len(args)}
        marked = tuple(
            tree.map_leaves(lambda _, mark=i in chosen: mark, arg) for i, arg in enumerate(args) if i not in left_out
        )
        named = {
            name: tree.map_leaves(lambda _, mark=name in names: mark, value)
            for name, value in kwargs.items()
            if name not in self._static[1]
        }
        return tree.flatten((marked, named))[0]

    def use_up(self, args: Sequence[object], kwargs: dict[str, object], result: object) -> None:
        """Deletes donated arrays on the host, as XLA does with those on a device, but for those that are results, too,
        and those that are donated in vain. A DonationError if one of them is another argument, too."""
        positions, names = self._donated
        taken = {n % len(args) for n in positions if -len(args) <= n < len(args)}
        given: list[object] = [args[n] for n in sorted(taken)]
        given += [kwargs[name] for name in names if name in kwargs]
        leaves = [leaf for leaf in tree.flatten(given)[0] if isinstance(leaf, ConcreteArray) and _on_host(leaf)]
        if not leaves:
            return
        others = [arg for n, arg in enumerate(args) if n not in taken]
        others += [value for name, value in kwargs.items() if name not in names]
        seen = set(map(id, tree.flatten(others)[0])) if others else set()
        spared = self._spared(args, kwargs)
        for leaf in leaves:
            if id(leaf) in spared:
                continue
            if id(leaf) in seen:
                raise DonationError(
                    f"an array {leaf.aval} is donated, so the same array can't be another argument too. Copy it first, "
                    "or don't donate it."
                )
            seen.add(id(leaf))
        left = [leaf for leaf in leaves if not _is_gone(leaf)]
        if left:
            spared |= set(map(id, tree.flatten(result)[0]))
        for leaf in left:
            if id(leaf) not in spared:
                leaf.delete()

    def _spared(self, args: Sequence[object], kwargs: dict[str, object]) -> set[int]:
        vain = self._vain.get(self._key(args, kwargs)) if len(self._vain) else None
        leaves = [] if vain is None else self._leaves(args, kwargs)[0]
        return {id(leaf) for leaf, spared in zip(leaves, vain or (), strict=True) if spared}

    def _leaves(self, args: Sequence[object], kwargs: dict[str, object]) -> tuple[list[object], Hashable]:
        """The leaves of the arguments that aren't static, and their tree."""
        left_out = {n % len(args) for n in self._static[0] if -len(args) <= n < len(args)}
        traced = tuple([arg for i, arg in enumerate(args) if i not in left_out])
        return tree.flatten((traced, {name: x for name, x in kwargs.items() if name not in self._static[1]}))

    def _key(self, args: Sequence[object], kwargs: dict[str, object]) -> Hashable:
        leaves, treedef = self._leaves(args, kwargs)
        types = [(getattr(leaf, "shape", ()), getattr(leaf, "dtype", type(leaf))) for leaf in leaves]
        left_out = {n % len(args) for n in self._static[0] if -len(args) <= n < len(args)}
        fixed = [(i, static_key(args[i])) for i in sorted(left_out)]
        named = [(name, static_key(kwargs[name])) for name in self._static[1] if name in kwargs]
        return treedef, tuple(types), tuple(fixed), tuple(named)


def _on_host(array: ConcreteArray) -> bool:
    """Whether elements are on the host, or part of a stack."""
    return array.buffer is None and (array.row is not None or array.host is not None)


def _is_gone(array: ConcreteArray) -> bool:
    """Whether it is part of a stack that was donated as a whole, and is freed already."""
    return array.host is None and (row := array.row) is not None and row.stack.is_deleted()
