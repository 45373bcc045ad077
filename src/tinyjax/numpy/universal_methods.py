"""How universal functions with a reduction of their own reduce, accumulate and update, all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tinyjax.arrays import reductions
from tinyjax.arrays.basic_indexing import Index
from tinyjax.arrays.elementwise import truth
from tinyjax.arrays.reductions import Axis
from tinyjax.ir.dtypes import BOOL, UNSIGNED, DType, Scalar
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives import bitwise
from tinyjax.primitives.reductions import ReduceAnd, ReduceOr, ReduceXor, highest
from tinyjax.tracing.array import Array, ArrayLike


class Reduction(Protocol):
    """A function of `numpy` that reduces axes."""

    def __call__(
        self,
        a: ArrayLike,
        /,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array: ...


class Reduce(Protocol):
    """How a function reduces axes at once, rather than an element after the other."""

    def __call__(
        self, x: Array, axis: Axis, keepdims: bool, initial: Array | None, where: Array | None, /
    ) -> Array: ...


class Accumulate(Protocol):
    """How it accumulates along an axis at once."""

    def __call__(self, x: Array, axis: int, /) -> Array: ...


class At(Protocol):
    """How it updates an array at positions, of which any may be listed twice."""

    def __call__(self, x: Array, indices: Index, values: Array, /) -> Array: ...


def by(reduction: Reduction) -> Reduce:
    """What a function of `numpy` does."""

    def reduce(x: Array, axis: Axis, keepdims: bool, initial: Array | None, where: Array | None, /) -> Array:
        return reduction(x, axis, keepdims=keepdims, initial=initial, where=where)

    return reduce


def bits(make: Callable[[tuple[int, ...]], Primitive], combine: Primitive, identity: Scalar) -> Reduce:
    """Integers bit by bit, and bools."""

    def identity_of(dtype: DType) -> Scalar:
        if dtype == BOOL:
            return bool(identity)
        return highest(dtype) if identity == -1 and dtype in UNSIGNED else identity

    def reduce(x: Array, axis: Axis, keepdims: bool, initial: Array | None, where: Array | None, /) -> Array:
        make(()).type_of(x.aval)  # refuses other dtypes also where there are no axes
        return reductions.reduced("reduce", x, axis, keepdims, initial, where, make, combine, identity_of)

    return reduce


def truths(reduce_bits: Reduce) -> Reduce:
    """The same of whether elements aren't zero."""

    def reduce(x: Array, axis: Axis, keepdims: bool, initial: Array | None, where: Array | None, /) -> Array:
        return reduce_bits(truth(x), axis, keepdims, None if initial is None else truth(initial), where)

    return reduce


all_bits: Final = bits(ReduceAnd, bitwise.logical_and, -1)
any_bits: Final = bits(ReduceOr, bitwise.logical_or, 0)
odd_bits: Final = bits(ReduceXor, bitwise.logical_xor, 0)
