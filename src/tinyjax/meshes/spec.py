"""Which axis of an array is divided along which axes of a mesh."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, final, overload

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.parameters import Spelled


class Unconstrained(enum.Enum):
    """The type of `PartitionSpec.UNCONSTRAINED`."""

    UNCONSTRAINED = enum.auto()

    @override
    def __repr__(self) -> str:
        return "UNCONSTRAINED"


#: In a PartitionSpec: XLA may choose how this axis is divided.
UNCONSTRAINED: Final = Unconstrained.UNCONSTRAINED


@final
@frozen(repr=False)
class Further:
    """A part that names axes along which an array is divided, and leaves it to XLA whether along more within these."""

    names: tuple[str, ...]

    @override
    def __repr__(self) -> str:
        return f"({', '.join(map(repr, (*self.names, UNCONSTRAINED)))})"


#: Along what an axis of an array is divided: nothing, one mesh axis, several (the first one varies slowest).
Part: TypeAlias = str | tuple[str, ...] | Further | Unconstrained | None
#: The same as users may write it.
PartLike: TypeAlias = str | Sequence[str | Unconstrained] | Further | Unconstrained | None


@final
@frozen(init=False, repr=False)
class PartitionSpec(Immutable, Spelled):
    """For each axis of an array, the axes of a mesh along which it is divided. Short: `P`.

    A part is a name, several names (of which the first varies slowest), None for an axis that isn't divided, or
    `P.UNCONSTRAINED` for one that XLA may divide as it likes, which after names says that it may divide along more.
    Axes of the array for which there is no part aren't divided. It can be indexed and added to like a tuple, but is a
    leaf of trees.

    Args:
      *partitions: the parts.
      unreduced: mesh axes along which the array is a sum yet to be made.
      reduced: mesh axes along which the gradient of the array is such a sum.

    Raises:
      ShardingError: a ValueError, if one of `unreduced` is also among the parts or in `reduced`.
      InputError: a TypeError, for what is no name, or no set of names.

    >>> spec = PartitionSpec("x", None, ("y",))
    >>> spec, spec[0], len(spec)
    (P('x', None, 'y'), 'x', 3)
    """

    UNCONSTRAINED: ClassVar[Literal[Unconstrained.UNCONSTRAINED]] = UNCONSTRAINED

    partitions: tuple[Part, ...]
    unreduced: frozenset[str]
    reduced: frozenset[str]

    def __init__(
        self,
        *partitions: PartLike,
        unreduced: AbstractSet[str] = frozenset(),
        reduced: AbstractSet[str] = frozenset(),
    ) -> None:
        parts = tuple(map(_part, partitions))
        _check(parts, unreduced, reduced)
        self.__attrs_init__(partitions=parts, unreduced=frozenset(unreduced), reduced=frozenset(reduced))

    @classmethod
    @override
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:  # checked against the fields' types before
        kept = {"unreduced": frozenset(), "reduced": frozenset(), **fields}
        return cls(*kept["partitions"], unreduced=kept["unreduced"], reduced=kept["reduced"])

    @property
    def axes(self) -> tuple[tuple[str, ...], ...]:
        """The mesh axes of each part: none where there is None or UNCONSTRAINED."""
        return tuple(map(axes_of, self.partitions))

    @property
    def names(self) -> tuple[str, ...]:
        """All mesh axes of the parts, in order."""
        return tuple([name for part in self.partitions for name in axes_of(part)])

    @overload
    def __getitem__(self, i: int) -> Part: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[Part, ...]: ...
    def __getitem__(self, i: int | slice) -> Part | tuple[Part, ...]:
        return self._as_tuple()[i]

    def __iter__(self) -> Iterator[Part]:
        return iter(self._as_tuple())

    def _as_tuple(self) -> tuple[Part, ...]:
        if self.unreduced or self.reduced:
            raise ShardingError(f"{self} is more than its parts: write spec.partitions to have those alone")
        return self.partitions

    def __len__(self) -> int:
        return len(self.partitions)

    def __add__(self, other: PartitionSpec | tuple[PartLike, ...]) -> PartitionSpec:
        if isinstance(other, PartitionSpec):
            return PartitionSpec(
                *self.partitions,
                *other.partitions,
                unreduced=self.unreduced | other.unreduced,
                reduced=self.reduced | other.reduced,
            )
        if isinstance(other, tuple):
            return PartitionSpec(*self._as_tuple(), *other)
        return NotImplemented

    def __radd__(self, other: tuple[PartLike, ...]) -> PartitionSpec:
        if isinstance(other, tuple):
            return PartitionSpec(*other, *self._as_tuple())
        return NotImplemented

    def index(self, value: PartLike) -> int:
        """The first axis of the array with this part; a ValueError if there is none."""
        return self.partitions.index(_part(value))

    def count(self, value: PartLike) -> int:
        """How many axes of the array have this part."""
        return self.partitions.count(_part(value))

    def update(
        self,
        partitions: Sequence[PartLike] | None = None,
        unreduced: AbstractSet[str] | None = None,
        reduced: AbstractSet[str] | None = None,
    ) -> PartitionSpec:
        """The specification with these in the place of its own."""
        return PartitionSpec(
            *(self.partitions if partitions is None else partitions),
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )

    @property
    def open(self) -> bool:
        """Whether XLA may choose how an axis is divided."""
        return any(map(is_open, self.partitions))

    @property
    def stripped(self) -> PartitionSpec:
        """The specification without parts at its end that say nothing."""
        parts = list(self.partitions)
        while parts and parts[-1] is None:
            parts.pop()
        return self if len(parts) == len(self.partitions) else self.update(parts)

    @property
    def dual(self) -> PartitionSpec:
        """How cotangents of what lies so lie: unreduced where it is reduced, and the other way round."""
        return self.update(unreduced=self.reduced, reduced=self.unreduced) if self.unreduced or self.reduced else self

    @property
    def made(self) -> PartitionSpec:
        """How the sum of what is unreduced lies once it is made, and the same of what is reduced."""
        return self.update(unreduced=set(), reduced=set()) if self.unreduced or self.reduced else self

    @override
    def __repr__(self) -> str:
        parts = repr(self.partitions)[1:-1]
        sets = [
            f"{name}={{{', '.join(map(repr, sorted(names)))}}}"
            for name, names in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if names
        ]
        if sets and parts:
            sets.insert(0, parts.removesuffix(","))
        return f"P({', '.join(sets) if sets else parts})"

    @override
    def spelled(self) -> str:
        return repr(self).replace("UNCONSTRAINED", "P.UNCONSTRAINED") if self.open else repr(self)


#: Its short name.
P: TypeAlias = PartitionSpec


def axes_of(part: Part) -> tuple[str, ...]:
    """The mesh axes of a part."""
    if isinstance(part, str):
        return (part,)
    if isinstance(part, Further):
        return part.names
    return part if isinstance(part, tuple) else ()


def is_open(part: Part) -> bool:
    """Whether XLA may choose how an axis with this part is divided."""
    return isinstance(part, Unconstrained | Further)


def further(names: tuple[str, ...]) -> Part:
    """Divided along these axes, and along others as XLA likes."""
    return Further(names) if names else UNCONSTRAINED


def _part(part: PartLike) -> Part:
    """A part as it is kept: a single name isn't within a tuple, and no names are None."""
    if part is None or isinstance(part, Unconstrained | Further):
        return part
    names: tuple[object, ...] = (part,) if isinstance(part, str) or not isinstance(part, Sequence) else tuple(part)
    more = bool(names) and isinstance(names[-1], Unconstrained)
    found: list[str] = []
    for name in names[:-1] if more else names:
        if not isinstance(name, str):
            raise ShardingError(
                "a part of a PartitionSpec is the name of a mesh axis, several names, None or P.UNCONSTRAINED, "
                f"not {name!r}"
            )
        if name == UNCONSTRAINED.name:
            raise ShardingError("no mesh axis is called 'UNCONSTRAINED': write P.UNCONSTRAINED")
        found.append(name)
    if more:
        return further(tuple(found))
    return None if not found else found[0] if len(found) == 1 else tuple(found)


def _check(parts: tuple[Part, ...], unreduced: AbstractSet[str], reduced: AbstractSet[str]) -> None:
    sets: list[tuple[str, object]] = [("unreduced", unreduced), ("reduced", reduced)]
    for what, names in sets:
        if not isinstance(names, AbstractSet):
            raise InputError(f"{what} is a set of mesh axes, such as {{'x'}}, not {names!r}")
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise ShardingError(f"{what} holds names of mesh axes, not {wrong[0]!r}")
    if both := sorted(unreduced & reduced):
        raise ShardingError(f"the mesh axis {both[0]!r} can't be both unreduced and reduced")
    for part in parts:
        for name in axes_of(part):
            if name in unreduced or name in reduced:
                raise ShardingError(
                    f"the mesh axis {name!r} divides an axis of the array, so it can't be "
                    f"{'unreduced' if name in unreduced else 'reduced'}, too"
                )
