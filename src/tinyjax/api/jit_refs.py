"""Refs among the arguments of jitted functions: which are jitted as functions of arrays then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

from attrs import evolve

from tinyjax import refs
from tinyjax.api.jit_shardings import JitShardings
from tinyjax.caching import BoundedCache, register
from tinyjax.refs.lending import Lent, Places, lend, lending

if TYPE_CHECKING:
    from tinyjax.api.explain import Explanation
    from tinyjax.api.traced import Traced


class OfRefs(Protocol):
    """What `jit` returns for a function of arrays in the place of Refs."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any: ...

    def call_with_states(self, lent: Lent) -> Any:
        """A call if it takes the states of the Refs, too."""

    def record_of(self, args: tuple[Any, ...], kwargs: dict[str, Any], places: Places | None) -> Traced[..., Any]:
        """The program for these arguments, of which those in these places are lent by Refs."""

    def explanation_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
        """Whether these arguments find their program."""


#: From a function, and what is said of how its arguments and results lie.
Make: TypeAlias = Callable[[Callable[..., Any], "JitShardings | None"], OfRefs]
_KEPT: Final = 64


@final
class Lendings:
    """A function of arrays in the place of Refs, jitted once for each choice of the arguments that are Refs."""

    def __init__(self, fun: Callable[..., Any], shardings: JitShardings | None, make: Make) -> None:
        self.fun = fun
        # What the Refs hold at the end are further results.
        outs = None if shardings is None or shardings.outs is None else (shardings.outs, None)
        self._shardings = shardings and evolve(shardings, outs=outs)
        self._make = make
        self._made: BoundedCache[Places, OfRefs] = BoundedCache(_KEPT, "functions of Refs")
        register(self._made, temporary=True)

    def clear(self) -> None:
        """Forgets them."""
        self._made.clear()

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lent | None:
        """The arguments, if there are Refs among them."""
        return lend(self.fun, args, kwargs)

    def of_refs(self, places: Places) -> OfRefs:
        """The function of arrays in these places."""
        found = self._made.get(places)
        if found is None:
            found = self._make(lending(self.fun, places, linked=True), self._shardings)
            self._made.put(places, found)
        return found

    def run(self, lent: Lent) -> Any:  # the user's own tree
        """The results of a call, after which the Refs hold what the function has written."""
        made = self.of_refs(lent.places)

        def call() -> Any:
            try:
                return made(*lent.args, **lent.kwargs)
            except refs.backward.LentAwayError:  # before anything was run
                return made.call_with_states(lent)

        return lent.run(call)
