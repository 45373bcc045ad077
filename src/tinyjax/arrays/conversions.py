"""From arrays to Python's and NumPy's own types."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from typing import Any, Literal, Self, SupportsIndex

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from tinyjax import backend
from tinyjax.arrays import advice
from tinyjax.errors import ChoiceError, IndexingError, IndexKindError, ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INTEGERS, HostArray, Scalar
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracebacks import filter_class, filtered_method


def host_array(value: ConcreteValue, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
    """The elements as a NumPy array that can't be written to, or as a copy that can."""
    elements: HostArray = np.asarray(value.data)
    if dtype is not None and elements.dtype != dtype:
        if elements.dtype.names:
            raise _no_number(f"an array of {value.aval}")
        if copy is False:
            raise ValueError(f"an array of {elements.dtype} can't become one of {dtype} without a copy")
        return elements.astype(dtype)
    if copy:
        return elements.copy()
    view = elements.view()
    view.flags.writeable = False
    return view


def _no_number(what: str) -> TypingError:
    return TypingError(
        f"{what} can't become numbers: tinyjax.random.key_data(key) gives the integers that a key of random numbers is "
        "made of, and tinyjax.random.bits(key) draws some"
    )


def python_item(elements: HostArray) -> Scalar:
    if elements.size != 1:
        raise ShapeError(f"only an array of one element can become a scalar, this one has shape {elements.shape}")
    item: Scalar = elements.reshape(()).tolist()
    return item


@filter_class
class Conversions(ABC):
    """What needs the elements of an array: NumPy, branches, indices, Python's numbers."""

    __slots__ = ()

    @property
    @abstractmethod
    def aval(self) -> ShapedArray: ...

    @abstractmethod
    def _elements(self, wanted: advice.Wanted) -> ConcreteValue:
        """The elements; a ConcretizationError that says what wanted them, and what to do, if they aren't known."""

    def __copy__(self) -> Self:
        return self  # nobody can write to it

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    # Any: the dtype is known only when the program runs, and NumPy's functions must accept the result.
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return host_array(self._elements(advice.NUMPY), dtype, copy)

    def __bool__(self) -> bool:
        elements = host_array(self._elements(advice.BRANCH))
        if elements.dtype.names:
            raise TypingError(f"{self.aval} is neither true nor false: a key of random numbers is no number")
        if elements.size != 1:
            raise ShapeError(
                f"the truth value of {self.aval} is ambiguous, as it has {elements.size} elements: ask x.any(), "
                "x.all() or, for whether there are elements, x.size > 0"
            )
        return bool(elements)

    def __int__(self) -> int:
        return int(self._only(advice.INT).item())

    def __float__(self) -> float:
        return float(self._only(advice.FLOAT).item())

    def __complex__(self) -> complex:
        return complex(self._only(advice.COMPLEX).item())

    def _only(self, wanted: advice.Wanted) -> npt.NDArray[Any]:
        elements = host_array(self._elements(wanted))
        if elements.dtype.names:
            raise _no_number(f"a key of {self.aval}")
        if elements.ndim:
            raise TypingError(
                f"only scalar arrays can be converted to numbers of Python's, and this one is {self.aval}: take an "
                "element, by x[0] or x.item()"
            )
        return elements

    def __index__(self) -> int:
        elements = host_array(self._elements(advice.INDEX))
        if elements.dtype not in INTEGERS or elements.ndim:
            raise TypingError(f"only integer scalars can be used as an index, got {self.aval}")
        return int(elements.item())

    def item(self, *args: SupportsIndex | tuple[SupportsIndex, ...]) -> Scalar:
        """An element as a Python scalar: the only one, or that at these indices, or the n-th in row-major order."""
        elements = host_array(self._elements(advice.ITEM))
        if not args:
            return python_item(elements)
        try:
            indices = [operator.index(i) for arg in args for i in (arg if isinstance(arg, tuple) else (arg,))]
        except TypeError:
            raise IndexKindError(f"item: args are integers, or one tuple of them, got {args}") from None
        within = (elements.size,) if len(indices) == 1 else elements.shape
        if len(indices) != len(within) or any(not -n <= i < n for i, n in zip(indices, within, strict=True)):
            raise IndexingError(f"item: there is no element at {args} of {self.aval}")
        return python_item(elements.ravel()[indices[0]] if len(indices) == 1 else elements[tuple(indices)])

    def tobytes(self, order: Literal["C", "F", "A", "K"] = "C") -> bytes:
        """The elements' bytes, in row-major order, or in column-major order for "F"."""
        elements = host_array(self._elements(advice.BYTES))
        if order not in (None, "C", "F", "A", "K"):
            raise ChoiceError(f"tobytes: order is 'C', 'F', 'A' or 'K', got {order!r}")
        return elements.tobytes(order)

    def tolist(self) -> object:
        """The elements as nested lists of Python scalars."""
        return host_array(self._elements(advice.LIST)).tolist()

    @override
    def __format__(self, spec: str) -> str:
        scalar = spec and self.aval.shape == ()
        shown = python_item(host_array(self._elements(advice.TEXT))) if scalar else str(self)
        try:
            return format(shown, spec)
        except (TypeError, ValueError) as error:
            raise ChoiceError(
                f"{self.aval} can't be formatted as {spec!r}: {error}. Of arrays, take elements, as in x.tolist()"
            ) from None

    # The outside world.

    def delete(self) -> None:
        """Frees the memory at once, unless others on the host have the same elements. To use the array afterwards is a
        DeletedBufferError. Numbers on the host, which take none, stay."""
        self._free()

    def _free(self) -> None:
        """The same. Here for what is being traced."""
        backend.delete(self._elements(advice.DELETED))

    def is_deleted(self) -> bool:
        return backend.is_deleted(self._elements(advice.DELETED))

    def unsafe_buffer_pointer(self) -> int:
        """Where the elements begin in memory, on the host or on the one device that they are on. Two arrays with the
        same address have the same memory; it is the array's for as long as the array is there, and not to be written.
        """
        return backend.address(self._elements(advice.ADDRESS))

    @property
    @filtered_method
    def platform(self) -> str:
        """Where the elements are: "host" for NumPy arrays, else the platform of the device, such as "cpu" or "cuda"."""
        return backend.platform(self._elements(advice.DEVICE))

    def __jax_array__(self) -> object:
        """The same array as a jax.Array."""
        return backend.as_jax(self._elements(advice.JAX))

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        value = self._elements(advice.DLPACK)
        return backend.to_dlpack(value, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return backend.dlpack_device(self._elements(advice.DLPACK))
