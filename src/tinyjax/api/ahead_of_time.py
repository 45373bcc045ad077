"""The stages of a jitted function before it is run: its program, and what is compiled of it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from tinyjax import refs
from tinyjax.api.arguments import split_resolved
from tinyjax.api.bound import Bound
from tinyjax.api.jit_refs import Lendings, OfRefs
from tinyjax.collecting import FewCollections
from tinyjax.tracebacks import filtered

if TYPE_CHECKING:
    from tinyjax.api.explain import Explanation
    from tinyjax.api.lowered import Lowered
    from tinyjax.api.traced import Traced
    from tinyjax.refs.lending import Places

P = ParamSpec("P")
R = TypeVar("R")


class AheadOfTime(Bound[P, R]):
    """A function that has its stages one after the other, for given arguments or for their types: ShapedArray,
    `ShapeDtypeStruct(shape, dtype, is_ref=True)` for a Ref, or anything with a shape and a dtype."""

    #: Positions and names of the arguments that are static.
    static: tuple[tuple[int, ...], tuple[str, ...]]
    _refs: Lendings

    @abstractmethod
    def record_of(self, args: tuple[Any, ...], kwargs: dict[str, Any], places: Places | None) -> Traced[P, R]:
        """The program for these arguments, of which those in these places are lent by Refs."""

    @abstractmethod
    def explanation_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
        """Whether arguments without Refs find their program."""

    @filtered
    def trace(self, /, *args: P.args, **kwargs: P.kwargs) -> Traced[P, R]:
        """The program for these arguments, which may be types (ShapedArray), as a record that is called like the
        function: see `tinyjax.trace`. It reads and writes the Refs that it is called with, and those that the function
        closes over."""
        with FewCollections():  # a model's arguments are trees of thousands of objects
            form, given, named = self._of_arrays(args, kwargs)
            places = None
            if form is not self:  # there are Refs among the arguments
                call = split_resolved(self._refs.fun, args, kwargs, *self.static)
                places = refs.staged.places_among(call.function, call.args, call.kwargs)
            found = form.record_of(given, named, places)
        return cast("Traced[P, R]", found)  # it takes the Refs again

    @filtered
    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """The StableHLO of the function for these arguments, which may be types (ShapedArray)."""
        return self.trace(*args, **kwargs).lower()

    @filtered
    def eval_shape(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:  # the user's tree
        """The tree of types that the function returns for these arguments, which may be types (ShapedArray), without
        computing."""
        return self.trace(*args, **kwargs).out_info

    @filtered
    def explain(self, /, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Whether these arguments, which may be types (ShapedArray), find their program, and why if they don't.

        Nothing is traced. After a call, it says why that was a miss, and which keys of random numbers are used twice.

        >>> from tinyjax import ShapedArray, jit
        >>> f = jit(lambda x: 2.0 * x)
        >>> y = f(1.0)
        >>> f.explain(ShapedArray((3,), "float32")).differences
        (LeafChanged(path='x', earlier=ShapedArray(~f64[]), now=ShapedArray(f32[3])),)
        """
        form, given, named = self._of_arrays(args, kwargs)
        return form.explanation_of(given, named)

    def _of_arrays(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[AheadOfTime[P, R] | OfRefs, tuple[Any, ...], dict[str, Any]]:
        """A function of arrays in the place of Refs, and its arguments."""
        places = refs.staged.places_among(self._refs.fun, args, kwargs)
        if places is None:
            return self, args, kwargs
        return self._refs.of_refs(places), *refs.staged.with_arrays(args, kwargs)
