"""What signatures say, those of loops and conditionals above all, of trees. Nothing here runs: it is for type checkers.

What is traced gets arrays where its caller has numbers: NumPy's arrays, or Python's numbers. So these signatures tell
apart what becomes an array, small tuples of that, and trees, which stay what they are. A type checker that has to
choose between two of them finds nothing of what a lambda returns, so as little as possible is both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray, Scalar
from tinyjax.tracing.array import Array, ArrayLike

if TYPE_CHECKING:
    from tinyjax.primitives.windows import GatherScatterMode


class Dataclass(Protocol):
    """A dataclass, or what is like one."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class Attrs(Protocol):
    """An attrs class. (attrs' own protocol is empty for some type checkers.)"""

    __attrs_attrs__: ClassVar[Any]


class NamedTuple(Protocol):
    """A named tuple."""

    def _asdict(self) -> Mapping[str, Any]: ...


class Registered(Protocol):
    """A class of nodes that brings its methods along."""

    def tree_flatten(self) -> Any: ...


class Keyed(Protocol):
    """A dictionary."""

    def keys(self) -> Iterable[Any]: ...


class Typed(Protocol):
    """A dictionary of which each key has its type."""

    __required_keys__: ClassVar[frozenset[str]]

    def keys(self) -> Iterable[Any]: ...


class HasAval(Protocol):
    """What has the type of an array."""

    @property
    def aval(self) -> ShapedArray: ...


class Several(Protocol):
    """A list or a tuple of arrays and trees, without numbers; no array, and no string."""

    def __iter__(self) -> Iterator[Array | Node]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def count(self, value: Any, /) -> int: ...


class AnySeveral(Protocol):
    """A list or a tuple of anything; no array, and no string."""

    def __iter__(self) -> Iterator[object]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def count(self, value: Any, /) -> int: ...


Node: TypeAlias = "Dataclass | Attrs | NamedTuple | Registered | Keyed | tuple[Any, ...] | list[Any] | None"
#: What stays what it is when it is traced.
Tree: TypeAlias = Dataclass | Attrs | NamedTuple | Registered | Keyed | Several | None
AnyTree: TypeAlias = Dataclass | Attrs | NamedTuple | Registered | Keyed | AnySeveral | None
#: An object of a user's class.
Class: TypeAlias = Dataclass | Attrs | NamedTuple | Registered
#: What becomes an array.
Number: TypeAlias = HostArray | np.generic | Scalar
Pair: TypeAlias = tuple[ArrayLike, ArrayLike]
Triple: TypeAlias = tuple[ArrayLike, ArrayLike, ArrayLike]
Arrays2: TypeAlias = tuple[Array, Array]
Arrays3: TypeAlias = tuple[Array, Array, Array]
#: Trees with numbers among what they hold, as far as types can tell. The body says what they are when they are traced.
Mixed: TypeAlias = (
    tuple[Number, Tree]
    | tuple[Tree, Number]
    | tuple[Number, Tree, object]
    | tuple[Number, object, Tree]
    | tuple[Tree, Number, object]
    | tuple[object, Number, Tree]
    | tuple[Tree, object, Number]
    | tuple[object, Tree, Number]
    | tuple[Number, object, object, object, *tuple[object, ...]]
    | tuple[object, Number, object, object, *tuple[object, ...]]
    | tuple[object, object, Number, object, *tuple[object, ...]]
    | tuple[object, object, object, Number, *tuple[object, ...]]
    | tuple[tuple[Number, *tuple[object, ...]], *tuple[object, ...]]
    | tuple[object, tuple[Number, *tuple[object, ...]], *tuple[object, ...]]
    | Mapping[Any, Node]
    | list[Any]
)
#: The keys of a dictionary.
K = TypeVar("K")
#: Dictionaries of arrays and numbers, and what they become.
Numbers: TypeAlias = Mapping[K, ArrayLike]
Arrays: TypeAlias = dict[K, Array]
#: What a variable holds that was assigned such a dictionary, to a type checker that looks for one type of its values.
Jumble: TypeAlias = dict[K, object]
#: Trees of NumPy's arrays that a loop goes along.
HostArrays: TypeAlias = tuple[HostArray, *tuple[object, ...]] | Mapping[Any, HostArray]

#: A tree that is handed on, or that is returned.
C = TypeVar("C", bound=Tree)
#: A named tuple.
N = TypeVar("N", bound=NamedTuple)
#: A dictionary of which each key has its type.
D = TypeVar("D", bound=Typed)
#: What a loop goes along.
Along: TypeAlias = HostArray | Array | Dataclass | Attrs | NamedTuple | Registered | Keyed | AnySeveral | None
#: A slice of a tree that a loop goes along.
X = TypeVar("X", bound=Dataclass | Attrs | NamedTuple | Registered | Keyed | AnySeveral)
#: What a loop stacks.
Y = TypeVar("Y")
_In = TypeVar("_In")
_Slice = TypeVar("_Slice")
_Out = TypeVar("_Out")
#: The body of a scan, by the carry that it takes, the carry that it returns, what it goes along, and what it stacks.
Step: TypeAlias = Callable[[_In, _Slice], tuple[_Out, Y]]
Length: TypeAlias = int | None
Unroll: TypeAlias = int | bool

# Of other functions.

AxisName: TypeAlias = str | Sequence[str]
ModeLike: TypeAlias = "str | GatherScatterMode | None"
Starts: TypeAlias = Sequence[ArrayLike] | ArrayLike
