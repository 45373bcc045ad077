"""What can be asked of the incomplete gamma function."""

from __future__ import annotations

import enum
from typing import final


@final
class Wanted(enum.Enum):
    """What is computed of P(a, x), the part of the gamma distribution of shape a that is below x."""

    VALUE = enum.auto()
    #: Its derivative in a.
    SLOPE = enum.auto()
    #: The derivative in a of the x at which P has its value: that of a sample.
    SAMPLE = enum.auto()
