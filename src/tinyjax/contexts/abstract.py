"""Abstract evaluation: values are types, and applying a primitive computes the types of its outputs."""

from __future__ import annotations

from typing import final

from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import NO_EFFECTS, Effects
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Literal
from tinyjax.ir.result_types import types_after_casts
from tinyjax.ir.roles import Foreign
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue


@final
class AbstractContext(Context[ShapedArray]):
    """Applies each primitive's typing rule. `effects` gathers those of the primitives that were applied."""

    __slots__ = ("cursor", "effects")

    def __init__(self) -> None:
        self.cursor: SourceCursor = SourceCursor()
        self.effects: Effects = NO_EFFECTS

    @override
    def bind(self, primitive: Primitive, *args: ShapedArray) -> tuple[ShapedArray, ...]:
        effects = primitive.effects
        if effects:
            self.effects |= effects
        return types_after_casts(primitive, args)

    @override
    def constant(self, value: ConcreteValue | Literal) -> ShapedArray:
        return value.aval

    @override
    def aval(self, value: ShapedArray) -> ShapedArray:
        return value

    @override
    def holds(self, value: object) -> bool:
        return isinstance(value, ShapedArray)

    @override
    def lift(self, value: Foreign) -> ShapedArray:
        return value.aval
