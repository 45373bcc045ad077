"""The limits of dtypes."""

import math
from typing import final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from tinyjax.ir.dtypes import DType, as_dtype


@final
class Limit(float):
    """A Python float, which next to an array has its dtype, with what NumPy's scalars have to choose one."""

    __slots__ = ()

    def astype(self, dtype: npt.DTypeLike) -> np.generic:
        """NumPy's scalar of this dtype."""
        with np.errstate(over="ignore"):
            (scalar,) = np.array([float(self)]).astype(as_dtype(dtype))
        found: np.generic = scalar
        return found


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
    max: Limit = field(converter=Limit)
    min: Limit = field(converter=Limit)
    #: 1 + eps is the smallest number above 1.
    eps: Limit = field(converter=Limit)
    smallest_normal: Limit = field(converter=Limit)
    smallest_subnormal: Limit = field(converter=Limit)

    @property
    def iexp(self) -> int:
        """NumPy's other name for `nexp`."""
        return self.nexp

    @property
    def machep(self) -> int:
        """`eps` is this power of 2."""
        return -self.nmant

    @property
    def negep(self) -> int:
        """`epsneg` is this power of 2."""
        return -self.nmant - 1

    @property
    def epsneg(self) -> Limit:
        """1 - epsneg is the largest number below 1."""
        return Limit(2.0**self.negep)

    @property
    def maxexp(self) -> int:
        """The smallest power of 2 that is too large."""
        return math.frexp(self.max)[1]

    @property
    def minexp(self) -> int:
        """`smallest_normal` is this power of 2."""
        return math.frexp(self.smallest_normal)[1] - 1

    @property
    def precision(self) -> int:
        """How many decimal digits are right."""
        return int(-math.log10(self.eps))

    @property
    def resolution(self) -> Limit:
        """A one in the last of them."""
        return Limit(10.0**-self.precision)

    @property
    def tiny(self) -> Limit:
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

    @property
    def kind(self) -> str:
        """The letter i, or u of those without a sign."""
        return "i" if self.min else "u"
