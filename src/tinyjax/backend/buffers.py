"""Arrays on a device. Needs no jax at import: whoever makes a buffer has imported it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import frozen
from typing_extensions import CapsuleType, override

from tinyjax.backend.process import PROCESS
from tinyjax.errors import DeletedBufferError, XlaError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEYS, DType, HostArray, short_name
from tinyjax.ir.shapes import Shape
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from jaxlib._jax import ArrayImpl, Device

#: An array on a device, without anything around it. Opaque outside the backend.
RawBuffer: TypeAlias = "ArrayImpl"


@final
@frozen(eq=False, repr=False)
class DeviceBuffer:
    """An array on one device: a jax.Array, of which only the elements count. Implements `Buffer`."""

    array: ArrayImpl
    device: Device
    #: The dtype of keys, if these numbers are such.
    keys: DType | None = None

    @property
    def shape(self) -> Shape:
        return self.array.shape

    @property
    def dtype(self) -> DType:
        return self.array.dtype if self.keys is None else self.keys

    @property
    def platform(self) -> str:
        """The platform of the device, such as "cpu" or "gpu"."""
        return self.device.platform

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        """The elements on the host, once they are computed; a DeletedBufferError if there are none any more."""
        self.block_until_ready()  # to read what could not be computed ends the process
        try:
            elements: HostArray = np.asarray(self.array)
            if self.keys is not None:
                elements = elements.view(self.keys)
        except RuntimeError as error:
            raise XlaError(f"the computation of {self} failed: {error}") from error
        if dtype is not None and elements.dtype != dtype:
            return elements.astype(dtype)
        return elements.copy() if copy else elements

    def check_alive(self) -> None:
        """A DeletedBufferError if the buffer has been freed."""
        if self.array.is_deleted():
            raise DeletedBufferError(deleted_message(self))

    def block_until_ready(self) -> None:
        """Waits until the elements are computed; an XlaError if that failed."""
        self.check_alive()
        if PROCESS.forked and not (self.platform == "cpu" and self.array.is_ready()):
            PROCESS.check(f"To wait for {self}")
        try:
            self.array.block_until_ready()
        except RuntimeError as error:
            raise XlaError(f"the computation of {self} failed: {error}") from error

    def delete(self) -> None:
        """Frees the memory at once."""
        self.array.delete()

    def is_deleted(self) -> bool:
        return self.array.is_deleted()

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        self.block_until_ready()
        return self.array.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.array.__dlpack_device__()
        return int(kind), number

    @override
    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.shape))
        return f"the array {short_name(self.dtype)}[{sizes}] on {self.device}"


def keys_of(dtype: DType) -> DType | None:
    """The dtype, if it is one of keys."""
    return dtype if dtype in KEYS else None


def deleted_message(buffer: DeviceBuffer) -> str:
    """What to say when a buffer is used that is no more."""
    return (
        f"{buffer} was used after it had been donated or deleted. The memory of a donated argument (donate_argnums) is "
        "reused for the results: use the results instead, or don't donate it."
    )


def value_of_buffer(array: ArrayImpl, aval: ShapedArray) -> ConcreteValue:
    """An array on one device as a value."""
    (device,) = array.devices()
    return ConcreteValue(DeviceBuffer(array, device, keys_of(aval.dtype)), aval)


def wait_for(arrays: Sequence[ArrayImpl]) -> None:
    """Waits until all these arrays are computed; the errors of `DeviceBuffer.block_until_ready`."""
    if PROCESS.forked and not all(array.is_ready() for array in arrays):
        PROCESS.check("To wait for arrays")
    try:
        if len(arrays) == 1:
            arrays[0].block_until_ready()
        elif arrays:
            _wait_for_all()(arrays)
    except RuntimeError:
        for array in arrays:
            (device,) = array.devices()
            DeviceBuffer(array, device).block_until_ready()
        raise


@cache
def _wait_for_all() -> Callable[[Sequence[ArrayImpl]], None]:
    from jaxlib._jax import batched_block_until_ready

    return batched_block_until_ready
