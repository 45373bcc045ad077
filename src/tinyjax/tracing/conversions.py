"""From arrays to Python's and NumPy's own types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy.typing as npt

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import Scalar
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing.host import host_array, python_item


class Conversions(ABC):
    """What needs the elements of an array: NumPy, branches, indices, Python's numbers."""

    __slots__ = ()

    @property
    @abstractmethod
    def aval(self) -> ShapedArray: ...

    @abstractmethod
    def _elements(self, wanted: str) -> ConcreteValue:
        """The elements; a ConcretizationError that names the operation that wanted them if they aren't known."""

    # Any: the dtype is known only when the program runs, and NumPy's functions must accept the result.
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return host_array(self._elements("be converted to a NumPy array"), dtype, copy)

    def __bool__(self) -> bool:
        return bool(host_array(self._elements("decide a branch (bool)")))

    def __int__(self) -> int:
        return int(host_array(self._elements("be converted to int")).item())

    def __float__(self) -> float:
        return float(host_array(self._elements("be converted to float")).item())

    def __complex__(self) -> complex:
        return complex(host_array(self._elements("be converted to complex")).item())

    def __index__(self) -> int:
        elements = host_array(self._elements("be used as an index or size"))
        if elements.dtype.kind not in "iu" or elements.ndim:
            raise TypeError(f"only integer scalars can be used as an index, got {self.aval}")
        return int(elements.item())

    def item(self) -> Scalar:
        """The one element, as a Python scalar."""
        return python_item(host_array(self._elements("be converted to a Python scalar")))

    def tolist(self) -> object:
        """The elements as nested lists of Python scalars."""
        return host_array(self._elements("be converted to a list")).tolist()
