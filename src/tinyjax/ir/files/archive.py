"""The archive that a program file is: zip without compression, and the elements of arrays in it.

As nothing is compressed, reading an archive takes no more memory than it is long, whatever sizes it declares.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Final, TypeAlias, final

import numpy as np

from tinyjax.atomic import replacing
from tinyjax.errors import FileFormatError, InputError
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOAT0, DType, HostArray
from tinyjax.ir.files.program_files import File
from tinyjax.ir.value import Data

#: What the bytes of a member of an archive may be.
Content: TypeAlias = "bytes | memoryview"
#: What zipfile raises for archives that are damaged.
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
)
#: All members have the same date, so that the same program makes the same file.
_DATE: Final = (1980, 1, 1, 0, 0, 0)


@contextmanager
def _stream_to(file: File) -> Iterator[IO[bytes]]:
    if isinstance(file, str | os.PathLike):
        with replacing(file) as stream:
            yield stream
    elif hasattr(file, "write"):
        yield file
    else:
        raise InputError(f"a file is a path, or an open binary file, got {file!r}")


@contextmanager
def _stream_from(file: File) -> Iterator[IO[bytes]]:
    if isinstance(file, str | os.PathLike):
        with open(file, "rb") as stream:
            yield stream
    elif not hasattr(file, "read"):
        raise InputError(f"a file is a path, or an open binary file, got {file!r}")
    else:
        content = file.read()
        if not isinstance(content, bytes):
            raise InputError(f"{file!r} is a text file: open it in binary mode")
        yield io.BytesIO(content)


def write_archive(file: File, members: Mapping[str, Content]) -> None:
    """Writes an archive; a path is replaced when it is complete."""
    with _stream_to(file) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            info.file_size = memoryview(content).nbytes
            with archive.open(info, "w") as member:
                member.write(content)


@final
class Archive:
    """An archive that is read. A FileFormatError if it is damaged, or isn't one."""

    def __init__(self, stream: IO[bytes]) -> None:
        length = stream.seek(0, io.SEEK_END)
        stream.seek(0)
        try:
            self._zip = zipfile.ZipFile(stream)
        except _DAMAGED as error:
            raise FileFormatError(f"it is truncated, damaged, or no program file at all ({error})") from error
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = info.filename
            if name in self._members:
                raise FileFormatError(f"it has the member {name!r} twice")
            if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
                raise FileFormatError(f"the member {name!r} is compressed or encrypted, which program files never are")
            if info.file_size != info.compress_size or info.file_size > length:
                raise FileFormatError(f"the member {name!r} has {info.file_size} bytes, it says, of {length} in all")
            self._members[name] = info
        total = sum(info.file_size for info in self._members.values())
        if total > length:
            raise FileFormatError(f"its members say that they have {total} bytes, but it has {length}")

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """The content of a member."""
        info = self._members.get(name)
        if info is None:
            raise FileFormatError(f"it lacks the member {name!r}")
        try:
            content = self._zip.read(info)
        except _DAMAGED as error:
            raise FileFormatError(f"its member {name!r} is damaged ({error})") from error
        if len(content) != info.file_size:
            raise FileFormatError(f"its member {name!r} is truncated")
        return content


@contextmanager
def opened(file: File) -> Iterator[Archive]:
    """The archive in a file. Errors name the file."""
    label = os.fspath(file) if isinstance(file, str | os.PathLike) else "the file"
    with _stream_from(file) as stream:
        try:
            yield Archive(stream)
        except FileFormatError as error:
            raise FileFormatError(f"{label} can't be read: {error}") from error.__cause__


def elements_of(data: Data) -> Content:
    """The elements of an array, row by row, little-endian."""
    array = np.asarray(data)
    if array.dtype == FLOAT0:
        return b""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    unit = _unit(array.dtype)
    return np.ascontiguousarray(array).reshape(-1).view(f"=u{unit}").astype(f"<u{unit}", copy=False).data


def array_of(elements: bytes, dtype: DType, shape: tuple[int, ...]) -> HostArray:
    """The array with these elements, which can't be written to. A FileFormatError if they aren't its elements."""
    size = math.prod(shape) * dtype.itemsize
    if len(elements) != size:
        raise FileFormatError(f"an array of shape {shape} and dtype {dtype} has {size} bytes, not {len(elements)}")
    try:
        if dtype == FLOAT0:
            array: HostArray = np.zeros(shape, dtype)
        else:
            unit = _unit(dtype)
            raw = np.frombuffer(elements, f"<u{unit}").astype(f"=u{unit}", copy=False)
            if dtype == BOOL and raw.max(initial=0) > 1:
                raise FileFormatError("an array of bools has an element that is neither True nor False")
            array = raw.view(dtype).reshape(shape)
    except ValueError as error:
        raise FileFormatError(f"there is no array of shape {shape}: {error}") from error
    array.flags.writeable = False
    return array


def _unit(dtype: DType) -> int:
    """How many bytes keep together where the order of bytes changes."""
    return dtype.itemsize // 2 if dtype in COMPLEXES else dtype.itemsize
