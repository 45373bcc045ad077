"""A hash of what a program is, the same in every process and on every machine.

Each part is encoded as a tag, the number of bytes or items that follow, and these, so that no two programs have the
same encoding. A program within a program is encoded by its own digest.
"""

from __future__ import annotations

import enum
import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from tinyjax.errors import ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import SHORT_NAMES, DType
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr, Var
from tinyjax.ir.traverse import nested_programs
from tinyjax.ir.value import ConcreteValue

#: Changes whenever the encoding does.
_VERSION: Final = b"tinyjax program 1"


def content_hash(program: Jaxpr | ClosedJaxpr) -> str:
    """The SHA-256 of a program, in hexadecimal: equal for equal programs, in this process and in any other.

    Names of variables and source lines don't count. Primitives, enums and attrs classes count by their full names, so
    moving a class to another module changes the hash.

    >>> from tinyjax.ir.aval import ShapedArray
    >>> x = Var(0, ShapedArray((), "float32"))
    >>> content_hash(Jaxpr((x,), (), (x,)))[:16]
    '0aa7ea1689716285'
    """
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    digests: dict[Jaxpr, bytes] = {}
    order = nested_programs(jaxpr)
    for nested in order[:-1]:
        digests[nested] = _digest(nested, digests)
    digest = _digest(jaxpr, digests)
    if isinstance(program, ClosedJaxpr):
        digest = hashlib.sha256(_tagged(b"closed", digest + _sequence(program.consts, digests))).digest()
    return digest.hex()


def _digest(jaxpr: Jaxpr, digests: Mapping[Jaxpr, bytes]) -> bytes:
    """The digest of a program, given those of the programs within it."""
    avals: dict[int, bytes] = {}
    primitives: dict[int, bytes] = {}

    def aval_bytes(aval: ShapedArray) -> bytes:
        found = avals.get(id(aval))
        if found is None:
            found = avals[id(aval)] = _encode(aval, digests)
        return found

    def atoms(items: Sequence[Atom]) -> bytes:
        parts = [
            b"v" + struct.pack("<q", item.index) + aval_bytes(item.aval)
            if isinstance(item, Var)
            else b"l" + _encode(item.value, digests) + aval_bytes(item.aval)
            for item in items
        ]
        return struct.pack("<q", len(parts)) + b"".join(parts)

    pieces = [_VERSION, atoms(jaxpr.invars), struct.pack("<q", len(jaxpr.eqns))]
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        found = primitives.get(id(primitive))
        if found is None:
            found = primitives[id(primitive)] = _encode(primitive, digests)
        pieces += (found, atoms(eqn.invars), atoms(eqn.outvars))
    pieces.append(atoms(jaxpr.outvars))
    return hashlib.sha256(b"".join(pieces)).digest()


def _tagged(tag: bytes, content: bytes) -> bytes:
    return tag + struct.pack("<q", len(content)) + content


def _text(tag: bytes, text: str) -> bytes:
    return _tagged(tag, text.encode("utf-8", "surrogatepass"))


def _qualified(tag: bytes, cls: type) -> bytes:
    return _text(tag, f"{cls.__module__}.{cls.__qualname__}")


def _sequence(items: Sequence[object], digests: Mapping[Jaxpr, bytes]) -> bytes:
    return struct.pack("<q", len(items)) + b"".join([_encode(item, digests) for item in items])


def _dtype(dtype: DType) -> bytes:
    return _text(b"dtype", SHORT_NAMES.get(dtype) or repr(dtype))


def _encode(value: object, digests: Mapping[Jaxpr, bytes]) -> bytes:
    """The encoding of a parameter."""
    if value is None:
        return b"none"
    if isinstance(value, enum.Enum):
        member = _text(b"member", value.name) if value.name else _encode(value.value, digests)
        return _qualified(b"enum", type(value)) + member
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return _tagged(b"int", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    if isinstance(value, float):
        return b"float" + struct.pack("<d", value)
    if isinstance(value, complex):
        return b"complex" + struct.pack("<dd", value.real, value.imag)
    if isinstance(value, str):
        return _text(b"str", value)
    if isinstance(value, bytes):
        return _tagged(b"bytes", value)
    if isinstance(value, tuple):
        return b"tuple" + _sequence(value, digests)
    if isinstance(value, frozenset):
        parts = sorted(_encode(item, digests) for item in value)
        return b"set" + struct.pack("<q", len(parts)) + b"".join(parts)
    if isinstance(value, Jaxpr):
        return b"jaxpr" + digests[value]
    if isinstance(value, ShapedArray):
        varying = _sequence(value.axes, digests) if value.axes else b""
        plain = _dtype(value.dtype) + _encode(value.weak_type, digests) + _sequence(value.shape, digests)
        return b"aval" + plain + varying
    if isinstance(value, ConcreteValue):
        return b"array" + _encode(value.aval, digests) + _array(value)
    if isinstance(value, np.dtype):
        return _dtype(value)
    if isinstance(value, type):
        return _qualified(b"type", value)
    if isinstance(value, Opaque):
        raise ParameterError(
            f"a program that refers to {value} can't be hashed by content: what a Python function does is known to "
            "this process only. Hash the program without it, or replace the callback by primitives."
        )
    cls = type(value)
    if attrs.has(cls):
        parts = []
        for attribute in attrs.fields(cls):
            if attribute.eq:
                item = getattr(value, attribute.name)
                key = attribute.eq_key
                parts += [_text(b"field", attribute.name), _encode(item if key is None else key(item), digests)]
        return _qualified(b"record", cls) + _tagged(b"fields", b"".join(parts))
    raise ParameterError(f"a program can't be hashed by content: {value!r} is no immutable value")


def _array(value: ConcreteValue) -> bytes:
    """The elements, row by row, little-endian."""
    array = np.asarray(value.data)
    if array.dtype.newbyteorder("<") != array.dtype:
        array = array.astype(array.dtype.newbyteorder("<"))
    return _dtype(array.dtype) + _sequence(array.shape, {}) + _tagged(b"bytes", array.tobytes())
