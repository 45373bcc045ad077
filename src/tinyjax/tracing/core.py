"""Tracers, which stand for arrays while a function is transformed, and `bind`, which hands operations to a context.

An `Array` is a `ConcreteArray`, which has its elements, or a `Tracer`, which holds a value of a context. An operation
belongs to the innermost context among those of its operands: the others are lifted into it, and there the primitive is
applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar, final

from typing_extensions import override

from tinyjax.arrays.advice import HASH, Wanted
from tinyjax.contexts.staging import StagingContext
from tinyjax.contexts.watching import Watcher, describe_value, unwatched, watched_by
from tinyjax.control.manual import NamedAxis
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.source import is_ours
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Mesh
from tinyjax.primitives.defaults import Defaults
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.captured import Intake
from tinyjax.tracing.concrete import ConcreteArray, Operand, active_frame, as_array, enterable, top_frame
from tinyjax.tracing.frames import Entered, Frame, OpenFrame, Transformed
from tinyjax.tracing.messages.unknown import elements, leaked, not_pickled

V = TypeVar("V")
C = TypeVar("C")


@final
class Tracer(Operand, Generic[V]):
    """What stands for an array while a function is transformed: a value of a context."""

    __slots__ = ("__weakref__", "aval", "frame", "value")

    aval: ShapedArray

    def __init__(self, frame: TraceFrame[V], value: V) -> None:
        self.frame: Final[TraceFrame[V]] = frame
        self.value: Final = value
        self.aval = frame.context.aval(value)

    @override
    def into(self, context: Context[C]) -> C:
        if not self.frame.alive:
            raise leaked(self.aval, self.frame.function)
        return _value_in(self, context)

    @override
    def concrete(self) -> ConcreteValue | None:
        return self.frame.context.concrete(self.value)

    @override
    def _elements(self, wanted: Wanted) -> ConcreteValue:
        if not self.frame.alive:
            raise leaked(self.aval, self.frame.function)
        return elements(self.frame, self.value, self.aval, wanted)

    @override
    def __repr__(self) -> str:
        return f"Tracer({self.aval}, {describe_value(self.frame.context, self.value)})"

    @override
    def __hash__(self) -> int:
        return hash(ConcreteArray(self._elements(HASH)))  # which can't be hashed either, and says so

    @override
    def __reduce__(self) -> tuple[object, ...]:
        raise not_pickled(self.aval)


def _value_in(x: Array, context: Context[C]) -> C:
    """A traced value in a context. If it is that context's own, its type is the context's: this is where the identity
    of contexts proves what the type checker can't see."""
    if isinstance(x, Tracer) and x.frame.context is context:
        value: C = x.value
        return value
    return context.lift(x)


class TraceFrame(Entered, OpenFrame[V]):
    """A transformation in progress."""

    __slots__ = ("_position", "context", "function")

    def __init__(
        self, context: Context[V], parent: Frame, function: Transformed, axes: Sequence[NamedAxis] = ()
    ) -> None:
        self.watcher: Watcher | None = parent.watcher
        self.mesh: Mesh | None = parent.mesh
        self.defaults: Defaults | None = parent.defaults
        self.context: Context[V] = context if parent.watcher is None else watched_by(parent.watcher, context)
        self._position = context.cursor.to_attribute
        self.parent: Frame = parent
        self.level: int = parent.level + 1
        staging = isinstance(context, StagingContext)
        self.base: Frame = self if staging else parent.base
        self.intake: Intake | None = Intake() if staging else None
        self.function: Transformed = function
        self.axes: tuple[tuple[NamedAxis, Frame], ...] = (*parent.axes, *[(axis, self) for axis in axes])
        self.alive: bool = True
        enterable(self)

    @override
    def wrap(self, value: V) -> Array:
        # Values of evaluation need nothing to stand for them: a rule in Python that runs there gets arrays.
        return ConcreteArray(value) if isinstance(value, ConcreteValue) else Tracer(self, value)

    @override
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        """What is staged is attributed to the transformations that it went through from here, and to the line that is
        being run: found once, unless the rules are the user's, whose lines count."""
        context, position = self.context, self._position
        values: list[V] = []
        for arg in args:  # what `into` does, but many times
            if type(arg) is Tracer and arg.frame is self and self.alive:
                values.append(arg.value)
            else:
                values.append(arg.into(context))
        if position is None:
            outs = context.bind(primitive, *values)
            return (self.wrap(outs[0]),) if len(outs) == 1 else tuple(map(self.wrap, outs))
        source, before = position.source, position.transformations
        if source is None and is_ours(type(primitive)):
            position.source = position.user_line()
        position.transformations = context.cursor.transformations
        try:
            outs = context.bind(primitive, *values)
        finally:
            position.source, position.transformations = source, before
        return (self.wrap(outs[0]),) if len(outs) == 1 else tuple(map(self.wrap, outs))

    @override
    def function_of(self, context: object) -> Transformed | None:
        return self.function if unwatched(self.context) is context else self.parent.function_of(context)


def activate(context: Context[V], function: Transformed, axes: Sequence[NamedAxis] = ()) -> TraceFrame[V]:
    """Makes a context the innermost one: `with activate(...) as frame, frame:`. Tracers can't be used afterwards."""
    return TraceFrame(context, active_frame(), function, axes)


def bind(primitive: Primitive, *args: ArrayLike) -> tuple[Array, ...]:
    """Applies a primitive to arrays, or to what `as_array` makes arrays of: nothing is promoted or broadcast.

    >>> from tinyjax.primitives.elementwise import mul
    >>> bind(mul, 2.0, as_array(3.0))
    (Array(6., dtype=float64, weak_type=True),)
    """
    arrays = [arg if type(arg) is ConcreteArray or type(arg) is Tracer else as_array(arg) for arg in args]
    return arrays[0]._bind(primitive, *arrays) if args else top_frame((), primitive.effects).bind(primitive, ())
