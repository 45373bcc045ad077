"""What keeps the folder of a save from being taken away while somebody writes or reads it, in this process or another.

These are locks of the operating system, which end with the process that has them. Where a file system, or the system,
knows none, nothing is locked: then saves into one folder must not be made at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

#: How many seconds to wait for a process that has stopped while it was alone.
_PATIENCE: Final = 30.0


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """While the block runs, `unused` doesn't hold of the folder. Others may use it, too."""
    with _open(folder) as handle:
        if handle is not None:
            _locks(handle, shared=True)
        yield


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Nobody else is in such a block of the folder; one waits until that is so."""
    end = time.monotonic() + _PATIENCE
    with _open(folder) as handle:
        while handle is not None and not _locks(handle, shared=False) and time.monotonic() < end:
            time.sleep(0.001)
        yield


def unused(folder: Path) -> bool:
    """Whether nobody uses the folder."""
    with _open(folder) as handle:
        return handle is None or _locks(handle, shared=False)


def _locks(handle: int, shared: bool) -> bool:
    """Locks an open folder until it is closed; False if others have it. A shared lock waits for them."""
    try:
        import fcntl
    except ImportError:  # not on this system
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # nor on this file system
        return True
    return True


@contextmanager
def _open(folder: Path) -> Iterator[int | None]:
    """The folder, open; None if it isn't there, or can't be opened here."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        yield handle
    finally:
        with suppress(OSError):
            os.close(handle)
