"""The cache of compiled programs."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tinyjax.backend.cache import OnceCache
from tinyjax.caching import CacheInfo


def test_entries_are_made_once() -> None:
    made: list[str] = []
    cache: OnceCache[str, str] = OnceCache(3)

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    assert [cache.get_or_make(key, partial(make, key)) for key in "abcab"] == list("ABCAB")
    assert made == ["a", "b", "c"]
    assert cache.info() == CacheInfo(made=3, size=3, limit=3)
    assert (cache.get("a"), cache.get("z")) == ("A", None)


def test_what_was_used_last_is_kept() -> None:
    cache: OnceCache[int, int] = OnceCache(2)
    for key in (1, 2):
        cache.get_or_make(key, lambda: 0)
    cache.get(1)
    cache.get_or_make(3, lambda: 0)
    assert [cache.get(key) for key in (1, 2, 3)] == [0, None, 0]
    for key in range(4, 100):
        cache.get_or_make(key, lambda: 0)
    assert cache.info() == CacheInfo(made=99, size=2, limit=2)


def test_failure_is_not_kept() -> None:
    cache: OnceCache[str, int] = OnceCache(2)

    def fail() -> int:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.get_or_make("a", fail)
    assert cache.info() == CacheInfo(made=0, size=0, limit=2)
    assert cache.get_or_make("a", lambda: 5) == 5


def test_threads_wait_for_the_one_that_makes_the_entry() -> None:
    cache: OnceCache[str, int] = OnceCache(2)
    started, release = threading.Event(), threading.Event()
    made: list[int] = []

    def make() -> int:
        started.set()
        release.wait(10)
        made.append(1)
        return len(made)

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(cache.get_or_make, "a", make)
        started.wait(10)
        others = [pool.submit(cache.get_or_make, "a", make) for _ in range(6)]
        # Another key isn't held up.
        assert pool.submit(cache.get_or_make, "b", lambda: 7).result(10) == 7
        release.set()
        assert [future.result(10) for future in (first, *others)] == [1] * 7
    assert made == [1]


def test_threads_that_waited_for_a_failure_try_again() -> None:
    cache: OnceCache[str, int] = OnceCache(2)
    started, release = threading.Event(), threading.Event()

    def fail() -> int:
        started.set()
        release.wait(10)
        raise ValueError("no")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cache.get_or_make, "a", fail)
        started.wait(10)
        second = pool.submit(cache.get_or_make, "a", lambda: 3)
        release.set()
        with pytest.raises(ValueError, match="no"):
            first.result(10)
        assert second.result(10) == 3


def test_clearing() -> None:
    cache: OnceCache[str, int] = OnceCache(2)
    cache.get_or_make("a", lambda: 1)
    cache.clear()
    assert cache.get_or_make("a", lambda: 2) == 2


def test_what_takes_too_much_room_is_dropped_the_oldest_first() -> None:
    cache: OnceCache[str, int] = OnceCache(10, room=6, size_of=len)
    for key in ("aa", "bb", "cc"):
        cache.get_or_make(key, lambda: 1)
    assert cache.get("aa") == 1  # a second chance
    cache.get_or_make("dd", lambda: 1)
    assert [cache.get(key) is not None for key in ("aa", "bb", "cc", "dd")] == [True, False, True, True]
    cache.get_or_make("e" * 100, lambda: 1)  # larger than all the room: kept alone
    assert cache.info().size == 1
    cache.get_or_make("f", lambda: 1)
    assert [cache.get(key) for key in ("e" * 100, "f")] == [None, 1]
    cache.clear()
    for key in ("aaa", "bbb"):
        cache.get_or_make(key, lambda: 1)
    assert cache.info().size == 2


class Held:
    """What can be referred to weakly."""


def test_what_is_dropped_is_found_as_long_as_something_holds_it() -> None:
    cache: OnceCache[str, Held] = OnceCache(1)
    mine = cache.get_or_make("a", Held)
    cache.get_or_make("b", Held)
    assert cache.info().size == 1
    assert cache.get("a") is mine
    assert cache.get_or_make("a", Held) is mine
    del mine
    gc.collect()
    assert cache.get("a") is None


def test_what_is_dropped_is_forgotten_by_clearing() -> None:
    cache: OnceCache[str, Held] = OnceCache(1)
    mine = cache.get_or_make("a", Held)
    cache.get_or_make("b", Held)
    cache.clear()
    assert cache.get_or_make("a", Held) is not mine


def test_what_is_being_made_is_not_dropped_for_room() -> None:
    cache: OnceCache[str, int] = OnceCache(10, room=3, size_of=len)

    def slow() -> int:
        assert [cache.get_or_make(key, lambda: 1) for key in ("bbb", "ccc")] == [1, 1]
        return 2

    assert cache.get_or_make("a", slow) == 2
    assert cache.get("a") == 2
    assert cache.get("bbb") is None
