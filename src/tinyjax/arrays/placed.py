"""Where the elements of arrays are: on the host, on a device, or divided among the devices of a mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax import backend
from tinyjax.arrays import advice
from tinyjax.arrays.intake import AS_ARRAY
from tinyjax.arrays.operators import Operators
from tinyjax.arrays.shaping import integer
from tinyjax.backend import Device, DeviceLike
from tinyjax.deferred import LAID_OUT
from tinyjax.errors import IndexingError, UnsupportedError
from tinyjax.ir.shapes import Shape
from tinyjax.meshes import Index, NamedSharding, Sharding
from tinyjax.tracebacks import filter_class, filtered_method

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array


@final
@frozen(eq=False, repr=False)
class Shard:
    """The part of an array that one device has.

    `index` says which part: a slice for each axis. Of devices that have the same one, the first has the `replica_id` 0.
    `data` is the part itself, as an array on that device; None if it is a device of another process.
    """

    device: Device
    index: Index
    replica_id: int
    data: Array | None

    @override
    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data})"


@filter_class
class Placed(Operators):
    """Where the elements are."""

    __slots__ = ()

    #: What JAX's functions, such as `jax.numpy.zeros_like`, ask of an array of ours before they make another one where
    #: it lies.
    _committed: ClassVar[bool] = False

    @property
    @filtered_method
    def device(self) -> Device | Sharding:
        """Where the elements are: the host, or a device. `Device("traced")` if only the run of a program tells; the
        sharding, if they are on several devices."""
        value = self._array.concrete()
        return backend.TRACED if value is None else backend.place_of(value)

    def devices(self) -> set[Device]:
        """The devices that have elements."""
        place = self.device
        return place.device_set if isinstance(place, Sharding) else {place}

    def to_device(self, device: DeviceLike | Sharding, /, *, stream: object = None) -> Array:
        """The array on another device, or on the "host", or as a sharding says; itself if it is there. What is being
        traced stays as it is, as its program says where it runs; but on a mesh it lies as is said."""
        if stream is not None:
            raise UnsupportedError("to_device: a stream can't be chosen, XLA has its own")
        return self._array._placed(device if isinstance(device, Sharding) else backend.as_device(device))

    def _placed(self, place: Device | Sharding) -> Array:
        """The array at a place. Here for what is being traced."""
        array = self._array
        return LAID_OUT.use(lambda x: x, [array], place) if isinstance(place, NamedSharding) else array

    @property
    @filtered_method
    def sharding(self) -> Sharding:
        """How the array lies on devices: a NamedSharding, or a SingleDeviceSharding for one device or the host."""
        return backend.sharding_of_value(self._array._elements(advice.SHARDING))

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all elements are on devices of this process."""
        return self.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has all elements."""
        return self.sharding.is_fully_replicated

    @property
    def global_shape(self) -> Shape:
        """The shape of the whole array, wherever its parts are: the `shape`."""
        return self.aval.shape

    @property
    @filtered_method
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array that devices of this process have."""
        return [shard for shard in self.global_shards if shard.data is not None]

    def addressable_data(self, index: int) -> Array:
        """The part that one of this process's devices has, by its place in `addressable_shards`."""
        shards = self.addressable_shards
        at = integer(index, "addressable_data: index")
        if not -len(shards) <= at < len(shards):
            raise IndexingError(f"addressable_data({index}): the array has {len(shards)} parts in this process")
        found = shards[at].data
        assert found is not None
        return found

    @property
    @filtered_method
    def committed(self) -> bool:
        """Whether something said that the array is to be where it is, by a device or a sharding; then computations with
        it run there. Others may be moved to where the operands beside them are."""
        return backend.is_committed(self._array._elements(advice.DEVICE))

    @filtered_method
    def is_ready(self) -> bool:
        """Whether the elements are computed already."""
        return backend.is_ready(self._array._elements(advice.DEVICE))

    @filtered_method
    def copy_to_host_async(self) -> None:
        """Begins to copy the elements to the host, for `np.asarray` to find them there later. Nothing is returned."""
        backend.start_copy_to_host(self._array._elements(advice.DEVICE))

    @filtered_method
    def on_device_size_in_bytes(self) -> int:
        """How many bytes the array takes on all devices of this process together: more than `nbytes` where several have
        the same part."""
        return backend.size_on_devices(self._array._elements(advice.DEVICE))

    @property
    @filtered_method
    def global_shards(self) -> list[Shard]:
        """The parts of the array on all devices; without data, where they are devices of other processes."""
        value = self._array._elements(advice.DEVICE)
        return [
            Shard(device, index, replica, None if data is None else AS_ARRAY.use(data))
            for device, index, replica, data in backend.shards(value)
        ]
