"""Compiled programs on disk, for later processes. Needs no jax at import.

A directory with a file for each, named by its key: a line that says what it is, a checksum, and what XLA serialised.
Files are written beside their places and renamed, so any number of processes may share a directory. Whatever is wrong
with a file, or the directory, is a warning, and the program is compiled.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, final

from attrs import frozen

from tinyjax.atomic import replacing
from tinyjax.errors import CompilationCacheWarning, InputError

#: Where compiled programs are kept from the start of a process, if it is set.
VARIABLE: Final = "TINYJAX_COMPILATION_CACHE_DIR"
#: How many bytes a directory may hold, unless another limit is given.
MAX_BYTES: Final = 4 * 2**30
_MAGIC: Final = b"tinyjax compiled program 1\n"
_SUFFIX: Final = ".xla"
#: How many seconds old a temporary file is that no process is writing any more.
_ABANDONED: Final = 3600


@final
@frozen
class StoreInfo:
    """How a store is doing in this process: how many programs it had, lacked, and couldn't read or write."""

    hits: int
    misses: int
    failures: int


@final
class CompilationCache:
    """The compiled programs in a directory. Threads and processes may share one.

    When the files take up more than `max_bytes`, those that were used least recently are deleted.
    """

    __slots__ = ("_failures", "_hits", "_lock", "_misses", "directory", "max_bytes")

    def __init__(self, directory: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> None:
        if max_bytes <= 0:
            raise InputError(f"a compilation cache holds at least one byte, got max_bytes={max_bytes}")
        self.directory: Final = Path(directory).expanduser()
        self.max_bytes: Final = max_bytes
        self._lock = Lock()
        self._hits = self._misses = self._failures = 0

    def info(self) -> StoreInfo:
        with self._lock:
            return StoreInfo(self._hits, self._misses, self._failures)

    def prepare(self) -> None:
        """Makes the directory, which only the user may write to: what is in it is run. An OSError if that fails."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self, key: str) -> bytes | None:
        """What was written under this key; None if nothing was, or if it can't be read any more."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            self._count(misses=1)
            return None
        except OSError as error:
            self._count(misses=1)
            self.fail(f"{path} can't be read ({error}), so the program is compiled again")
            return None
        head = len(_MAGIC) + hashlib.sha256().digest_size
        executable = content[head:]
        if content[:head] != _head(key, executable):
            self._count(misses=1)
            self.fail(f"{path} is damaged, so the program is compiled again")
            return None
        with suppress(OSError):
            os.utime(path)  # used now
        self._count(hits=1)
        return executable

    def write(self, key: str, executable: bytes) -> None:
        """Keeps a compiled program. A warning if that isn't possible."""
        size = len(_MAGIC) + hashlib.sha256().digest_size + len(executable)
        if size > self.max_bytes:
            return
        try:
            self.prepare()
            self._make_room(size)
            with replacing(self._path(key)) as file:
                file.write(_head(key, executable) + executable)
        except OSError as error:
            self.fail(f"a compiled program can't be kept in {self.directory} ({error})")

    def fail(self, problem: str) -> None:
        """Warns of something that went wrong: no reason to stop."""
        self._count(failures=1)
        warnings.warn(problem, CompilationCacheWarning, stacklevel=2)

    def reject(self, problem: str) -> None:
        """Warns that what was read last is of no use after all."""
        self._count(hits=-1, misses=1)
        self.fail(problem)

    def clear(self) -> None:
        """Deletes all compiled programs in the directory."""
        for path, _, _ in self._files():
            with suppress(OSError):
                path.unlink()

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{_SUFFIX}"

    def _count(self, hits: int = 0, misses: int = 0, failures: int = 0) -> None:
        with self._lock:
            self._hits += hits
            self._misses += misses
            self._failures += failures

    def _files(self) -> list[tuple[Path, float, int]]:
        """The files of this cache, with the times when they were used last, and their sizes. Others are left alone."""
        found: list[tuple[Path, float, int]] = []
        with suppress(FileNotFoundError), os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith(_SUFFIX) or (f"{_SUFFIX}." in entry.name and entry.name.endswith(".tmp")):
                    with suppress(OSError):  # deleted by another process
                        state = entry.stat()
                        found.append((Path(entry.path), state.st_mtime, state.st_size))
        return found

    def _make_room(self, size: int) -> None:
        """Deletes what was used least recently, until there is room."""
        files = sorted(self._files(), key=lambda file: file[1])
        total = size + sum(file[2] for file in files)
        now = time.time()
        for path, used, length in files:
            temporary = path.suffix != _SUFFIX
            if (temporary and now - used > _ABANDONED) or (not temporary and total > self.max_bytes):
                with suppress(OSError):
                    path.unlink()
                total -= length


def cache_from_environment() -> CompilationCache | None:
    """The cache that the environment asks for."""
    directory = os.environ.get(VARIABLE)
    return CompilationCache(directory) if directory else None


def _head(key: str, executable: bytes) -> bytes:
    """What a file begins with: the key counts too, so that a file that was renamed is damaged."""
    return _MAGIC + hashlib.sha256(key.encode() + executable).digest()
