"""A bounded cache in which threads that need the same entry wait for one of them to make it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import RLock
from typing import Generic, TypeVar, final
from weakref import WeakValueDictionary

from tinyjax.caching import CacheInfo

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@final
class _Entry(Generic[T]):
    """A place for a value, its size, the lock of the thread that makes it, and whether it has been used lately.

    That thread may come back while it makes the value: a signal's handler may call the very function that is being
    compiled. It then makes its own."""

    __slots__ = ("lock", "size", "used", "value")

    def __init__(self) -> None:
        self.lock = RLock()
        self.size = 0
        self.used = False
        self.value: T | None = None


@final
class OnceCache(Generic[K, T]):
    """A mapping that makes each of its entries once, and drops entries that haven't been used for long: when there are
    more than `limit`, or when the sizes that `size_of` gives for their keys are more than `room` together. The newest
    one is kept, whatever its size, and what is dropped is found as long as something else holds it.

    Finding an entry takes no lock. Values are never None.

    >>> cache: OnceCache[str, int] = OnceCache(2)
    >>> [cache.get_or_make(key, lambda: 1) for key in "aba"], cache.info()
    ([1, 1, 1], CacheInfo(made=2, size=2, limit=2))
    >>> small: OnceCache[str, int] = OnceCache(9, room=4, size_of=len)
    >>> [small.get_or_make(key, lambda: 1) for key in ("a", "bb", "ccc")], small.info()
    ([1, 1, 1], CacheInfo(made=3, size=1, limit=9))
    """

    __slots__ = ("_dropped", "_entries", "_held", "_lock", "_made", "_room", "_size_of", "limit", "name")

    def __init__(self, limit: int, name: str = "", *, room: int = 0, size_of: Callable[[K], int] | None = None) -> None:
        self.limit: int = limit
        self.name: str = name
        self._room = room
        self._size_of = size_of
        self._held = 0
        self._entries: dict[K, _Entry[T]] = {}
        self._dropped: WeakValueDictionary[K, T] = WeakValueDictionary()
        self._lock = RLock()
        self._made = 0

    def get(self, key: K) -> T | None:
        """The entry for a key; None if there is none, or not yet."""
        entry = self._entries.get(key)
        if entry is None:
            return self._dropped.get(key)
        entry.used = True
        return entry.value

    def get_or_make(self, key: K, make: Callable[[], T]) -> T:
        """The entry for a key; made, if there is none. If that fails, nothing is kept, and the next one tries again."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._evict(entry)
        with entry.lock:
            if entry.value is not None:
                return entry.value
            try:
                value = entry.value = make()
            except BaseException:
                with self._lock:
                    if self._entries.get(key) is entry:
                        del self._entries[key]
                raise
            with self._lock:
                self._made += 1
                if self._size_of is not None and self._entries.get(key) is entry:
                    entry.size = self._size_of(key)
                    self._held += entry.size
                    self._evict(entry)
            return value

    def _evict(self, newest: _Entry[T]) -> None:
        """Drops the oldest entries; one that was used has a second chance, as if it were new. What is still being made
        takes no room yet."""
        for _ in range(2 * len(self._entries)):
            many = len(self._entries) > self.limit
            if len(self._entries) < 2 or not (many or self._held > self._room):
                return
            key = next(iter(self._entries))
            entry = self._entries.pop(key, None)
            if entry is None:
                continue
            if entry.used or entry is newest or (entry.value is None and not many):
                entry.used = False
                self._entries[key] = entry
                continue
            self._held -= entry.size
            if entry.value is not None:
                with suppress(TypeError):  # numbers, say, can't be referred to weakly
                    self._dropped[key] = entry.value

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._made, len(self._entries), self.limit)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._dropped.clear()
            self._held = 0

    def unlock(self) -> None:
        """In a forked child, where there is nobody who would finish what other threads had begun."""
        self._lock = RLock()
        self._entries = {key: entry for key, entry in self._entries.items() if entry.value is not None}
        self._held = sum(entry.size for entry in self._entries.values())
