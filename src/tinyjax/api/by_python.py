"""Blocks in which nothing is compiled, and blocks in which nothing is staged."""

from __future__ import annotations

from contextlib import AbstractContextManager, ContextDecorator
from typing import final

from typing_extensions import override

from tinyjax.lax.within import AtOnce, Interpreted, Within
from tinyjax.tracebacks import filtered
from tinyjax.tracing.concrete import active_frame


@final
class Block(AbstractContextManager[None], ContextDecorator):
    """What is in force within `with` blocks, and within calls of functions that this decorates."""

    def __init__(self, by_python: bool | None) -> None:
        self._by_python = by_python
        self._entered: list[Within] = []

    @override
    def __enter__(self) -> None:
        inner = active_frame()
        frame = AtOnce(inner) if self._by_python is None else Interpreted(inner, self._by_python)
        self._entered.append(frame.__enter__())

    @override
    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__()


@filtered
def disable_jit(disable: bool = True) -> Block:
    """Has Python run functions that are given to `jit`, in a `with` block: so that `print` and debuggers see values.

    Loops (`while_loop`, `fori_loop`, `scan`, `map`) and conditionals (`cond`, `switch`) are Python's there, too, as
    long as what they decide by is known. It is in force in this thread or task only, and only in the block. With
    `disable=False`, a block within compiles again.

    >>> from tinyjax import jit
    >>> @jit
    ... def f(x):
    ...     print("x is", x)
    ...     return 2.0 * x
    >>> with disable_jit():
    ...     y = f(3.0)
    x is 3.0
    """
    return Block(bool(disable))


@filtered
def ensure_compile_time_eval() -> Block:
    """Has what is known computed at once, in a `with` block within a function that is being traced.

    There, operations on arrays that have elements don't become equations, so that Python can decide by their results.
    Traced values stay traced.

    >>> import tinyjax.numpy as tnp
    >>> from tinyjax import jit
    >>> @jit
    ... def f(x):
    ...     with ensure_compile_time_eval():
    ...         steps = int(tnp.sum(tnp.arange(3)))
    ...     return x**steps
    >>> f(2.0)
    Array(8., dtype=float64, weak_type=True)
    """
    return Block(None)
