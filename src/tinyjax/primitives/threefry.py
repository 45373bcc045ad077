"""Threefry-2x32, the hash that random numbers are made by: of two words by two others, which are the key.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

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
from tinyjax.primitives.threefry_values import PARITY, ROTATIONS, ROUNDS, hashes

V = TypeVar("V")


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
        k0, k1, w0, w1 = args
        return hashes(k0, k1, w0, w1)

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
