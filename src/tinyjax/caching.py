"""Bounded caches, keyed by value, that threads can share."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextvars import copy_context
from functools import partial, wraps
from threading import Lock
from types import FrameType
from typing import Final, Generic, ParamSpec, Protocol, TypeVar, cast, final, runtime_checkable

K = TypeVar("K", bound=Hashable)
P = ParamSpec("P")
T = TypeVar("T")

#: How many results each transformation of programs keeps.
_REMEMBERED: Final = 1024


def remembered(f: Callable[P, T]) -> Callable[P, T]:
    """f with a bounded cache, by the values of its arguments; for functions that recurse over nested programs.

    Equal programs from different lines of user code are kept apart, so that results point to the right lines.
    """

    cache: BoundedCache[Hashable, T] = BoundedCache(_REMEMBERED)

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        lines = tuple([arg.lines for arg in args if isinstance(arg, HasLines)])
        key = (lines, args, tuple(kwargs.items()))
        return cache.get_or_make(key, lambda: with_room(partial(f, *args, **kwargs)))

    return call


def with_room(f: Callable[[], T]) -> T:
    """f(), on the empty stack of a new thread if this one's is half full: so recursion is as deep as it has to be."""
    depth, frame = 0, cast("FrameType | None", sys._getframe())
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    if 2 * depth < sys.getrecursionlimit():
        return f()
    from concurrent.futures import ThreadPoolExecutor  # rarely needed, and not quick to import

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, f).result()


@runtime_checkable
class HasLines(Protocol):
    """A program, whose `lines` tells equal ones from different lines of user code apart."""

    @property
    def lines(self) -> int: ...


@final
class BoundedCache(Generic[K, T]):
    """A mapping that keeps the entries used last.

    >>> cache: BoundedCache[str, int] = BoundedCache(2)
    >>> for key in "abc":
    ...     cache.put(key, ord(key))
    >>> cache.get("a"), cache.get("c"), len(cache)
    (None, 99, 2)
    """

    __slots__ = ("_entries", "_lock", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._entries: OrderedDict[K, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> T | None:
        """The entry, which counts as used now; None if there is none."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: K, value: T) -> None:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self.limit:
                self._entries.popitem(last=False)

    def get_or_make(self, key: K, make: Callable[[], T]) -> T:
        """The entry, made if there is none. Two threads may both make it; what they make must be interchangeable."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
