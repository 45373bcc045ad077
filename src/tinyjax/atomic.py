"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A new file, which takes the place of `path` when the block ends; if that fails, `path` stays what it was.

    Readers see the old file or the new one, never a part, whatever other processes write at the same time. `mode` are
    its permissions, of which the user's umask takes some.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}.tmp")
    with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            file.close()
            with suppress(OSError):
                os.unlink(temporary)
            raise
    try:
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
