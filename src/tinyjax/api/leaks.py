"""The check for tracers that outlive their transformation: `checking_leaks`."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ContextDecorator
from types import FrameType, GeneratorType
from typing import Final, final
from weakref import ref

from typing_extensions import override

from tinyjax.api.config import config
from tinyjax.api.setting_blocks import Unchanged
from tinyjax.errors import LeakedTracerError
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.traverse import subjaxprs
from tinyjax.lax.within import Within
from tinyjax.tracebacks import filter_class
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.core import Tracer
from tinyjax.tracing.frames import Frame

#: What is looking.
_OURS: Final = (FrameType, GeneratorType)


def _outlived() -> Iterator[Tracer[object]]:
    """The tracers that there are of transformations that have ended."""
    gc.collect()
    for found in gc.get_objects():
        if type(found) is Tracer and not found.frame.alive:
            yield found


@final
class _Checked(Within):
    """The frame within, in which functions that have been traced must not have left a tracer anywhere."""

    __slots__ = ("_before",)

    def __init__(self, inner: Frame) -> None:
        super().__init__(inner)
        self.base: Frame = self
        self._before = [ref(tracer) for tracer in _outlived()]

    @override
    def bind(self, primitive: Primitive, args: Sequence[Array]) -> tuple[Array, ...]:
        if subjaxprs(primitive):
            self.check()
        return super().bind(primitive, args)

    def check(self) -> None:
        """A LeakedTracerError if there is one that wasn't there before: one for each."""
        before = set(map(id, (reference() for reference in self._before)))
        tracer = next((found for found in _outlived() if id(found) not in before), None)
        if tracer is not None:
            self._before.append(ref(tracer))
            raise LeakedTracerError(
                f"Leaked tracer: a value of type {tracer.aval} outlives {tracer.frame.function.label}"
                f"{_holders(tracer)}. Return it from the function instead."
            )


def _holders(tracer: Tracer[object]) -> str:
    """What holds a tracer, by class."""
    found = {type(holder).__name__ for holder in gc.get_referrers(tracer) if not isinstance(holder, _OURS)}
    return f"; what holds it: {', '.join(sorted(found))}" if found else ""


@final
@filter_class
class Checking(AbstractContextManager[None], ContextDecorator):
    """A block, or a decorator, in which tracers must not escape."""

    def __init__(self) -> None:
        self._entered: Final[list[_Checked]] = []

    @override
    def __enter__(self) -> None:
        self._entered.append(_Checked(active_frame()).__enter__())

    @override
    def __exit__(self, kind: object, *_: object) -> None:
        frame = self._entered.pop()
        frame.__exit__()
        if kind is None:
            frame.check()


@final
@filter_class
class LeakCheck:
    """Finds tracers that escape from a function: through a global, an attribute, a container, or a closure.

    What escapes is an error where it is used, anyway; in the block it is one when the traced function is to run, or
    when the block ends. Each look goes through all objects of the process. A function that `jit` has traced before
    isn't traced again. Source: `jax.checking_leaks`.

    >>> import tinyjax as tj
    >>> kept = []
    >>> def f(x):
    ...     kept.append(x)
    ...     return 2.0 * x
    >>> try:
    ...     with tj.checking_leaks():
    ...         tj.jit(f)(1.0)
    ... except tj.errors.LeakedTracerError as error:
    ...     print(str(error).partition(" of ")[0])
    Leaked tracer: a value
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name: Final = name

    def __call__(self, new_val: object = True) -> Checking | Unchanged:
        """The block; with `False`, nothing is checked."""
        if new_val is True:
            return Checking()
        config.hold(self._name, "jax_check_tracer_leaks", new_val)
        return Unchanged()

    @property
    def value(self) -> object:
        """What holds outside of blocks."""
        return config.read("jax_check_tracer_leaks")

    @override
    def __repr__(self) -> str:
        return f"<{self._name}: {self.value!r}>"


check_tracer_leaks: Final = LeakCheck("check_tracer_leaks")
checking_leaks: Final = LeakCheck("checking_leaks")
