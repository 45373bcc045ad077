"""Compiled programs that have arrays as constants which the function closes over."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax import backend
from tinyjax.errors import InputError
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue


def checked_size(largest: object) -> int | None:
    """What a caller says of how large arrays are embedded; an InputError if that is no number of bytes."""
    if largest is not None and (isinstance(largest, bool) or not isinstance(largest, int) or largest < 0):
        raise InputError(
            f"jit: embedded_constants_max_bytes is a number of bytes, or None for arrays of any size, got {largest!r}"
        )
    return largest


def launched(
    jaxpr: Jaxpr,
    values: Sequence[ConcreteValue],
    captured: int,
    name: str,
    largest: int | None,
    donated: tuple[bool, ...] = (),
    asked: backend.Asked | None = None,
    options: backend.Options = (),
) -> tuple[backend.AnyExecutable, Sequence[ConcreteValue]]:
    """The compiled program, and its results for values, of which the first are `captured` by the function: its
    constants, up to the size of the `largest`. `options` are XLA's."""
    constants = backend.embedded(values[:captured], largest)
    executable = backend.execute.executable(jaxpr, values, name, donated, None, asked, constants, options)
    return executable, executable(backend.passed(executable.constants, values), name)
