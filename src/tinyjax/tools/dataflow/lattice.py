"""Lattices: what an analysis can find out about a value, and how findings are put together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import reduce
from typing import ClassVar, Generic, TypeVar

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import Effects
from tinyjax.ir.program import Literal
from tinyjax.ir.value import ConcreteValue

T = TypeVar("T", bound=Hashable)


class Lattice(ABC, Generic[T]):
    """A join-semilattice of facts of type T: immutable, hashable values, compared with `==`.

    Only `bottom` and `join` are required. The others say what the structure of a program means for facts; each has a
    meaning that suits analyses which ask "which of these may reach here?".
    """

    #: After so many rounds of a loop, `widen` is asked for a fact that ends the ascent.
    patience: ClassVar[int] = 100

    @abstractmethod
    def bottom(self, aval: ShapedArray, /) -> T:
        """The least fact about a value of this type: nothing reaches it."""

    @abstractmethod
    def join(self, first: T, second: T, /) -> T:
        """The least fact that covers both: what is known where two paths meet."""

    def leq(self, first: T, second: T, /) -> bool:
        """Whether the second fact covers the first."""
        return self.join(first, second) == second

    def join_all(self, aval: ShapedArray, facts: Sequence[T], /) -> T:
        """What covers all of these; the bottom if there are none."""
        return reduce(self.join, facts) if facts else self.bottom(aval)

    def widen(self, before: T, after: T, /) -> T:
        """A fact that covers `after`, which covers `before`. A lattice in which facts can grow without end jumps up
        here, so that loops come to an end."""
        return after

    def constant(self, value: ConcreteValue | Literal, /) -> T:
        """The fact about a literal of the program, or one of its constants. By default the bottom."""
        return self.bottom(value.aval)

    def element(self, fact: T, aval: ShapedArray, /) -> T:
        """The fact about each slice, of type `aval`, of an array of which `fact` holds."""
        return fact

    def stacked(self, fact: T, aval: ShapedArray, /) -> T:
        """The fact about an array, of type `aval`, each slice of which `fact` holds of."""
        return fact

    def influenced(self, fact: T, decision: T, /) -> T:
        """Forward: the fact about a value which is there because a predicate, or an index, that `decision` holds of
        chose it. By default `fact`: a choice tells nothing of the value chosen."""
        return fact

    def known(self, fact: T, /) -> ConcreteValue | None:
        """Forward: the value, if `fact` says which it is. Branches that can't be taken are then left out."""
        return None

    def decision(self, aval: ShapedArray, facts: Sequence[T], effects: Effects, /) -> T:
        """Backward: the fact about a predicate that decides whether values get to results of which `facts` hold, and
        whether `effects` happen. By default all facts joined."""
        return self.join_all(aval, facts)
