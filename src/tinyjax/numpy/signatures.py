"""What the functions' signatures say of their arguments. Nothing here runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import IO, Literal, Protocol, SupportsIndex, TypeAlias, runtime_checkable

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType, HostArray
from tinyjax.tracing.array import Array, ArrayLike

ShapeLike: TypeAlias = SupportsIndex | Iterable[SupportsIndex]


class SupportsArray(Protocol):
    """What NumPy can make an array of."""

    def __array__(self) -> HostArray: ...


class Typed(Protocol):
    """What has the type of an array."""

    @property
    def aval(self) -> ShapedArray: ...


@runtime_checkable
class HasDType(Protocol):
    """What has elements of one type, or is that type."""

    @property
    def dtype(self) -> DType: ...


#: Arrays, scalars, and sequences of these, nested.
Nested: TypeAlias = "ArrayLike | SupportsArray | Sequence[Nested]"

#: Several arrays, or one whose first axis they are.
Arrays: TypeAlias = Sequence[ArrayLike] | Array | HostArray
#: How many parts, or where they begin: a sequence or a vector.
Sections: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | Array | HostArray
Axes: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
#: The axes of an operand, as numbers instead of letters.
Sublist: TypeAlias = Sequence[int | EllipsisType]
#: How to find the order: "auto", "optimal", "greedy", …, True, False for left to right, or the order itself.
Optimize: TypeAlias = bool | str | Sequence[tuple[int, ...]]
PadMode: TypeAlias = Literal[
    "constant", "edge", "empty", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric", "wrap"
]
PadWidth: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | Sequence[Sequence[SupportsIndex]]
Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
#: A range, a text with numbers of axes, or what is to be joined.
Part: TypeAlias = "slice | str | Nested"
#: Arrays in nested lists.
Blocks: TypeAlias = "ArrayLike | list[Blocks]"
#: How many bins, where they begin and end, or a rule of NumPy's by which to find out.
Bins: TypeAlias = "Nested | str"
#: Where the first bin begins, and the last one ends.
Range: TypeAlias = Sequence[ArrayLike] | Array | HostArray
#: An open file, or its path.
File: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
