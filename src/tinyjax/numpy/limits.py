"""The limits of dtypes."""

from typing import final

from attrs import frozen

from tinyjax.ir.dtypes import DType


@final
@frozen
class FloatInfo:
    """The limits of a float dtype, as Python floats: next to an array they have its dtype."""

    dtype: DType
    bits: int
    #: Bits of the mantissa and of the exponent.
    nmant: int
    nexp: int
    #: The largest finite number, and the lowest.
    max: float
    min: float
    #: 1 + eps is the smallest number above 1.
    eps: float
    smallest_normal: float
    smallest_subnormal: float

    @property
    def tiny(self) -> float:
        """NumPy's other name for `smallest_normal`."""
        return self.smallest_normal


@final
@frozen
class IntInfo:
    """The limits of an integer dtype."""

    dtype: DType
    bits: int
    max: int
    min: int
