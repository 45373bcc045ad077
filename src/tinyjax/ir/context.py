"""Contexts: what a value is, and what applying a primitive to such values means."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from tinyjax.errors import LeakedTracerError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.described import Described
from tinyjax.ir.program import Literal
from tinyjax.ir.roles import Customised, Foreign, Origin
from tinyjax.ir.source import SourceCursor, is_ours
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.primitive import Primitive, UndefPrimal, Zero

V = TypeVar("V")


class Context(Described[V]):
    """An interpretation of programs whose values are `V`.

    Contexts nest: all but the outermost are built from a parent, on which their rules run. A context over a parent
    takes over its `cursor`, so that what is staged at the bottom points to the right line; one that makes other
    equations of them takes `cursor.within("its name")`, so that these say so.
    """

    __slots__ = ()

    cursor: SourceCursor = SourceCursor(shared=True)

    @abstractmethod
    def bind(self, primitive: Primitive, *args: V) -> tuple[V, ...]:
        """Applies a primitive."""

    @abstractmethod
    def constant(self, value: ConcreteValue | Literal, /) -> V:
        """The value that stands for a constant."""

    @override
    @abstractmethod
    def aval(self, value: V, /) -> ShapedArray:
        """The type of a value."""

    def holds(self, value: object) -> bool:
        """Whether this may be one of the context's values, as far as can be told: what rules return is asked."""
        return True

    def lift(self, value: Foreign, /) -> V:
        """The value that stands for one of a context further out. By default there is none: a LeakedTracerError."""
        if not is_ours(type(self)):
            raise LeakedTracerError.no_lift(type(self), value.aval)
        raise LeakedTracerError.outside(value.aval)

    @override
    def concrete(self, value: V, /) -> ConcreteValue | None:
        """The elements behind a value, where they are known already."""
        return None

    def carries_tangent(self, value: V, /) -> bool:
        """Whether there is a derivative beside the elements of a value, which is lost where only these are taken."""
        return False

    def call_custom(self, function: Customised, args: Sequence[V]) -> Sequence[V] | None:
        """The results of a function with a derivative of its own, for contexts that know by now which of the two they
        need: so that Python runs it. None: it is staged, and the primitive that holds its programs is bound."""
        return None

    def origin(self, value: V, /) -> Origin:
        """Where a value comes from whose elements aren't known."""
        return Origin(self)

    def transpose(
        self, primitive: Primitive, cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        """Applies a primitive's `transpose`."""
        return primitive.transpose(self, cotangents, args)
