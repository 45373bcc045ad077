"""Promotion of dtypes: the array API standard's, with JAX's weak types and its rules across kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from tinyjax.caching import bounded
from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT0,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    KEYS,
    NARROW_FLOATS,
    NARROW_SIGNED,
    NARROW_UNSIGNED,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UNSIGNED,
    WIDE,
    DType,
)

#: A node of the promotion lattice: a dtype, or the kind of a weakly typed value.
_Node: TypeAlias = DType | str
_EDGES: Final[dict[_Node, tuple[_Node, ...]]] = {
    BOOL: ("int",),
    "int": (UINT8, INT8, *NARROW_UNSIGNED, *NARROW_SIGNED),
    UINT8: (INT16, UINT16),
    INT8: (INT16,),
    UINT16: (INT32, UINT32),
    INT16: (INT32,),
    UINT32: (INT64, UINT64),
    INT32: (INT64,),
    UINT64: ("float",),
    INT64: ("float",),
    "float": (BFLOAT16, FLOAT16, "complex", *NARROW_FLOATS),
    BFLOAT16: (FLOAT32,),
    FLOAT16: (FLOAT32,),
    FLOAT32: (FLOAT64, COMPLEX64),
    FLOAT64: (COMPLEX128,),
    "complex": (COMPLEX64,),
    COMPLEX64: (COMPLEX128,),
    COMPLEX128: (),
    # They are promoted to nothing: what is so narrow becomes another only where a program says so.
    **dict.fromkeys(WIDE, ()),
}
_WEAK_DTYPES: Final[dict[str, DType]] = {"int": INT64, "float": FLOAT64, "complex": COMPLEX128}


def _above(node: _Node) -> frozenset[_Node]:
    """The node and everything that it promotes to."""
    found: set[_Node] = {node}
    todo = [node]
    while todo:
        for upper in _EDGES[todo.pop()]:
            if upper not in found:
                found.add(upper)
                todo.append(upper)
    return frozenset(found)


_ABOVE: Final[dict[_Node, frozenset[_Node]]] = {node: _above(node) for node in _EDGES}


def _join(x: _Node, y: _Node) -> _Node:
    """The least node that both promote to."""
    common = _ABOVE[x] & _ABOVE[y]
    if not common:
        raise TypingError(_no_path(x, y))
    return max(common, key=lambda node: len(_ABOVE[node]))


def _no_path(x: _Node, y: _Node) -> str:
    """What is wrong with numbers of a narrow dtype and of another one, and what to do."""
    first, second = sorted((x, y), key=lambda node: (node not in WIDE, str(node)))
    narrow, other = (node if isinstance(node, str) else node.name for node in (first, second))
    wide = "int32" if "int" in narrow and "int" in other else "float32"
    return (
        f"{narrow} and {other} are promoted to no common dtype: {narrow} becomes another one only where you say "
        f"so. Convert one of them: x.astype({wide!r}), or x.astype({narrow!r})."
    )


def _node(dtype: DType, weak_type: bool) -> _Node:
    if not weak_type or dtype == BOOL:
        return dtype
    if dtype in INTEGERS:
        return "int"
    return "complex" if dtype in COMPLEXES else "float"


def widest(dtype: DType) -> DType:
    """The dtype of its kind that Python's numbers have; of unsigned integers, uint64."""
    if dtype in UNSIGNED:
        return UINT64
    node = _node(dtype, True)
    return _WEAK_DTYPES[node] if isinstance(node, str) else node


@bounded(4096)
def _promote(kinds: frozenset[tuple[DType, bool]]) -> tuple[DType, bool]:
    dtypes = {dtype for dtype, _ in kinds}
    if len(dtypes) == 1:
        return next(iter(dtypes)), all(weak for _, weak in kinds)
    if all(weak for _, weak in kinds):
        # Among weak values the widest dtype decides, so that nothing is truncated.
        return _promote(frozenset((dtype, False) for dtype in dtypes))[0], True
    if FLOAT0 in dtypes:
        raise TypingError(
            "values of dtype float0, the derivatives of integers and booleans, hold nothing and take part in no "
            "arithmetic"
        )
    if not KEYS.isdisjoint(dtypes):
        raise TypingError(
            "a key of random numbers goes with no number: make numbers of it, as in tinyjax.random.bits(key)"
        )
    result: _Node = BOOL
    for dtype, weak in kinds:
        result = _join(result, _node(dtype, weak))
    if isinstance(result, str):
        return _WEAK_DTYPES[result], True
    return result, False


@bounded(4096)
def promoted_pair(x: DType, x_weak: bool, y: DType, y_weak: bool) -> tuple[DType, bool]:
    """`result_type` of two, without making a set."""
    return _promote(frozenset(((x, x_weak), (y, y_weak))))


def result_type(avals: Iterable[ShapedArray]) -> tuple[DType, bool]:
    """The dtype that values of these types are promoted to, and whether the result is weakly typed.

    >>> result_type([ShapedArray((), "int32"), ShapedArray((), "float32")])
    (dtype('float32'), False)
    >>> result_type([ShapedArray((), "float32"), ShapedArray((), float, weak_type=True)])
    (dtype('float32'), False)
    """
    return _promote(frozenset((aval.dtype, aval.weak_type) for aval in avals))
