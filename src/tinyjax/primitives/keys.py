"""Keys of random numbers, and the bits that they stand for: what JAX's keys do, in the same order.

A key is one value of dtype `key<fry>`, or of that of another generator: a few words of 32 bits that programs move about
as one.
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

from tinyjax.errors import ParameterError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    INT64,
    INTEGERS,
    KEY,
    KEY_NAMES,
    KEYS,
    UINT32,
    UINT64,
    DType,
    HostArray,
    numbers_of,
    short_name,
)
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import Literal
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.bitwise import shift_right_logical
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import Dtypes, common_shape
from tinyjax.primitives.key_generators import ON_HOST, WIDTHS, generator_of, separated, word_count
from tinyjax.primitives.shaping import expand_dims
from tinyjax.primitives.stacking import stack
from tinyjax.primitives.structure import broadcast_scalar, check_arity, check_elements, move_axis, shape_error
from tinyjax.primitives.threefry import Discrete, expect_dtype
from tinyjax.primitives.threefry_values import FEW, few_bits, few_keys, hashes, key_with

V = TypeVar("V")
_Words = npt.NDArray[np.uint32]


class KeyImpl(enum.Enum):
    """How keys are made and used, by the tag that their dtype has."""

    FRY = "fry"
    RBG = "rbg"
    UNSAFE_RBG = "urbg"
    FRY4 = "fry4"
    PHILOX2 = "phx2"
    PHILOX4 = "phx4"

    @property
    def dtype(self) -> DType:
        """The dtype of such keys."""
        return _DTYPES[self]


_DTYPES: Final = {KeyImpl(tag): dtype for dtype in KEY_NAMES for tag in dtype.names or ()}


@frozen
class OfOne(Discrete):
    """Of one array: of keys, or of what becomes keys. Its axes come first in the result, unless a subclass says so."""

    accepts: ClassVar[Dtypes] = KEYS

    @abstractmethod
    def result(self, x: ShapedArray) -> ShapedArray:
        """The type of the result."""

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        _expect(self.name, avals[0], self.accepts)
        return (self.result(avals[0]),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return ctx.bind(self, args[0]), axes


@final
@frozen
class RandomSeed(OfOne):
    """Keys made of integers, one of each: of the upper and the lower half of its 64 bits."""

    impl: KeyImpl = KeyImpl.FRY
    name: ClassVar[str] = "random_seed"
    accepts: ClassVar[Dtypes] = INTEGERS

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        return array_type(x.shape, self.impl.dtype)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        if self.impl is not KeyImpl.FRY:
            return tuple(self.expand(ON_HOST, args))
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
        words = generator_of(self.impl.dtype).seeded(ctx, upper, lower)
        return [keys_of_words(ctx, words, aval.shape, self.impl)]


@final
@frozen
class RandomWrap(OfOne):
    """Words of dtype uint32, along the last axis, as keys."""

    impl: KeyImpl = KeyImpl.FRY
    name: ClassVar[str] = "random_wrap"
    accepts: ClassVar[Dtypes] = frozenset({UINT32})

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        dtype = self.impl.dtype
        count = word_count(dtype)
        if x.shape[-1:] != (count,):
            words = f"{count} word" if count == 1 else f"{count} words"
            raise shape_error(
                self.name, f"a key of dtype {short_name(dtype)} consists of {words}, along the last axis, got {x}"
            )
        return array_type(x.shape[:-1], dtype)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (as_keys(args[0], self.impl.dtype),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return ctx.bind(self, move_axis(ctx, args[0], axes[0] or 0, 0)), [0]


@final
@frozen
class RandomUnwrap(OfOne):
    """The words of keys, along a new last axis."""

    name: ClassVar[str] = "random_unwrap"

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        return array_type((*x.shape, word_count(x.dtype)), UINT32)

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
        if args[0].dtype != KEY:
            return tuple(self.expand(ON_HOST, args))
        dtype = WIDTHS[self.bit_width]
        if not args[0].ndim and 0 < (size := math.prod(self.shape)) <= FEW:
            return (few_bits(args[0], size, self.bit_width).astype(dtype, copy=False).reshape(self.shape),)
        upper, lower = _hashes(args[0], self.shape)
        if self.bit_width == 64:
            return ((upper.astype(np.uint64) << np.uint64(32)) | lower,)
        return ((upper ^ lower).astype(dtype, copy=False),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        keys = ctx.aval(args[0])
        words = words_of_keys(ctx, args[0])
        return [generator_of(keys.dtype).bits(ctx, words, keys.shape, self.bit_width, self.shape)]


@final
@frozen
class RandomSplit(OfOne):
    """For each key an array of this shape of new ones: hashes of the numbers from 0 on."""

    shape: Shape = field(converter=as_shape)
    name: ClassVar[str] = "random_split"

    @override
    def result(self, x: ShapedArray) -> ShapedArray:
        return array_type(x.shape + self.shape, x.dtype)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        if args[0].dtype != KEY:
            return tuple(self.expand(ON_HOST, args))
        if not args[0].ndim and 0 < (size := math.prod(self.shape)) <= FEW:
            return (few_keys(args[0], size).reshape(self.shape),)
        return (_keys(*_hashes(args[0], self.shape)),)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        keys = ctx.aval(args[0])
        words = generator_of(keys.dtype).split(ctx, words_of_keys(ctx, args[0]), keys.shape, self.shape)
        return [keys_of_words(ctx, words, keys.shape + self.shape, impl_of(keys.dtype))]


@final
@frozen
class RandomFoldIn(Discrete):
    """New keys made of keys and as many numbers of dtype uint32: the hash of each number.

    Either may be a scalar, or have axes of size 1 where the other has others.
    """

    name: ClassVar[str] = "random_fold_in"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 2)
        keys, data = avals
        _expect(self.name, keys, KEYS)
        expect_dtype(f"the second operand of {self.name}", data, frozenset({UINT32}))
        return (array_type(_together(self.name, avals), keys.dtype),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        if args[0].dtype != KEY:
            return tuple(self.expand(ON_HOST, args))
        keys, data = args
        if not keys.ndim and not data.ndim:
            return (key_with(keys, int(data)),)
        words = key_words(keys)
        return (_keys(*hashes(words[..., 0], words[..., 1], np.zeros((), np.uint32), data)),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        avals = [ctx.aval(arg) for arg in args]
        alike = {(aval.shape, at) for aval, at in zip(avals, axes, strict=True) if aval.shape}
        if len(alike) == 1:  # mapped alike, or one of them is a scalar
            return ctx.bind(self, *args), [at for _, at in alike]
        if len({x.ndim - (at is not None) for x, at in zip(avals, axes, strict=True)} - {0}) > 1:
            check_elements(self, avals, axes)
        # What isn't mapped keeps an axis of size 1: where bits are made of the first of several keys or numbers, it
        # matters how many there are.
        moved = [
            (expand_dims(ctx, arg, (0,)) if aval.shape else arg) if at is None else move_axis(ctx, arg, at, 0)
            for arg, aval, at in zip(args, avals, axes, strict=True)
        ]
        ndim = max(ctx.aval(arg).ndim for arg in moved)
        aligned = [
            arg if at is None else expand_dims(ctx, arg, tuple(range(ctx.aval(arg).ndim, ndim)))
            for arg, at in zip(moved, axes, strict=True)
        ]
        return ctx.bind(self, *aligned), [0]

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        keys, data = args
        shape, dtype = _together(self.name, [ctx.aval(arg) for arg in args]), ctx.aval(keys).dtype
        words = generator_of(dtype).folded_in(ctx, words_of_keys(ctx, keys), data, shape)
        return [keys_of_words(ctx, words, shape, impl_of(dtype))]


def _expect(name: str, aval: ShapedArray, accepted: Dtypes) -> None:
    if accepted is KEYS and aval.dtype not in KEYS:
        raise TypingError(f"{name} takes keys of random numbers, such as {short_name(KEY)}[]; got {aval}")
    expect_dtype(name, aval, accepted)


def _together(name: str, avals: Sequence[ShapedArray]) -> Shape:
    """The shape that operands have once axes of size 1 are repeated."""
    shapes = [aval.shape for aval in avals if aval.shape]
    if len({len(shape) for shape in shapes}) == 1:
        axes = list(zip(*shapes, strict=True))
        if all(len({*sizes} - {1}) <= 1 for sizes in axes):
            return tuple(next((size for size in sizes if size != 1), 1) for sizes in axes)
    return common_shape(name, avals)


def impl_of(dtype: DType) -> KeyImpl:
    """How keys of this dtype are made and used."""
    return next(impl for impl, found in _DTYPES.items() if found == dtype)


# Of arrays on the host.


def key_words(keys: HostArray) -> _Words:
    """The words of keys, along a new last axis."""
    words: _Words = numbers_of(keys)
    return words


def as_keys(words: HostArray, dtype: DType = KEY) -> HostArray:
    """Words along the last axis as keys."""
    return np.ascontiguousarray(words).reshape(-1).view(dtype).reshape(words.shape[:-1])


def _keys(upper: HostArray, lower: HostArray) -> HostArray:
    return as_keys(np.stack((upper, lower), -1))


def _hashes(keys: HostArray, shape: Shape) -> tuple[HostArray, ...]:
    """Two words for each of Threefry's keys and each number from 0 on, arranged as `shape`."""
    words = key_words(keys).reshape((*keys.shape, *[1] * len(shape), 2)) if keys.ndim else key_words(keys)
    counts = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    upper, lower = (counts >> np.uint64(32)).astype(np.uint32), counts.astype(np.uint32)
    return hashes(words[..., 0], words[..., 1], upper, lower)


# The vocabulary.


def words_of_keys(ctx: Context[V], keys: V) -> list[V]:
    """The words of keys: for the first, second, … ones an array each."""
    return separated(ctx, ctx.bind(RandomUnwrap(), keys)[0])


def keys_of_words(ctx: Context[V], words: Sequence[V], shape: Shape, impl: KeyImpl = KeyImpl.FRY) -> V:
    """The keys of this shape with these words."""
    parts = [broadcast_scalar(ctx, word, shape) for word in words]
    return ctx.bind(RandomWrap(impl), stack(ctx, parts, len(shape)))[0]
