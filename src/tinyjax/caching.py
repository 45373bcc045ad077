"""Bounded caches, keyed by value, that threads can share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar, final

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


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
