"""`named_scope` and `named_call`: names for parts of programs, in sources, messages, tables of costs and profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import _GeneratorContextManager, contextmanager
from typing import ParamSpec, TypeVar

from tinyjax.errors import InputError
from tinyjax.ir.source import Position
from tinyjax.tracebacks import filtered
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.frames import OpenFrame, V
from tinyjax.tracing.functions import check_callable, function_name
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")


@filtered
def named_scope(name: str) -> _GeneratorContextManager[None]:
    """Names what is traced in a `with` block, or in a function that this decorates; names nest.

    The source of each equation says so, whatever it is transformed into, and so do tables of costs and messages. In
    StableHLO the name is the location of operations, which profilers show. Programs are equal whatever their parts are
    called.

    Raises:
      InputError: `name` is no string.

    >>> from tinyjax import make_jaxpr, numpy as tnp
    >>> def layer(x):
    ...     with named_scope("activation"):
    ...         return tnp.tanh(x)
    >>> make_jaxpr(named_scope("layer")(layer))(1.0).eqns[0].source.scope
    'layer/activation'
    """
    if not isinstance(name, str):
        raise InputError(f"named_scope takes a name, got {name!r} of type {type(name).__name__}")
    return _named(name)


@contextmanager
def _named(name: str) -> Iterator[None]:
    position = active_frame().open(_position)
    outer = position.scope
    position.scope = f"{outer}/{name}" if outer else name
    try:
        yield
    finally:
        position.scope = outer


@filtered
def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """`fun`, whose equations have its name, or the one that is given: see `named_scope`.

    >>> from tinyjax import make_jaxpr, numpy as tnp
    >>> make_jaxpr(named_call(tnp.tanh, name="activation"))(1.0).eqns[0].source.scope
    'activation'
    """
    check_callable("named_call", fun)
    chosen = function_name(fun) if name is None else name
    named_scope(chosen)  # which says what is no name

    @wraps(fun)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with _named(chosen):
            return fun(*args, **kwargs)

    return called


def _position(frame: OpenFrame[V]) -> Position:
    return frame.context.cursor.position
