"""Concrete values: an array with its elements, on the host or on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, cast, final, runtime_checkable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, PYTHON_DTYPES, DType, HostArray, Scalar
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type


@runtime_checkable
class Buffer(Protocol):
    """An array that lives on a device. The backend makes them; everything else only passes them on."""

    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> DType: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray: ...


@runtime_checkable
class Divided(Protocol):
    """A buffer that lies on several devices, or on a mesh of one."""

    @property
    def sharding(self) -> object: ...


Data: TypeAlias = HostArray | Buffer


def _content(data: Data) -> tuple[Shape, DType, bytes]:
    array = np.asarray(data)
    return array.shape, array.dtype, array.tobytes()


# By name, as NumPy's stubs have it, the argument takes as long as the rest of the call.
set_writeable: Final = cast("Callable[[HostArray, bool], None]", np.ndarray.setflags)


#: NumPy's flag. By name, asking for it warns of views that `np.broadcast_arrays` has made.
_WRITEABLE: Final = 0x0400


def may_change(array: HostArray) -> bool:
    """Whether someone may still write to these elements: to this array, or to one that it is a view of."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.num & _WRITEABLE:
            return True
        owner = owner.base
    # Elements that belong to something else than an array are out of sight.
    return owner is not None and not isinstance(owner, bytes)


def owned(result: HostArray, args: Sequence[HostArray]) -> HostArray:
    """A result that nobody can write to: a copy, if it may share memory with an array of the user's."""
    if result.base is None:
        for arg in args:
            if arg is result:
                break
        else:
            set_writeable(result, False)
            return result
    if may_change(result):
        result = result.copy()
        set_writeable(result, False)
    return result


def frozen_elements(array: HostArray) -> HostArray:
    """These elements where nobody can write to them: the array itself if that is so already, else a copy."""
    if not may_change(array):
        return array
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@final
@frozen(cache_hash=True)
class ConcreteValue:
    """An array with its elements: a NumPy array, or a buffer on a device, and its aval.

    Compared and hashed by content, to the bit. Never written to, by anyone: `of` takes in arrays that may be, and what
    is passed to the class itself must be out of everyone's reach.

    >>> ConcreteValue.of(2.0) == ConcreteValue.of(2.0), ConcreteValue.of(1) == ConcreteValue.of(1.0)
    (True, False)
    """

    data: Data = field(eq=_content)
    aval: ShapedArray

    @staticmethod
    def of(x: HostArray | np.generic | Scalar) -> ConcreteValue:
        """The value of a NumPy array, as it is now, or of a scalar. Python scalars are weakly typed."""
        dtype = PYTHON_DTYPES.get(type(x))
        if dtype is not None:
            number = np.asarray(x, dtype)
            number.flags.writeable = False
            return ConcreteValue(number, array_type((), dtype, dtype is not BOOL))
        array = np.asarray(x)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return ConcreteValue(frozen_elements(array), array_type(array.shape, array.dtype))

    @property
    def on_host(self) -> bool:
        return isinstance(self.data, np.ndarray)

    @property
    def on_several(self) -> bool:
        """Whether it lies on several devices, or on a mesh of one."""
        return not self.on_host and isinstance(self.data, Divided)

    def __copy__(self) -> ConcreteValue:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> ConcreteValue:
        return self.frozen_copy()

    @override
    def __reduce__(self) -> tuple[object, ...]:
        # The elements, wherever they are, and nobody else's; and not the hash, which differs from process to process.
        return _with_elements, (np.asarray(self.frozen_copy().data), self.aval)

    def frozen_copy(self) -> ConcreteValue:
        """The same value, safe from later writes to the array that it was made from."""
        if not isinstance(self.data, np.ndarray):
            return self
        elements = frozen_elements(self.data)
        return self if elements is self.data else ConcreteValue(elements, self.aval)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        array: HostArray = np.asarray(self.data)
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        return self.aval.dtype


def _with_elements(elements: HostArray, aval: ShapedArray) -> ConcreteValue:
    elements.flags.writeable = False
    return ConcreteValue(elements, aval)
