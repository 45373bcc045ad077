"""Threefry-2x32, the hash that random numbers are made by: of two words by two others, which are the key.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
import numpy.typing as npt
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import UINT32, HostArray, short_name
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Zero
from tinyjax.ir.program import Literal
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import zero_tangents
from tinyjax.primitives.bitwise import logical_or, logical_xor, shift_left, shift_right_logical
from tinyjax.primitives.elementwise import Dtypes, add, batch_elementwise, common_shape, sub
from tinyjax.primitives.structure import broadcast_scalar, check_arity

V = TypeVar("V")
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
_PACKED: Final = 128


def expect_dtype(name: str, aval: ShapedArray, accepted: Dtypes) -> None:
    """A TypingError unless an operand has one of these dtypes."""
    if aval.dtype not in accepted:
        names = sorted(map(short_name, accepted), key=lambda text: (text[0], len(text), text))
        raise TypingError(f"{name} takes {', '.join(names)}; got {aval}")


@frozen
class Discrete(Primitive):
    """Its values are integers or keys: the derivative is zero everywhere."""

    plain: ClassVar[bool] = True

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs = ctx.bind(self, *primals)
        return outs, zero_tangents(ctx, outs)


@final
@frozen
class Threefry2x32(Discrete):
    """The hash of pairs of words, the last two operands, by the key that the first two are.

    All are uint32. Operands may be scalars; the others have one shape, which the two results have.
    """

    name: ClassVar[str] = "threefry2x32"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 4)
        for aval in avals:
            expect_dtype(self.name, aval, frozenset({UINT32}))
        out = array_type(common_shape(self.name, avals), UINT32)
        return (out, out)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        shape = np.broadcast_shapes(*[arg.shape for arg in args])
        full = [arg if arg.shape in ((), shape) else np.broadcast_to(arg, shape) for arg in args]
        flat = [arg.reshape(-1) for arg in full]
        size = math.prod(shape)
        if 0 < size <= _PACKED:
            return tuple([out.reshape(shape) for out in _hash_packed(flat, size)])
        outs = np.empty((2, size), np.uint32)
        for start in range(0, size, _BLOCK):
            block = slice(start, start + _BLOCK)
            k0, k1, w0, w1 = [arg[block] if arg.size != 1 else arg for arg in flat]
            _hash(k0, k1, w0, w1, outs[:, block])
        return outs[0].reshape(shape), outs[1].reshape(shape)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return batch_elementwise(ctx, self, axis, args, axes)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        """Round by round, in arithmetic on words."""
        shape = common_shape(self.name, [ctx.aval(arg) for arg in args])
        k0, k1, *words = args
        keys = [k0, k1, logical_xor(ctx, logical_xor(ctx, k0, k1), _word(ctx, PARITY))]
        x0, x1 = (broadcast_scalar(ctx, add(ctx, word, key), shape) for word, key in zip(words, keys, strict=False))
        for i in range(ROUNDS):
            counts = [_word(ctx, d) for d in ROTATIONS[i % 2]]
            x0, x1 = threefry_rounds(ctx, x0, x1, counts)
            x0, x1 = threefry_key_added(ctx, x0, x1, keys[(i + 1) % 3], keys[(i + 2) % 3], _word(ctx, i + 1))
        return x0, x1


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


def _hash_packed(args: Sequence[_Words], size: int) -> tuple[_Words, _Words]:
    """The two words of the hash, for a few pairs: all of them in one Python integer, each in the lower half of 64 bits
    of its own, as an operation on that takes a fifth of the time of a ufunc."""
    every = int.from_bytes(b"\1\0\0\0\0\0\0\0" * size, "little")
    low = every * 0xFFFFFFFF

    def packed(words: _Words) -> int:
        if words.size == 1:
            return every * int(words[0])
        return int.from_bytes(words.astype("<u8").tobytes(), "little")

    k0, k1, x0, x1 = map(packed, args)
    keys = (k0, k1, k0 ^ k1 ^ every * int(PARITY))
    x0, x1 = (x0 + k0) & low, (x1 + k1) & low
    for i in range(ROUNDS):
        for count in ROTATIONS[i % 2]:
            x0 = (x0 + x1) & low
            x1 = ((x1 << count | x1 >> 32 - count) & low) ^ x0
        x0 = (x0 + keys[(i + 1) % 3]) & low
        x1 = (x1 + keys[(i + 2) % 3] + every * (i + 1)) & low
    first, second = (np.frombuffer(x.to_bytes(8 * size, "little"), "<u8").astype(np.uint32) for x in (x0, x1))
    return first, second


def _word(ctx: Context[V], value: int) -> V:
    return ctx.constant(Literal.of(value, UINT32))


# The vocabulary.


def threefry_rounds(ctx: Context[V], x0: V, x1: V, counts: Sequence[V]) -> tuple[V, V]:
    """Rounds without a key, one for each of the counts, which are scalars."""
    for count in counts:
        x0 = add(ctx, x0, x1)
        right = shift_right_logical(ctx, x1, sub(ctx, _word(ctx, 32), count))
        x1 = logical_xor(ctx, x0, logical_or(ctx, shift_left(ctx, x1, count), right))
    return x0, x1


def threefry_key_added(ctx: Context[V], x0: V, x1: V, k0: V, k1: V, number: V) -> tuple[V, V]:
    """Adds words of the key, and the number of the round."""
    return add(ctx, x0, k0), add(ctx, add(ctx, x1, k1), number)


def threefry2x32(ctx: Context[V], k0: V, k1: V, x0: V, x1: V) -> tuple[V, V]:
    """The hash of x0 and x1 by the key k0, k1."""
    first, second = ctx.bind(Threefry2x32(), k0, k1, x0, x1)
    return first, second
