"""Tracebacks that show the user's frames only.

What users call removes the library's own frames from the traceback of an error that goes through it, and so nothing
remains of it in between either: of the error, its causes and its contexts. Everything else about the error stays as it
is. A `try` costs nothing until something is raised, and a bare `raise` adds no frame.

With the environment variable TINYJAX_TRACEBACK_FILTERING=off all frames are shown; it is read when an error is raised.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import signature
from types import FunctionType, TracebackType
from typing import Final, ParamSpec, TypeVar

import numpy as np

from tinyjax.annotated import misfit
from tinyjax.called import say_call
from tinyjax.errors import (
    AllocationError,
    ChoiceError,
    InputError,
    IntegerSizeError,
    TinyjaxError,
    TreeError,
    UnforeseenError,
)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", bound=type)

#: The environment variable that shows all frames, and the values by which it does.
VARIABLE: Final = "TINYJAX_TRACEBACK_FILTERING"
_OFF: Final = frozenset({"off", "0", "false", "no"})
#: How the names of files begin that are the library's.
_OWN: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: Names that are no files: of modules that are part of the interpreter, and of methods that are made.
_MADE: Final = ("<frozen ", "<attrs generated ", "<__array_function__ ")
_STANDARD: Final = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
#: What the library calls to do its work. Their frames are the user's if the user calls them.
_HELPERS: Final = ("attr", "jax", "jaxlib", "ml_dtypes", "msgspec", "numpy", "opt_einsum", "scipy")


def filtered(function: Callable[P, R], says: bool | None = None) -> Callable[P, R]:
    """A function that users call: the errors that leave it show none of the library's frames.

    If it `says` so, its own errors end in how it was called; by default if it is one that a module defines. Of others,
    such as what transformations return, those do that bad arguments cause and nothing has refused.
    """
    own = isinstance(function, FunctionType) and "." not in function.__code__.co_qualname

    @wraps(function)
    def entry(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                if says is not False:
                    _say_call(error, function, args, kwargs, says or own)
                show_users_frames(error)
                raise
        except TinyjaxError as error:
            show_users_frames(error)
            raise

    return entry


def filtered_method(method: Callable[[T], R], says: bool = False) -> Callable[[T], R]:
    """The same for a method without arguments, or a function of one, with less to hand on."""

    @wraps(method)
    def entry(x: T, /) -> R:
        try:
            try:
                return method(x)
            except Exception as error:
                if says:
                    _say_call(error, method, (x,), {})
                show_users_frames(error)
                raise
        except TinyjaxError as error:
            show_users_frames(error)
            raise

    return entry


def filtered_operator(method: Callable[[T, object], R], says: bool = False) -> Callable[[T, object], R]:
    """The same for an operator, or a function of two arguments."""

    @wraps(method)
    def entry(x: T, y: object, /) -> R:
        try:
            try:
                return method(x, y)
            except Exception as error:
                if says:
                    _say_call(error, method, (x, y), {})
                show_users_frames(error)
                raise
        except TinyjaxError as error:
            show_users_frames(error)
            raise

    return entry


def filter_package(package: str, names: Iterable[str], home: str | None = None) -> None:
    """Makes entries of the functions that a package offers, in the package and where they are defined.

    What is defined elsewhere than in the package `home`, itself by default, stays there as it is: others call it often.
    """
    offering = vars(sys.modules[package])
    made: dict[FunctionType, FunctionType] = {}
    for name in names:
        found = offering.get(name)
        if not isinstance(found, FunctionType) or name.startswith("_") or found.__module__ == __name__:
            continue
        if found.__code__ in _ENTRIES or not _is_own(found.__code__.co_filename):
            continue
        within = f"{found.__module__}.".startswith(f"{package if home is None else home}.")
        module = sys.modules[found.__module__]
        known = getattr(module, found.__name__, None)
        if within and getattr(known, "__wrapped__", None) is found:  # offered under two names
            offering[name] = known
            continue
        if found in made:
            offering[name] = made[found]
            continue
        named: object = offering.get(found.__name__)
        own = found.__name__ if named is found else name
        entry = offering[name] = made[found] = entry_of_function(found)
        if within:
            setattr(module, found.__name__, entry)
        else:
            entry.__module__, entry.__name__, entry.__qualname__ = package, own, own


def filter_class(cls: C) -> C:
    """Makes entries of what users call of a class: its methods, which say how they were called, and operators.
    Properties are left alone."""
    for name, found in list(vars(cls).items()):
        hidden = name.startswith("_") and not name.endswith("__")
        abstract = getattr(found, "__isabstractmethod__", False)
        filters = isinstance(found, FunctionType) and show_users_frames.__name__ in found.__code__.co_names
        if isinstance(found, FunctionType) and not (hidden or abstract or filters or name in _MAKERS):
            setattr(cls, name, _entry_of(found))
        elif isinstance(found, staticmethod | classmethod) and not hidden and isinstance(found.__func__, FunctionType):
            setattr(cls, name, type(found)(entry_of_function(found.__func__)))
    return cls


def entry_of_function(function: FunctionType) -> FunctionType:
    """The entry, which says how it was called; one or two arguments by position are the least to hand on."""
    code = function.__code__
    plain = not (code.co_flags & _VARIADIC or code.co_kwonlyargcount or function.__defaults__)
    makers: dict[int, Callable[..., object]] = {1: filtered_method, 2: filtered_operator}
    make = makers.get(code.co_argcount, filtered) if plain and code.co_posonlyargcount == code.co_argcount else filtered
    entry = make(function, says=True)
    assert isinstance(entry, FunctionType)
    return entry


def _entry_of(method: FunctionType) -> object:
    code = method.__code__
    if method.__name__.startswith("__") and not (code.co_flags & _VARIADIC or code.co_kwonlyargcount):
        if code.co_argcount == 1:
            return filtered_method(method)
        if code.co_argcount == 2 and not method.__defaults__:
            return filtered_operator(method)
    return filtered(method, says=not method.__name__.startswith("__"))


#: What bad arguments raise where nothing else has refused them, and where such exceptions are defined.
_BY_ARGUMENTS: Final = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    OverflowError,
    ZeroDivisionError,
    MemoryError,
)
#: How Python says that a function was called in a way that it doesn't take.
_CALLED: Final = re.compile(r"(\S+\(\)|function) (?:takes|missing|got|expected)\b")
#: How NumPy says that an array has more elements than it can count.
_TOO_LARGE: Final = re.compile(r"[Mm]aximum (allowed|supported) (dimension|size)|array is too big")
_OF_PYTHON: Final = frozenset({"builtins", "numpy"})
#: What makes an object isn't called by itself.
_MAKERS: Final = frozenset({"__init__", "__new__", "__getattr__", "__init_subclass__"})
#: Flags of the code of functions with *args or **kwargs.
_VARIADIC: Final = 0x04 | 0x08


def _no_entry() -> None: ...


def _no_method(_: object) -> None: ...


def _no_operator(_: object, __: object) -> None: ...


#: The code that all entries share.
_ENTRIES: Final = frozenset(
    entry.__code__
    for entry in (filtered(_no_entry), filtered_method(_no_method), filtered_operator(_no_operator))
    if isinstance(entry, FunctionType)
)


def show_users_frames(error: BaseException) -> None:
    """Removes the library's frames from the traceback of an error, of its causes, contexts and parts."""
    try:
        if os.environ.get(VARIABLE, "").lower() in _OFF:
            return
        seen: set[int] = set()
        pending: list[BaseException | None] = [error]
        while pending:
            found = pending.pop()
            if found is None or id(found) in seen:
                continue
            seen.add(id(found))
            shown = _users(found.__traceback__)
            if shown is not found.__traceback__:
                found.__traceback__ = shown
            pending += found.__cause__, found.__context__
            if isinstance(found, BaseExceptionGroup):
                pending += found.exceptions
    except RecursionError:  # the stack is full: an entry further out has more room
        return


def _say_call(
    error: Exception,
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    ours: bool = True,
) -> None:
    """Says in an error how the function was called that raised it, out of the user's sight. One of Python's or NumPy's
    becomes the cause of one of ours, where the user's line is what called."""
    if _users(error.__traceback__) is not None or not isinstance(function, FunctionType):
        return
    if isinstance(error, TinyjaxError):
        if ours:
            _say(error, function, args, kwargs)
        return
    if not ours and _CALLED.match(str(error)):  # what the user calls is the user's function
        return
    if getattr(error, "__notes__", None):  # a user's own, of which we have said where it is from
        return
    own = _is_own(sys._getframe(2).f_code.co_filename)
    home = type(error).__module__.partition(".")[0]
    if own or home not in _OF_PYTHON or not isinstance(error, _BY_ARGUMENTS) or not _takes(function, args, kwargs):
        return
    better = _better(error, function, signature(function).bind(*args, **kwargs).arguments)
    _say(better, function, args, kwargs)
    raise better from error


def _say(error: TinyjaxError, function: FunctionType, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    with suppress(Exception):  # what the user's objects say of themselves may raise anything
        say_call(error, function, args, kwargs)


def _better(error: Exception, function: FunctionType, arguments: Mapping[str, object]) -> TinyjaxError:
    """What to say in place of an error of Python's or NumPy's."""
    name = function.__name__
    if isinstance(error, MemoryError) or _TOO_LARGE.search(str(error)):
        return AllocationError(f"{name} failed on these arguments for want of memory: {error}. Check their sizes.")
    if (wrong := tree_error(error)) is not None:
        return wrong
    if isinstance(error, OverflowError):
        return IntegerSizeError(f"{name}: an integer among its arguments is too large: {error}")
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], np.dtype):
        return ChoiceError(f"{name} takes no arrays of dtype {error.args[0].name}: convert them before")
    if isinstance(error, TypeError) and (called := _CALLED.match(str(error))):
        for parameter, value in arguments.items():
            functions = value if isinstance(value, list | tuple) else (value,)
            if any(callable(f) and called[1] == f"{getattr(f, '__qualname__', None)}()" for f in functions):
                return InputError(f"{name}: {parameter} doesn't take the arguments that it is called with: {error}")
        return InputError(f"{name} calls a function that doesn't take the arguments that it is called with: {error}")
    with suppress(Exception):  # as in `_say`
        if (said := misfit(function, arguments)) is not None:
            return InputError(f"{name}: {said}")
    return UnforeseenError(
        f"{name} failed on these arguments, by {type(error).__name__}: {error}. Check their types and shapes; if they "
        "are as its docstring says, please report this with the traceback that the environment variable "
        f"{VARIABLE}=off shows."
    )


def tree_error(error: Exception) -> TreeError | None:
    """The error for a dictionary in a tree, if it is its keys that jaxlib can't sort, or what `is_leaf` says."""
    if isinstance(error, ValueError) and "is_leaf predicate returned" in str(error):
        return TreeError(f"is_leaf says whether a node is a leaf, True or False: {error}")
    if not (isinstance(error, ValueError) and "sorting pytree dictionary keys" in str(error)):
        return None
    return TreeError(
        f"a dictionary in a tree has keys that can't be sorted: {error.__cause__ or error}. Use keys of one type, such "
        "as strings."
    )


def _takes(function: FunctionType, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether a function has parameters for these arguments. What Python says of others is clear."""
    try:
        _ = signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def _users(traceback: TracebackType | None) -> TracebackType | None:
    """The frames of a traceback that are the user's. What is behind the last frame that goes is shared."""
    found = list(_nodes(traceback))
    kept: list[TracebackType] = []
    rest = 0
    inside = True  # an error reaches us out of the library
    for i, node in enumerate(found):
        file = node.tb_frame.f_code.co_filename
        inside = _is_own(file) or (inside and is_helper(file))
        if inside:
            rest = i + 1
        else:
            kept.append(node)
    if not rest:
        return traceback
    shown = found[rest] if rest < len(found) else None
    for node in reversed(kept[: len(kept) - (len(found) - rest)]):
        shown = TracebackType(shown, node.tb_frame, node.tb_lasti, node.tb_lineno)
    return shown


def _nodes(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def users_level() -> int:
    """The `stacklevel` of a warning for the user's line, for whoever asks."""
    level, frame = 1, sys._getframe(1)
    while _is_own(frame.f_code.co_filename) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def _is_own(file: str) -> bool:
    return file.startswith(_OWN)


def is_helper(file: str) -> bool:
    """Whether a file is part of Python, or of what the library is built on."""
    if file.startswith(_MADE) or file.partition(os.sep)[0] in _HELPERS:  # that of what Cython compiles is relative
        return True
    if file.startswith(_STANDARD) and f"{os.sep}site-packages{os.sep}" not in file:
        return True
    for name in _HELPERS:
        home = getattr(sys.modules.get(name), "__file__", None)
        if home is not None and file.startswith(os.path.dirname(home) + os.sep):
            return True
    return False
