"""What the library remembers, and forgetting it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from typing_extensions import override

from tinyjax.caching import CacheInfo, registered_caches
from tinyjax.ir.printing.shown import Shown
from tinyjax.tracebacks import filtered

if TYPE_CHECKING:
    from tinyjax.ir.printing.display import Block


@final
class Caches(Shown, dict[str, CacheInfo]):
    """Caches by name, shown as a table."""

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.ir.printing.display import table

        rows = [(name, f"{info.made:,}", f"{info.size:,}", f"{info.limit:,}") for name, info in self.items()]
        return table(("cache", "made", "size", "limit"), rows, numbers=1)


@filtered
def cache_info() -> dict[str, CacheInfo]:
    """The library's caches by name: how many entries each has made, holds, and may hold.

    All are bounded, and hold what can be made again: traced functions, transformed programs, compiled programs, types.
    Caches of one name, such as those of the functions that `jit` wraps, are added up.

    >>> cache_info()["compiled programs"].limit
    4096
    """
    found: dict[str, CacheInfo] = {}
    for cache in registered_caches():
        info, sum_ = cache.info(), found.get(cache.name, CacheInfo(0, 0, 0))
        found[cache.name] = CacheInfo(sum_.made + info.made, sum_.size + info.size, sum_.limit + info.limit)
    return Caches(sorted(found.items()))


@filtered
def clear_caches() -> None:
    """Forgets all that can be made again: the next call of a compiled function traces and compiles it anew."""
    for cache in registered_caches():
        cache.clear()
