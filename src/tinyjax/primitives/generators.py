"""Random bits by one of XLA's generators, which `jax.random` uses for keys of the kind "rbg".

Philox: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import UINT8, UINT16, UINT32, UINT64, DType, HostArray
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import Literal
from tinyjax.ir.shapes import Shape, as_shape, dtype_of
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.shaping import expand_dims, squeeze
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.structure import broadcast_in_dim, check_arity, move_axis, shape_error
from tinyjax.primitives.threefry import Discrete, Threefry2x32, expect_dtype

V = TypeVar("V")
_Words = npt.NDArray[np.uint64]
_UNSIGNED: Final = frozenset({UINT8, UINT16, UINT32, UINT64})
_LOWER: Final = np.uint64(2**32 - 1)
_HALF: Final = np.uint64(32)


class RandomAlgorithm(enum.Enum):
    """Which generator; the default is the platform's: Philox on the host and on CPUs."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    @override
    def __str__(self) -> str:
        return self.name


@final
@frozen
class RngBitGenerator(Discrete):
    """A new state, and an array of random unsigned integers of this shape and dtype.

    The operand is the state: two uint64, a key and a count, or the same as four uint32. On a GPU the default algorithm
    may be another than on the host; a named one gives the same bits everywhere.
    """

    shape: Shape = field(converter=as_shape)
    dtype: DType = field(converter=dtype_of)
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT
    name: ClassVar[str] = "rng_bit_generator"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (state,) = avals
        expect_dtype(self.name, state, frozenset({UINT32, UINT64}))
        if state.shape != ((4,) if state.dtype == UINT32 else (2,)):
            raise shape_error(self.name, f"the state is u32[4] or u64[2], got {state}")
        out = array_type(self.shape, self.dtype)
        expect_dtype(f"{self.name} gives unsigned integers; its dtype", out, _UNSIGNED)
        return (state, out)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        key, count = np.ascontiguousarray(args[0]).view(np.uint64)
        size = math.prod(self.shape)
        words = 2 if self.dtype == UINT64 else 1
        if self.algorithm is RandomAlgorithm.RNG_THREE_FRY:
            used, bits = _by_threefry(key, count, self.shape, words)
        else:
            used = -(-size * words // 4)
            lanes = _philox(key, count + np.arange(used, dtype=np.uint64))
            bits = np.stack(lanes, -1).reshape(-1)[: size * words]
            bits = (bits.view(np.uint64) if words == 2 else bits).reshape(self.shape)
        state = np.array([key, count + np.uint64(used)])
        return (state.view(args[0].dtype), bits.astype(self.dtype))

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """All bits come from the first state, and only that one is new: as in JAX."""
        rows = move_axis(ctx, args[0], axes[0] or 0, 0)
        if not axis.size:
            out = self.type_of(array_type(ctx.aval(rows).shape[1:], ctx.aval(rows).dtype))[1]
            zero = ctx.constant(Literal.of(0, self.dtype))
            return [rows, broadcast_in_dim(ctx, zero, (0, *out.shape), ())], [0, 0]
        first = squeeze(ctx, slice_in_dim(ctx, rows, 0, 1, 1, 0), (0,))
        state, bits = ctx.bind(evolve(self, shape=(axis.size, *self.shape)), first)
        rest = slice_in_dim(ctx, rows, 1, axis.size, 1, 0)
        return [concatenate(ctx, [expand_dims(ctx, state, (0,)), rest], 0), bits], [0, 0]


def _by_threefry(key: np.uint64, count: np.uint64, shape: Shape, words: int) -> tuple[int, HostArray]:
    """How much of the count is used, and hashes of numbers from the count on.

    Two words are one element of 64 bits, or elements next to each other along an axis: the first of even size.
    """
    even = next((i for i, n in enumerate(shape) if n % 2 == 0), None)
    at = even if even is not None else max(range(len(shape)), key=shape.__getitem__, default=0)
    half = (*shape[:at], -(-shape[at] // 2), *shape[at + 1 :]) if shape and words == 1 else shape
    used = math.prod(half)
    counts = count + np.arange(used, dtype=np.uint64)
    parts = [np.asarray(part & _LOWER, np.uint32) for value in (key, counts) for part in (value, value >> _HALF)]
    first, second = (out.reshape(half) for out in Threefry2x32().evaluate(*parts))
    if words == 2:
        return used, first.astype(np.uint64) | (second.astype(np.uint64) << _HALF)
    if not shape:
        return used, first
    paired = np.stack((first, second), at + 1).reshape((*shape[:at], -1, *shape[at + 1 :]))
    return used, paired[(slice(None),) * at + (slice(shape[at]),)]


def _philox(key: np.uint64, counts: _Words) -> list[HostArray]:
    """Four words for each count: ten rounds of Philox, whose counter's upper half is the key, with what carries."""
    k = [int(key & _LOWER), int(key >> _HALF)]
    upper = key + (counts < counts[:1]).astype(np.uint64)
    c = [counts & _LOWER, counts >> _HALF, upper & _LOWER, upper >> _HALF]
    for _ in range(10):
        x, y = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(y >> _HALF) ^ c[1] ^ np.uint64(k[0]), y & _LOWER, (x >> _HALF) ^ c[3] ^ np.uint64(k[1]), x & _LOWER]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return [word.astype(np.uint32) for word in c]
