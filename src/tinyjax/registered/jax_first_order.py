"""How JAX spells the parameters of first-order primitives, where it isn't as here.

JAX has parameters that say how an array is laid out over devices. They are accepted where they say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import ParameterError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.text.registry import Reader, Record, Unreadable, build
from tinyjax.ir.text.written import Member
from tinyjax.meshes import NamedSharding, PartitionSpec
from tinyjax.primitives import (
    collectives,
    conversion,
    elementwise,
    exchanges,
    fourier,
    generators,
    keys,
    reductions,
    rounding,
    spectral,
    unreduced,
)
from tinyjax.primitives.accuracy import Accurate
from tinyjax.primitives.annotations import Name
from tinyjax.primitives.contractions import Bilinear, DotGeneral, as_dot_precision, as_precision
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.factorizations import Ormqr
from tinyjax.primitives.gather import Gather, Scattering
from tinyjax.primitives.shaping import Iota, Reshape, expand_dims, squeeze
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum, Reduction
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd
from tinyjax.registered.first_order import STANDARD

Params = Mapping[str, object]
Avals = Sequence[ShapedArray]


def without(name: str, params: Params, **neutral: tuple[object, ...]) -> dict[str, object]:
    """The parameters without those that `neutral` names, whose values must be among those given there."""
    kept = dict(params)
    for key, accepted in neutral.items():
        if key in kept:
            value = kept.pop(key)
            if isinstance(value, NamedSharding | PartitionSpec):  # how a result lies on a mesh, not what it is
                continue
            if not any(type(value) is type(item) and value == item for item in accepted):
                raise UnsupportedError(f"{name}[{key}={value}] is not supported: only {key}={accepted[0]} is")
    return kept


def calling(cls: type[Primitive], **neutral: tuple[object, ...]) -> Reader:
    """A reader that drops neutral parameters and calls the class with the others."""

    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        return primitive_of(cls, without(cls.name, params, **neutral))

    return read


def primitive_of(cls: type[Primitive], params: Params) -> Primitive:
    """The primitive with these parameters; a ParameterError if they don't fit."""
    made = build(cls, params)
    if not isinstance(made, cls):
        raise ParameterError(f"{cls.__name__} is no primitive")
    return made


_NONE: Final = (None,)


def _derived(base: type[Primitive]) -> list[type[Primitive]]:
    """The primitives of a family."""
    return [cls for cls in STANDARD.entered.values() if base in cls.__mro__]


def _accurate(cls: type[Primitive]) -> Reader:
    """JAX prints no tolerances, but where in memory they are: then nothing is said."""

    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        return primitive_of(cls, {key: value for key, value in params.items() if not isinstance(value, Unreadable)})

    return read


for _cls in _derived(Accurate):
    STANDARD.read_by(_cls.name)(_accurate(_cls))
for _cls in (*_derived(Reduction), *_derived(reductions.Position)):
    STANDARD.read_by(_cls.name)(calling(_cls, out_sharding=_NONE))
STANDARD.read_by("reshape")(calling(Reshape, dimensions=_NONE, sharding=_NONE))
STANDARD.read_by("iota")(calling(Iota, sharding=_NONE))
STANDARD.read_by("add_any")(calling(elementwise.Add))
STANDARD.read_by("mul")(calling(elementwise.Mul, out_dtype=_NONE))


def _broadcast(in_avals: Avals) -> Sequence[Sequence[Primitive]]:
    """JAX broadcasts the axes of size 1 of elementwise operands."""
    rank = max((aval.ndim for aval in in_avals), default=0)
    full = [aval.shape for aval in in_avals if aval.ndim == rank]
    shape = tuple(max(sizes) if 0 not in sizes else 0 for sizes in zip(*full, strict=True))
    whole = tuple(range(rank))
    return [(BroadcastInDim(shape, whole),) if aval.ndim == rank and aval.shape != shape else () for aval in in_avals]


STANDARD.convert_by(
    *[cls.name for cls in _derived(elementwise.Elementwise)], "add_any", "threefry2x32", "random_fold_in"
)(_broadcast)


@STANDARD.read_by("conj")
def _conj(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """`conj[input_dtype=complex64]`: what the operand's type says already."""
    kept = {key: value for key, value in params.items() if key.removeprefix("_") != "input_dtype"}
    return primitive_of(STANDARD.primitive("conj"), kept)


@STANDARD.read_by("device_put")
def _device_put(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """A transfer to where the array already is, or to another memory there."""
    where = params.get("devices")
    for place in where if isinstance(where, tuple) else (where,):
        here = isinstance(place, Record) and place.name.endswith(("Device", "SingleDeviceSharding"))
        memory = isinstance(place, Member) and place.enumeration == "MemorySpace"
        if place is not None and not here and not memory and not isinstance(place, NamedSharding):
            raise UnsupportedError(f"device_put[devices={where}] is not supported: only to meshes, and to one device")
    return conversion.copy


@STANDARD.read_by("name")
def _checkpoint_name(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """`name[name=x]` is `name[label=x]`."""
    return primitive_of(Name, {"label" if key == "name" else key: params[key] for key in params})


@STANDARD.read_by("broadcast_in_dim")
def _broadcast_in_dim(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX leaves out the shape, which the result's type says, and the axes if there are none."""
    kept = without("broadcast_in_dim", params, sharding=_NONE)
    kept.setdefault("broadcast_dimensions", ())
    if "shape" not in kept and len(out_avals) == 1:
        kept["shape"] = out_avals[0].shape
    return primitive_of(BroadcastInDim, kept)


@STANDARD.read_by("convert_element_type")
def _convert_element_type(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX prints `weak_type=True`, but no weak types: then the result's type decides."""
    kept = without("convert_element_type", params, sharding=_NONE)
    if kept.get("weak_type") is True and len(out_avals) == 1:
        kept["weak_type"] = out_avals[0].weak_type
    return primitive_of(ConvertElementType, kept)


def _bilinear(cls: type[Primitive]) -> Reader:
    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        kept = without(cls.name, params, out_sharding=_NONE)
        read_precision = as_dot_precision if cls is DotGeneral else as_precision
        return primitive_of(cls, {**kept, "precision": read_precision(kept.get("precision"))})

    return read


for _cls in _derived(Bilinear):
    STANDARD.read_by(_cls.name)(_bilinear(_cls))


@STANDARD.read_by("round")
def _round(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX prints the method's number."""
    kept = dict(params)
    method = kept.get("rounding_method")
    if type(method) is int and method in (0, 1):
        kept["rounding_method"] = rounding.RoundingMethod(method)
    return primitive_of(rounding.Round, kept)


@STANDARD.read_by("fft")
def _fft(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX prints the type's number."""
    kept = dict(params)
    kind = kept.get("fft_type")
    if type(kind) is int and kind in range(len(fourier.FftType)):
        kept["fft_type"] = fourier.FftType(kind)
    return primitive_of(fourier.Fft, kept)


STANDARD.read_by("schur")(calling(spectral.Schur, select_callable=_NONE))


@STANDARD.read_by("ormqr")
def _ormqr(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """`transpose` is the rule of transposition here."""
    return primitive_of(Ormqr, {"adjoint" if key == "transpose" else key: params[key] for key in params})


def _keyed(cls: type[keys.RandomSeed | keys.RandomWrap]) -> Reader:
    """JAX prints the tag of what makes keys."""

    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        kept = dict(params)
        impl = kept.get("impl")
        tag = impl.text if isinstance(impl, Unreadable) else str(impl)
        if impl is not None and not isinstance(impl, keys.KeyImpl):
            if tag not in [member.value for member in keys.KeyImpl]:
                known = ", ".join(member.value for member in keys.KeyImpl)
                raise UnsupportedError(f"{cls.name}[impl={tag}] is not supported: there are keys of {known}")
            kept["impl"] = keys.KeyImpl(tag)
        return primitive_of(cls, kept)

    return read


for _keying in (keys.RandomSeed, keys.RandomWrap):
    STANDARD.read_by(_keying.name)(_keyed(_keying))


@STANDARD.read_by("rng_bit_generator")
def _rng_bit_generator(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX prints the algorithm's name."""
    kept = without("rng_bit_generator", params, out_sharding=_NONE)
    algorithm = kept.get("algorithm")
    if isinstance(algorithm, str) and algorithm in generators.RandomAlgorithm.__members__:
        kept["algorithm"] = generators.RandomAlgorithm[algorithm]
    return primitive_of(generators.RngBitGenerator, kept)


@STANDARD.read_by("gather")
def _gather(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    kept = dict(params)
    fill = kept.get("fill_value")
    if isinstance(fill, np.generic):
        kept["fill_value"] = fill.item()
    return primitive_of(Gather, kept)


def _scattering(cls: type[Primitive]) -> Reader:
    """JAX holds the program that combines two elements, too, which the primitive's name says already."""

    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        kept = without(cls.name, params, update_consts=((),))
        kept.pop("update_jaxpr", None)
        return primitive_of(cls, kept)

    return read


for _cls in _derived(Scattering):
    STANDARD.read_by(_cls.name, _cls.name.replace("_", "-"))(_scattering(_cls))


def _collective(cls: type[Primitive], positional: type[Reduction]) -> Reader:
    """JAX reduces over a tuple of axes: names, or numbers for those that `vmap` has made axes of the operand."""

    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        kept = _with_groups(cls, params)
        axes = kept.pop("axes", None)
        if axes is not None:
            if isinstance(axes, tuple) and all(type(axis) is int for axis in axes):
                return primitive_of(positional, {**without(cls.name, kept, axis_index_groups=_NONE), "axes": axes})
            if not isinstance(axes, tuple) or not axes or not all(isinstance(axis, str) for axis in axes):
                raise UnsupportedError(f"{cls.name}[axes={axes}] is not supported: only named axes are")
            kept["axis_name"] = axes[0] if len(axes) == 1 else axes
        return primitive_of(cls, kept)

    return read


for _reducing, _positional in (
    (collectives.PSum, ReduceSum),
    (collectives.PMax, reductions.ReduceMax),
    (collectives.PMin, reductions.ReduceMin),
):
    STANDARD.read_by(_reducing.name, f"{_reducing.name}_invariant")(_collective(_reducing, _positional))
STANDARD.read_by(unreduced.UnreducedPSum.name)(_collective(unreduced.UnreducedPSum, ReduceSum))


def _with_groups(cls: type[Primitive], params: Params) -> dict[str, object]:
    """The parameters with groups of the elements, where the class has any."""
    if hasattr(cls, "axis_index_groups"):
        return dict(params)
    return without(cls.name, params, axis_index_groups=_NONE)


def _one_name(cls: type[Primitive], params: Params) -> dict[str, object]:
    """The parameters with the named axis, or axes."""
    name, kept = cls.name, _with_groups(cls, params)
    axis_name = kept.get("axis_name")
    if isinstance(axis_name, tuple) and len(axis_name) == 1:
        kept["axis_name"] = axis_name[0]
    elif not isinstance(axis_name, str | tuple) or not axis_name:
        raise UnsupportedError(f"{name}[axis_name={axis_name}] is not supported: only named axes are")
    return kept


def _tiling(cls: type[exchanges.Tiling], dimension: str) -> None:
    """JAX's have a form with an axis of its own, besides that with tiles."""

    @STANDARD.read_by(cls.name)
    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        return primitive_of(cls, without(cls.name, _one_name(cls, params), tiled=(True,)))

    @STANDARD.expand_by(cls.name)
    def expand(params: Params, in_avals: Avals, out_avals: Avals) -> Jaxpr | None:
        if params.get("tiled", True) is not False:
            return None
        kept = {key: value for key, value in _one_name(cls, params).items() if key != "tiled"}
        found, at = primitive_of(cls, kept), kept.get(dimension)
        assert type(at) is int

        def staged(ctx: StagingContext, ins: Sequence[Atom]) -> Sequence[Atom]:
            if dimension == "all_gather_dimension":
                return ctx.bind(found, expand_dims(ctx, ins[0], (at,)))
            return [squeeze(ctx, ctx.bind(found, *ins)[0], (at,))]

        return stage(in_avals, staged)


_tiling(exchanges.AllGather, "all_gather_dimension")
_tiling(exchanges.ReduceScatter, "scatter_dimension")
_tiling(unreduced.AllGatherReduced, "all_gather_dimension")
_tiling(unreduced.UnreducedReduceScatter, "scatter_dimension")


@STANDARD.read_by("all_to_all")
def _all_to_all(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    """JAX's doesn't say how many elements there are: types do, unless a dimension is both divided and joined."""
    kept = _one_name(exchanges.AllToAll, params)
    tiled, split = kept.pop("tiled", True), kept.get("split_axis")
    if "axis_size" not in kept:
        kept["axis_size"] = None
        if in_avals and out_avals and type(split) is int and split < min(in_avals[0].ndim, out_avals[0].ndim):
            before, after = in_avals[0].shape[split], out_avals[0].shape[split]
            if split != kept.get("concat_axis"):
                kept["axis_size"] = before // after if after else 0
            elif tiled is False:
                kept["axis_size"] = before
    return primitive_of(exchanges.AllToAll, kept)


@STANDARD.read_by("ppermute")
def _ppermute(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
    return primitive_of(exchanges.PPermute, _one_name(exchanges.PPermute, params))


def _choosing(cls: type[Primitive]) -> Reader:
    """JAX holds the primitive that compares, of which it prints the name."""

    def read(params: Params, in_avals: Avals, out_avals: Avals) -> Primitive:
        kept = dict(params)
        choice = kept.get("select_prim")
        kept["select_prim"] = choice.text if isinstance(choice, Unreadable) else choice
        return primitive_of(cls, kept)

    return read


for _cls in (SelectAndGatherAdd, SelectAndScatterAdd):
    STANDARD.read_by(_cls.name)(_choosing(_cls))
