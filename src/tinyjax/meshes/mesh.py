"""Meshes: the axes along which devices are laid out, with their names and sizes."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, SupportsIndex, TypeAlias, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.deferred import ENTER_MESH, LEAVE_MESH, PROCESS_INDEX
from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.parameters import Spelled
from tinyjax.meshes.device import Device, OneDevice, device_named, plain_device
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
    import numpy.typing as npt

ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")

#: Devices in rows, as an array of them or nested sequences; or the sizes of a mesh without devices.
Layout: TypeAlias = "npt.NDArray[np.object_] | Sequence[object]"


class AxisType(enum.Enum):
    """Who says how arrays lie along an axis of a mesh: XLA (`Auto`), the operations of a program (`Explicit`), or the
    program itself, for each device (`Manual`).

    Along an `Explicit` axis the result of each operation lies as its operands say; if they leave that open, it is a
    ShardingTypeError.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    @override
    def __repr__(self) -> str:
        return self.name


@final
@frozen(init=False, repr=False)
class Mesh(Immutable, Spelled):
    """Axes with names and sizes, along which devices are laid out; with or without the devices.

    Args:
      devices: an array of devices (or nested sequences of them) with an axis for each name; or, for a mesh without
        devices, the sizes of its axes. Devices are found for it when a program is placed.
      axis_names: a name for each axis; a string is one name.
      axis_types: an AxisType for each axis, or one if there is one axis; `Auto` if None.

    Raises:
      ShardingError: a ValueError, for another number of names or types than axes, names or devices listed twice, or
        sizes below 1.
      InputError: a TypeError, for names that are no strings and types that are no AxisType.

    >>> mesh = Mesh((4, 2), ("x", "y"))
    >>> mesh, mesh.size, mesh.shape["x"]
    (Mesh('x': 4, 'y': 2), 8, 4)
    """

    axis_sizes: tuple[int, ...]
    axis_names: tuple[str, ...]
    axis_types: tuple[AxisType, ...]
    #: The devices, row by row; None if they are found when a program is placed.
    placed: tuple[Device, ...] | None

    def __init__(
        self,
        devices: Layout,
        axis_names: str | Sequence[str],
        axis_types: AxisType | Sequence[AxisType] | None = None,
    ) -> None:
        sizes, placed = _laid_out(devices)
        _make(self, sizes, axis_names, axis_types, placed)

    @classmethod
    @override
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:  # checked against the fields' types before
        mesh = cls.__new__(cls)
        kept = {"axis_types": None, "placed": None, **fields}
        _make(mesh, kept["axis_sizes"], kept["axis_names"], kept["axis_types"], kept["placed"])
        return mesh

    @property
    def shape(self) -> Mapping[str, int]:
        """The sizes by name, in order, read-only."""
        return MappingProxyType(dict(self.shape_tuple))

    @property
    def shape_tuple(self) -> tuple[tuple[str, int], ...]:
        """The names and sizes."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.axis_sizes)

    @property
    def size(self) -> int:
        """How many devices there are, or will be; 0 if there are no axes."""
        return 0 if self.empty else math.prod(self.axis_sizes)

    @property
    def empty(self) -> bool:
        """Whether it has no axes and no device."""
        return not self.axis_names and not self.placed

    @property
    def is_scalar(self) -> bool:
        """Whether it is one device, without axes."""
        return not self.axis_names and self.placed is not None

    @property
    def abstract_mesh(self) -> Mesh:
        """The mesh without devices, which is what programs hold."""
        return self if self.placed is None else AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @property
    def flat_devices(self) -> tuple[Device, ...]:
        """The devices, row by row; a ShardingError if the mesh has none."""
        if self.placed is None:
            raise ShardingError(
                f"{self!r} has no devices: they are found when a program is placed. Make one that has by "
                f"tinyjax.make_mesh({self.axis_sizes}, {self.axis_names}), or by Mesh(devices, {self.axis_names})."
            )
        return self.placed

    @property
    def devices(self) -> npt.NDArray[np.object_]:
        """The devices as a read-only array with the axes of the mesh; a ShardingError if it has none."""
        found = np.empty(len(self.flat_devices), object)
        found[:] = self.flat_devices
        found = found.reshape(self.axis_sizes)
        found.flags.writeable = False
        return found

    @property
    def device_ids(self) -> npt.NDArray[np.int64]:
        """The numbers of the devices, with the axes of the mesh."""
        return np.array([device.id for device in self.flat_devices], np.int64).reshape(self.axis_sizes)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        here = PROCESS_INDEX.use()
        return [device for device in self.flat_devices if device.process_index == here]

    @property
    def local_mesh(self) -> Mesh:
        """The mesh of the devices of this process; a ShardingError if they are no block of this one."""
        here = PROCESS_INDEX.use()
        own = np.array([device.process_index == here for device in self.flat_devices]).reshape(self.axis_sizes)
        block = tuple([slice(at.min(), at.max() + 1) for at in np.nonzero(own)]) if own.any() else None
        if block is None or not own[block].all():
            raise ShardingError(f"the devices of process {here} are no block of {self}: it has no local mesh")
        return self if own.all() else Mesh(self.devices[block], self.axis_names, self.axis_types)

    @property
    def is_multi_process(self) -> bool:
        """Whether devices of other processes are among them."""
        return len(self.local_devices) != self.size

    @property
    def auto_axes(self) -> tuple[str, ...]:
        """The names of the `Auto` axes."""
        return self._of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[str, ...]:
        """The names of the `Explicit` axes."""
        return self._of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[str, ...]:
        """The names of the `Manual` axes."""
        return self._of_type(AxisType.Manual)

    @property
    def are_all_axes_auto(self) -> bool:
        """Whether it has axes, and all are `Auto`."""
        return {*self.axis_types} == {AxisType.Auto}

    @property
    def are_all_axes_explicit(self) -> bool:
        """Whether it has axes, and all are `Explicit`."""
        return {*self.axis_types} == {AxisType.Explicit}

    @property
    def are_all_axes_explicit_or_manual(self) -> bool:
        """Whether it has axes, and none is `Auto`."""
        return bool(self.axis_types) and AxisType.Auto not in self.axis_types

    @property
    def are_all_axes_manual(self) -> bool:
        """Whether it has axes, and all are `Manual`."""
        return {*self.axis_types} == {AxisType.Manual}

    def _of_type(self, axis_type: AxisType) -> tuple[str, ...]:
        return tuple([n for n, t in zip(self.axis_names, self.axis_types, strict=True) if t is axis_type])

    def update(
        self,
        devices: Layout | None = None,
        axis_names: str | Sequence[str] | None = None,
        axis_types: AxisType | Sequence[AxisType] | None = None,
        *,
        axis_sizes: Sequence[int] | None = None,
    ) -> Mesh:
        """The mesh with these in the place of its own. Other sizes than its own need other devices, too."""
        layout = axis_sizes if devices is None else devices
        if layout is None:
            layout = self.axis_sizes if self.placed is None else self.devices
        return Mesh(
            layout,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def update_axis_types(self, name_to_type: Mapping[str, AxisType]) -> Mesh:
        """The mesh with other types of the axes that are named."""
        pairs = zip(self.axis_names, self.axis_types, strict=True)
        return self.update(axis_types=tuple([name_to_type.get(name, own) for name, own in pairs]))

    def __enter__(self) -> Self:
        """Puts it in force, as `tinyjax.set_mesh(mesh)` does: `with mesh:`. A ShardingError if it has no devices."""
        if not self.flat_devices or self.manual_axes:
            raise ShardingError(f"with mesh: {self!r} has Manual axes, which only shard_map can begin")
        ENTER_MESH.use(self)
        return self

    def __exit__(self, *_: object) -> None:
        LEAVE_MESH.use()

    def __call__(self, function: Callable[ParametersT, ResultT]) -> Callable[ParametersT, ResultT]:
        """The function, with the mesh in force within each call: `@mesh`, as a block `with mesh:` around its body."""

        @wraps(function)
        def with_mesh(*args: ParametersT.args, **kwargs: ParametersT.kwargs) -> ResultT:
            with self:
                return function(*args, **kwargs)

        return with_mesh

    @override
    def __repr__(self) -> str:
        axes = [f"{name!r}: {size}" for name, size in self.shape_tuple]
        return f"Mesh({', '.join([*axes, *self._shown_types()])})"

    def _repr_html_(self) -> str:
        """What notebooks show: the devices."""
        from tinyjax.meshes.notebooks import html_of_blocks, mesh_blocks

        return html_of_blocks(mesh_blocks(self))

    @override
    def spelled(self) -> str:
        axes = [f"{name!r}: {size}" for name, size in self.shape_tuple]
        places = "" if self.placed is None else ", ".join(repr(str(device)) for device in self.placed)
        shown = [] if self.placed is None else [f"devices=({places},)"]
        return f"Mesh({', '.join([*axes, *self._shown_types(), *shown])})"

    def _shown_types(self) -> list[str]:
        if set(self.axis_types) <= {AxisType.Auto}:
            return []
        names = ", ".join(map(repr, self.axis_types))
        return [f"axis_types=({names},)" if self.ndim == 1 else f"axis_types=({names})"]


@final
class MeshesWithoutDevices(type):
    """What `AbstractMesh` is an instance of: called, it makes a mesh, and meshes without devices are its instances."""

    @override
    def __call__(
        cls,
        axis_sizes: Sequence[int],
        axis_names: str | Sequence[str],
        axis_types: AxisType | Sequence[AxisType] | None = None,
    ) -> Mesh:
        return Mesh(axis_sizes, axis_names, axis_types)

    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Mesh) and instance.placed is None


@final
class _AbstractMesh(metaclass=MeshesWithoutDevices):
    """A mesh without devices, which are found when a program is placed.

    >>> mesh = AbstractMesh((4, 2), ("x", "y"))
    >>> mesh == Mesh((4, 2), ("x", "y"))
    True
    >>> isinstance(mesh, AbstractMesh), isinstance(Mesh(["cpu:0"], "x"), AbstractMesh)
    (True, False)
    """

    __qualname__ = "AbstractMesh"


AbstractMesh: Final[MeshesWithoutDevices] = _AbstractMesh


def _make(
    mesh: Mesh,
    sizes: Sequence[int],
    axis_names: str | Sequence[str],
    axis_types: AxisType | Sequence[AxisType] | None,
    placed: Sequence[Device] | None,
) -> None:
    """Fills in the fields, once they are checked."""
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    if axis_types is None:
        axis_types = (AxisType.Auto,) * len(names)
    types = (axis_types,) if isinstance(axis_types, AxisType) else tuple(axis_types)
    devices = None if placed is None else tuple(placed)
    _check(tuple(sizes), names, types, devices)
    mesh.__attrs_init__(axis_sizes=tuple(sizes), axis_names=names, axis_types=types, placed=devices)


def _laid_out(devices: Layout) -> tuple[tuple[int, ...], tuple[Device, ...] | None]:
    """The sizes of the axes, and the devices if there are any."""
    array = devices if isinstance(devices, np.ndarray) else np.array(devices, object)
    flat: list[object] = list(array.flat)
    if array.ndim <= 1 and all(isinstance(item, SupportsIndex) for item in flat):
        return tuple([operator.index(item) for item in flat if isinstance(item, SupportsIndex)]), None
    if array.ndim == 0 and flat == [None]:  # JAX's empty mesh
        return (), None
    found: list[Device] = []
    for item in flat:
        if isinstance(item, str):
            found.append(device_named(item))
        elif isinstance(item, Sequence):
            raise ShardingError(f"the devices of a mesh are in rows of equal lengths, not {devices!r}")
        elif isinstance(item, OneDevice):
            found.append(plain_device(item))
        else:
            raise InputError(
                f"a mesh is made of an array of devices, such as tinyjax.devices(), or of sizes, not of {item!r}"
            )
    return array.shape, tuple(found)


def _check(
    sizes: tuple[int, ...],
    names: tuple[object, ...],
    types: tuple[object, ...],
    placed: tuple[Device, ...] | None,
) -> None:
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise ShardingError(f"the name of a mesh axis is a string, not {wrong[0]!r}")
    if wrong_types := [item for item in types if not isinstance(item, AxisType)]:
        raise InputError(
            "axis_types are tinyjax.sharding.AxisType.Auto, Explicit or Manual, not "
            f"{wrong_types[0]!r} of the type {type(wrong_types[0]).__module__}.{type(wrong_types[0]).__qualname__}"
        )
    if len(sizes) != len(names):
        raise ShardingError(f"a mesh has a name for each axis: got {len(names)} names {names} for the sizes {sizes}")
    if len(types) != len(names):
        raise ShardingError(f"a mesh has a type for each axis: got {len(types)} types {types} for the names {names}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ShardingError(f"each axis of a mesh has a name of its own, but {twice[0]!r} is there twice in {names}")
    if any(size < 1 for size in sizes):
        raise ShardingError(f"the axes of a mesh have at least one device each, got the sizes {sizes}")
    if placed is not None:
        if len(placed) != math.prod(sizes):
            raise ShardingError(f"a mesh of the sizes {sizes} has {math.prod(sizes)} devices, got {len(placed)}")
        if len(set(placed)) != len(placed):
            again = next(device for device in placed if placed.count(device) > 1)
            raise ShardingError(f"each device is once in a mesh, but {again} is there twice")
