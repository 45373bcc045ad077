"""`x[key]`, for keys of every kind: in one step outside of transformations, if types alone say what has to be done."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING

import numpy as np

from tinyjax.arrays import basic_indexing
from tinyjax.arrays.advanced_indexing import get
from tinyjax.arrays.basic_indexing import Index, index
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.prepared.functions import prepared
from tinyjax.prepared.stored_array import StoredArray

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array


def getitem(x: Array, key: Index) -> Array:
    """`x[key]`. Positions in arrays, and traced ones, that are out of range are moved to the nearest one within it."""
    entries = key if isinstance(key, tuple) else (key,)
    if type(key) is int or all(map(basic_indexing.is_basic, entries)):
        return index(x, key)
    if isinstance(x, StoredArray) and x.evaluated:
        found = _positions(x, entries)
        if found is not None:
            return _get(x, *found[1], spelled=found[0])
    return get(x, key, strict=True)


def _positions(x: Array, entries: tuple[object, ...]) -> tuple[str, list[Array]] | None:
    """The spelling of a key of arrays of positions, whose elements don't matter to what has to be done, and other
    entries that are known; and the arrays. None for any other key."""
    spelled: list[str] = []
    arrays: list[Array] = []
    for entry in entries:
        if entry is None or type(entry) is int or entry is Ellipsis:
            spelled.append(str(entry))
        elif type(entry) is slice:
            bounds = entry.start, entry.stop, entry.step
            if not all(bound is None or type(bound) is int for bound in bounds):
                return None
            spelled.append(":".join(map(str, bounds)))
        elif type(entry) is type(x) or type(entry) is np.ndarray:
            (_, array) = x._operands(entry)
            if array.dtype not in INTEGERS or not array.ndim:
                return None
            spelled.append("array")
            arrays.append(array)
        else:
            return None
    return ", ".join(spelled), arrays


@prepared
def _get(x: Array, *arrays: Array, spelled: str) -> Array:
    """`x[key]` for a key that is spelled so, with these arrays in the place of `array`."""
    rest = iter(arrays)
    key = tuple([next(rest) if entry == "array" else _entry(entry) for entry in spelled.split(", ")])
    return get(x, key, strict=True)


def _entry(spelled: str) -> int | slice | EllipsisType | None:
    if spelled in ("None", "Ellipsis"):
        return None if spelled == "None" else Ellipsis
    if ":" not in spelled:
        return int(spelled)
    return slice(*(None if bound == "None" else int(bound) for bound in spelled.split(":")))
