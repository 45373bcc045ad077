"""`ShapeDtypeStruct`: what stands for an array where only its type counts, and where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.api.make_jaxpr import abstractify
from tinyjax.backend import is_committed
from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType
from tinyjax.ir.duality import ManualAxisType
from tinyjax.ir.shapes import Shape, as_axes, as_shape, dtype_of
from tinyjax.lax.explicit import typed_sharding
from tinyjax.lax.mesh_in_force import mesh_in_force, on_mesh_in_force
from tinyjax.meshes import NamedSharding, PartitionSpec, Sharding
from tinyjax.meshes.named import check_sums
from tinyjax.propagation.specs import lying, sums_said, type_text
from tinyjax.refs.ref import AnyRef
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray

_SPEC: Final = "ShapeDtypeStruct: the sharding"


class _TypeOfTypes(type):
    """What functions return types of arrays as is one of these, too."""

    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, ShapedArray) or super().__instancecheck__(instance)


def _said(sharding: Sharding | PartitionSpec | None) -> Sharding | PartitionSpec | None:
    """A sharding that says something: where all axes of the mesh are Manual, the type does, and without axes none."""
    silent = isinstance(sharding, NamedSharding) and (sharding.mesh.empty or sharding.mesh.are_all_axes_manual)
    return None if silent else sharding


def _manual(found: object) -> ManualAxisType:
    if found is None:
        return ManualAxisType()
    if not isinstance(found, ManualAxisType):
        raise InputError(
            f"ShapeDtypeStruct: manual_axis_type is sharding.ManualAxisType(varying={{'x'}}), not {found!r}"
        )
    return found


def _sharding(found: object) -> Sharding | PartitionSpec | None:
    """A specification is about the mesh in force, and if there is none about that where it is asked for."""
    if isinstance(found, PartitionSpec) and (mesh := mesh_in_force()) is not None and not mesh.empty:
        return on_mesh_in_force(_SPEC, found)
    if found is not None and not isinstance(found, Sharding | PartitionSpec):
        raise InputError(f"ShapeDtypeStruct: sharding is NamedSharding(mesh, P('x', None)), not {found!r}")
    return found


def lying_type(aval: ShapedArray, sharding: Sharding | None) -> ShapedArray | ShapeDtypeStruct:
    """The type of an array, which says how it lies if that is known."""
    if sharding is None:
        return aval
    return ShapeDtypeStruct(
        aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type, manual_axis_type=aval.mat
    )


@final
@frozen(eq=False, repr=False)
class ShapeDtypeStruct(metaclass=_TypeOfTypes):
    """A shape and a dtype, and how an array lies, for what takes the types of arguments instead of arrays.

    JAX's own objects of this name will do there, too, and so will a ShapedArray, which is equal to one that says
    nothing of where it lies. Within `shard_map`, `manual_axis_type` says along which axes of the mesh it varies. With
    `is_ref`, it is the type of a Ref that holds such an array. Source: JAX.

    >>> x = ShapeDtypeStruct((2, 3), "float32")
    >>> x, x == ShapedArray((2, 3), "float32"), x.update(shape=(4,)).size
    (ShapeDtypeStruct(shape=(2, 3), dtype=float32), True, 4)
    """

    shape: Shape = field(converter=as_shape)
    dtype: DType = field(converter=dtype_of)
    _lies: Sharding | PartitionSpec | None = field(default=None, kw_only=True, alias="sharding", converter=_sharding)
    weak_type: bool = field(default=False, kw_only=True)
    manual_axis_type: ManualAxisType = field(default=None, kw_only=True, converter=_manual)
    is_ref: bool = field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if isinstance(self._lies, NamedSharding):
            check_sums("ShapeDtypeStruct", self._lies)
            self._lies.check(self.shape, "ShapeDtypeStruct")
        if isinstance(self._lies, PartitionSpec) and len(self._lies) > len(self.shape):
            raise ShardingError(f"ShapeDtypeStruct: {self._lies} has more parts than the shape {self.shape} has axes")

    @classmethod
    def like(cls, x: object) -> ShapeDtypeStruct:
        """The type of an array, or of anything that has a shape and a dtype, and how it lies."""
        if isinstance(x, AnyRef):
            return cls.like(x.current()).update(is_ref=True)
        aval = abstractify(x)
        lies: Sharding | None = None
        if isinstance(x, ConcreteArray) or type(x) is ShapeDtypeStruct:
            lies = x.sharding
        elif isinstance(x, Array):
            lies = typed_sharding(x)
        if isinstance(x, ConcreteArray) and not is_committed(x.value):  # nobody has said that it is to be there
            lies = None
        return cls(
            aval.shape,
            aval.dtype,
            sharding=lies,
            weak_type=aval.weak_type,
            manual_axis_type=aval.mat,
        )

    @property
    def sharding(self) -> Sharding | None:
        """How an array lies; a NoMeshError, a TypeError, if that is a PartitionSpec and no mesh is in force."""
        lies = self._lies
        return on_mesh_in_force(_SPEC, lies) if isinstance(lies, PartitionSpec) else lies

    @property
    def aval(self) -> ShapedArray:
        """The type alone."""
        mat = self.manual_axis_type
        axes = [as_axes(names) for names in (mat.varying, mat.unreduced, mat.reduced)]
        return ShapedArray(self.shape, self.dtype, self.weak_type, *axes)

    @property
    def mat(self) -> ManualAxisType:
        """`manual_axis_type`, short."""
        return self.manual_axis_type

    @property
    def vma(self) -> frozenset[str]:
        """The axes of a mesh along which it varies within `shard_map`."""
        return self.manual_axis_type.varying

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    def update(
        self,
        *,
        shape: Sequence[int] | None = None,
        dtype: npt.DTypeLike | None = None,
        sharding: Sharding | PartitionSpec | None = None,
        weak_type: bool | None = None,
        manual_axis_type: ManualAxisType | None = None,
        is_ref: bool | None = None,
    ) -> ShapeDtypeStruct:
        """The same but for what is given."""
        return ShapeDtypeStruct(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            sharding=self._lies if sharding is None else sharding,
            weak_type=self.weak_type if weak_type is None else weak_type,
            manual_axis_type=self.manual_axis_type if manual_axis_type is None else manual_axis_type,
            is_ref=self.is_ref if is_ref is None else is_ref,
        )

    def __len__(self) -> int:
        if not self.shape:
            raise InputError(f"{self} has no axes, and no length")
        return self.shape[0]

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, ShapedArray):
            return not self.is_ref and _said(self._lies) is None and self.aval == other
        if type(other) is not ShapeDtypeStruct:
            return NotImplemented
        same = self.aval == other.aval and _said(self._lies) == _said(other._lies)
        return same and self.is_ref == other.is_ref

    @override
    def __hash__(self) -> int:
        return hash(self.aval)

    @override
    def __str__(self) -> str:
        """The type, and along which axes of a mesh it is divided: `f32[8@x,4]`; of a Ref `Ref{f32[8@x,4]}`."""
        if self.is_ref:
            held = self.update(is_ref=False)
            return f"Ref{{{held if isinstance(self._lies, NamedSharding) else self.aval}}}"
        if not isinstance(self._lies, NamedSharding):
            return repr(self)
        spec = self._lies.spec
        names = [*spec.axes, *((),) * self.ndim][: self.ndim]
        return type_text(self.aval, lying(tuple(names), sums_said(spec, self._lies.mesh)))

    @override
    def __repr__(self) -> str:
        more = f", sharding={self._lies}" if self._lies is not None else ""
        weak = ", weak_type=True" if self.weak_type else ""
        mat = "" if self.mat.empty else f", manual_axis_type={self.mat}"
        ref = ", is_ref=True" if self.is_ref else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{more}{weak}{mat}{ref})"
