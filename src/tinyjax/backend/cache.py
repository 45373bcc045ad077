"""A bounded cache in which threads that need the same entry wait for one of them to make it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar, final

from tinyjax.caching import CacheInfo

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@final
class _Entry(Generic[T]):
    """A place for a value, the lock of the thread that makes it, and whether it has been used lately.

    That thread may come back while it makes the value: a signal's handler may call the very function that is being
    compiled. It then makes its own."""

    __slots__ = ("lock", "used", "value")

    def __init__(self) -> None:
        self.lock = RLock()
        self.used = False
        self.value: T | None = None


@final
class OnceCache(Generic[K, T]):
    """A mapping that makes each of its entries once, and drops entries that haven't been used for long.

    Finding an entry takes no lock. Values are never None.

    >>> cache: OnceCache[str, int] = OnceCache(2)
    >>> [cache.get_or_make(key, lambda: 1) for key in "aba"], cache.info()
    ([1, 1, 1], CacheInfo(made=2, size=2, limit=2))
    """

    __slots__ = ("_entries", "_lock", "_made", "limit", "name")

    def __init__(self, limit: int, name: str = "") -> None:
        self.limit: int = limit
        self.name: str = name
        self._entries: dict[K, _Entry[T]] = {}
        self._lock = RLock()
        self._made = 0

    def get(self, key: K) -> T | None:
        """The entry for a key; None if there is none, or not yet."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = True
        return entry.value

    def get_or_make(self, key: K, make: Callable[[], T]) -> T:
        """The entry for a key; made, if there is none. If that fails, nothing is kept, and the next one tries again."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._evict()
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
            return value

    def _evict(self) -> None:
        """Drops the oldest entries; one that was used has a second chance, as if it were new."""
        while len(self._entries) > self.limit:
            key = next(iter(self._entries))
            entry = self._entries.pop(key, None)
            if entry is not None and entry.used:
                entry.used = False
                self._entries[key] = entry

    def info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._made, len(self._entries), self.limit)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def unlock(self) -> None:
        """In a forked child, where there is nobody who would finish what other threads had begun."""
        self._lock = RLock()
        self._entries = {key: entry for key, entry in self._entries.items() if entry.value is not None}
