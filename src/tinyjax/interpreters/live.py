"""Interpretation on the fly: a context that interprets what Python code does, while it does it.

Nothing is staged: Python runs the function, so its control flow may depend on whatever the context knows of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar, final

from attrs import frozen

from tinyjax.interpreters.hidden import Hidden, innermost_frame
from tinyjax.ir.context import Context
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.frames import OpenFrame
from tinyjax.tracing.live import ApartFrame, LiveFrame

W = TypeVar("W")


@final
@frozen(eq=False)
class Inside(Generic[W]):
    """A context in use: from its values to the arrays that Python code computes with, and back."""

    context: Context[W]
    _frame: OpenFrame[W]

    def wrap(self, value: W) -> Array:
        """The array that stands for a value of the context. It can't be used when the interpretation has ended."""
        return self._frame.wrap(value)

    def read(self, x: ArrayLike) -> W:
        """The value of the context that an array stands for: for a number, an array with elements, or a value of a
        transformation further out, what the context makes of it."""
        return self._frame.read(as_array(x))


@final
@frozen(eq=False)
class Interpretation(Generic[W]):
    """What `interpreting` gives: the interpreter (`inside`), and what it runs on (`outside`)."""

    inside: Inside[W]
    outside: Inside[Hidden]


@final
@frozen
class _Named:
    """What an interpretation is called in messages."""

    label: str

    def name_input(self, position: int) -> str:
        return f"argument {position}"


@contextmanager
def interpreting(
    make: Callable[[Context[Hidden]], Context[W]], *, constants: bool = False
) -> Iterator[Interpretation[W]]:
    """Has a context of your own interpret what Python code does within a `with` block, while it does it.

    `make` takes the parent, which may be evaluation or any transformation in progress, and returns the context.
    `inside.wrap` makes arrays of the context's values, to call functions with, and `inside.read` reads what these
    return; `outside.read` and `outside.wrap` do the same for values of the parent. Operations on arrays that the
    context knows nothing of are left to the parent, unless `constants` is set: then the context gets all of them but
    those in its own methods, which the parent does.

    Python's control flow works on values whose elements the context tells with its method `concrete`. Transformations
    work around the block and within it. A value that is used when the block has ended is a LeakedTracerError. Source:
    Autodidax, part 1.

    >>> import numpy as np
    >>> from tinyjax import ir
    >>> from tinyjax.interpreters import EvalContext
    >>> class Tally(ir.Context[ir.ConcreteValue]):
    ...     '''Evaluation that counts.'''
    ...
    ...     def __init__(self):
    ...         self.count, self.evaluation = 0, EvalContext()
    ...
    ...     def bind(self, primitive, *args):
    ...         self.count += 1
    ...         return self.evaluation.bind(primitive, *args)
    ...
    ...     def constant(self, value):
    ...         return self.evaluation.constant(value)
    ...
    ...     def aval(self, value):
    ...         return value.aval
    ...
    ...     def concrete(self, value):
    ...         return value
    >>> tally = Tally()
    >>> with interpreting(lambda parent: tally) as run:
    ...     x = run.inside.read(2.0)
    ...     y = run.inside.wrap(x)
    ...     while y < 100.0:
    ...         y = y * y
    ...     print(float(np.asarray(run.inside.read(y))))
    256.0
    >>> tally.count
    7
    """
    outer = innermost_frame()
    context = make(outer.context)
    name = _Named(f"the interpretation by {type(context).__name__}")
    frame = ApartFrame if constants else LiveFrame
    with frame(context, outer, name, constants=constants) as inner, inner:
        yield Interpretation(Inside(context, inner), Inside(outer.context, outer))
