"""Keeping compiled programs on disk."""

from __future__ import annotations

import os

from tinyjax import backend
from tinyjax.tracebacks import filtered


@filtered
def enable_compilation_cache(
    directory: str | os.PathLike[str], max_bytes: int = backend.MAX_BYTES
) -> backend.CompilationCache:
    """Keeps compiled programs in a directory, and takes them from there instead of compiling them again.

    For all that this process compiles from now on. Other processes may use the same directory at the same time. The
    environment variable TINYJAX_COMPILATION_CACHE_DIR does the same from the start. An OSError if the directory can't
    be made.

    What is in the directory is machine code, which is run. If others can write to it, or it is theirs, that is a
    CompilationCacheWarning, and it is not used.
    Functions that call back into Python are compiled by each process.

    Args:
      directory: is made if it isn't there.
      max_bytes: when the files take up more, those that were used least recently are deleted.

    Returns:
      The cache: its `info()` counts hits, misses and failures of this process; `clear()` empties the directory.
    """
    cache = backend.CompilationCache(directory, max_bytes)
    cache.prepare()
    cache.trusted()
    backend.execute.persistent = cache
    return cache


@filtered
def disable_compilation_cache() -> None:
    """Compiles in this process alone from now on. What is in the directory stays."""
    backend.execute.persistent = None
