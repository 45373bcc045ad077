"""How JAX spells what is about meshes: `shard_map`, and how values lie on one.

Types of JAX may say how an array lies along `Explicit` axes of a mesh. Here that is left to XLA, but for what
equations ask for: these become constraints.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.branches import with_types
from tinyjax.control.call import Call
from tinyjax.control.manual import Manual
from tinyjax.control.shard_map import ShardMap
from tinyjax.control.varied import reading_varied
from tinyjax.errors import ParameterError
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BOOL, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.shapes import as_axes
from tinyjax.meshes import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from tinyjax.primitives.casts import Cast, PReduced, PVary, ReducedVaryCast, VaryUnreducedCast, pvary
from tinyjax.primitives.collectives import AxisIndex, psum
from tinyjax.primitives.comparison import eq
from tinyjax.primitives.conversion import convert, copy
from tinyjax.primitives.dynamic import dynamic_update_slice
from tinyjax.primitives.elementwise import mul
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.selection import select_n
from tinyjax.primitives.shaping import expand_dims
from tinyjax.primitives.structure import broadcast_in_dim, constant_like, full
from tinyjax.registered.jax_control import STANDARD
from tinyjax.registered.jax_first_order import Avals, Params, primitive_of

__all__ = ["STANDARD", "constrained"]


@STANDARD.read_record_by("frozenset")
def _frozenset(fields: Params) -> object:
    """`frozenset({'x', 'y'})`, `frozenset()`."""
    items = fields.get("", ())
    if not isinstance(items, tuple) or len(items) > 1 or len(fields) > 1:
        raise ParameterError(f"a frozenset is written frozenset({{1, 2}}), not of {fields}")
    return frozenset(items[0]) if items and isinstance(items[0], frozenset | tuple) else frozenset()


def _left_to_xla(mesh: Mesh) -> Mesh:
    """A mesh as programs hold it: what is manual on it, they say otherwise."""
    return AbstractMesh(mesh.axis_sizes, mesh.axis_names)


@STANDARD.read_by("shard_map")
def _shard_map(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX has the axes that become manual as a set, and lets results vary along fewer axes than are put together."""
    kept = dict(params)
    mesh, jaxpr, specs = kept.get("mesh"), kept.get("jaxpr"), kept.get("out_specs")
    names = kept.pop("newly_manual_axes", kept.get("manual_axes"))
    if not isinstance(names, frozenset) or not isinstance(mesh, Mesh):
        return primitive_of(ShardMap, params)
    own = tuple([name for name in mesh.axis_names if name in names and name not in mesh.manual_axes])
    kept |= {"manual_axes": own, "mesh": _left_to_xla(mesh)}
    manual = Manual(mesh, own, kept.get("check_vma") is True)
    if isinstance(jaxpr, Jaxpr) and isinstance(specs, tuple) and len(specs) == len(jaxpr.outvars):
        avals = [
            aval.varying_over(manual.result_axes(aval.axes, spec))
            for aval, spec in zip(jaxpr.out_avals, specs, strict=True)
            if isinstance(spec, PartitionSpec)
        ]
        kept["jaxpr"] = with_types(jaxpr, avals)
    return primitive_of(ShardMap, kept)


def _casting(cls: type[Cast]) -> None:
    """JAX has the axes in the order of the mesh."""

    @STANDARD.read_by(cls.name, f"{cls.name}_p")  # as two of them are called there
    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        axes = params.get("axes")
        return primitive_of(cls, {**params, "axes": as_axes(axes) if isinstance(axes, tuple) else axes})


for _cls in (PVary, PReduced, ReducedVaryCast, VaryUnreducedCast):
    _casting(_cls)


@STANDARD.read_by("axis_index")
def _axis_index(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """Whether the index varies is said by its type."""
    name, kept = params.get("axis_name"), dict(params)
    kept["axis_name"] = name[0] if isinstance(name, tuple) and len(name) == 1 else name
    if "varies" not in kept:
        kept["varies"] = bool(out_avals and out_avals[0].varying)
    return primitive_of(AxisIndex, kept)


# How values lie.


def constrained(ctx: Context[Atom], x: Atom, sharding: object) -> Atom:
    """The value, which lies as a parameter of JAX's says, if that says anything about a mesh."""
    if not isinstance(sharding, NamedSharding):
        return x
    kept = NamedSharding(_left_to_xla(sharding.mesh), sharding.spec)
    return ctx.bind(ShardingConstraint(kept), x)[0]


@STANDARD.expand_by("sharding_constraint")
def _sharding_constraint(params: Params, in_avals: Avals, out_avals: Avals) -> Jaxpr | None:
    """JAX says besides what is in the specification already."""
    if params.keys() == {"sharding"} and isinstance(params["sharding"], NamedSharding):
        return None  # as it is written here
    return stage(in_avals, lambda ctx, ins: [constrained(ctx, x, params.get("sharding")) for x in ins])


@STANDARD.expand_by("reshard", "mesh_cast", "layout_constraint")
def _reshard(params: Params, in_avals: Avals, out_avals: Avals) -> Jaxpr:
    """Text doesn't say where to: JAX's types do, of which nothing is known here."""
    return stage(in_avals, lambda ctx, ins: [constrained(ctx, x, params.get("dst_sharding")) for x in ins])


@STANDARD.expand_by("device_put")
def _device_put(params: Params, in_avals: Avals, out_avals: Avals) -> Jaxpr | None:
    """A transfer: to where the arrays already are, or to lie on a mesh in another way."""
    devices = params.get("devices")
    places = devices if isinstance(devices, tuple) and len(devices) == len(in_avals) else (None,) * len(in_avals)
    if len(in_avals) == 1 and not isinstance(places[0], NamedSharding):
        return None

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return [constrained(ctx, ctx.bind(copy, x)[0], place) for x, place in zip(ins, places, strict=True)]

    return stage(in_avals, run)


@STANDARD.expand_by("jit", "pjit")
def _jit(params: Params, in_avals: Avals, out_avals: Avals) -> Jaxpr | None:
    """A call whose arguments and results lie in a certain way."""
    ins, outs = (params.get(key) for key in ("in_shardings", "out_shardings"))
    said = [tuple(each) if isinstance(each, tuple) else () for each in (ins, outs)]
    if not any(isinstance(sharding, NamedSharding) for each in said for sharding in each):
        return None
    before, after = said
    calling = STANDARD.read("jit", params, in_avals, out_avals)
    if not isinstance(calling, Call):
        return None

    def run(ctx: StagingContext, args: list[Atom]) -> Sequence[Atom]:
        given = [constrained(ctx, x, place) for x, place in zip(args, before or [None] * len(args), strict=True)]
        found = ctx.bind(calling, *given)
        return [constrained(ctx, x, place) for x, place in zip(found, after or [None] * len(found), strict=True)]

    return stage(in_avals, run)


@STANDARD.expand_by("cond")
def _cond(params: Params, in_avals: Avals, out_avals: Avals) -> Jaxpr | None:
    """A choice of each device, whose branches read what is the same for all: that is cast before, as derivatives would
    have sums within the branches otherwise."""
    branches = params.get("branches")
    if not in_avals or not in_avals[0].varying or not isinstance(branches, tuple):
        return None
    programs = [branch for branch in branches if isinstance(branch, Jaxpr)]
    varied = tuple([reading_varied(program, in_avals[0].varying) for program in programs])
    if varied == branches:
        return None
    choosing = STANDARD.read("cond", {**params, "branches": varied}, in_avals, out_avals)
    return stage(in_avals, lambda ctx, ins: ctx.bind(choosing, *ins))


# Collectives that are several of ours.


def _names(params: Params) -> tuple[str, ...]:
    found = params.get("axis_name")
    names = (found,) if isinstance(found, str) else found
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"axis_name={found!r} is no name of an axis")
    return tuple([str(name) for name in names])


def _whole_number(params: Params, key: str) -> int:
    found = params.get(key)
    if type(found) is not int:
        raise ParameterError(f"{key}={found!r} is no whole number")
    return found


@STANDARD.expand_by("pbroadcast")
def _pbroadcast(params: Params, in_avals: Avals, out_avals: Avals) -> Jaxpr:
    """The operand of one element for all: the sum of it and of zeros."""
    names, source = _names(params), _whole_number(params, "source")

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        (x,) = ins
        index = _index(ctx, names, x)
        chosen = ctx.bind(eq, index, constant_like(ctx, index, source))[0]
        mask = broadcast_in_dim(ctx, chosen, x.aval.shape, ())
        own = ctx.bind(select_n, mask, full(ctx, x.aval, 0), x)[0]
        return [pvary(ctx, _summed(ctx, own, names), x.aval.varying)]

    return stage(in_avals, run)


@STANDARD.expand_by("all_gather_invariant")
def _all_gather_invariant(params: Params, in_avals: Avals, out_avals: Avals) -> Jaxpr:
    """The operands of all elements, which is the same for all by its type: a sum, of which each element has a part."""
    names, size = _names(params), _whole_number(params, "axis_size")
    at, tiled = _whole_number(params, "all_gather_dimension"), params.get("tiled") is True

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        x = ins[0] if tiled else expand_dims(ctx, ins[0], (at,))
        part = x.aval.shape[at]
        shape = (*x.aval.shape[:at], part * size, *x.aval.shape[at + 1 :])
        index = _index(ctx, names, x)
        zero = constant_like(ctx, index, 0)
        starts = [zero] * len(shape)
        starts[at] = mul(ctx, index, constant_like(ctx, index, part))
        zeros = pvary(ctx, full(ctx, x.aval.of_shape(shape).varying_over(()), 0), x.aval.varying)
        return [_summed(ctx, dynamic_update_slice(ctx, zeros, x, *starts), names)]

    return stage(in_avals, run)


def _index(ctx: StagingContext, names: tuple[str, ...], x: Atom) -> Atom:
    """Which element along these axes this is, for something to do with x."""
    (index,) = ctx.bind(AxisIndex(names[0] if len(names) == 1 else names, bool(x.aval.varying)))
    return index


def _summed(ctx: StagingContext, x: Atom, names: tuple[str, ...]) -> Atom:
    dtype = x.aval.dtype
    counted = convert(ctx, x, INT32) if dtype == BOOL else x
    found = psum(ctx, counted, names[0] if len(names) == 1 else names)
    return convert(ctx, found, dtype)
