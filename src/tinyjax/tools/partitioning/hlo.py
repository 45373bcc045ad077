"""Modules of HLO, as far as one needs them to see what devices tell each other. Read from XLA's own files of them,
whose fields have the numbers that stand here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, final

import numpy as np
import numpy.typing as npt
from attrs import frozen
from typing_extensions import override

from tinyjax.caching import bounded
from tinyjax.hlo.called import PLACE
from tinyjax.tools.partitioning.wire import Message

Groups = npt.NDArray[np.int64]

#: Names of element types, and their bytes, by number.
_ELEMENTS: Final[Mapping[int, tuple[str, int]]] = {
    1: ("pred", 1),
    30: ("s1", 1),
    26: ("s2", 1),
    21: ("s4", 1),
    2: ("s8", 1),
    3: ("s16", 2),
    4: ("s32", 4),
    5: ("s64", 8),
    31: ("u1", 1),
    27: ("u2", 1),
    22: ("u4", 1),
    6: ("u8", 1),
    7: ("u16", 2),
    8: ("u32", 4),
    9: ("u64", 8),
    10: ("f16", 2),
    16: ("bf16", 2),
    11: ("f32", 4),
    12: ("f64", 8),
    15: ("c64", 8),
    18: ("c128", 16),
    19: ("f8e5m2", 1),
    28: ("f8e4m3", 1),
    20: ("f8e4m3fn", 1),
    23: ("f8e4m3b11fnuz", 1),
    29: ("f8e3m4", 1),
    24: ("f8e5m2fnuz", 1),
    25: ("f8e4m3fnuz", 1),
    32: ("f4e2m1fn", 1),
    33: ("f8e8m0fnu", 1),
}
_TUPLE: Final = 13
_PLACE: Final = re.compile(rf"{PLACE}(\d+)")
#: How the opcodes begin of what communicates.
_COMMUNICATING: Final = ("all-", "reduce-scatter", "collective-", "ragged-all-")
#: The fields in which an instruction says which devices take part.
_GROUPS, _PAIRS, _LIST, _IOTA, _AXES = 49, 52, 87, 92, 93
_LATEST: Final = 93


@final
@frozen
class ArrayShape:
    """The shape of an array in HLO, with the name of its element type.

    >>> print(ArrayShape("f32", (8, 2), 64))
    f32[8,2]
    """

    element: str
    dims: tuple[int, ...]
    nbytes: int

    @override
    def __str__(self) -> str:
        return f"{self.element}[{','.join(map(str, self.dims))}]"


@final
@frozen(eq=False)
class Instruction:
    """An instruction. `shapes` are those of its results. `place` is the number that lowering gave to where it is from.

    `groups` are the partitions that communicate with each other, a row for each group; empty: all of them do. None:
    nothing is known, as for instructions that don't communicate. `pairs` are those of which the second gets something
    from the first.
    """

    name: str
    opcode: str
    id: int
    _shape: tuple[bytes, ...]
    operands: tuple[int, ...]
    called: tuple[int, ...]
    place: int | None
    groups: Groups | None
    pairs: Groups | None
    trip_count: int | None
    index: int

    @cached_property
    def shapes(self) -> tuple[ArrayShape, ...]:
        return tuple([shape for part in self._shape for shape in _shapes(Message(part))])


@final
@frozen(eq=False)
class Computation:
    """Instructions in order, each after those that it reads."""

    id: int
    name: str
    instructions: tuple[Instruction, ...]
    root: int


@final
@frozen(eq=False)
class HloModule:
    """A module: its computations by number, and which of them is run."""

    name: str
    computations: Mapping[int, Computation]
    entry: int


def read_module(data: bytes) -> HloModule:
    """The module in one of XLA's files of modules."""
    message = Message(data)
    found = [_computation(part) for part in message.messages(3)]
    return HloModule(message.text(1), {computation.id: computation for computation in found}, message.number(6))


def _computation(message: Message) -> Computation:
    instructions = tuple(map(_instruction, message.messages(2)))
    return Computation(message.number(5), message.text(1), instructions, message.number(6))


def _instruction(message: Message) -> Instruction:
    opcode = message.text(2)
    called = tuple(message.numbers(38))
    places = [place for part in message.messages(7) for place in _PLACE.findall(part.text(2))]
    return Instruction(
        message.text(1),
        opcode,
        message.number(35),
        tuple(message.parts(3)),
        tuple(message.numbers(36)),
        called,
        int(places[-1]) if places else None,
        _groups(message) if opcode.startswith(_COMMUNICATING) else None,
        _pairs(tuple(message.parts(_PAIRS))) if _PAIRS in message else None,
        _trip_count(message.text(43)) if opcode == "while" else None,
        message.number(13) if opcode == "get-tuple-element" else message.number(9),
    )


def _shapes(message: Message) -> list[ArrayShape]:
    """The arrays of a shape: several for a tuple."""
    element = message.number(2)
    if element == _TUPLE:
        return [shape for part in message.messages(4) for shape in _shapes(part)]
    name, size = _ELEMENTS.get(element, ("", 0))
    dims = tuple(message.numbers(3))
    return [ArrayShape(name or f"type{element}", dims, size * math.prod(dims))]


def _trip_count(config: str) -> int | None:
    """How often a loop runs, where XLA knows it."""
    try:
        found = json.loads(config or "{}")["known_trip_count"]["n"]
    except (ValueError, KeyError, TypeError):
        return None
    return int(found)


def _groups(message: Message) -> Groups | None:
    """The groups of devices, which are spelled in four ways: two lists, a permuted grid, and axes of a mesh. None for a
    way that isn't known here."""
    for part in message.messages(_IOTA):
        known = part.only(1, 2, 3, 4)
        return _of_grid(part.number(1), part.number(2), part.numbers(3), part.numbers(4)) if known else None
    for part in message.messages(_AXES):
        return _of_axes(part)
    for part in message.messages(_LIST):
        for grid in part.messages(2):
            return _of_grid(grid.number(1), grid.number(2), grid.numbers(3), grid.numbers(4))
        return _listed(tuple(part.parts(1))) if part.only(1) else None
    if max(message.fields) > _LATEST:
        return None
    return _listed(tuple(message.parts(_GROUPS)))


@bounded(256)
def _pairs(pairs: tuple[bytes, ...]) -> Groups:
    return np.array([(pair.number(1), pair.number(2)) for pair in map(Message, pairs)], np.int64)


@bounded(256)
def _listed(groups: tuple[bytes, ...]) -> Groups | None:
    rows = [Message(group).numbers(1) for group in groups]
    longest = max(map(len, rows), default=0)  # what smaller groups lack is -1
    return np.array([[*row, *[-1] * (longest - len(row))] for row in rows], np.int64)


def _of_grid(count: int, size: int, dims: Sequence[int], order: Sequence[int]) -> Groups:
    """`[2,4]<=[4,2]T(1,0)`: numbers in a grid, whose axes are permuted, read row by row."""
    numbers = np.arange(math.prod(dims), dtype=np.int64).reshape(dims)
    return numbers.transpose(order or range(len(dims))).reshape(count, size)


def _of_axes(message: Message) -> Groups | None:
    """`mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'b'}`: those that differ along these axes, or parts of axes, of a
    mesh."""
    (mesh,) = message.messages(1)
    chosen = [(axis.number(1), _part(axis)) for axis in message.messages(2)]
    if not (message.only(1, 2) and mesh.only(1, 2, 3) and all(axis.only(1, 2) for axis in message.messages(2))):
        return None
    sizes = [axis.number(2) for axis in mesh.messages(1)]
    devices = np.array(mesh.numbers(2) or range(math.prod(sizes)), np.int64)
    for grid in mesh.messages(3):
        devices = _of_grid(1, math.prod(sizes), grid.numbers(1), grid.numbers(2))
    # Each axis as factors of its size, so that a part of it is some of them.
    factors: list[tuple[int, int, int]] = []  # the axis, the product of the factors before, and the factor
    for i, size in enumerate(sizes):
        cuts = {1, size}.union(*[part for axis, part in chosen if axis == i])
        factors += [(i, before, after // before) for before, after in pairwise(sorted(cuts))]
    own = [
        at
        for axis, part in chosen
        for at, (i, before, _) in enumerate(factors)
        if i == axis and (not part or part[0] <= before < part[1])
    ]
    others = [at for at in range(len(factors)) if at not in own]
    count = math.prod([factors[at][2] for at in own])
    return devices.reshape([size for _, _, size in factors]).transpose([*others, *own]).reshape(-1, count)


def _part(axis: Message) -> tuple[int, ...]:
    """Where a part of an axis begins and ends, as products of factors; empty for all of it."""
    for part in axis.messages(2):
        return part.number(1), part.number(1) * part.number(2)
    return ()
