"""From functions of trees of arrays to programs that an interpreter runs, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.interpreters.hidden import Hidden, open_frame
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Jaxpr
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.frames import OpenFrame
from tinyjax.tracing.functions import FlatFunction, check_callable, flatten_arguments
from tinyjax.tracing.programs import Traced, trace

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

R = TypeVar("R")


@final
@frozen(eq=False, repr=False)
class StagedCall(Record):
    """A function staged out for the arguments of a call.

    The inputs of the program are what the function closed over, then the leaves of the arguments.
    """

    traced: Traced
    arrays: tuple[Array, ...]
    treedef: PyTreeDef

    @override
    def _shown(self) -> Iterator[tuple[str, object]]:
        yield from (("captured", self.captured), ("arrays", self.arrays), ("jaxpr", self.jaxpr))

    @property
    def jaxpr(self) -> Jaxpr:
        """The program."""
        return self.traced.jaxpr

    @property
    def captured(self) -> tuple[Array, ...]:
        """What the function closed over: arrays with elements, and values that other transformations are tracing."""
        return self.traced.captured

    @property
    def inputs(self) -> tuple[Array, ...]:
        """What feeds the program: to apply a primitive that holds it, for example."""
        return (*self.traced.captured, *self.arrays)

    def results(self, outs: Sequence[object]) -> Any:  # the user's own tree
        """The tree of the function's results, with these leaves."""
        return tree.unflatten(self.traced.treedef, outs)

    def run(self, others: Sequence[Array], run: Callable[[OpenFrame[Hidden], list[Hidden], list[Hidden]], R]) -> R:
        """Calls `run` with the frame that all these arrays belong to, what feeds the program, and the other arrays.

        What it computes on the frame's context is traced by the transformations that the arrays belong to.
        """
        inputs = self.inputs

        def opened(frame: OpenFrame[Hidden]) -> R:
            return run(frame, list(map(frame.read, inputs)), list(map(frame.read, others)))

        return open_frame([*inputs, *others], opened, self.jaxpr.effects)


def stage_call(what: str, f: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> StagedCall:
    """Stages out a function for these arguments. `what` is done to it, for messages."""
    check_callable(what, f)
    arrays, treedef = flatten_arguments(f, args, kwargs)
    traced = trace(FlatFunction(f, what, treedef), [array.aval for array in arrays])
    return StagedCall(traced, tuple(arrays), treedef)
