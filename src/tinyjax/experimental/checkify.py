"""Errors as values, which work within `jit`, loops, `vmap` and `grad`: the names of `jax.experimental.checkify`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from string import Formatter
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

import tinyjax.numpy as tnp
from tinyjax.caching import bounded
from tinyjax.errors import CheckError, InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, INT32
from tinyjax.ir.interpret import interpret
from tinyjax.primitives.checks import (
    Check,
    DivisionByZero,
    FailedCheck,
    Failure,
    NanResult,
    OutOfBounds,
    mapped_message,
    shown_by,
)
from tinyjax.primitives.conversion import conversion
from tinyjax.tracebacks import filter_package
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array, top_frame
from tinyjax.tracing.core import bind
from tinyjax.tracing.frames import OpenFrame
from tinyjax.tracing.functions import FlatFunction, check_callable
from tinyjax.tracing.programs import trace
from tinyjax.transforms.checkify import checked
from tinyjax.tree.nodes import register_pytree_node
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")

#: A kind of error: one of those in the sets below.
ErrorCategory: TypeAlias = type[Failure]
#: What a failed check raises.
JaxRuntimeError: TypeAlias = CheckError

#: Conditions of `check`.
user_checks: Final = frozenset[ErrorCategory]({FailedCheck})
#: A nan among the results of arithmetic.
nan_checks: Final = frozenset[ErrorCategory]({NanResult})
#: A position out of range.
index_checks: Final = frozenset[ErrorCategory]({OutOfBounds})
#: A division by zero.
div_checks: Final = frozenset[ErrorCategory]({DivisionByZero})
#: What is wrong with floats.
float_checks: Final = nan_checks | div_checks
#: What is looked for without a `check`.
automatic_checks: Final = float_checks | index_checks
#: Everything.
all_checks: Final = automatic_checks | user_checks


@final
@frozen(eq=False, repr=False)
class Error:
    """What is wrong first, if anything is: a value, which `jit` returns, loops stack and `vmap` maps.

    It is a tree of arrays: the `number` of the first failure, 0 if there is none, and what messages show. `failures`
    are all that may happen.
    """

    number: Any  # an array, or what a tree has in its place
    shown: tuple[Any, ...]
    failures: tuple[Failure, ...]

    def get(self) -> str | None:
        """What is wrong; None if nothing is. Of an error that was mapped: a line for each element of the batch in which
        something is."""
        return self._text(located=False)

    def get_exception(self) -> CheckError | None:
        """What `throw` would raise; None if nothing is wrong."""
        text = self._text(located=True)
        return None if text is None else CheckError(text)

    def throw(self) -> None:
        """Raises a CheckError if something is wrong. Within `checkify`, it becomes a part of its error."""
        check_error(self)

    def _text(self, located: bool) -> str | None:
        if not self.failures:
            return None
        number, shown = np.asarray(self.number), [np.asarray(x) for x in self.shown]
        if number.ndim:
            return mapped_message(self.failures, number, shown, located) or None
        if not number:
            return None
        failure = self.failures[int(number) - 1]
        own = shown_by(failure, self.failures, shown)
        return failure.located(own) if located else failure.message(own)

    @override
    def __repr__(self) -> str:
        known = not isinstance(self.number, Array) or self.number.concrete() is not None
        return f"Error({self.get() if known else self.number})"


#: Nothing is wrong, and nothing can be.
init_error: Final = Error(None, (), ())


@bounded(1)
def _register() -> None:
    """At first need, as trees are jax's. Caches may be cleared, and threads may come here at once."""

    def flatten(error: Error) -> tuple[Sequence[Any], tuple[Failure, ...]]:
        return ((error.number, error.shown) if error.failures else ()), error.failures

    def unflatten(failures: tuple[Failure, ...], children: Sequence[Any]) -> Error:
        number, shown = tuple(children) or (None, ())
        return Error(number, shown, failures)

    with suppress(ValueError):  # it is registered already
        register_pytree_node(Error, flatten, unflatten)


def checkify(f: Callable[P, R], errors: Iterable[ErrorCategory] = user_checks) -> Callable[P, tuple[Error, R]]:
    """The function that returns an error, and the result: what `check` says within `f` isn't raised, but returned.

    Works on functions that are compiled, map, loop and differentiate, and can be transformed itself. The error tells of
    the first failure, in the order of the program; the result is what it would be without checks.

    Args:
      errors: what is looked for, sets that can be joined by `|`. `user_checks`: what `check` is given. `nan_checks`: a
        nan among the results of arithmetic, which then says which primitive gave it and where. `div_checks`: a
        division by zero. `index_checks`: a position out of range. `float_checks`, `automatic_checks`, `all_checks`: as
        they say.

    >>> import tinyjax as tj
    >>> import tinyjax.numpy as tnp
    >>> from tinyjax.experimental import checkify
    >>> def f(x):
    ...     checkify.check(x > 0.0, "{x} must be positive", x=x)
    ...     return tnp.log(x)
    >>> error, y = tj.jit(checkify.checkify(f))(-2.0)
    >>> error.get()
    '-2.0 must be positive (`check` failed)'
    >>> error, y = checkify.checkify(tj.grad(tnp.log), errors=checkify.div_checks)(0.0)
    >>> error.get()
    'division by zero'
    """
    check_callable("checkify", f)
    kinds = frozenset(errors)
    for kind in kinds:
        if not _is_category(kind):
            raise InputError(f"checkify: errors must be a set such as checkify.float_checks, not of {kind!r}")
    _register()

    @wraps(f)
    def checkified(*args: P.args, **kwargs: P.kwargs) -> tuple[Error, R]:
        # Arguments aren't traced: they may be anything, and Python may decide by those that are known.
        function = FlatFunction(partial(f, *args, **kwargs), "checkify", tree.flatten(((), {}))[1])
        traced = trace(function, [])
        part = checked(traced.jaxpr, kinds)

        def run(frame: OpenFrame[V]) -> list[Array]:
            return [*map(frame.wrap, interpret(frame.context, part.jaxpr, list(map(frame.read, traced.captured))))]

        outs = top_frame(traced.captured, part.jaxpr.effects).open(run)
        result: R = traced.results(outs[: len(traced.jaxpr.outvars)])
        found = outs[len(traced.jaxpr.outvars) :]
        if not found:
            return init_error, result
        # Asked for, a check of `debug_check` is one like any other.
        failures = tuple([evolve(failure, debug=False) for failure in part.failures])
        return Error(found[0], tuple(found[1:]), failures), result

    return checkified


def _is_category(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Failure)


def check(pred: object, msg: str, *fmt_args: object, debug: bool = False, **fmt_kwargs: object) -> None:
    """Says that something is wrong unless `pred`, one bool, is true.

    Outside of `jit` and its like it raises a CheckError, a ValueError, at once. Compiled programs can't: there,
    `checkify` makes a result of it.

    Args:
      msg: what is wrong, as a format for `str.format`.
      *fmt_args: trees of arrays for the format, traced ones too.
      **fmt_kwargs: the same, by name.
      debug: as `debug_check`.

    Raises:
      InputError: a TypeError; `pred` isn't one bool, an argument isn't an array, or the format has no place for it.

    >>> import tinyjax.numpy as tnp
    >>> x = tnp.asarray([1.0, -1.0])
    >>> check(tnp.all(x > 0), "{} has elements that aren't positive", x)
    Traceback (most recent call last):
    ...
    tinyjax.errors.CheckError: [ 1. -1.] has elements that aren't positive (`check` failed)
    """
    what = "debug_check" if debug else "check"
    _register()
    condition = _predicate(what, pred)
    leaves, treedef = tree.flatten((fmt_args, fmt_kwargs))
    shown = [_argument(what, leaf) for leaf in leaves]
    _check_format(what, msg, fmt_args, fmt_kwargs)
    types = tuple([ShapedArray(x.aval.shape, x.aval.dtype) for x in shown])
    failed = bind(conversion(INT32, False), tnp.logical_not(condition))
    bind(Check((FailedCheck(msg, treedef, types, debug=debug),)), *failed, *shown)


def debug_check(pred: object, msg: str, *fmt_args: object, **fmt_kwargs: object) -> None:
    """`check` for `checkify` only: nothing is checked where it isn't asked for.

    >>> def f(x):
    ...     debug_check(x != 0.0, "zero")
    ...     return 1.0 / x
    >>> float(f(0.0 * tnp.ones(())))
    inf
    >>> checkify(f)(tnp.zeros(()))[0].get()
    'zero (`check` failed)'
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raises a CheckError if an error says that something is wrong: the inverse of `checkify`, which takes it back.

    Of an error that was mapped, the first is raised.

    >>> def f(x):
    ...     check(x > 0.0, "must be positive")
    ...     return x
    >>> from tinyjax import jit
    >>> def compiled(x):
    ...     error, y = jit(checkify(f))(x)
    ...     check_error(error)
    ...     return y
    >>> checkify(compiled)(-1.0)[0].get()
    'must be positive (`check` failed)'
    """
    if not isinstance(error, Error):
        raise InputError(f"check_error takes an Error, which checkified functions return, not {error!r}")
    if not error.failures:
        return
    number, *shown = [as_array(x) for x in (error.number, *error.shown)]
    if number.ndim:
        if not number.size:
            return
        batch = number.ndim
        row = tnp.argmax(number.reshape(-1) != 0)
        number, *shown = [x.reshape(-1, *x.shape[batch:])[row] for x in (number, *shown)]
    bind(Check(error.failures), number, *shown)


def _predicate(what: str, pred: object) -> Array:
    """The condition of a check; an InputError unless it is one bool."""
    try:
        condition = as_array(pred)
    except InputError:
        raise InputError(f"{what} takes a scalar pred, one bool, got {pred!r}") from None
    if condition.aval.dtype != BOOL or condition.aval.shape:
        hint = f" Write {what}(jnp.all(pred), ...)." if condition.aval.dtype == BOOL else ""
        raise InputError(f"{what} takes a scalar pred, one bool, got {condition.aval}.{hint}")
    return condition


def _argument(what: str, leaf: object) -> Array:
    try:
        array = as_array(leaf)
    except InputError:
        array = None
    if array is None:
        raise InputError(
            f"Formatting arguments of {what} must be trees of arrays, got {leaf!r} of type "
            f"{type(leaf).__name__}. What is known beforehand can be written into the message: f'...'."
        )
    (strong,) = bind(conversion(array.aval.dtype, False), array) if array.aval.weak_type else (array,)
    return strong


class _Places(Formatter):
    """Finds out whether a format has what it refers to, and formats nothing."""

    @override
    def format_field(self, value: object, format_spec: str) -> str:
        return ""


def _check_format(what: str, msg: str, args: Sequence[object], kwargs: dict[str, object]) -> None:
    if not isinstance(msg, str):
        raise InputError(f"{what} needs a message, a string, got {msg!r}")
    try:
        _Places().vformat(msg, args, kwargs)
    except (IndexError, KeyError) as error:
        raise InputError(f"{what}: the message {msg!r} refers to the argument {error}, which isn't there") from None


filter_package(__name__, ["check", "check_error", "checkify", "debug_check"])
