"""What contexts meet: values of other contexts, functions with their own derivatives, and what evaluates programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, final

from attrs import field, frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.context import Context
    from tinyjax.ir.primitive import Outputs, Primitive, Zero
    from tinyjax.ir.program import Jaxpr

V = TypeVar("V")


class Foreign(Protocol):
    """A value of a context further out, which can be carried inwards."""

    @property
    def aval(self) -> ShapedArray: ...

    def into(self, context: Context[V]) -> V:
        """This value, as a value of `context`; LeakedTracerError if that isn't inside the value's own context."""
        ...


class Customised(Protocol):
    """A function with a derivative of its own, at a call of it, while both are still functions and not programs."""

    def call(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        """The results, computed in a context."""
        ...

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """The results and their tangents, by the function's own rule, computed in a context."""
        ...


@final
@frozen
class Origin:
    """Why the elements of a value aren't known, for messages.

    `context` is the one that lacks them: a staging or a batching context. `what` and `source` say what the value is
    there and which line made it; `input` is its position among the inputs, if it is one. `known` computes the elements
    after all, where that can be done.
    """

    context: object
    what: str = ""
    source: SourceInfo | None = None
    input: int | None = None
    known: Callable[[], ConcreteValue | None] = field(default=lambda: None, eq=False, repr=False)


class Evaluator(Protocol):
    """What a primitive with programs as parameters is evaluated with: a context of concrete values that can also run a
    whole program at once."""

    @property
    def compiles(self) -> bool:
        """Whether `execute` compiles the program, rather than evaluating one equation after the other."""
        ...

    def bind(self, primitive: Primitive, *args: ConcreteValue) -> tuple[ConcreteValue, ...]: ...

    def interpret(self, jaxpr: Jaxpr, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        """The results of a program, computed equation by equation."""
        ...

    def execute(self, jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]:
        """The results of a program, run as a whole where there is a compiler for it."""
        ...


class Tracking(ABC):
    """What a primitive is whose parameters say along which axes of a mesh values vary."""

    @abstractmethod
    def untracked(self) -> Primitive:
        """The same where types don't say it."""
