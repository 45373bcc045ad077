"""How exact the results of elementary functions have to be: a parameter of theirs."""

from __future__ import annotations

import enum
from typing import Self, TypeAlias, final

import attrs
from attrs import frozen

from tinyjax.errors import ChoiceError
from tinyjax.primitives.elementwise import OneOperand


@final
class AccuracyMode(enum.Enum):
    """The most exact implementation of a function, or the default one."""

    HIGHEST = 1
    DEFAULT = 2


@final
@frozen
class Tolerance:
    """What error of an elementary function would do: absolute, relative, or in units of the last place.

    Raises:
      ChoiceError: one is negative, or none is given.

    >>> Tolerance(rtol=1e-3)
    Tolerance(atol=0.0, rtol=0.001, ulps=0)
    """

    atol: float = attrs.field(default=0.0, converter=float)
    rtol: float = attrs.field(default=0.0, converter=float)
    ulps: int = attrs.field(default=0, converter=int)

    def __attrs_post_init__(self) -> None:
        if min(self.atol, self.rtol, self.ulps) < 0:
            raise ChoiceError(f"Tolerances must be non-negative, got {self}")
        if self.atol == self.rtol == self.ulps == 0:
            raise ChoiceError("At least one of atol, rtol, or ulps must be set.")


#: How exact a function has to be; None: as XLA's default implementation is.
Accuracy: TypeAlias = Tolerance | AccuracyMode | None


@frozen
class Accurate(OneOperand):
    """Of which one may say how exact it has to be. On the host that changes nothing; XLA is told."""

    accuracy: Accuracy = None

    def within(self, accuracy: Accuracy) -> Self:
        """The same function, as exact as this."""
        return self if accuracy == self.accuracy else attrs.evolve(self, accuracy=accuracy)

    @property
    def highest(self) -> bool:
        """Whether derivatives are computed in the way that loses the fewest digits."""
        return self.accuracy is AccuracyMode.HIGHEST
