"""Protocol buffers as numbered fields: what is needed to read the modules that XLA writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from tinyjax.errors import InputError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer that begins at a place, seven bits a byte, and where it ends.

    >>> varint(bytes([172, 2]), 0)
    (300, 2)
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def varints(data: bytes) -> list[int]:
    """Integers one after the other."""
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def _entries(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            length, at = varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise InputError(f"this is no message of protocol buffers: it has a field of kind {kind}")
        yield key >> 3, data[at : at + length]
        at += length


@final
class Message:
    """A message: what it has in each of its fields, by number, in order.

    >>> message = Message(bytes([8, 5, 18, 2, 104, 105]))
    >>> message.number(1), message.text(2), message.number(3)
    (5, 'hi', 0)
    """

    __slots__ = ("_fields",)

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        for field, value in _entries(data):
            self._fields.setdefault(field, []).append(value)

    def __contains__(self, field: int) -> bool:
        return field in self._fields

    @property
    def fields(self) -> frozenset[int]:
        """The numbers of the fields that there are."""
        return frozenset(self._fields)

    def only(self, *fields: int) -> bool:
        """Whether there is nothing else in the message."""
        return self.fields <= {*fields}

    def parts(self, field: int) -> list[bytes]:
        """All that is in a field of texts or messages."""
        return [value for value in self._fields.get(field, ()) if isinstance(value, bytes)]

    def messages(self, field: int) -> list[Message]:
        """The messages in a field."""
        return [Message(part) for part in self.parts(field)]

    def text(self, field: int) -> str:
        """The text in a field; an empty one if there is none."""
        return b"".join(self.parts(field)[-1:]).decode("utf-8", "replace")

    def numbers(self, field: int) -> list[int]:
        """The integers in a field, packed or not."""
        found: list[int] = []
        for value in self._fields.get(field, ()):
            found += [value] if isinstance(value, int) else varints(value)
        return found

    def number(self, field: int) -> int:
        """The integer in a field; 0 if there is none."""
        return (self.numbers(field) or [0])[-1]
