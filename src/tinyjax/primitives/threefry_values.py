"""Threefry-2x32 on the host: a few pairs of words as one integer of Python's, many by NumPy.

An operation on one integer that holds a few words takes a tenth of the time of a ufunc on them. Each word is in the
lower half of 64 bits of its own, and what is above it is cut off once a round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tinyjax.caching import bounded
from tinyjax.ir.dtypes import KEY, UINT32, HostArray

_Words = npt.NDArray[np.uint32]
#: By how many bits words are rotated in rounds of four; one row for every other round.
ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
#: What the third word of the key is mixed with.
PARITY: Final = 0x1BD11BDA
#: How many rounds of four there are.
ROUNDS: Final = 5
#: So many elements are hashed at a time: what they need stays in the processor's cache.
_BLOCK: Final = 1 << 14
#: So few that they are hashed as one integer.
FEW: Final = 384
_WORD: Final = 0xFFFFFFFF


class _Lanes(NamedTuple):
    """Words of 64 bits next to each other in an integer: in each of them 1, a word of ones, and its number."""

    every: int
    low: int
    counts: int


@bounded(FEW)
def _lanes(size: int) -> _Lanes:
    every = int.from_bytes(b"\1\0\0\0\0\0\0\0" * size, "little")
    return _Lanes(every, every * _WORD, int.from_bytes(np.arange(size, dtype="<u8").tobytes(), "little"))


def _rounds(k0: int, k1: int, x0: int, x1: int, lanes: _Lanes) -> tuple[int, int]:
    """The two words of the hash, all given and returned in lanes."""
    every, low, _ = lanes
    keys = (k0, k1, k0 ^ k1 ^ every * PARITY)
    x0, x1 = x0 + k0, (x1 + k1) & low
    for i in range(ROUNDS):
        for count in ROTATIONS[i % 2]:
            x0 += x1  # of which the upper half is cut off at the end: it makes no difference below it
            x1 = ((x1 << count | x1 >> 32 - count) ^ x0) & low
        x0 += keys[(i + 1) % 3]
        x1 = (x1 + keys[(i + 2) % 3] + every * (i + 1)) & low
    return x0 & low, x1


def _of_counts(key: HostArray, size: int) -> tuple[int, int]:
    """The hashes of the numbers from 0 on, in lanes, by one key."""
    words = int.from_bytes(key.tobytes(), "little")
    lanes = _lanes(size)
    return _rounds((words & _WORD) * lanes.every, (words >> 32) * lanes.every, 0, lanes.counts, lanes)


def few_bits(key: HostArray, size: int, width: int) -> HostArray:
    """Random bits, flat, of one key: not more than `FEW`, of 32 bits or 64."""
    x0, x1 = _of_counts(key, size)
    if width == 64:
        return np.frombuffer((x0 << 32 | x1).to_bytes(8 * size, "little"), "<u8").astype(np.uint64)
    return np.frombuffer((x0 ^ x1).to_bytes(8 * size, "little"), "<u8").astype(UINT32)


def few_keys(key: HostArray, size: int) -> HostArray:
    """New keys made of one, flat: not more than `FEW`."""
    return _keys_of(*_of_counts(key, size), size)


def key_with(key: HostArray, number: int) -> HostArray:
    """A new key made of one and a number of 32 bits."""
    words = int.from_bytes(key.tobytes(), "little")
    return _keys_of(*_rounds(words & _WORD, words >> 32, 0, number, _lanes(1)), 1).reshape(())


def _keys_of(x0: int, x1: int, size: int) -> HostArray:
    words = np.frombuffer((x0 | x1 << 32).to_bytes(8 * size, "little"), "<u4")
    return words.astype(UINT32).view(KEY)


def hashes(k0: _Words, k1: _Words, w0: _Words, w1: _Words) -> tuple[_Words, _Words]:
    """The two words of the hash of each pair: scalars, or arrays of one shape."""
    args = (k0, k1, w0, w1)
    shape = np.broadcast_shapes(*[arg.shape for arg in args])
    full = [arg if arg.shape in ((), shape) else np.broadcast_to(arg, shape) for arg in args]
    flat = [arg.reshape(-1) for arg in full]
    size = math.prod(shape)
    if 0 < size <= FEW:
        first, second = _few(flat, size)
        return first.reshape(shape), second.reshape(shape)
    outs = np.empty((2, size), np.uint32)
    for start in range(0, size, _BLOCK):
        block = slice(start, start + _BLOCK)
        k0, k1, w0, w1 = [arg[block] if arg.size != 1 else arg for arg in flat]
        _hash(k0, k1, w0, w1, outs[:, block])
    return outs[0].reshape(shape), outs[1].reshape(shape)


def _few(args: Sequence[_Words], size: int) -> tuple[_Words, _Words]:
    lanes = _lanes(size)

    def packed(words: _Words) -> int:
        if words.size == 1:
            return lanes.every * int(words[0])
        return int.from_bytes(words.astype("<u8").tobytes(), "little")

    k0, k1, x0, x1 = map(packed, args)
    first, second = (
        np.frombuffer(x.to_bytes(8 * size, "little"), "<u8").astype(np.uint32) for x in _rounds(k0, k1, x0, x1, lanes)
    )
    return first, second


def _hash(k0: _Words, k1: _Words, w0: _Words, w1: _Words, out: _Words) -> None:
    """Writes the two words of the hash into `out`."""
    x0, x1 = out
    keys = (k0, k1, k0 ^ k1 ^ np.uint32(PARITY))
    np.add(w0, k0, out=x0)
    np.add(w1, k1, out=x1)
    spare = np.empty_like(x0)
    for i in range(ROUNDS):
        for count in ROTATIONS[i % 2]:
            np.add(x0, x1, out=x0)
            np.right_shift(x1, np.uint32(32 - count), out=spare)
            np.left_shift(x1, np.uint32(count), out=x1)
            np.bitwise_or(x1, spare, out=x1)
            np.bitwise_xor(x1, x0, out=x1)
        np.add(x0, keys[(i + 1) % 3], out=x0)
        np.add(x1, keys[(i + 2) % 3] + np.uint32(i + 1), out=x1)
