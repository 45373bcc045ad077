"""What keys of each implementation are made and used by: arithmetic on their words, in any context.

The words of keys are as many arrays of dtype uint32 as a key has words, each of the shape that the array of keys has.
Threefry and Philox: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import KEY_NAMES, UINT8, UINT16, UINT32, UINT64, DType, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Literal
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.bitwise import logical_or, logical_xor, mulhi, shift_left, shift_right_logical
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.generators import RngBitGenerator
from tinyjax.primitives.shaping import iota, reshape, squeeze
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.structure import broadcast_in_dim, broadcast_scalar
from tinyjax.primitives.threefry import threefry2x32
from tinyjax.primitives.threefry_values import PARITY

V = TypeVar("V")
#: The dtypes of random bits, by how many an element has.
WIDTHS: Final[dict[int, DType]] = {8: UINT8, 16: UINT16, 32: UINT32, 64: UINT64}


class Generator(ABC):
    """One implementation."""

    __slots__ = ()

    @abstractmethod
    def seeded(self, ctx: Context[V], upper: V, lower: V) -> Sequence[V]:
        """The words of keys made of integers, of which these are the halves."""

    @abstractmethod
    def split(self, ctx: Context[V], words: Sequence[V], own: Shape, shape: Shape) -> Sequence[V]:
        """The words of new keys: an array of `shape` for each of the keys, whose own shape comes first."""

    @abstractmethod
    def folded_in(self, ctx: Context[V], words: Sequence[V], data: V, shape: Shape) -> Sequence[V]:
        """The words of new keys of this shape, made of keys and numbers, which can be broadcast to it."""

    @abstractmethod
    def bits(self, ctx: Context[V], words: Sequence[V], own: Shape, width: int, shape: Shape) -> V:
        """An array of `shape` of random bits for each of the keys, whose own shape comes first."""


class Hashed(Generator):
    """New keys and bits are hashes of numbers, by the words of a key."""

    __slots__ = ()
    #: Of how many words the hash is that is made, and what it is made of besides a key.
    counters: ClassVar[int] = 4

    @abstractmethod
    def hash(self, ctx: Context[V], words: Sequence[V], counters: Sequence[V]) -> Sequence[V]:
        """Words that are hashes of others. All operands have one shape, or are scalars."""

    def halves(self, ctx: Context[V], hashes: Sequence[V]) -> tuple[V, V]:
        """What the upper and lower halves of 64 bits are made of."""
        return hashes[0], hashes[1]

    @override
    def split(self, ctx: Context[V], words: Sequence[V], own: Shape, shape: Shape) -> Sequence[V]:
        spread, pair = _spread(ctx, words, own, shape), _counts(ctx, own, shape)
        hashes = self.hash(ctx, spread, [*self._zeros(ctx), *pair])[: len(words)]
        return [broadcast_scalar(ctx, word, own + shape) for word in hashes]

    @override
    def folded_in(self, ctx: Context[V], words: Sequence[V], data: V, shape: Shape) -> Sequence[V]:
        spread = [_broadcast(ctx, word, shape) for word in words]
        counters = [*self._zeros(ctx), _word(ctx, 0), _broadcast(ctx, data, shape)]
        return [broadcast_scalar(ctx, word, shape) for word in self.hash(ctx, spread, counters)[: len(words)]]

    @override
    def bits(self, ctx: Context[V], words: Sequence[V], own: Shape, width: int, shape: Shape) -> V:
        spread, pair, dtype = _spread(ctx, words, own, shape), _counts(ctx, own, shape), WIDTHS[width]
        hashes = [broadcast_scalar(ctx, word, own + shape) for word in
                  self.hash(ctx, spread, [*pair, *self._zeros(ctx)])]  # fmt: skip
        if width == 64:
            upper, lower = (convert(ctx, half, UINT64) for half in self.halves(ctx, hashes))
            return logical_or(ctx, shift_left(ctx, upper, ctx.constant(Literal.of(32, UINT64))), lower)
        return convert(ctx, functools.reduce(lambda x, y: logical_xor(ctx, x, y), hashes), dtype)

    def _zeros(self, ctx: Context[V]) -> list[V]:
        return [_word(ctx, 0)] * (self.counters - 2)


@final
class Threefry2(Hashed):
    """JAX's default: "threefry2x32"."""

    __slots__ = ()
    counters: ClassVar[int] = 2

    @override
    def seeded(self, ctx: Context[V], upper: V, lower: V) -> Sequence[V]:
        return [upper, lower]

    @override
    def hash(self, ctx: Context[V], words: Sequence[V], counters: Sequence[V]) -> Sequence[V]:
        (k0, k1), (x0, x1) = words, counters
        return threefry2x32(ctx, k0, k1, x0, x1)


@final
class Threefry4(Hashed):
    """Of four words: "threefry4x32"."""

    __slots__ = ()
    #: By how many bits two of the words are rotated, round by round, and again.
    rotations: ClassVar[Sequence[tuple[int, int]]] = (
        (10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20),
    )  # fmt: skip

    @override
    def seeded(self, ctx: Context[V], upper: V, lower: V) -> Sequence[V]:
        zero = _word(ctx, 0)
        return self.hash(ctx, [upper, lower, zero, zero], [zero] * 4)

    @override
    def halves(self, ctx: Context[V], hashes: Sequence[V]) -> tuple[V, V]:
        return logical_xor(ctx, hashes[0], hashes[2]), logical_xor(ctx, hashes[1], hashes[3])

    @override
    def hash(self, ctx: Context[V], words: Sequence[V], counters: Sequence[V]) -> Sequence[V]:
        keys = [*words, functools.reduce(lambda x, y: logical_xor(ctx, x, y), [*words, _word(ctx, PARITY)])]
        x = [add(ctx, word, key) for word, key in zip(counters, words, strict=True)]
        for i in range(20):
            for to, other, count in zip((0, 2), (1, 3) if i % 2 == 0 else (3, 1), self.rotations[i % 8], strict=True):
                x[to] = add(ctx, x[to], x[other])
                left = shift_left(ctx, x[other], _word(ctx, count))
                right = shift_right_logical(ctx, x[other], _word(ctx, 32 - count))
                x[other] = logical_xor(ctx, x[to], logical_or(ctx, left, right))
            if i % 4 == 3:
                x = [add(ctx, word, keys[(i // 4 + 1 + j) % 5]) for j, word in enumerate(x)]
                x[3] = add(ctx, x[3], _word(ctx, i // 4 + 1))
        return x


@final
class Philox2(Hashed):
    """A key of one word: "philox2x32"."""

    __slots__ = ()
    counters: ClassVar[int] = 2

    @override
    def seeded(self, ctx: Context[V], upper: V, lower: V) -> Sequence[V]:
        return self.hash(ctx, [_word(ctx, 0)], [upper, lower])[:1]

    @override
    def hash(self, ctx: Context[V], words: Sequence[V], counters: Sequence[V]) -> Sequence[V]:
        (key,), (x0, x1) = words, counters
        for i in range(10):
            bumped = add(ctx, key, _word(ctx, i * 0x9E3779B9))
            high, low = _product(ctx, x0, 0xD256D193)
            x0, x1 = _mixed(ctx, high, x1, bumped), low
        return [x0, x1]


@final
class Philox4(Hashed):
    """A key of two words: "philox4x32"."""

    __slots__ = ()

    @override
    def seeded(self, ctx: Context[V], upper: V, lower: V) -> Sequence[V]:
        zero = _word(ctx, 0)
        return self.hash(ctx, [zero, zero], [upper, lower, zero, zero])[:2]

    @override
    def hash(self, ctx: Context[V], words: Sequence[V], counters: Sequence[V]) -> Sequence[V]:
        x0, x1, x2, x3 = counters
        for i in range(10):
            k0, k1 = (
                add(ctx, key, _word(ctx, i * step)) for key, step in zip(words, (0x9E3779B9, 0xBB67AE85), strict=True)
            )
            (high0, low0), (high1, low1) = _product(ctx, x0, 0xD2511F53), _product(ctx, x2, 0xCD9E8D57)
            x0, x1, x2, x3 = _mixed(ctx, high1, x1, k0), low1, _mixed(ctx, high0, x3, k1), low0
        return [x0, x1, x2, x3]


class ByXla(Generator):
    """Bits come from XLA's generator. Those of several keys all come from the first of them, as in JAX."""

    __slots__ = ()

    @override
    def seeded(self, ctx: Context[V], upper: V, lower: V) -> Sequence[V]:
        return [upper, lower, upper, lower]

    @override
    @final
    def bits(self, ctx: Context[V], words: Sequence[V], own: Shape, width: int, shape: Shape) -> V:
        return _generated(ctx, words, own, own + shape, WIDTHS[width])


@final
class Rbg(ByXla):
    """New keys are made by Threefry: "rbg"."""

    __slots__ = ()

    @override
    def split(self, ctx: Context[V], words: Sequence[V], own: Shape, shape: Shape) -> Sequence[V]:
        return [word for half in (words[:2], words[2:]) for word in THREEFRY.split(ctx, half, own, shape)]

    @override
    def folded_in(self, ctx: Context[V], words: Sequence[V], data: V, shape: Shape) -> Sequence[V]:
        return [word for half in (words[:2], words[2:]) for word in THREEFRY.folded_in(ctx, half, data, shape)]


@final
class UnsafeRbg(ByXla):
    """New keys come from XLA's generator, too: "unsafe_rbg"."""

    __slots__ = ()

    @override
    def split(self, ctx: Context[V], words: Sequence[V], own: Shape, shape: Shape) -> Sequence[V]:
        bits = _generated(ctx, words, own, (*own, 10 * math.prod(shape), 4), UINT32)
        keys = slice_in_dim(ctx, bits, 0, ctx.aval(bits).shape[-2], 10, len(own))
        return separated(ctx, reshape(ctx, keys, (*own, *shape, 4)))

    @override
    def folded_in(self, ctx: Context[V], words: Sequence[V], data: V, shape: Shape) -> Sequence[V]:
        own = ctx.aval(data).shape
        bits = _generated(ctx, self.seeded(ctx, _filled(ctx, 0, own), data), own, (*own, 10, 4), UINT32)
        last = reshape(ctx, slice_in_dim(ctx, bits, 9, 10, 1, len(own)), (*own, 4))
        return [
            broadcast_scalar(ctx, logical_xor(ctx, _broadcast(ctx, word, shape), _broadcast(ctx, other, shape)), shape)
            for word, other in zip(words, separated(ctx, last), strict=True)
        ]


THREEFRY: Final = Threefry2()
#: By JAX's names.
GENERATORS: Final[dict[str, Generator]] = {
    "threefry2x32": THREEFRY,
    "rbg": Rbg(),
    "unsafe_rbg": UnsafeRbg(),
    "threefry4x32": Threefry4(),
    "philox2x32": Philox2(),
    "philox4x32": Philox4(),
}


def generator_of(dtype: DType) -> Generator:
    """What keys of this dtype are made and used by."""
    return GENERATORS[KEY_NAMES[dtype]]


def word_count(dtype: DType) -> int:
    """How many words a key of this dtype has."""
    return dtype.itemsize // 4


@final
class OnHost(Context[HostArray]):
    """Arithmetic on arrays of NumPy's."""

    __slots__ = ()

    @override
    def bind(self, primitive: Primitive, *args: HostArray) -> tuple[HostArray, ...]:
        return primitive.evaluate(*args)

    @override
    def constant(self, value: ConcreteValue | Literal, /) -> HostArray:
        return np.asarray(value.value, value.aval.dtype) if isinstance(value, Literal) else np.asarray(value.data)

    @override
    def aval(self, value: HostArray, /) -> ShapedArray:
        return array_type(value.shape, value.dtype)


ON_HOST: Final = OnHost()


# Arithmetic.


def separated(ctx: Context[V], words: V) -> list[V]:
    """The words along the last axis, each as an array of its own."""
    *shape, count = ctx.aval(words).shape
    return [reshape(ctx, slice_in_dim(ctx, words, i, i + 1, 1, len(shape)), tuple(shape)) for i in range(count)]


def _word(ctx: Context[V], value: int) -> V:
    return ctx.constant(Literal.of(value % 2**32, UINT32))


def _filled(ctx: Context[V], value: int, shape: Shape) -> V:
    return broadcast_scalar(ctx, _word(ctx, value), shape) if shape else _word(ctx, value)


def _product(ctx: Context[V], x: V, factor: int) -> tuple[V, V]:
    """The upper and the lower half."""
    return mulhi(ctx, _word(ctx, factor), x), mul(ctx, _word(ctx, factor), x)


def _mixed(ctx: Context[V], x: V, y: V, z: V) -> V:
    return logical_xor(ctx, logical_xor(ctx, x, y), z)


def _spread(ctx: Context[V], words: Sequence[V], own: Shape, shape: Shape) -> Sequence[V]:
    """Each word once for each of the elements that are made of its key."""
    if not own:
        return words
    return [broadcast_in_dim(ctx, word, own + shape, tuple(range(len(own)))) for word in words]


def _counts(ctx: Context[V], own: Shape, shape: Shape) -> tuple[V, V]:
    """The numbers from 0 on, arranged as `shape`, for each key: their upper and their lower halves."""
    size, whole = math.prod(shape), own + shape
    at = tuple(range(len(own), len(whole)))
    if size == 1:
        return _word(ctx, 0), _word(ctx, 0)
    if size <= 2**32:
        return _word(ctx, 0), broadcast_in_dim(ctx, reshape(ctx, iota(ctx, UINT32, (size,), 0), shape), whole, at)
    wide = broadcast_in_dim(ctx, reshape(ctx, iota(ctx, UINT64, (size,), 0), shape), whole, at)
    upper = shift_right_logical(ctx, wide, ctx.constant(Literal.of(32, UINT64)))
    return convert(ctx, upper, UINT32), convert(ctx, wide, UINT32)


def _broadcast(ctx: Context[V], x: V, shape: Shape) -> V:
    """x repeated along axes where it has size 1; a scalar stays one."""
    own = ctx.aval(x).shape
    if own in ((), shape):
        return x
    single = tuple(i for i, size in enumerate(own) if size == 1 and shape[i] != 1)
    return broadcast_in_dim(ctx, squeeze(ctx, x, single), shape, tuple(i for i in range(len(own)) if i not in single))


def _generated(ctx: Context[V], words: Sequence[V], own: Shape, shape: Shape, dtype: DType) -> V:
    """Bits of XLA's generator, from the first key on."""
    if 0 in own:
        return broadcast_in_dim(ctx, ctx.constant(Literal.of(0, dtype)), shape, ())
    firsts = [slice_in_dim(ctx, reshape(ctx, word, (math.prod(own),)), 0, 1, 1, 0) for word in words]
    return ctx.bind(RngBitGenerator(shape, dtype), concatenate(ctx, firsts, 0))[1]
