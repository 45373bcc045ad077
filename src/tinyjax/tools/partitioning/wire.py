"""Protocol buffers as numbered fields: what is needed to read the modules that XLA writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from tinyjax.errors import InputError

_VARINT: Final = 0
_BYTES: Final = 2
#: The kinds of fields of so many bytes.
_FIXED: Final[Mapping[int, int]] = {1: 8, 5: 4}


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


@final
class Message:
    """A message: what it has in each of its fields, by number, in order.

    >>> message = Message(bytes([8, 5, 18, 2, 104, 105]))
    >>> message.number(1), message.text(2), message.number(3)
    (5, 'hi', 0)
    """

    __slots__ = ("_fields",)

    def __init__(self, data: bytes) -> None:
        found: dict[int, list[int | bytes]] = {}
        at, end = 0, len(data)
        value: int | bytes
        while at < end:
            key = data[at]
            at += 1
            if key > 127:
                key, at = varint(data, at - 1)
            kind = key & 7
            if kind == _VARINT:
                value, at = varint(data, at)
            else:
                if kind == _BYTES:
                    size = data[at]
                    at += 1
                    if size > 127:
                        size, at = varint(data, at - 1)
                elif kind in _FIXED:
                    size = _FIXED[kind]
                else:
                    raise InputError(f"this is no message of protocol buffers: it has a field of kind {kind}")
                value = data[at : at + size]
                at += size
            field = key >> 3
            if field in found:
                found[field].append(value)
            else:
                found[field] = [value]
        self._fields = found

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
