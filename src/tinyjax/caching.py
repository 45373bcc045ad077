"""Bounded caches that threads can share, and what `tinyjax.cache_info` says of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from functools import lru_cache, partial, wraps
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, Protocol, TypeVar, cast, final, runtime_checkable
from weakref import WeakSet

from attrs import frozen

from tinyjax.collecting import FewCollections
from tinyjax.stack import with_room

if TYPE_CHECKING:
    from functools import _CacheInfo

K = TypeVar("K", bound=Hashable)
P = ParamSpec("P")
T = TypeVar("T")

#: How many results each transformation of programs keeps.
_REMEMBERED: Final = 1024


def remembered(f: Callable[P, T]) -> Callable[P, T]:
    """f with a bounded cache, by the values of its arguments; for functions that recurse over nested programs.

    Equal programs from different lines of user code are kept apart, so that results point to the right lines.
    """

    cache: BoundedCache[Hashable, T] = BoundedCache(_REMEMBERED, _name(f))
    register(cache)

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        key = tuple([arg.remembered_by if isinstance(arg, Keyed) else arg for arg in args]), tuple(kwargs.items())
        found = cache.get(key)
        if found is None:
            with FewCollections():
                found = with_room(partial(f, *args, **kwargs))
            cache.put(key, found)
        return found

    return call


def remembered_of(f: Callable[P, T]) -> Callable[P, T]:
    """f with a bounded cache, by the identity of its first argument, and by the values of the others. Calls with
    arguments by name are not remembered.

    For what is asked of the same object again and again, so often that even finding what is equal takes too long.
    """
    cache: PlainCache[Hashable, tuple[object, T]] = PlainCache(_REMEMBERED, _name(f))
    register(cache)

    @wraps(f)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if kwargs:
            return f(*args, **kwargs)
        key = id(args[0]), args[1:]
        found = cache.entries.get(key)
        if found is None:  # what is identified is kept alive
            found = cache.put(key, (args[0], f(*args, **kwargs)))
        return found[1]

    return call


class Keyed:
    """A program, or what holds some. It is remembered by what is quick to compare, whatever its size."""

    __slots__ = ()

    @property
    def remembered_by(self) -> Hashable:
        """What is the same for equal programs from the same lines of user code, and for no others."""
        raise NotImplementedError


@final
class Token:
    """Stands for a value in keys: equal to itself only."""

    __slots__ = ()


def bounded(maxsize: int, *, typed: bool = False) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`functools.lru_cache` for what is made of small values, such as types; listed among the library's caches."""

    def decorate(f: Callable[P, T]) -> Callable[P, T]:
        cached = lru_cache(maxsize, typed)(f)
        register(_LruCache(_name(f), cached.cache_info, cached.cache_clear))
        # functools' types forget the signature.
        return cast("Callable[P, T]", cached)

    return decorate


@final
@frozen
class CacheInfo:
    """How a cache is doing: how many entries it has made, how many it holds, and how many it may hold."""

    made: int
    size: int
    limit: int


class Cache(Protocol):
    """What can be said of every cache, and done with it."""

    @property
    def name(self) -> str: ...
    def info(self) -> CacheInfo: ...
    def clear(self) -> None: ...


@runtime_checkable
class Locking(Protocol):
    """A cache with locks."""

    def unlock(self) -> None:
        """In a forked child, where there is nobody who would unlock what other threads had locked."""


def register(cache: Cache, *, temporary: bool = False) -> None:
    """Lists a cache under its name: for good, or only as long as something else holds it."""
    if temporary:
        _TEMPORARY.add(cache)
    else:
        _PERMANENT.append(cache)


def registered_caches() -> list[Cache]:
    """The library's caches. Several of one name do the same for several functions."""
    return [*_PERMANENT, *list(_TEMPORARY)]


_PERMANENT: Final[list[Cache]] = []
_TEMPORARY: Final[WeakSet[Cache]] = WeakSet()


def _name(f: Callable[..., object]) -> str:
    """The function's name, as `tinyjax.cache_info` shows it: `transforms.jvp`."""
    return f"{f.__module__.removeprefix('tinyjax.')}.{getattr(f, '__qualname__', '?')}"


@final
@frozen(eq=False)
class _LruCache:
    """A function's `lru_cache`."""

    name: str
    _info: Callable[[], _CacheInfo]
    clear: Callable[[], None]

    def info(self) -> CacheInfo:
        found = self._info()
        return CacheInfo(found.misses, found.currsize, found.maxsize or 0)


@final
class _Kept(Generic[T]):
    """A value, and whether it has been used lately."""

    __slots__ = ("used", "value")

    def __init__(self, value: T) -> None:
        self.value: Final = value
        self.used = False


@final
class BoundedCache(Generic[K, T]):
    """A mapping that keeps what was used lately.

    Comparing keys may run Python code of users, which may come back here, or wait for another thread that does. So no
    lock is held meanwhile: each step is one operation on a dictionary. The lock of the count may be taken twice, as the
    handler of a signal may come at any time.

    >>> cache: BoundedCache[str, int] = BoundedCache(2)
    >>> for key in "abc":
    ...     cache.put(key, ord(key))
    >>> cache.get("a"), cache.get("c"), len(cache)
    (None, 99, 2)
    """

    __slots__ = ("__weakref__", "_count", "_entries", "_made", "limit", "name")

    def __init__(self, limit: int, name: str = "") -> None:
        self.limit: int = limit
        self.name: str = name
        self._entries: dict[K, _Kept[T]] = {}
        # One step, which no other thread and no interrupt comes in between; nobody has to wait.
        self._count = itertools.count(1)
        self._made = 0

    def get(self, key: K) -> T | None:
        """The entry, which counts as used now; None if there is none."""
        found = self._entries.get(key)
        if found is None:
            return None
        found.used = True
        return found.value

    def put(self, key: K, value: T) -> None:
        self._entries[key] = _Kept(value)
        self.evict()
        self._made = next(self._count)

    def evict(self) -> None:
        """Drops the oldest entries; one that was used has a second chance, as if it were new."""
        entries = self._entries
        while len(entries) > self.limit:
            try:
                key = next(iter(entries))
            except (StopIteration, RuntimeError):  # another thread was quicker
                continue
            found = entries.pop(key, None)
            if found is not None and found.used:
                found.used = False
                entries.setdefault(key, found)

    def get_or_make(self, key: K, make: Callable[[], T]) -> T:
        """The entry, made if there is none. Two threads may both make it; what they make must be interchangeable."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def info(self) -> CacheInfo:
        return CacheInfo(self._made, len(self._entries), self.limit)

    def clear(self) -> None:
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


class PlainCache(Generic[K, T]):
    """A dictionary that is emptied when it is full: for what is looked up too often for a lock.

    A user looks into `entries`, and puts what it doesn't find. Two threads may put the same.
    """

    __slots__ = ("_made", "entries", "limit", "name")

    def __init__(self, limit: int, name: str) -> None:
        self.limit: int = limit
        self.name: str = name
        self.entries: dict[K, T] = {}
        self._made = 0

    def put(self, key: K, value: T) -> T:
        if len(self.entries) >= self.limit:
            self.entries.clear()
        self.entries[key] = value
        self._made += 1
        return value

    def info(self) -> CacheInfo:
        return CacheInfo(self._made, len(self.entries), self.limit)

    def clear(self) -> None:
        self.entries.clear()


@final
class IdentityCache(PlainCache[tuple[int, ...], tuple[tuple[object, ...], T]]):
    """Results by the identity of the arguments, which an entry keeps alive: for small values that are shared, where
    even a hash takes too long.

    A user looks into `entries` by the ids of the arguments, and keeps what it doesn't find.
    """

    __slots__ = ()

    def keep(self, arguments: tuple[object, ...], value: T) -> T:
        return self.put(tuple(map(id, arguments)), (arguments, value))[1]
