"""Batching: values may have one more axis than the program knows of."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Generic, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import MissingRuleError, ParameterError, TypingError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.declared import refuse_misfits
from tinyjax.ir.effects import axis_names, names_of
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.program import Literal
from tinyjax.ir.result_types import unspread
from tinyjax.ir.roles import Foreign, Origin
from tinyjax.ir.slots import made_by_slots
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue

V = TypeVar("V")


@final
@made_by_slots
@frozen
class Batched(Generic[V]):
    """A value of the parent and the position of its mapped axis. None: the same value for every element."""

    value: V
    axis: int | None


@final
class BatchContext(Context[Batched[V]]):
    """Applies each primitive's `batch` on the parent. Where nothing is mapped, the primitive itself."""

    __slots__ = ("axis", "cursor", "parent")

    def __init__(self, parent: Context[V], axis: BatchAxis) -> None:
        self.parent: Context[V] = parent
        self.axis: BatchAxis = axis
        self.cursor: SourceCursor = parent.cursor.within("vmap")

    @override
    def bind(self, primitive: Primitive, *args: Batched[V]) -> tuple[Batched[V], ...]:
        values = [arg.value for arg in args]
        for arg in args:
            if arg.axis is not None:
                break
        else:
            if not self._names_axis(primitive):
                return tuple(Batched(out, None) for out in self.parent.bind(primitive, *values))
        axes: Sequence[int | None] = [arg.axis for arg in args]
        outs: Sequence[V]
        try:
            if primitive.built_in:
                outs, axes = primitive.batch(self.parent, self.axis, values, axes)
            else:
                outs, axes = contracts.batch(primitive, self.parent, self.axis, values, axes)
        except Exception as error:
            mistake = self._mistake(primitive, args)
            if mistake is None:
                raise
            raise mistake.with_traceback(error.__traceback__) from None
        return tuple(map(Batched, outs, axes))

    def _mistake(self, primitive: Primitive, args: Sequence[Batched[V]]) -> TypingError | ParameterError | None:
        """What is wrong with the types that the function sees: those without the mapped axis, or with the primitive.
        None if nothing is."""
        try:
            refuse_misfits(primitive)
            with suppress(MissingRuleError):
                _ = unspread(primitive, tuple(map(self.aval, args)))
        except (TypingError, ParameterError) as error:
            return error
        return None

    def _names_axis(self, primitive: Primitive) -> bool:
        effects = primitive.effects
        return bool(effects) and not axis_names(effects).isdisjoint(names_of(self.axis))

    @override
    def constant(self, value: ConcreteValue | Literal) -> Batched[V]:
        return Batched(self.parent.constant(value), None)

    @override
    def aval(self, value: Batched[V]) -> ShapedArray:
        aval = self.parent.aval(value.value)
        if value.axis is None:
            return aval
        shape = aval.shape[: value.axis] + aval.shape[value.axis + 1 :]
        return aval.of_shape(shape)

    @override
    def holds(self, value: object) -> bool:
        return isinstance(value, Batched) and self.parent.holds(value.value)

    @override
    def lift(self, value: Foreign) -> Batched[V]:
        return Batched(value.into(self.parent), None)

    @override
    def concrete(self, value: Batched[V]) -> ConcreteValue | None:
        return self.parent.concrete(value.value) if value.axis is None else None

    @override
    def carries_tangent(self, value: Batched[V]) -> bool:
        return self.parent.carries_tangent(value.value)

    @override
    def origin(self, value: Batched[V]) -> Origin:
        return self.parent.origin(value.value) if value.axis is None else Origin(self)

    @property
    @override
    def label(self) -> str:
        return "batching"

    @override
    def rule_of(self, primitive: Primitive, args: Sequence[Batched[V]]) -> str:
        mapped = any(arg.axis is not None for arg in args) or self._names_axis(primitive)
        return "batch" if mapped else ""

    @override
    def shown(self, value: Batched[V]) -> str:
        text = self.parent.shown(value.value)
        return text if value.axis is None else f"{text} over axis {value.axis}"
