"""A context around another one, with the same values: what all such have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Literal
from tinyjax.ir.roles import Customised, Foreign, Origin
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue

V = TypeVar("V")


class Around(Context[V]):
    """A context that has the values of another one, and leaves most to it."""

    __slots__ = ("cursor", "inner")

    def __init__(self, inner: Context[V]) -> None:
        self.inner: Context[V] = inner
        self.cursor: SourceCursor = inner.cursor

    @property
    @override
    def label(self) -> str:
        return self.inner.label

    @override
    def shown(self, value: V) -> str:
        return self.inner.shown(value)

    @override
    def bind(self, primitive: Primitive, *args: V) -> tuple[V, ...]:
        return self.inner.bind(primitive, *args)

    @override
    def constant(self, value: ConcreteValue | Literal) -> V:
        return self.inner.constant(value)

    @override
    def aval(self, value: V) -> ShapedArray:
        return self.inner.aval(value)

    @override
    def holds(self, value: object) -> bool:
        return self.inner.holds(value)

    @override
    def lift(self, value: Foreign) -> V:
        return value.into(self.inner)

    @override
    def concrete(self, value: V) -> ConcreteValue | None:
        return self.inner.concrete(value)

    @override
    def carries_tangent(self, value: V) -> bool:
        return self.inner.carries_tangent(value)

    @override
    def call_custom(self, function: Customised, args: Sequence[V]) -> Sequence[V] | None:
        return self.inner.call_custom(function, args)

    @override
    def origin(self, value: V) -> Origin:
        return self.inner.origin(value)
