"""How arrays lie on a mesh with Explicit axes, also while functions are transformed: asked of what is staged so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, final

import numpy as np
from attrs import frozen

from tinyjax import backend, primitives
from tinyjax.backend import Device
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import PartialEvalContext
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.staging import StagingContext
from tinyjax.contexts.watching import unwatched
from tinyjax.control.call import Call
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.program import Literal, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.lax.layouts import OutSharding, laid_out, left_to_xla, lying, own_sharding
from tinyjax.lax.mesh_in_force import MeshFrame, enter_mesh, mesh_in_force
from tinyjax.lax.placing import elements_of, is_evaluated
from tinyjax.meshes import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from tinyjax.meshes.named import named_sharding
from tinyjax.meshes.spec import Part
from tinyjax.propagation.specs import (
    Lies,
    Open,
    divided,
    divided_by,
    lies_as,
    named_spec,
    only,
    partition_spec,
    parts_of,
    pinned,
    sums_of,
)
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import TraceFrame, Tracer, bind
from tinyjax.tracing.frames import Frame, outwards
from tinyjax.tracing.functions import FlatFunction
from tinyjax.tracing.programs import Traced, trace

V = TypeVar("V")


def explicit_mesh(leaves: Sequence[object]) -> Mesh | None:
    """The mesh whose Explicit axes count: the one in force, or one that arrays lie on, or types say so."""
    mesh = mesh_in_force()
    if mesh is not None:
        return mesh if mesh.explicit_axes else None
    for leaf in leaves:
        value = elements_of(leaf) if isinstance(leaf, Tracer) else None
        found = own_sharding(leaf if value is None else ConcreteArray(value))
        if found is not None and found.mesh.explicit_axes:
            return found.mesh
    return None


def lies_on(mesh: Mesh, leaf: object, ndim: int) -> Lies:
    """How an array, or what a type is of, lies along the Explicit axes of a mesh."""
    if isinstance(leaf, Tracer):
        return _traced(mesh, leaf)
    own = own_sharding(leaf)
    return ((),) * ndim if own is None else lies_as(own, ndim, mesh)


def _traced(mesh: Mesh, tracer: Tracer[V]) -> Lies:
    return _lies(mesh, tracer.frame, tracer.frame.context, tracer.value)


def _lies(mesh: Mesh, frame: Frame, context: object, value: object) -> Lies:
    """How a value of a context lies. Open if that isn't known."""
    context = unwatched(context) if isinstance(context, Context) else context
    if isinstance(value, ConcreteValue):
        return lies_on(mesh, ConcreteArray(value), value.aval.ndim)
    if isinstance(context, JvpContext) and isinstance(value, Dual):
        return _lies(mesh, frame, context.parent, value.primal)
    if isinstance(context, PartialEvalContext) and isinstance(value, Known):
        return _lies(mesh, frame, context.parent, value.value)
    if isinstance(context, BatchContext) and isinstance(value, Batched):
        found = _lies(mesh, frame, context.parent, value.value)
        if isinstance(found, Open) or value.axis is None:
            return found
        at = value.axis
        return divided_by(found, lambda spec: (*spec[:at], *spec[at + 1 :]))
    if isinstance(context, StagingContext) and isinstance(value, Var | Literal):
        return _staged(mesh, frame, context, value)
    return Open()


def _staged(mesh: Mesh, frame: Frame, context: StagingContext, atom: Var | Literal) -> Lies:
    own = next((f for f in outwards(frame) if isinstance(f, TraceFrame) and unwatched(f.context) is context), None)
    if own is None:
        return Open()
    program = context.finish([atom])
    given: Sequence[Lies] = own.parent.lies if isinstance(own.parent, MeshFrame) else ()
    leading = [_lies_of_captured(mesh, value) for value in program.captured]
    if len(leading) + len(given) != len(program.jaxpr.invars):
        given = [Open()] * (len(program.jaxpr.invars) - len(leading))
    from tinyjax.propagation.propagate import propagate  # only here, as it takes a while to load

    (lies,) = propagate(program.jaxpr, [*leading, *given], mesh)
    return lies


def _lies_of_captured(mesh: Mesh, value: object) -> Lies:
    if isinstance(value, ConcreteValue):
        return lies_on(mesh, ConcreteArray(value), value.aval.ndim)
    return lies_on(mesh, value, value.aval.ndim) if isinstance(value, Array) else Open()


def explicit_shardings(arrays: Sequence[Array]) -> tuple[NamedSharding | None, ...]:
    """How cotangents lie of arrays that are differentiated by: as these, but unreduced where these are reduced, and the
    other way round. Empty where there is no Explicit axis, as there hardly ever is."""
    found = given(arrays, [x.aval.ndim for x in arrays])
    if found is None:
        return ()
    mesh = found.mesh
    named = [None if isinstance(lies, Open) else NamedSharding(mesh, partition_spec(lies, mesh)) for lies in found.lies]
    return tuple([sharding and sharding.with_spec(sharding.spec.dual) for sharding in named])


def _named(mesh: Mesh, lies: Lies) -> NamedSharding | None:
    return None if isinstance(lies, Open) else NamedSharding(mesh, named_spec(lies))


def explicit_sharding(x: Array) -> NamedSharding | None:
    """How an array lies along the Explicit axes of its mesh; None if it is on none, or if it is left to XLA.

    A ShardingTypeError if it might be in several ways.
    """
    mesh = explicit_mesh([x])
    if mesh is None:
        return None
    lies = lies_on(mesh, x, x.aval.ndim)
    if isinstance(lies, Open) and lies.error is not None:
        raise lies.error
    explicit = mesh.explicit_axes  # fewer than where it was traced, within auto_axes
    own = divided_by(lies, lambda spec: only(spec, explicit))
    return _named(mesh.abstract_mesh, own)


@final
@frozen
class Divided:
    """A batch that is divided along Explicit axes of a mesh."""

    mesh: Mesh
    names: tuple[str, ...]

    def along(self, x: Array, at: int) -> Array:
        """What is the same for each element, and is repeated along this axis: divided as the batch is."""
        lies = lies_on(self.mesh, x, x.aval.ndim)
        if isinstance(lies, Open) or {*self.names}.intersection(name for part in parts_of(lies) for name in part):
            return x
        spec = divided_by(lies, lambda spec: (*spec[:at], self.names, *spec[at + 1 :]))
        assert not isinstance(spec, Open)
        if isinstance(x, ConcreteArray) and x.evaluated:
            return lying("vmap", x, NamedSharding(self.mesh, named_spec(spec)))
        return bind(primitives.resharding.ShardingConstraint(pinned(spec, self.mesh)), x)[0]


def batch_divided(arrays: Sequence[Array], axes: Sequence[int]) -> Divided | None:
    """How these axes of arrays are divided along Explicit axes of a mesh; None unless all are alike."""
    found = given(arrays, [x.aval.ndim for x in arrays])
    if found is None:
        return None
    parts = {() if isinstance(lies, Open) else parts_of(lies)[at] for lies, at in zip(found.lies, axes, strict=True)}
    names = parts.pop() if len(parts) == 1 else ()
    return Divided(found.mesh, names) if names else None


def along_explicit(sharding: NamedSharding, ndim: int) -> NamedSharding | None:
    """What the type of an array says that lies so: of the Explicit axes of its mesh."""
    return _named(sharding.mesh.abstract_mesh, lies_as(sharding, ndim, sharding.mesh))


def typed_sharding(x: Array) -> NamedSharding | None:
    """The same, but where a mesh without Explicit axes is in force, that it is divided along none of them; and of an
    array that lies on a mesh, what it is on that one."""
    own = own_sharding(x)
    if own is not None:
        return along_explicit(own, x.aval.ndim)
    found = explicit_sharding(x)
    if found is not None:
        return found
    mesh = mesh_in_force()
    if mesh is None or mesh.empty:
        return None
    return NamedSharding(mesh.abstract_mesh, PartitionSpec(*[None] * x.aval.ndim))


def sharding_like(x: Array) -> NamedSharding | None:
    """How what is made like an array is to lie: as the array, if that is on several devices."""
    if isinstance(x, ConcreteArray):
        return own_sharding(x)
    mesh = explicit_mesh([x])
    lies = Open() if mesh is None else lies_on(mesh, x, x.aval.ndim)
    return None if mesh is None or isinstance(lies, Open) or not divided(lies) else _named(mesh, lies)


def device_like(x: object) -> Device | None:
    """The one device on which what is made like an array is to be: that on which it was put."""
    if not isinstance(x, ConcreteArray) or isinstance(x.value.data, np.ndarray) or x.value.on_several:
        return None
    place = x.device if backend.is_committed(x.value) else None
    return place if isinstance(place, Device) else None


def described_sharding(x: object) -> NamedSharding | None:
    """How what is made of a type is to lie: as it says, if there are devices for its mesh, or if it is in force."""
    found = named_sharding(x)
    if found is None:
        return None
    mesh = mesh_in_force()
    in_force = mesh is not None and mesh.shape_tuple == found.mesh.shape_tuple
    return found if found.has_devices or in_force else None


# Functions that are staged.


@final
@frozen
class Given:
    """How the arguments of a function that is to be staged lie on a mesh with Explicit axes."""

    mesh: Mesh
    lies: tuple[Lies, ...]

    def stage(self, trace: Callable[[], Traced]) -> Traced:
        """Stages it. A ShardingTypeError if its program doesn't say how a result lies."""
        with enter_mesh(self.mesh, self.lies):
            traced = trace()
        self.check(traced)
        return traced

    def check(self, traced: Traced) -> list[NamedSharding | None]:
        """How the results lie; None where it is left to XLA."""
        leading = [lies_on(self.mesh, array, array.aval.ndim) for array in traced.captured]
        cells = [lies_on(self.mesh, cell.current(), cell.aval.ndim) for cell in traced.cells]
        from tinyjax.propagation.propagate import propagate

        found = propagate(traced.jaxpr, [*leading, *self.lies, *cells], self.mesh)
        for lies in found:
            if isinstance(lies, Open) and lies.error is not None:
                raise lies.error
        return [_named(self.mesh.abstract_mesh, lies) for lies in found]


def of_arguments(arrays: Sequence[Array], scanned: Sequence[Array] = ()) -> Given | None:
    """How the arguments of the body of a loop lie, or of a branch: these arrays, and slices of others."""
    found = given([*arrays, *scanned], [x.aval.ndim for x in (*arrays, *scanned)])
    if found is None:
        return None
    slices = [divided_by(lies, lambda spec: spec[1:]) for lies in found.lies[len(arrays) :]]
    kept = [x.aval.dtype != FLOAT0 for x in (*arrays, *scanned)]
    every = [*found.lies[: len(arrays)], *slices]
    return Given(found.mesh, tuple([lies for lies, keep in zip(every, kept, strict=True) if keep]))


def given(leaves: Sequence[object], ndims: Sequence[int]) -> Given | None:
    """How leaves of these many axes lie; None where there is no Explicit axis, as there hardly ever is."""
    mesh = explicit_mesh(leaves)
    if mesh is None:
        return None
    return Given(mesh, tuple([lies_on(mesh, leaf, ndim) for leaf, ndim in zip(leaves, ndims, strict=True)]))


def lying_as(x: Array, sharding: NamedSharding | None) -> Array:
    """A cotangent, which lies as the value that it is of; along Auto axes, as it likes."""
    if sharding is None or x.aval.dtype == FLOAT0:
        return x
    if isinstance(x, ConcreteArray) and x.evaluated and sharding.spec.open:
        lies = lies_as(sharding, x.aval.ndim, sharding.mesh)
        if lies_on(sharding.mesh, x, x.aval.ndim) == lies:
            return x
        sharding = _named(sharding.mesh, lies)
    elif sharding.spec.open:
        return bind(primitives.resharding.ShardingConstraint(sharding.abstract), x)[0]
    return lying("the cotangent", x, sharding)


# Where XLA decides.


def left_open(x: Array, kept: Sequence[str] = ()) -> Array:
    """The array on its mesh with Auto axes in the place of Explicit ones, but for those that are kept. Of what is being
    traced, the program says that XLA decides how it lies. Itself where there are no such axes."""
    mesh = None if isinstance(x, ConcreteArray) or not x.aval.ndim else explicit_mesh([x])
    if mesh is None:
        return left_to_xla(x, kept)
    free: list[Part] = [PartitionSpec.UNCONSTRAINED] * x.aval.ndim
    lies = lies_on(mesh, x, x.aval.ndim) if kept else Open()
    if not isinstance(lies, Open) and not sums_of(lies):
        free = [names if names and {*names} <= {*kept} else PartitionSpec.UNCONSTRAINED for names in parts_of(lies)]
    left = NamedSharding(AbstractMesh(mesh.axis_sizes, mesh.axis_names), PartitionSpec(*free))
    return bind(primitives.resharding.ShardingConstraint(left), x)[0]


def computed(f: Callable[..., Array], arrays: Sequence[Array], out_sharding: OutSharding) -> Array:
    """The result of a function of arrays, which lies as `out_sharding` says: how XLA computes it is its own business.

    Where operations run one by one, these are one program, as only its result has to lie somewhere.
    """
    mesh = None if out_sharding is None else explicit_mesh(arrays)
    if mesh is None:
        return laid_out(f(*arrays), out_sharding)
    wanted = NamedSharding(mesh, out_sharding) if isinstance(out_sharding, PartitionSpec) else out_sharding
    staged = any(elements_of(x) is None for x in arrays)
    if staged or not is_evaluated():
        return laid_out(f(*arrays), wanted)
    lies = Given(mesh, tuple([lies_on(mesh, x, x.aval.ndim) for x in arrays]))
    _, treedef = tree.flatten((tuple(arrays), {}))
    function = FlatFunction(lambda *xs: laid_out(f(*xs), wanted), "out_sharding", treedef)
    traced = lies.stage(lambda: trace(function, [x.aval for x in arrays]))
    (found,) = bind(Call(function.name, traced.jaxpr), *traced.captured, *arrays)
    # What is computed of host arrays only lies on devices of a mesh of which the program doesn't say the kinds of axes.
    return laid_out(found, wanted) if isinstance(found, ConcreteArray) else found
