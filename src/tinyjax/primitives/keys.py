"""Keys of random numbers, and the bits that they stand for: what JAX's Threefry keys do, in the same order.

A key is one value of dtype `key<fry>`: two words of 32 bits that programs move about as one.
"""

from __future__ import annotations

import enum
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.errors import ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INT64, INTEGERS, KEY, UINT8, UINT16, UINT32, UINT64, DType, HostArray
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import Literal
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.bitwise import logical_or, logical_xor, shift_left, shift_right_logical
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import Dtypes, batch_elementwise, common_shape
from tinyjax.primitives.shaping import expand_dims, iota, reshape
from tinyjax.primitives.slicing import concatenate, slice_in_dim
from tinyjax.primitives.structure import broadcast_in_dim, broadcast_scalar, check_arity, move_axis, shape_error
from tinyjax.primitives.threefry import Discrete, Threefry2x32, expect_dtype, threefry2x32

V = TypeVar("V")
_Words = npt.NDArray[np.uint32]
_KEYS: Final = frozenset({KEY})
#: The dtypes of random bits, by how many an element has.
WIDTHS: Final[dict[int, DType]] = {8: UINT8, 16: UINT16, 32: UINT32, 64: UINT64}


class KeyImpl(enum.Enum):
    """How keys are made and used, by the tag that their dtype has."""

    FRY = "fry"


@frozen
class OfOne(Discrete):
    """Of one array: of keys, or of what becomes keys. Its axes come first in the result, unless a subclass says so."""

    accepts: ClassVar[Dtypes] = _KEYS

    @abstractmethod
    def result(self, x: ShapedArray) -> ShapedArray:
        """The type of the result."""

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        expect_dtype(self.name, avals[0], self.accepts)
        return (self.result(avals[0]),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        x, at = args[0], axes[0] or 0
        if at == ctx.aval(x).ndim - 1:  # which may be the axis of the words
            x, at = move_axis(ctx, x, at, 0), 0
        return ctx.bind(self, x), [at]


@final
@frozen
class RandomSeed(OfOne):
    """Keys made of integers, one of each: of the upper and the lower half of its 64 bits."""

    impl: KeyImpl = KeyImpl.FRY
    name: ClassVar[str] = "random_seed"
    accepts: ClassVar[Dtypes] = INTEGERS

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        return array_type(x.shape, KEY)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        (x,) = args
        wide = x.dtype in (INT64, UINT64)
        lower = x.astype(np.uint32)
        upper = (x.astype(np.uint64) >> np.uint64(32)).astype(np.uint32) if wide else np.zeros_like(lower)
        return (_keys(upper, lower),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        (x,) = args
        aval = ctx.aval(x)
        lower = convert(ctx, x, UINT32)
        if aval.dtype in (INT64, UINT64):
            upper = convert(ctx, shift_right_logical(ctx, x, ctx.constant(Literal.of(32, aval.dtype))), UINT32)
        else:
            upper = ctx.constant(Literal.of(0, UINT32))
        return [keys_of_words(ctx, upper, lower, aval.shape)]


@final
@frozen
class RandomWrap(OfOne):
    """Pairs of uint32, along the last axis, as keys."""

    impl: KeyImpl = KeyImpl.FRY
    name: ClassVar[str] = "random_wrap"
    accepts: ClassVar[Dtypes] = frozenset({UINT32})

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        if x.shape[-1:] != (2,):
            raise shape_error(self.name, f"a key consists of 2 words, along the last axis, got {x}")
        return array_type(x.shape[:-1], KEY)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (_as_keys(args[0]),)


@final
@frozen
class RandomUnwrap(OfOne):
    """The words of keys, along a new last axis of size 2."""

    name: ClassVar[str] = "random_unwrap"

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        return array_type((*x.shape, 2), UINT32)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (key_words(args[0]),)


@final
@frozen
class RandomClone(OfOne):
    """The same keys, meant to be used again."""

    name: ClassVar[str] = "random_clone"

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        return x

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.array(args[0]),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        return args


def _width(value: int) -> int:
    if value not in WIDTHS:
        raise ParameterError(f"random_bits: bit_width is one of {', '.join(map(str, WIDTHS))}, got {value}")
    return value


@final
@frozen
class RandomBits(OfOne):
    """For each key an array of this shape of unsigned integers of `bit_width` bits: hashes of the numbers from 0 on."""

    bit_width: int = field(converter=_width)
    shape: Shape = field(converter=as_shape)
    name: ClassVar[str] = "random_bits"

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        return array_type(x.shape + self.shape, WIDTHS[self.bit_width])

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        upper, lower = _hashes(args[0], self.shape)
        dtype = WIDTHS[self.bit_width]
        if self.bit_width == 64:
            return ((upper.astype(np.uint64) << np.uint64(32)) | lower,)
        return ((upper ^ lower).astype(dtype, copy=False),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        upper, lower = _hashed(ctx, args[0], self.shape)
        dtype = WIDTHS[self.bit_width]
        if self.bit_width == 64:
            count = ctx.constant(Literal.of(32, UINT64))
            high = shift_left(ctx, convert(ctx, upper, UINT64), count)
            return [logical_or(ctx, high, convert(ctx, lower, UINT64))]
        return [convert(ctx, logical_xor(ctx, upper, lower), dtype)]


@final
@frozen
class RandomSplit(OfOne):
    """For each key an array of this shape of new ones: hashes of the numbers from 0 on."""

    shape: Shape = field(converter=as_shape)
    name: ClassVar[str] = "random_split"

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        return array_type(x.shape + self.shape, KEY)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (_keys(*_hashes(args[0], self.shape)),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        upper, lower = _hashed(ctx, args[0], self.shape)
        return [keys_of_words(ctx, upper, lower, ctx.aval(args[0]).shape + self.shape)]


@final
@frozen
class RandomFoldIn(Discrete):
    """New keys made of keys and as many numbers of dtype uint32: the hash of each number."""

    name: ClassVar[str] = "random_fold_in"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 2)
        keys, data = avals
        expect_dtype(self.name, keys, _KEYS)
        expect_dtype(f"the second operand of {self.name}", data, frozenset({UINT32}))
        return (array_type(common_shape(self.name, avals), KEY),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        words = key_words(args[0])
        none = np.zeros((), np.uint32)
        return (_keys(*Threefry2x32().evaluate(words[..., 0], words[..., 1], none, args[1])),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return batch_elementwise(ctx, self, axis, args, axes)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        keys, data = args
        shape = common_shape(self.name, [ctx.aval(arg) for arg in args])
        k0, k1 = words_of_keys(ctx, keys)
        upper, lower = threefry2x32(ctx, k0, k1, ctx.constant(Literal.of(0, UINT32)), data)
        return [keys_of_words(ctx, upper, lower, shape)]


# Of arrays on the host.


def key_words(keys: HostArray) -> _Words:
    """The words of keys, along a new last axis."""
    return np.ascontiguousarray(keys).reshape(-1).view(np.uint32).reshape((*keys.shape, 2))


def _as_keys(words: HostArray) -> HostArray:
    return np.ascontiguousarray(words).reshape(-1).view(KEY).reshape(words.shape[:-1])


def _keys(upper: HostArray, lower: HostArray) -> HostArray:
    return _as_keys(np.stack((upper, lower), -1))


def _hashes(keys: HostArray, shape: Shape) -> tuple[HostArray, ...]:
    """Two words for each key and each number from 0 on, arranged as `shape`."""
    words = key_words(keys).reshape((*keys.shape, *[1] * len(shape), 2)) if keys.ndim else key_words(keys)
    counts = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    upper, lower = (counts >> np.uint64(32)).astype(np.uint32), counts.astype(np.uint32)
    return Threefry2x32().evaluate(words[..., 0], words[..., 1], upper, lower)


# The vocabulary.


def words_of_keys(ctx: Context[V], keys: V) -> tuple[V, V]:
    """The first and the second words of keys."""
    shape = ctx.aval(keys).shape
    (words,) = ctx.bind(RandomUnwrap(), keys)
    first, second = (reshape(ctx, slice_in_dim(ctx, words, i, i + 1, 1, len(shape)), shape) for i in range(2))
    return first, second


def keys_of_words(ctx: Context[V], upper: V, lower: V, shape: Shape) -> V:
    """The keys of this shape with these words."""
    parts = [expand_dims(ctx, broadcast_scalar(ctx, word, shape), (len(shape),)) for word in (upper, lower)]
    return ctx.bind(RandomWrap(), concatenate(ctx, parts, len(shape)))[0]


def _hashed(ctx: Context[V], keys: V, shape: Shape) -> tuple[V, V]:
    """Two words for each key and each number from 0 on, arranged as `shape`."""
    own, size = ctx.aval(keys).shape, math.prod(shape)
    whole, zero = own + shape, ctx.constant(Literal.of(0, UINT32))
    at = tuple(range(len(own), len(whole)))
    if size == 1:
        counts = (zero, zero)
    elif size <= 2**32:
        counts = (zero, broadcast_in_dim(ctx, reshape(ctx, iota(ctx, UINT32, (size,), 0), shape), whole, at))
    else:
        wide = broadcast_in_dim(ctx, reshape(ctx, iota(ctx, UINT64, (size,), 0), shape), whole, at)
        upper = shift_right_logical(ctx, wide, ctx.constant(Literal.of(32, UINT64)))
        counts = (convert(ctx, upper, UINT32), convert(ctx, wide, UINT32))
    k0, k1 = (
        broadcast_in_dim(ctx, word, whole, tuple(range(len(own)))) if own else word for word in words_of_keys(ctx, keys)
    )
    upper, lower = (broadcast_scalar(ctx, out, whole) for out in threefry2x32(ctx, k0, k1, *counts))
    return upper, lower
