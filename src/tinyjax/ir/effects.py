"""What an equation does besides computing its outputs."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, TypeAlias, final

from attrs import frozen
from typing_extensions import override

if TYPE_CHECKING:
    from tinyjax.ir.primitive import BatchAxis, Primitive


@frozen
class Effect(ABC):
    """One kind of effect. Subclasses are frozen attrs classes, compared by value.

    `droppable` says whether an equation with no other effect may be removed when nothing reads its outputs. Equations
    that have an effect which isn't droppable are never removed and never reordered. `harmless` says that nobody can
    tell whether it happened, so that `vmap` may run branches that aren't taken.
    """

    droppable: ClassVar[bool] = False
    harmless: ClassVar[bool] = False


@final
@frozen
class NamedAxisEffect(Effect):
    """The equation needs the axis of an enclosing `vmap(..., axis_name=name)`."""

    name: str
    droppable: ClassVar[bool] = True

    @override
    def __str__(self) -> str:
        return f"NamedAxis({self.name})"


Effects: TypeAlias = frozenset[Effect]
NO_EFFECTS: Effects = frozenset()


def names_of(axis: BatchAxis) -> tuple[str, ...]:
    """What such effects call an axis that is mapped: its name, or those of a mesh."""
    return tuple([name for name, _ in axis.mesh]) if axis.name is None else (axis.name,)


def axis_names(effects: Effects) -> frozenset[str]:
    """The names of the axes that a program with these effects needs."""
    return frozenset(effect.name for effect in effects if isinstance(effect, NamedAxisEffect))


def effects_of(primitives: Iterable[Primitive]) -> Effects:
    """The union of the effects of primitives, each of which may come many times."""
    distinct = {id(primitive): primitive for primitive in primitives}
    found = [effects for primitive in distinct.values() if (effects := primitive.effects)]
    return frozenset().union(*found) if found else NO_EFFECTS


def must_stay(effects: Effects) -> bool:
    """Whether an equation with these effects has to be kept, and in order."""
    return bool(effects) and any(not effect.droppable for effect in effects)
