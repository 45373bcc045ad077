"""From arrays to Python's and NumPy's own types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy.typing as npt
from typing_extensions import override

from tinyjax import backend
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import Scalar
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracebacks import filter_class, filtered_method
from tinyjax.tracing.host import host_array, python_item


@filter_class
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

    @override
    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.aval.shape == () else format(str(self), spec)

    # The outside world.

    def delete(self) -> None:
        """Frees the memory on the device at once; the array can't be used afterwards."""
        backend.delete(self._elements("be deleted"))

    def is_deleted(self) -> bool:
        return backend.is_deleted(self._elements("be deleted"))

    @property
    @filtered_method
    def platform(self) -> str:
        """Where the elements are: "host" for NumPy arrays, else the platform of the device, such as "cpu" or "cuda"."""
        return backend.platform(self._elements("be on a device"))

    def __jax_array__(self) -> object:
        """The same array as a jax.Array."""
        return backend.to_jax(self._elements("be converted to a jax.Array"))

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        value = self._elements("be shared through DLPack")
        return backend.to_dlpack(value, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return backend.dlpack_device(self._elements("be shared through DLPack"))
