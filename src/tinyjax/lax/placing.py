"""Values that are moved to devices while a function is transformed, but not staged: its primals are there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax import backend, primitives
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import PartialEvalContext
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.watching import unwatched
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import without
from tinyjax.meshes import AbstractMesh, Device, Mesh, NamedSharding, PartitionSpec, Sharding
from tinyjax.meshes.spec import UNCONSTRAINED, Part
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ROOT, ConcreteArray, active_frame
from tinyjax.tracing.core import Tracer, bind
from tinyjax.tracing.frames import base_in_force

V = TypeVar("V")


@final
@frozen
class Put(Primitive):
    """The operand at a place. For what has its elements already, outside of programs, which know of no devices: where
    one is lowered, a constraint of the mesh stands for it, and so it does in a derivative.

    `kept` are axes of the operand that are divided as they are already. With `back`, where the operand was, the
    derivative holds this itself, and cotangents go back there. With `said`, what takes the operand says where it is to
    lie, and so it does of tangents, of which the derivative says nothing more.

    >>> print(*Put(Device("cpu")).type_of(ShapedArray((8,), "float32")))
    f32[8]
    """

    place: Sharding | Device
    kept: tuple[int, ...] = ()
    back: Sharding | Device | None = None
    said: bool = False
    name: ClassVar[str] = "device_put"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return [backend.move(arg, self._place_of(arg)) for arg in args]

    def _place_of(self, x: ConcreteValue) -> Sharding | Device:
        place = self.place
        if not isinstance(place, NamedSharding):
            return place
        own = backend.sharding_of_value(x) if self.kept else None
        if isinstance(own, NamedSharding) and own.mesh.shape_tuple == place.mesh.shape_tuple:
            lies = [*own.spec.axes, *[()] * x.aval.ndim]
            place = _with_parts(place, {at: without(lies[at], place.spec.names) or None for at in self.kept})
        return place.padded(x.aval.ndim)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (primal,), (tangent,) = primals, tangents
        moved = ctx.bind(self, primal)
        if isinstance(tangent, Zero):
            return moved, tangents
        if self.back is None and isinstance(unwatched(ctx), PartialEvalContext):  # it is a program's, for later
            return moved, [tangent] if self.said else self.expand(ctx, [tangent])
        return moved, ctx.bind(self, tangent)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """The batch is divided along the mesh axes that `vmap` was given for it, or else as it is already."""
        (at,), place, kept = axes, self.place, self.kept
        if at is not None and isinstance(place, NamedSharding):
            parts = [*place.spec.partitions, *[None] * at][: max(at, len(place.spec))]
            place = place.with_spec(place.spec.update([*parts[:at], axis.spmd or None, *parts[at:]]))
            kept = (*[each + (each >= at) for each in kept], *(() if axis.spmd else (at,)))
        return ctx.bind(evolve(self, place=place, kept=kept), *args), axes

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        return [ct] if isinstance(ct, Zero) or self.back is None else ctx.bind(Put(self.back), ct)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        place = self.place
        if not isinstance(place, NamedSharding):
            return args
        left = AbstractMesh(place.mesh.axis_sizes, place.mesh.axis_names)  # whose axes are all left to XLA
        said = _with_parts(NamedSharding(left, place.spec), dict.fromkeys(self.kept, UNCONSTRAINED))
        return ctx.bind(primitives.resharding.ShardingConstraint(said), *args)


def _with_parts(sharding: NamedSharding, parts: Mapping[int, Part]) -> NamedSharding:
    """The sharding with these parts of its specification instead, by the axis that they are of."""
    found = [*sharding.spec.partitions, *[None] * max(parts, default=0)]
    for at, part in parts.items():
        found[at] = part
    return sharding.with_spec(sharding.spec.update(found[: max(len(sharding.spec), max(parts, default=-1) + 1)]))


def placed(
    array: Array, place: Sharding | Device, back: Sharding | Device | None = None, *, said: bool = False
) -> Array:
    """An array at a place, which may be that of a function that is being differentiated or mapped, not staged."""
    return array if array.aval.dtype == FLOAT0 else bind(Put(place, (), back, said), array)[0]


def there_and_back(array: Array, place: Sharding | Device) -> Array:
    """The same, and cotangents go back to where it was."""
    value = elements_of(array)
    back = None if value is None else backend.place_of(value)
    if value is None or (isinstance(back, NamedSharding) and value.aval.ndim != array.aval.ndim):
        return placed(array, place)  # of what is mapped, as XLA likes
    return placed(array, place, back)


def is_evaluated() -> bool:
    """Whether what is computed now has its elements, however it is transformed: nothing is being staged."""
    return base_in_force(active_frame()) is ROOT


def elements_of(x: Array) -> ConcreteValue | None:
    """What an array is made of, whether it is being differentiated or mapped; None if it is being staged."""
    if isinstance(x, ConcreteArray):
        return x.value
    return _inmost(x.frame.context, x.value) if isinstance(x, Tracer) else None


def _inmost(context: object, value: object) -> ConcreteValue | None:
    context = unwatched(context) if isinstance(context, Context) else context
    if isinstance(context, JvpContext) and isinstance(value, Dual):
        return _inmost(context.parent, value.primal)
    if isinstance(context, PartialEvalContext | BatchContext) and isinstance(value, Known | Batched):
        return _inmost(context.parent, value.value)
    return value if isinstance(value, ConcreteValue) else None


def mesh_of(arrays: Iterable[Array]) -> Mesh | None:
    """The mesh on which one of these arrays lies, if one does."""
    for array in arrays:
        value = elements_of(array)
        if value is not None and value.on_several:
            lies = backend.sharding_of_value(value)
            if isinstance(lies, NamedSharding):
                return lies.mesh
    return None


def beside(x: Array, mesh: Mesh | None) -> Array:
    """An array that is computed with what lies on a mesh: there too, if it is on the host."""
    if mesh is None or not isinstance(x, ConcreteArray) or not x.value.on_host:
        return x
    return placed(x, NamedSharding(mesh, PartitionSpec()))
