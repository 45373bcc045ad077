"""Arrays on devices. Needs no jax at import: whoever makes a buffer has imported it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import frozen
from typing_extensions import CapsuleType, override

from tinyjax.backend.handlers import is_foreign
from tinyjax.backend.process import PROCESS
from tinyjax.backend.refusals import refusal
from tinyjax.errors import AddressError, DeletedBufferError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEYS, DType, HostArray, short_name
from tinyjax.ir.shapes import Shape
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from jaxlib._jax import ArrayImpl, Device

    from tinyjax.meshes.sharding import Sharding

#: An array on a device, without anything around it. Opaque outside the backend.
RawBuffer: TypeAlias = "ArrayImpl"
#: Arrays of up to so many bytes are copied on the host, which takes less than to put them on the device by themselves.
SMALL: Final = 1 << 16


class StoredBuffer(ABC):
    """A jax.Array, of which only the elements count. Implements `Buffer`."""

    __slots__ = ()

    @property
    @abstractmethod
    def array(self) -> ArrayImpl:
        """The array."""

    @property
    @abstractmethod
    def keys(self) -> DType | None:
        """The dtype of keys, if these numbers are such."""

    @property
    @abstractmethod
    def platform(self) -> str:
        """The platform of the devices, such as "cpu" or "gpu"."""

    @property
    @abstractmethod
    def place(self) -> object:
        """The devices, in messages."""

    @abstractmethod
    def elements(self) -> HostArray:
        """The numbers on the host, once they are computed."""

    @property
    def shape(self) -> Shape:
        return self.array.shape

    @property
    def dtype(self) -> DType:
        return self.array.dtype if self.keys is None else self.keys

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        """The elements on the host, once they are computed; a DeletedBufferError if there are none any more."""
        self.block_until_ready()  # to read what could not be computed ends the process
        try:
            elements = self.elements()
            if self.keys is not None:
                elements = elements.view(self.keys)
        except RuntimeError as error:
            if is_foreign(error):
                raise
            if not self.array.is_fully_addressable:
                raise self.out_of_reach() from error
            raise refusal(f"the computation of {self} failed: {error}", error) from error
        if dtype is not None and elements.dtype != dtype:
            return elements.astype(dtype)
        return elements.copy() if copy else elements

    def out_of_reach(self) -> AddressError:
        """The error for elements that are on devices of other processes."""
        return AddressError(
            f"{self} has elements on devices of other processes, so this one can't read them all. Read its own by "
            "x.addressable_shards, or have all of them by tinyjax.process_allgather(x), which every process must call."
        )

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
            if is_foreign(error):
                raise
            raise refusal(f"the computation of {self} failed: {error}", error) from error

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
        return f"the array {_written(self.shape, self.dtype)} on {self.place}"


@final
@frozen(eq=False, repr=False)
class DeviceBuffer(StoredBuffer):
    """An array on one device."""

    array: ArrayImpl
    device: Device
    keys: DType | None = None

    @property
    @override
    def platform(self) -> str:
        return self.device.platform

    @property
    @override
    def place(self) -> object:
        return self.device

    @override
    def elements(self) -> HostArray:
        return np.asarray(self.array)


@final
@frozen(eq=False, repr=False)
class ShardedBuffer(StoredBuffer):
    """An array on a mesh: on several devices, or on one that was said to be a mesh."""

    array: ArrayImpl
    keys: DType | None = None

    @property
    @override
    def platform(self) -> str:
        platform: str = next(iter(self.array.devices())).platform
        return platform

    @property
    def sharding(self) -> Sharding:
        """How it lies on them."""
        from tinyjax.backend.shardings import sharding_of

        return sharding_of(self.array.sharding)

    @property
    def is_whole(self) -> bool:
        """Whether each device has all of it."""
        return self.sharding.is_fully_replicated

    @property
    @override
    def place(self) -> object:
        return self.sharding

    @override
    def elements(self) -> HostArray:
        from tinyjax.backend.shardings import sum_of_terms

        found = sum_of_terms(self.array)
        return np.asarray(self.array) if found is None else found


@final
@frozen(eq=False, repr=False)
class Freed:
    """What is left of an array on the host that was deleted: its type. Implements `Buffer`."""

    shape: Shape
    dtype: DType

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        """A DeletedBufferError: there are no elements."""
        self.check_alive()
        raise AssertionError

    def check_alive(self) -> None:
        """A DeletedBufferError."""
        raise DeletedBufferError(
            f"{self} was used after it had been donated or deleted, by donate_argnums or x.delete(). Use the results "
            "instead, or make a copy before."
        )

    @override
    def __repr__(self) -> str:
        return f"the array {_written(self.shape, self.dtype)} on the host"


def _written(shape: Shape, dtype: DType) -> str:
    return f"{short_name(dtype)}[{','.join(map(str, shape))}]"


def keys_of(dtype: DType) -> DType | None:
    """The dtype, if it is one of keys."""
    return dtype if dtype in KEYS else None


def deleted_message(buffer: StoredBuffer) -> str:
    """What to say when a buffer is used that is no more."""
    return (
        f"{buffer} was used after it had been donated or deleted. The memory of a donated argument (donate_argnums) is "
        "reused for the results: use the results instead, or don't donate it."
    )


def value_of_buffer(array: ArrayImpl, aval: ShapedArray) -> ConcreteValue:
    """An array on devices as a value."""
    devices = array.devices()
    if is_on_mesh(array, devices):
        return ConcreteValue(ShardedBuffer(array, keys_of(aval.dtype)), aval)
    (device,) = devices
    return ConcreteValue(DeviceBuffer(array, device, keys_of(aval.dtype)), aval)


def is_on_mesh(array: ArrayImpl, devices: Collection[Device]) -> bool:
    """Whether an array lies on a mesh: on several devices, or on one that is a mesh by itself."""
    return len(devices) != 1 or hasattr(array.sharding, "mesh")


def wait_for(arrays: Sequence[ArrayImpl]) -> None:
    """Waits until all these arrays are computed; the errors of `DeviceBuffer.block_until_ready`."""
    if PROCESS.forked and not all(array.is_ready() for array in arrays):
        PROCESS.check("To wait for arrays")
    try:
        if len(arrays) == 1:
            arrays[0].block_until_ready()
        elif arrays:
            _wait_for_all()(arrays)
    except RuntimeError as error:
        if is_foreign(error):
            raise
        for array in arrays:
            ShardedBuffer(array).block_until_ready()
        raise


def is_computed(array: ArrayImpl) -> bool:
    """Waits until an array is computed; False if that failed, or if there is nothing to wait for."""
    if PROCESS.forked:
        return False
    try:
        array.block_until_ready()
    except RuntimeError as error:
        if is_foreign(error):
            raise
        return False
    return True


@cache
def _wait_for_all() -> Callable[[Sequence[ArrayImpl]], None]:
    from jaxlib._jax import batched_block_until_ready

    return batched_block_until_ready
