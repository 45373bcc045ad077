"""Arrays that users hold, and `bind`, which hands what is done with them to a context.

An `Array` is a `ConcreteArray`, which has its elements, or a `Tracer`, which holds a value of a context. `bind` finds
the innermost context among its arguments, lifts the others into it, and applies the primitive there. The ContextVar at
the end of this file is the library's only ambient state: it holds the innermost active frame, so that a transformation
that is started inside another one knows its parent, and so that a staged function records operations on constants too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Generic, Protocol, TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from tinyjax import backend
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.staging import StagingContext
from tinyjax.errors import AxisNameError, ConcretizationError, LeakedTracerError
from tinyjax.ir.aval import ShapedArray, array_type
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import PYTHON_DTYPES, DType, HostArray, Scalar
from tinyjax.ir.effects import axis_names
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.program import Literal, Var
from tinyjax.ir.source import SourceInfo, user_source
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing.host import concrete_value, host_array, python_item
from tinyjax.tracing.methods import Methods

V = TypeVar("V")
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R", covariant=True)


class Array(Methods, ABC):
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

    @abstractmethod
    def _elements(self, wanted: str) -> ConcreteValue:
        """The elements; a ConcretizationError that names the operation that wanted them if they aren't known."""

    @override
    def _bind(self, primitive: Primitive, *args: Array) -> tuple[Array, ...]:
        return bind(primitive, *args)

    @property
    @override
    def _array(self) -> Array:
        return self

    @override
    def _operands(self, *others: ArrayLike) -> tuple[Array, ...]:
        return (self, *map(as_array, others))

    @override
    def _binary(self, function: Callable[[Array, Array], T], other: object) -> T:
        y = other if isinstance(other, Array) else operand(other)
        return NotImplemented if y is None else function(self, y)

    @override
    def _reflected(self, function: Callable[[Array, Array], T], other: object) -> T:
        y = operand(other)
        return NotImplemented if y is None else function(y, self)

    @override
    def _convert_scalar(self, dtype: DType, weak_type: bool) -> Array | None:
        return None

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        return host_array(self._elements("be converted to a NumPy array"), dtype, copy)

    def __bool__(self) -> bool:
        return bool(host_array(self._elements("decide a branch (bool)")))

    def __int__(self) -> int:
        return int(host_array(self._elements("be converted to int")).item())

    def __float__(self) -> float:
        return float(host_array(self._elements("be converted to float")).item())

    def __complex__(self) -> complex:
        return complex(host_array(self._elements("be converted to complex")).item())

    def __index__(self) -> int:
        elements = host_array(self._elements("be used as an index or size"))
        if elements.dtype.kind not in "iu" or elements.ndim:
            raise TypeError(f"only integer scalars can be used as an index, got {self.aval}")
        return int(elements.item())

    def item(self) -> Scalar:
        """The one element, as a Python scalar."""
        return python_item(host_array(self._elements("be converted to a Python scalar")))

    def tolist(self) -> object:
        """The elements as nested lists of Python scalars."""
        return host_array(self._elements("be converted to a list")).tolist()

    def block_until_ready(self) -> Array:
        """Waits until the elements are there. Returns the array itself."""
        return self


@final
class ConcreteArray(Array):
    """An array with its elements, on the host or on a device."""

    __slots__ = ("value",)

    def __init__(self, value: ConcreteValue) -> None:
        self.value: Final = value

    @property
    @override
    def aval(self) -> ShapedArray:
        return self.value.aval

    @override
    def into(self, context: Context[C]) -> C:
        return context.constant(self.value)

    @override
    def concrete(self) -> ConcreteValue:
        return self.value

    @override
    def _elements(self, wanted: str) -> ConcreteValue:
        return self.value

    @override
    def _convert_scalar(self, dtype: DType, weak_type: bool) -> Array | None:
        data = self.value.data
        if not isinstance(data, np.ndarray):
            return None
        with np.errstate(all="ignore"):
            return ConcreteArray(ConcreteValue(data.astype(dtype), array_type((), dtype, weak_type)))

    @override
    def block_until_ready(self) -> ConcreteArray:
        backend.block_until_ready(self.value)
        return self

    def unshared(self) -> ConcreteArray:
        """This array, or a copy if its elements may be written to from outside."""
        value = self.value.frozen_copy()
        return self if value is self.value else ConcreteArray(value)

    def delete(self) -> None:
        """Frees the memory on the device at once; the array can't be used afterwards."""
        backend.delete(self.value)

    def is_deleted(self) -> bool:
        return backend.is_deleted(self.value)

    @property
    def platform(self) -> str:
        """Where the elements are: "host" for NumPy arrays, else the platform of the device, such as "cpu" or "cuda"."""
        return backend.platform(self.value)

    def __jax_array__(self) -> object:
        """The same array as a jax.Array."""
        return backend.to_jax(self.value)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        return backend.to_dlpack(self.value, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return backend.dlpack_device(self.value)

    @override
    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.aval.shape == () else format(str(self), spec)

    @override
    def __str__(self) -> str:
        return str(host_array(self.value))

    @override
    def __repr__(self) -> str:
        text = np.array2string(host_array(self.value), separator=", ", prefix="Array(")
        weak = ", weak_type=True" if self.aval.weak_type else ""
        return f"Array({text}, dtype={self.aval.dtype.name}{weak})"

    @override
    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (np.asarray(self.value.data), self.aval)


def _rebuild(elements: HostArray, aval: ShapedArray) -> ConcreteArray:
    return ConcreteArray(ConcreteValue(elements, aval))


@final
class Tracer(Array, Generic[V]):
    """What stands for an array while a function is transformed: a value of a context."""

    __slots__ = ("frame", "value")

    def __init__(self, frame: TraceFrame[V], value: V) -> None:
        self.frame: Final = frame
        self.value: Final = value

    @property
    @override
    def aval(self) -> ShapedArray:
        return self.frame.context.aval(self.value)

    @override
    def into(self, context: Context[C]) -> C:
        if not self.frame.alive:
            raise self._leaked()
        return _value_in(self, context)

    @override
    def concrete(self) -> ConcreteValue | None:
        return self.frame.context.concrete(self.value)

    @override
    def _elements(self, wanted: str) -> ConcreteValue:
        if not self.frame.alive:
            raise self._leaked()
        found = self.concrete()
        if found is None:
            raise ConcretizationError(f"{self.describe()} can't {wanted}: it has no elements yet. {self.frame.advice}")
        return found

    def describe(self) -> str:
        """The value's type and where it came from, for messages."""
        what, source = self.frame.origin(self.value)
        made = f", {what}" if what else ""
        at = f" at {source}" if source is not None else ""
        return f"A value of type {self.aval}{made}{at}, traced by {self.frame.function.label},"

    def _leaked(self) -> LeakedTracerError:
        return LeakedTracerError(
            f"A value of type {self.frame.context.aval(self.value)} was used after {self.frame.function.label} had ended: it "
            "escaped, through a global, an attribute or a container. Return it from the function instead."
        )

    @override
    def __repr__(self) -> str:
        return f"Tracer({self.aval}, {type(self.frame.context).__name__.removesuffix('Context').lower()})"

    @override
    def __hash__(self) -> int:
        raise TypeError(f"a traced value ({self.aval}) can't be hashed, so it can't be a static argument or a key")

    @override
    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"a traced value ({self.aval}) can't be pickled or copied: it has no elements yet")


def _value_in(x: Array, context: Context[C]) -> C:
    """A traced value in a context. If it is that context's own, its type is the context's: this is where the identity
    of contexts proves what the type checker can't see."""
    if isinstance(x, Tracer) and x.frame.context is context:
        value: C = x.value
        return value
    return context.lift(x)


ArrayLike: TypeAlias = Array | HostArray | np.generic | Scalar
_OPERANDS: Final = (int, float, complex, np.ndarray, np.generic, list, tuple, dict, set)


class Transformed(Protocol):
    """The function that a frame belongs to, for messages."""

    @property
    def label(self) -> str:
        """Its name, where it is defined, and the transformation."""

    def name_input(self, position: int) -> str:
        """What it calls the n-th leaf of its arguments."""


class Frame(ABC):
    """A context in use, and its place among those that enclose it. `level` counts them."""

    __slots__ = ("axes", "base", "level")

    level: int
    #: The nearest enclosing frame that interprets operations on constants too: evaluation or staging.
    base: Frame
    #: The named axes in scope, innermost last, each with the frame that maps it.
    axes: tuple[tuple[BatchAxis, Frame], ...]

    @abstractmethod
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        """Applies a primitive to arrays of this frame and of frames further out."""

    @abstractmethod
    def open(self, run: Opened[R]) -> R:
        """Calls `run` with this frame, whose type of values is known inside."""


class OpenFrame(Frame, Generic[V]):
    """A frame together with the type of its context's values."""

    __slots__ = ()

    context: Context[V]

    @abstractmethod
    def wrap(self, value: V) -> Array:
        """A value of the context as an array."""

    def read(self, x: Array) -> V:
        """An array of this frame, or of one further out, as a value of the context."""
        return x.into(self.context)

    @override
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        context = self.context
        outs = context.bind(primitive, *[arg.into(context) for arg in args])
        return tuple(map(self.wrap, outs))

    @override
    def open(self, run: Opened[R]) -> R:
        return run(self)


class Opened(Protocol[R]):
    """A function that works for frames of every type of values."""

    def __call__(self, frame: OpenFrame[V], /) -> R: ...


@final
class RootFrame(OpenFrame[ConcreteValue]):
    """Evaluation: outside all transformations."""

    __slots__ = ("context",)

    def __init__(self, context: EvalContext) -> None:
        self.context = context
        self.level = 0
        self.base = self
        self.axes = ()

    @override
    def wrap(self, value: ConcreteValue) -> Array:
        return ConcreteArray(value)


@final
class TraceFrame(OpenFrame[V]):
    """A transformation in progress."""

    __slots__ = ("alive", "context", "function")

    def __init__(
        self, context: Context[V], parent: Frame, function: Transformed, axis: BatchAxis | None = None
    ) -> None:
        self.context = context
        self.level = parent.level + 1
        self.base = self if isinstance(context, StagingContext) else parent.base
        self.function = function
        self.axes = parent.axes if axis is None or axis.name is None else (*parent.axes, (axis, self))
        self.alive = True

    @override
    def wrap(self, value: V) -> Array:
        return Tracer(self, value)

    def origin(self, value: V) -> tuple[str, SourceInfo | None]:
        """What a value is and where it was made, as far as that is known."""
        if isinstance(self.context, StagingContext) and isinstance(value, Var | Literal):
            position = self.context.input_position(value)
            if position is not None:
                return self.function.name_input(position), None
            return self.context.origin(value)
        return "", user_source()

    @property
    def advice(self) -> str:
        """What to use instead of a Python branch or loop."""
        if isinstance(self.context, StagingContext):
            return (
                "Use numpy.where or lax.select, compute it from shapes or from arguments marked static "
                "(static_argnums), or leave this part of the function outside."
            )
        return (
            "It differs from element to element of the batch. Use numpy.where or lax.select, or leave this part of the "
            "function outside vmap."
        )


def as_array(x: object) -> Array:
    """An array as it is, or a NumPy array, a scalar, or a jax.Array as one of ours, without a copy.

    An InputError for anything else. Python scalars are weakly typed.
    """
    return x if isinstance(x, Array) else _converted(x)


def _converted(x: object) -> Array:
    converter = None if type(x) in PYTHON_DTYPES else getattr(x, "__jax_array__", None)
    return ConcreteArray(concrete_value(x)) if converter is None else as_array(converter())


def operand(x: object) -> Array | None:
    """The other side of an operator as an array. None if it isn't for arrays to say what the operator means.

    Python's containers are none of an array's business either, but an InputError says more than NotImplemented would.
    """
    if isinstance(x, Array):
        return x
    if isinstance(x, _OPERANDS) or hasattr(type(x), "__jax_array__"):
        return _converted(x)
    found = backend.from_jax(x)
    return None if found is None else ConcreteArray(found)


# The one door.

ROOT: Final = RootFrame(EvalContext(backend.execute))
_active: Final[ContextVar[Frame]] = ContextVar("tinyjax_active_frame", default=ROOT)


def active_frame() -> Frame:
    """The innermost frame in this thread or task."""
    return _active.get()


@contextmanager
def activate(
    context: Context[V], function: Transformed, axis: BatchAxis | None = None
) -> Iterator[TraceFrame[V]]:
    """Makes a context the innermost one. Tracers of its frame can't be used after the block."""
    frame = TraceFrame(context, _active.get(), function, axis)
    token = _active.set(frame)
    try:
        yield frame
    finally:
        frame.alive = False
        _active.reset(token)


def top_frame(args: Iterable[Array]) -> Frame:
    """The frame that an operation on these arrays belongs to."""
    top = _active.get().base
    level = top.level
    for arg in args:
        if isinstance(arg, Tracer):
            frame = arg.frame
            if frame.level > level:
                top, level = frame, frame.level
    return top


def bind(primitive: Primitive, *args: Array) -> tuple[Array, ...]:
    """Applies a primitive to arrays.

    >>> from tinyjax.primitives.elementwise import MUL
    >>> bind(MUL, as_array(2.0), as_array(3.0))
    (Array(6., dtype=float64, weak_type=True),)
    """
    top = top_frame(args)
    effects = primitive.effects
    if effects:
        for name in axis_names(effects):
            frame = find_axis(name)[1]
            if frame.level > top.level:
                top = frame
    return top.bind(primitive, args)


def find_axis(name: str) -> tuple[BatchAxis, Frame]:
    """The innermost named axis of this name; an AxisNameError if there is none."""
    axes = _active.get().axes
    for axis, frame in reversed(axes):
        if axis.name == name:
            return axis, frame
    found = ", ".join(repr(axis.name) for axis, _ in axes) or "none"
    raise AxisNameError(
        f"unbound axis name: {name!r}. Axes in scope: {found}. Bind it with vmap(..., axis_name={name!r})."
    )
