"""What contexts say of themselves and of their values, in logs and messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.printing.values import shown_value
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.primitive import Primitive

V = TypeVar("V")


class Described(ABC, Generic[V]):
    """A context, as far as it is talked about."""

    __slots__ = ()

    @abstractmethod
    def aval(self, value: V, /) -> ShapedArray:
        """The type of a value."""

    @abstractmethod
    def concrete(self, value: V, /) -> ConcreteValue | None:
        """The elements behind a value, where they are known already."""

    @property
    def label(self) -> str:
        """What it does."""
        return type(self).__name__.removesuffix("Context").lower()

    def rule_of(self, primitive: Primitive, args: Sequence[V]) -> str:
        """The method of a primitive that `bind` will call, or "" if it hands the primitive on."""
        return ""

    def shown(self, value: V) -> str:
        """A value as text: what is known of it now; its type if nothing else is."""
        return shown_value(self.concrete(value), self.aval(value))
