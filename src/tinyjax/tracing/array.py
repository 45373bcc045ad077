"""What users compute with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from typing_extensions import override

from tinyjax.arrays.conversions import Conversions
from tinyjax.arrays.methods import Methods
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray, Scalar
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.tracing.frames import Frame

C = TypeVar("C")


class Array(Methods, Conversions, ABC):
    """What users compute with: an array, or what stands for one while a function is transformed."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def frame(self) -> Frame | None:
            """The frame that traces it; None if it has its elements."""

    # NumPy arrays and scalars on the left of an operator leave it to us.
    __array_priority__ = 1000

    @property
    @abstractmethod
    @override
    def aval(self) -> ShapedArray:
        """The type: shape, dtype, and whether it is weak."""

    @abstractmethod
    def into(self, context: Context[C]) -> C:
        """This array as a value of a context."""

    @abstractmethod
    def concrete(self) -> ConcreteValue | None:
        """The elements, where they are known already."""

    def block_until_ready(self) -> Array:
        """Waits until the elements are there. Returns the array itself."""
        return self

    @property
    @override
    def _array(self) -> Array:
        return self


#: What functions take for an array.
ArrayLike: TypeAlias = Array | HostArray | np.generic | Scalar
