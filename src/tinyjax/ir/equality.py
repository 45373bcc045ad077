"""Equality of programs: to the bit, and without recursion into the programs within."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from tinyjax.ir.program_value import ProgramValue

_Pairs: TypeAlias = "list[tuple[ProgramValue, ProgramValue]]"


def same_program(a: ProgramValue, b: ProgramValue) -> bool:
    """Whether two programs are equal.

    Like `==` of the parts, but parameters also have the same types and bits: 1, 1.0 and True are three values. Programs
    among the parameters are compared one after another, and each pair once.
    """
    pairs: _Pairs = [(a, b)]
    seen: set[tuple[int, int]] = set()
    while pairs:
        x, y = pairs.pop()
        if x is y or (x.token is not None and x.token is y.token) or (id(x), id(y)) in seen:
            continue
        seen.add((id(x), id(y)))
        if hash(x) != hash(y) or len(x.eqns) != len(y.eqns) or x.invars != y.invars or x.outvars != y.outvars:
            return False
        for e, f in zip(x.eqns, y.eqns, strict=True):
            if e is f:
                continue
            if e.invars != f.invars or e.outvars != f.outvars or not _same(e.primitive, f.primitive, pairs):
                return False
    return True


def same_value(x: object, y: object) -> bool:
    """Whether two primitives, or two parameters, are the same, as `same_program` compares them: 1 is not True."""
    pairs: _Pairs = []
    return _same(x, y, pairs) and all(same_program(a, b) for a, b in pairs)


def _same(x: object, y: object, pairs: _Pairs) -> bool:
    """Whether two parameters are the same, if the programs within them are, which are added to `pairs`."""
    from tinyjax.ir.program import Jaxpr

    if x is y:
        return True
    cls = type(x)
    if cls is not type(y):
        return False
    if cls is int or cls is str:  # most are
        return x == y
    if isinstance(x, float) and isinstance(y, float):
        return struct.pack("<d", x) == struct.pack("<d", y)
    if isinstance(x, complex) and isinstance(y, complex):
        return _same((x.real, x.imag), (y.real, y.imag), pairs)
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_same(v, w, pairs) for v, w in zip(x, y, strict=True))
    if isinstance(x, frozenset) and isinstance(y, frozenset):
        return x == y and all(any(_same(v, w, pairs) for w in y if w == v) for v in x)
    if isinstance(x, Jaxpr) and isinstance(y, Jaxpr):
        pairs.append((x, y))
        return True
    if not attrs.has(cls):
        return x == y
    for attribute in attrs.fields(cls):
        if attribute.eq:
            v, w = getattr(x, attribute.name), getattr(y, attribute.name)
            key = attribute.eq_key
            if not (_same(v, w, pairs) if key is None else key(v) == key(w)):
                return False
    return True
