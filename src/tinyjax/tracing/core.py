"""Arrays that users hold, and `bind`, which hands what is done with them to a context.

An `Array` is a `ConcreteArray`, which has its elements, or a `Tracer`, which holds a value of a context. `bind` finds
the innermost context among its arguments, lifts the others into it, and applies the primitive there. The ContextVar at
the end of this file is the library's only ambient state: it holds the innermost active frame, so that a transformation
that is started inside another one knows its parent, and so that a staged function records operations on constants too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Final, Generic, TypeAlias, TypeVar, final

import numpy as np
from typing_extensions import override

from tinyjax import backend
from tinyjax.arrays.advice import HASH, Wanted
from tinyjax.arrays.conversions import Conversions
from tinyjax.arrays.display import Displayed
from tinyjax.arrays.methods import Methods
from tinyjax.caching import bounded
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.staging import StagingContext
from tinyjax.contexts.watching import Watcher, describe_value, unwatched, watched_by
from tinyjax.errors import ConcretizationError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import PYTHON_DTYPES, DType, HostArray, Scalar, may_be_key
from tinyjax.ir.effects import NO_EFFECTS, Effects, axis_names
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.source import is_ours
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.elements import Elements, apply_kernel, of_host
from tinyjax.prepared.evaluation import PreparedEvaluation
from tinyjax.prepared.executables import apply_ready, keep_ready
from tinyjax.tracing.captured import Intake
from tinyjax.tracing.frames import Entered, Frame, OpenFrame, Transformed, base_in_force, in_force, named_axis
from tinyjax.tracing.intake import concrete_value, convert_number, convert_scalar, host_type
from tinyjax.tracing.messages import leaked, why_unknown

V = TypeVar("V")
C = TypeVar("C")
T = TypeVar("T")


class Array(Methods, Conversions, ABC):
    """What users compute with: an array, or what stands for one while a function is transformed."""

    __slots__ = ()
    # NumPy arrays and scalars on the left of an operator leave it to us.
    __array_priority__ = 1000

    @property
    @abstractmethod
    @override
    def aval(self) -> ShapedArray:
        """The type: shape, dtype, and whether it is weak."""

    @abstractmethod
    def into(self, context: Context[C]) -> C:
        """This array as a value of a context."""

    @abstractmethod
    def concrete(self) -> ConcreteValue | None:
        """The elements, where they are known already."""

    @override
    def _bind(self, primitive: Primitive, *args: Array) -> tuple[Array, ...]:
        return top_frame(args, primitive.effects).bind(primitive, args)

    @property
    @override
    def _array(self) -> Array:
        return self

    @override
    def _operands(self, *others: ArrayLike) -> tuple[Array, ...]:
        return (self, *map(as_array, others))

    @override
    def _binary(self, function: Callable[[Array, Array], T], other: object) -> T:
        y = other if type(other) is ConcreteArray or type(other) is Tracer else operand(other)
        return NotImplemented if y is None else function(self, y)

    @override
    def _reflected(self, function: Callable[[Array, Array], T], other: object) -> T:
        y = operand(other)
        return NotImplemented if y is None else function(y, self)

    def block_until_ready(self) -> Array:
        """Waits until the elements are there. Returns the array itself."""
        return self


@final
class ConcreteArray(Elements, Displayed, Array):
    """An array with its elements, on the host or on a device."""

    __slots__ = ("__weakref__",)

    @property
    @override
    def evaluated(self) -> bool:
        return innermost().base is ROOT or base_in_force(active_frame()) is ROOT

    @override
    def _at_once(self, primitive: Primitive, operands: Sequence[Array]) -> Array | None:
        if innermost().base is not ROOT:
            return None
        done = apply_kernel(primitive, operands, ConcreteArray) if self.buffer is None else None
        return apply_ready(primitive, operands, ConcreteArray) if done is None else done

    @override
    def _bind(self, primitive: Primitive, *args: Array) -> tuple[Array, ...]:
        done = self._at_once(primitive, args)
        return top_frame(args, primitive.effects).bind(primitive, args) if done is None else (done,)

    @override
    def into(self, context: Context[C]) -> C:
        return context.constant(self.value)

    @override
    def _own(self) -> ConcreteArray:
        return ConcreteArray(self.value)

    @override
    def concrete(self) -> ConcreteValue:
        return self.value

    @override
    def _elements(self, wanted: Wanted) -> ConcreteValue:
        return self.value

    @override
    def _convert_scalar(self, dtype: DType, weak_type: bool) -> Array | None:
        elements = self.host
        if elements is None:
            return None
        number = elements.item() if self.aval.weak_type else None
        if isinstance(number, int | float) and may_be_key(number):
            return _converted_number(number, self.aval.dtype, dtype, weak_type)
        return ConcreteArray(convert_scalar(self.value, dtype, weak_type))

    @override
    def block_until_ready(self) -> ConcreteArray:
        backend.block_until_ready(self.value)
        return self

    @override
    def __reduce__(self) -> tuple[object, ...]:
        return ConcreteArray, (self.value,)


@final
class Tracer(Array, Generic[V]):
    """What stands for an array while a function is transformed: a value of a context."""

    __slots__ = ("__weakref__", "aval", "frame", "value")

    aval: ShapedArray

    def __init__(self, frame: TraceFrame[V], value: V) -> None:
        self.frame: Final = frame
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
        context, found = self.frame.context, self.concrete()
        if found is None or (wanted.elsewhere and context.carries_tangent(self.value)):
            raise self.frame.unknown(self.value, self.aval, wanted)
        return found

    @override
    def __repr__(self) -> str:
        return f"Tracer({self.aval}, {describe_value(self.frame.context, self.value)})"

    @override
    def __hash__(self) -> int:
        return hash(ConcreteArray(self._elements(HASH)))  # which can't be hashed either, and says so

    @override
    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"a traced value ({self.aval}) can't be pickled: it has no elements yet")


def _value_in(x: Array, context: Context[C]) -> C:
    """A traced value in a context. If it is that context's own, its type is the context's: this is where the identity
    of contexts proves what the type checker can't see."""
    if isinstance(x, Tracer) and x.frame.context is context:
        value: C = x.value
        return value
    return context.lift(x)


def as_operand(x: object) -> Array:
    """`as_array` for an operation whose result is a new array: what is computed with at once isn't copied."""
    if type(x) is np.ndarray and innermost() is ROOT and (aval := host_type(x.shape, x.dtype)) is not None:
        return of_host(ConcreteArray, x, aval)
    return x if type(x) is ConcreteArray else as_array(x)


ArrayLike: TypeAlias = Array | HostArray | np.generic | Scalar
#: What certainly has no `__jax_array__`.
_PLAIN: Final = frozenset({*PYTHON_DTYPES, np.ndarray})
_OPERANDS: Final = (int, float, complex, np.ndarray, np.generic, list, tuple, dict, set)


@final
class RootFrame(OpenFrame[ConcreteValue]):
    """Evaluation: outside all transformations."""

    __slots__ = ("context",)

    def __init__(self, context: EvalContext) -> None:
        self.context: EvalContext = context
        self.alive: bool = True
        self.parent: Frame = self
        self.level = 0
        self.base: Frame = self
        self.axes: tuple[tuple[BatchAxis, Frame], ...] = ()
        self.watcher: Watcher | None = None
        self.intake: Intake | None = None

    @override
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        context = self.context
        values = []
        for arg in args:
            values.append(arg.value if type(arg) is ConcreteArray else arg.into(context))  # noqa: PERF401 (a call less)
        outs = context.bind(primitive, *values)
        if len(outs) != 1:
            return tuple(map(ConcreteArray, outs))
        if primitive.plain and not outs[0].on_host:
            keep_ready(primitive, values)
        return (ConcreteArray(outs[0]),)

    @override
    def wrap(self, value: ConcreteValue) -> Array:
        return ConcreteArray(value)


class TraceFrame(Entered, OpenFrame[V]):
    """A transformation in progress."""

    __slots__ = ("_position", "context", "function")

    def __init__(
        self, context: Context[V], parent: Frame, function: Transformed, axis: BatchAxis | None = None
    ) -> None:
        watcher = parent.watcher
        self.watcher: Watcher | None = watcher
        self.context: Context[V] = context if watcher is None else watched_by(watcher, context)
        self._position = context.cursor.to_attribute
        self.parent: Frame = parent
        self.level: int = parent.level + 1
        staging = isinstance(context, StagingContext)
        self.base: Frame = self if staging else parent.base
        self.intake: Intake | None = Intake() if staging else None
        self.function: Transformed = function
        self.axes: tuple[tuple[BatchAxis, Frame], ...] = parent.axes
        if axis is not None and axis.name is not None:
            self.axes = (*parent.axes, (axis, self))
        self.alive: bool = True
        self._variable, self._token = _active, None

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

    def unknown(self, value: V, aval: ShapedArray, wanted: Wanted) -> ConcretizationError:
        """The error for a value whose elements can't be had: what it is, why they can't, and what to do."""
        origin = self.context.origin(value)
        frame: Frame = self
        while isinstance(frame, TraceFrame) and unwatched(frame.context) is not origin.context:
            frame = frame.parent
        function = frame.function if isinstance(frame, TraceFrame) else self.function
        return why_unknown(aval, None if self.context.concrete(value) else origin, function, wanted)


def as_array(x: object) -> Array:
    """An array as it is, or a NumPy array, a scalar, or a jax.Array as one of ours. A copy, if it may be written to.

    An InputError for anything else. Python scalars are weakly typed.
    """
    # The exact types first: asking an abstract class takes its time.
    if type(x) is ConcreteArray:
        return x
    if type(x) is np.ndarray or not isinstance(x, Array):
        return _converted(x)
    return x


def _converted(x: object) -> Array:
    if (type(x) is float or type(x) is int) and may_be_key(x):
        return _scalar(x)
    if type(x) is np.ndarray and (intake := base_in_force(active_frame()).intake) is not None:
        x = intake.take(x)
    converter = None if type(x) in _PLAIN else getattr(x, "__jax_array__", None)
    return ConcreteArray(concrete_value(x)) if converter is None else as_array(converter())


@bounded(4096, typed=True)
def _scalar(x: float) -> ConcreteArray:
    """A Python number, which is met again and again."""
    return ConcreteArray(concrete_value(x))


@bounded(4096, typed=True)
def _converted_number(number: Scalar, own: DType, dtype: DType, weak_type: bool) -> ConcreteArray:
    """A number of Python's with another dtype."""
    return ConcreteArray(convert_number(number, own, dtype, weak_type))


def operand(x: object) -> Array | None:
    """The other side of an operator as an array. None if it isn't for arrays to say what the operator means.

    Python's containers are none of an array's business either, but an InputError says more than NotImplemented would.
    """
    if type(x) in PYTHON_DTYPES:
        return _converted(x)
    if isinstance(x, Array):
        return x
    if isinstance(x, _OPERANDS) or hasattr(type(x), "__jax_array__"):
        return as_operand(x)
    found = backend.from_jax(x)
    return None if found is None else ConcreteArray(found)


ROOT: Final = RootFrame(PreparedEvaluation(backend.execute))
_active: Final[ContextVar[Frame]] = ContextVar("tinyjax_active_frame", default=ROOT)
#: The innermost frame in this thread or task, which may have ended. A method written in C, for the shortest way to
#: compiled functions; if this is ROOT, or its base is, then so is what `active_frame` finds.
innermost: Final[Callable[[], Frame]] = _active.get


def active_frame() -> Frame:
    """The innermost frame in this thread or task that is in force."""
    frame = innermost()
    if not frame.alive:  # a copied context has outlived it
        _active.set(frame := in_force(frame))
    return frame


def activate(context: Context[V], function: Transformed, axis: BatchAxis | None = None) -> TraceFrame[V]:
    """Makes a context the innermost one: `with activate(...) as frame, frame:`. Tracers can't be used afterwards."""
    return TraceFrame(context, active_frame(), function, axis)


def top_frame(args: Iterable[Array], effects: Effects = NO_EFFECTS) -> Frame:
    """The frame that an operation on these arrays belongs to: one that needs a named axis, at least to that axis's."""
    top = innermost().base
    if not top.alive:
        top = base_in_force(active_frame())
    level = top.level
    for arg in args:
        if type(arg) is Tracer:
            frame = arg.frame
            if frame.level > level:
                top, level = frame, frame.level
    if effects:
        for name in axis_names(effects):
            owner = find_axis(name)[1]
            if owner.level > level:
                top, level = owner, owner.level
    return top


def bind(primitive: Primitive, *args: ArrayLike) -> tuple[Array, ...]:
    """Applies a primitive to arrays, or to what `as_array` makes arrays of: nothing is promoted or broadcast.

    >>> from tinyjax.primitives.elementwise import MUL
    >>> bind(MUL, 2.0, as_array(3.0))
    (Array(6., dtype=float64, weak_type=True),)
    """
    arrays = [arg if type(arg) is ConcreteArray or type(arg) is Tracer else as_array(arg) for arg in args]
    return arrays[0]._bind(primitive, *arrays) if args else top_frame((), primitive.effects).bind(primitive, ())


def find_axis(name: str) -> tuple[BatchAxis, Frame]:
    """The innermost named axis of this name; an AxisNameError if there is none."""
    return named_axis(active_frame().axes, name)
