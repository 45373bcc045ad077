"""Functions that stand for those of a user, and are called what these are called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeVar

W = TypeVar("W", bound=Callable[..., object])
#: What functions want these attributes to be. Objects that can be called may have others: Equinox's modules have a
#: mark for what is missing, once a tree has been made of them.
_KINDS: Final = {"__name__": str, "__qualname__": str, "__annotations__": dict, "__type_params__": tuple}


def update_wrapper(wrapper: W, wrapped: Callable[..., object]) -> W:
    """`wrapper`, with the name, the docstring and the attributes of `wrapped`, as far as a function can have them."""
    had = [
        name
        for name in functools.WRAPPER_ASSIGNMENTS
        if isinstance(getattr(wrapped, name, None), _KINDS.get(name, object))
    ]
    functools.update_wrapper(wrapper, wrapped, had)
    return wrapper


def wraps(wrapped: Callable[..., object]) -> Callable[[W], W]:
    """The same, as a decorator of the wrapper."""
    return functools.partial(update_wrapper, wrapped=wrapped)
