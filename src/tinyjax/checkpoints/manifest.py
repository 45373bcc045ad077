"""What a checkpoint is: a folder with a manifest, which says where the parts of each array are.

```text
path/manifest.json                  replaced at once, when everything else has been written
path/save-0123456789abcdef/0.parts  what process 0 has written: parts of arrays, one after the other
path/save-0123456789abcdef/1.parts
```
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from pathlib import Path
from typing import Any, Final, final

import attrs
import numpy as np

from tinyjax.errors import FileFormatError, InputError
from tinyjax.ir.dtypes import FLOAT0, DType, HostArray, printed_dtype, short_name

#: Changes whenever what is written does.
FORMAT: Final = "tinyjax checkpoint 1"
MANIFEST: Final = "manifest.json"
#: What a folder of a save is called.
FOLDER: Final = re.compile(r"save-[0-9a-f]{16}")
#: And what is left of a manifest that was interrupted.
UNFINISHED: Final = re.compile(rf"\.{re.escape(MANIFEST)}\.[0-9a-f]{{16}}\.tmp")
_FILE: Final = re.compile(r"[0-9]{1,9}\.parts")


@final
@attrs.frozen
class Part:
    """A block of an array, and where its elements are."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    file: str
    offset: int
    size: int
    sha256: str


@final
@attrs.frozen
class Saved:
    """An array of a checkpoint. Its parts are all of it, each element once."""

    path: str
    dtype: DType
    shape: tuple[int, ...]
    weak_type: bool
    parts: tuple[Part, ...]


@final
@attrs.frozen
class Manifest:
    """What a checkpoint has: a tree, and the arrays that are its leaves, in order."""

    folder: str
    tree: Any  # JSON: see `trees`
    arrays: tuple[Saved, ...]

    def text(self) -> str:
        """The content of the file, which says its own hash."""
        arrays = [{**attrs.asdict(array), "dtype": short_name(array.dtype)} for array in self.arrays]
        content = {"format": FORMAT, "folder": self.folder, "tree": self.tree, "arrays": arrays}
        return json.dumps({**content, "sha256": _hash_of(content)}, indent=1)


def folder_at(name: str, path: str | os.PathLike[str]) -> Path:
    """The folder at a path; an InputError for what is none."""
    given: object = path
    if not isinstance(given, str | os.PathLike) or not (said := os.fspath(given)) or "\0" in str(said):
        raise InputError(f"{name}: path is that of a folder, a string or a Path, got {path!r}")
    return Path(path)


def _hash_of(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_manifest(text: bytes) -> Manifest:
    """The manifest in a file; a FileFormatError if it is none, or is damaged."""
    try:
        content = json.loads(text)
        if not isinstance(content, dict) or not str(content.get("format")).startswith("tinyjax checkpoint"):
            raise FileFormatError("it is no manifest of a checkpoint")
        if content["format"] != FORMAT:
            raise FileFormatError(f"it has the format {content['format']!r}, and this version reads {FORMAT!r}")
        said = content.pop("sha256", None)
        if said != _hash_of(content):
            raise FileFormatError("it was changed after it had been written: it doesn't have the hash that it says")
        arrays = tuple([_read_array(array) for array in content["arrays"]])
        folder = str(content["folder"])
        if not FOLDER.fullmatch(folder):
            raise FileFormatError(f"{folder!r} is no folder of a checkpoint")
        return Manifest(folder, content["tree"], arrays)
    except (ValueError, KeyError, TypeError, InputError, RecursionError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"it is no manifest of a checkpoint ({type(error).__name__}: {error})") from error


def _read_array(content: dict[str, Any]) -> Saved:
    shape = _sizes(content["shape"])
    parts = tuple([_read_part(part) for part in content["parts"]])
    for part in parts:
        ends = [start + size for start, size in zip(part.start, part.shape, strict=True)]
        if any(end > size for end, size in zip(ends, shape, strict=True)):
            raise FileFormatError(f"a part of {content['path']!r} lies outside of it")
    if sum(math.prod(part.shape) for part in parts) != math.prod(shape):
        raise FileFormatError(f"the parts of {content['path']!r} aren't all of it")
    return Saved(str(content["path"]), printed_dtype(content["dtype"]), shape, bool(content["weak_type"]), parts)


def _read_part(content: dict[str, Any]) -> Part:
    file = str(content["file"])
    if not _FILE.fullmatch(file):
        raise FileFormatError(f"{file!r} is no file of a checkpoint")
    offset, size = _sizes([content["offset"], content["size"]])
    return Part(_sizes(content["start"]), _sizes(content["shape"]), file, offset, size, str(content["sha256"]))


def _sizes(content: list[Any]) -> tuple[int, ...]:
    if not all(type(size) is int and size >= 0 for size in content):
        raise FileFormatError(f"{content!r} are no sizes")
    return tuple(content)


def to_bytes(array: HostArray) -> bytes:
    """The elements of an array, row by row, little-endian."""
    if array.dtype == FLOAT0:
        return b""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.ascontiguousarray(array).tobytes()


def of_bytes(content: bytes, dtype: DType, shape: tuple[int, ...]) -> HostArray:
    """The array with these elements; a FileFormatError if they aren't its elements."""
    if dtype == FLOAT0:
        return np.zeros(shape, dtype)
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise FileFormatError(f"a part of shape {shape} and dtype {short_name(dtype)} hasn't {len(content)} bytes")
    return np.frombuffer(content, np.uint8).view(dtype).reshape(shape)
