"""How exact the results of elementary functions have to be."""

from __future__ import annotations

import enum
from typing import final

from attrs import frozen

from tinyjax.errors import ChoiceError


@final
class AccuracyMode(enum.Enum):
    """The most exact implementation of a function, or the default one. Here they are the same."""

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

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __attrs_post_init__(self) -> None:
        if min(self.atol, self.rtol, self.ulps) < 0:
            raise ChoiceError(f"Tolerances must be non-negative, got {self}")
        if self.atol == self.rtol == self.ulps == 0:
            raise ChoiceError("At least one of atol, rtol, or ulps must be set.")
