"""Refs among the arguments of jitted functions: which are jitted as functions of arrays then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from attrs import evolve

from tinyjax.api.jit_shardings import JitShardings
from tinyjax.caching import BoundedCache, register
from tinyjax.refs.lending import Lent, lend, lending

#: From a function, and what is said of how its arguments and results lie, to what `jit` returns.
Make: TypeAlias = Callable[[Callable[..., Any], "JitShardings | None"], Callable[..., Any]]
_KEPT: Final = 64


@final
class Lendings:
    """A function of arrays in the place of Refs, jitted once for each choice of the arguments that are Refs."""

    def __init__(self, fun: Callable[..., Any], shardings: JitShardings | None, make: Make) -> None:
        self._fun = fun
        # What the Refs hold at the end are further results.
        outs = None if shardings is None or shardings.outs is None else (shardings.outs, None)
        self._shardings = shardings and evolve(shardings, outs=outs)
        self._make = make
        self._made: BoundedCache[tuple[int, ...], Callable[..., Any]] = BoundedCache(_KEPT, "functions of Refs")
        register(self._made, temporary=True)

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lent | None:
        """The arguments, if there are Refs among them."""
        return lend(self._fun, args, kwargs)

    def run(self, lent: Lent) -> Any:  # the user's own tree
        """The results of a call, after which the Refs hold what the function has written."""
        found = self._made.get(lent.positions)
        if found is None:
            found = self._make(lending(self._fun, lent.positions), self._shardings)
            self._made.put(lent.positions, found)
        jitted = found
        return lent.run(lambda: jitted(*lent.args, **lent.kwargs))
