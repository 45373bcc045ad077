"""Compiled programs on disk, for later processes. Needs no jax at import.

A directory with a file for each, named by its key: a line that says what it is, a checksum, and what XLA serialised.
Files are written beside their places and renamed, so any number of processes may share a directory; one at a time
writes, so that they keep within the limit together. What is in a directory is run, so it is used only if nobody else
could have put it there. Whatever is wrong with a file, or the directory, is a warning, and the program is compiled.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Final, final

from attrs import frozen

from tinyjax.atomic import replacing
from tinyjax.backend.trust import distrust, distrust_file
from tinyjax.errors import CompilationCacheWarning, InputError

#: Where compiled programs are kept from the start of a process, if it is set.
VARIABLE: Final = "TINYJAX_COMPILATION_CACHE_DIR"
#: How many bytes a directory may hold, unless another limit is given.
MAX_BYTES: Final = 4 * 2**30
_MAGIC: Final = b"tinyjax compiled program 1\n"
_SUFFIX: Final = ".xla"
#: How many seconds a temporary file is away from now, either way, that no process is writing any more.
_ABANDONED: Final = 3600
#: How many seconds a process waits for another one that writes before it does without.
_PATIENCE: Final = 10.0


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
        try:
            self.directory: Final = Path(directory).expanduser()
        except RuntimeError as error:  # there is no such user
            raise InputError(f"the directory {os.fspath(directory)!r} for compiled programs: {error}") from None
        self.max_bytes: Final = max_bytes
        self._lock = RLock()
        self._hits = self._misses = self._failures = 0

    def info(self) -> StoreInfo:
        with self._lock:
            return StoreInfo(self._hits, self._misses, self._failures)

    def prepare(self) -> None:
        """Makes the directory, which only the user may write to: what is in it is run. An OSError if that fails."""
        missing = [path for path in self.directory.parents if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o755, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)

    def trusted(self) -> bool:
        """Whether nobody else can put programs into the directory. If somebody can, that is a warning."""
        try:
            problem = distrust(self.directory)
        except OSError:  # it isn't there, or isn't ours to look at: whoever reads or writes finds out
            return True
        if problem is not None:
            self.fail(f"compiled programs aren't kept in {self.directory}, nor taken from there: {problem}")
        return problem is None

    def read(self, key: str) -> bytes | None:
        """What was written under this key; None if nothing was, or if it can't be read any more."""
        path = self._path(key)
        if not self.trusted():
            self._count(misses=1)
            return None
        problem: str | None = None
        try:
            with open(path, "rb", opener=_opened_at_once) as file:
                problem = distrust_file(str(path), os.fstat(file.fileno()))
                content = b"" if problem else file.read()
        except (FileNotFoundError, NotADirectoryError):
            self._count(misses=1)
            return None
        except OSError as error:
            self._count(misses=1)
            self.fail(f"{path} can't be read ({error}), so the program is compiled again")
            return None
        if problem is not None:
            self._count(misses=1)
            self.fail(f"{problem}, so the program is compiled again")
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
            if not self.trusted():
                return
            with self._alone() as alone:
                if not alone or not self._make_room(size):
                    return
                with replacing(self._path(key), 0o600) as file:
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
        """Deletes all compiled programs in the directory, if there is one."""
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
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith(_SUFFIX) or (f"{_SUFFIX}." in entry.name and entry.name.endswith(".tmp")):
                    with suppress(OSError):  # deleted by another process
                        state = entry.stat()
                        found.append((Path(entry.path), state.st_mtime, state.st_size))
        return found

    def _make_room(self, size: int) -> bool:
        """Deletes what was used least recently, until there is room. Whether there is."""
        now = time.time()
        # A time to come says nothing.
        files = sorted(self._files(), key=lambda file: file[1] if file[1] <= now + _ABANDONED else 0.0)
        total = size + sum(file[2] for file in files)
        for path, used, length in files:
            temporary = path.suffix != _SUFFIX
            if (temporary and abs(now - used) > _ABANDONED) or (not temporary and total > self.max_bytes):
                with suppress(OSError):
                    path.unlink()
                    total -= length
        return total <= self.max_bytes

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Keeps other processes and threads from writing meanwhile. False if one of them doesn't come to an end."""
        try:
            import fcntl
        except ImportError:  # not on this system
            yield True
            return
        lock = os.open(self.directory, os.O_RDONLY)
        try:
            end = time.monotonic() + _PATIENCE
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > end:
                        yield False
                        return
                    time.sleep(0.01)
                else:
                    break
            yield True
        finally:
            os.close(lock)  # and so it is unlocked, as it is if the process ends


def _opened_at_once(path: str, flags: int) -> int:
    """Opens a file, without waiting for anybody who is to write to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def cache_from_environment() -> CompilationCache | None:
    """The cache that the environment asks for."""
    directory = os.environ.get(VARIABLE)
    if not directory:
        return None
    try:
        return CompilationCache(directory)
    except InputError as error:
        warnings.warn(f"{VARIABLE}: {error}; compiled programs aren't kept", CompilationCacheWarning, stacklevel=2)
        return None


def _head(key: str, executable: bytes) -> bytes:
    """What a file begins with: the key counts too, so that a file that was renamed is damaged."""
    return _MAGIC + hashlib.sha256(key.encode() + executable).digest()
