"""Arrays that have their elements, what becomes one, and evaluation, where operations on them belong.

The ContextVar here is the library's only ambient state: it holds the innermost active frame, so that a transformation
that is started inside another one knows its parent, and so that a staged function records operations on constants too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Final, TypeVar, final

import numpy as np
from typing_extensions import override

from tinyjax import backend
from tinyjax.arrays.advice import Wanted
from tinyjax.arrays.display import Displayed
from tinyjax.arrays.intake import hand_in
from tinyjax.caching import bounded
from tinyjax.contexts.cells import Cells
from tinyjax.contexts.watching import Watcher
from tinyjax.control.manual import NamedAxis
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import PYTHON_DTYPES, DType, Scalar, may_be_key
from tinyjax.ir.effects import NO_EFFECTS, Effects, axis_names
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Mesh
from tinyjax.prepared.primitives import PreparedEvaluation, apply, apply_equal
from tinyjax.prepared.stored_array import StoredArray, of_host
from tinyjax.primitives.defaults import Defaults
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.captured import Intake
from tinyjax.tracing.frames import Entered, Frame, OpenFrame, base_in_force, in_force, named_axis
from tinyjax.tracing.intake import concrete_value, convert_number, convert_scalar, host_type

C = TypeVar("C")
T = TypeVar("T")
#: What certainly has no `__jax_array__`.
_PLAIN: Final = frozenset({*PYTHON_DTYPES, np.ndarray})
_OPERANDS: Final = (int, float, complex, np.ndarray, np.generic)
_CONTAINERS: Final = frozenset({list, tuple, dict, set})


class Operand(Array):
    """An array that takes part in operations: each belongs to the innermost frame among those of its operands."""

    __slots__ = ()

    @override
    def _bind(self, primitive: Primitive, *args: Array) -> tuple[Array, ...]:
        return top_frame(args, primitive.effects).bind(primitive, args)

    @override
    def _bind_among(self, arrays: Sequence[Array], primitive: Primitive) -> Array:
        return top_frame(arrays).bind(primitive, (self,))[0]

    @override
    def _operands(self, *others: ArrayLike) -> tuple[Array, ...]:
        return (self, *map(as_array, others))

    @override
    def _binary(self, function: Callable[[Array, Array], T], other: object) -> T:
        # Asking an abstract class takes its time: of a number, nobody does.
        if type(other) is ConcreteArray or (type(other) not in _PLAIN and isinstance(other, Operand)):
            return function(self, other)
        y = operand(other)
        return NotImplemented if y is None else function(self, y)

    @override
    def _reflected(self, function: Callable[[Array, Array], T], other: object) -> T:
        y = operand(other)
        return NotImplemented if y is None else function(y, self)


@final
class ConcreteArray(StoredArray, Displayed, Operand):
    """An array with its elements, on the host or on a device."""

    __slots__ = ("__weakref__",)
    frame: None = None

    @property
    @override
    def evaluated(self) -> bool:
        return innermost().base is ROOT or base_in_force(active_frame()) is ROOT

    @property
    @override
    def runs_prepared(self) -> bool:
        return innermost() is ROOT or (self.evaluated and active_frame().defaults is None)

    @override
    def _at_once(self, primitive: Primitive, operands: Sequence[Array]) -> Array | None:
        if innermost().base is not ROOT:
            return None
        return apply(primitive, operands, ConcreteArray)

    @override
    def _bind_first(self, primitive: Primitive, *args: Array) -> tuple[Array, ...]:
        done = apply_equal(primitive, args, ConcreteArray) if innermost().base is ROOT else None
        return top_frame(args, primitive.effects).bind(primitive, args) if done is None else done

    @override
    def _bind(self, primitive: Primitive, *args: Array) -> tuple[Array, ...]:
        done = self._at_once(primitive, args)
        return self._bind_first(primitive, *args) if done is None else (done,)

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
        if (elements := self.host) is None:
            return None
        number = elements.item() if self.aval.weak_type else None
        if isinstance(number, int | float) and may_be_key(number):
            return _converted_number(number, self.aval.dtype, dtype, weak_type)
        return ConcreteArray(convert_scalar(self.value, dtype, weak_type))

    @override
    def block_until_ready(self) -> ConcreteArray:
        self._wait()
        return self

    @override
    def __reduce__(self) -> tuple[object, ...]:
        return ConcreteArray, (self.value,)


def as_operand(x: object) -> Array:
    """`as_array` for an operation whose result is a new array: what is computed with at once isn't copied."""
    if type(x) is np.ndarray and innermost() is ROOT and (aval := host_type(x.shape, x.dtype)) is not None:
        return of_host(ConcreteArray, x, aval)
    return x if type(x) is ConcreteArray else as_array(x)


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
    A class made of one, such as a named tuple, may have operators of its own; and a tracer of JAX's makes an array of
    JAX's of this one, as `x * y` in a function that JAX traces with `y`.
    """
    if type(x) in PYTHON_DTYPES:
        return _converted(x)
    if isinstance(x, Array):
        return x
    if isinstance(x, _OPERANDS) or type(x) in _CONTAINERS or backend.converts_itself(x):
        return as_operand(x)
    found = backend.from_jax(x)
    return None if found is None else ConcreteArray(found)


@final
class RootFrame(OpenFrame[ConcreteValue]):
    """Evaluation: outside all transformations."""

    __slots__ = ("context",)

    def __init__(self, context: PreparedEvaluation) -> None:
        self.context: PreparedEvaluation = context
        self.alive: bool = True
        self.parent: Frame = self
        self.level = 0
        self.base: Frame = self
        self.axes: tuple[tuple[NamedAxis, Frame], ...] = ()
        self.watcher: Watcher | None = None
        self.intake: Intake | None = None
        self.cells: Cells[Array] | None = None
        self.mesh: Mesh | None = None
        self.defaults: Defaults | None = None

    @override
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        context = self.context
        values = []
        for arg in args:
            values.append(arg.value if type(arg) is ConcreteArray else arg.into(context))  # noqa: PERF401 (a call less)
        return tuple(map(ConcreteArray, context.bind_first(primitive, *values)))

    @override
    def wrap(self, value: ConcreteValue) -> Array:
        return ConcreteArray(value)


ROOT: Final = RootFrame(PreparedEvaluation(backend.execute))
active: Final[ContextVar[Frame]] = ContextVar("tinyjax_active_frame", default=ROOT)
#: The innermost frame in this thread or task, which may have ended. A method written in C, for the shortest way to
#: compiled functions; if this is ROOT, or its base is, then so is what `active_frame` finds.
innermost: Final[Callable[[], Frame]] = active.get


def active_frame() -> Frame:
    """The innermost frame in this thread or task that is in force."""
    frame = innermost()
    if not frame.alive:  # a copied context has outlived it
        active.set(frame := in_force(frame))
    return frame


def enterable(frame: Entered) -> None:
    """Has a new frame be the innermost one when it is entered. No cell is written to in it so far."""
    frame._variable, frame._token, frame.cells = active, None, None


def is_outside(frame: Frame) -> bool:
    """Whether operations in a frame are evaluated, and nothing is being transformed or watched."""
    return frame is ROOT or (frame.base is ROOT and not frame.level)


def top_frame(args: Iterable[Array], effects: Effects = NO_EFFECTS) -> Frame:
    """The frame that an operation on these arrays belongs to: one that needs a named axis, at least to that axis's."""
    top = innermost().base
    if not top.alive:
        top = base_in_force(active_frame())
    level = top.level
    for arg in args:
        frame = arg.frame
        if frame is not None and frame.level > level:
            top, level = frame, frame.level
    if effects:
        for name in axis_names(effects):
            owner = find_axis(name)[1]
            if owner.level > level:
                top, level = owner, owner.level
    return top


def find_axis(name: str) -> tuple[NamedAxis, Frame]:
    """The innermost named axis of this name; an AxisNameError if there is none."""
    return named_axis(active_frame().axes, name)


def _at_once(x: object) -> ConcreteArray | None:
    """The operand of what is computed at once; None if something else may be going on."""
    found = as_operand(x) if innermost() is ROOT else None
    return found if type(found) is ConcreteArray else None


hand_in(Array, ArrayLike, as_array, as_operand, _at_once)
