"""`shard_map`: a program that every device of a mesh runs on its own part of the operands.

{ lambda ; a:f64[8]. let
    b:f64[] = shard_map[
      jaxpr={ lambda ; a:f64[2]{V:x}. let
          b:f64[]{V:x} = reduce_sum[axes=(0,)] a
          c:f64[] = psum[axis_name='x'] b
        in (c,) }
      mesh=Mesh('x': 4) in_specs=(P('x'),) out_specs=(P(),) manual_axes=('x',) check_vma=True
    ] a
  in (b,) }

What the mesh doesn't divide is the same for all devices, and types within say so: see `ir.varying`. On the host the
program runs on all parts at once, as a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.caching import bounded, remembered_of
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import apply_transposed
from tinyjax.control.inner_jvp import inner_jvp
from tinyjax.control.manual import Manual, along
from tinyjax.errors import ShapeError, ShardingError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effects, NamedAxisEffect, axis_names
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.roles import Evaluator, Tracking
from tinyjax.ir.shapes import Axes, as_axes
from tinyjax.ir.tangents import linear_marks, nonzero_marks, with_zeros, without_zeros
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import also, axes_of
from tinyjax.meshes.mesh import Mesh
from tinyjax.meshes.spec import PartitionSpec
from tinyjax.primitives.collectives import psum
from tinyjax.primitives.elementwise import scale
from tinyjax.primitives.shaping import expand_dims, reshape
from tinyjax.primitives.slicing import pad, slice_in_dim
from tinyjax.primitives.structure import broadcast_in_dim, permute, reduce_sum
from tinyjax.transforms.batch import batch, place_axis
from tinyjax.transforms.partial_eval import partial_eval
from tinyjax.transforms.transpose import transpose_linear
from tinyjax.transforms.unvarying import unvarying

V = TypeVar("V")


@final
@frozen
class ShardMap(Primitive, Tracking):
    """Applies `jaxpr` on each device to its parts of the operands, along the `manual_axes` of the mesh.

    `in_specs` say how the operands are divided, `out_specs` how the results are put together. Along axes that a
    specification doesn't name, an operand is the same for all devices, and so has a result to be: with `check_vma`, the
    types within the program say whether it is. Without, they say nothing, a result is taken from any device, and what
    that means for derivatives is up to the program, whose sums are their own transposes.
    """

    jaxpr: Jaxpr
    mesh: Mesh
    in_specs: tuple[PartitionSpec, ...]
    out_specs: tuple[PartitionSpec, ...]
    manual_axes: tuple[str, ...]
    check_vma: bool = True
    name: ClassVar[str] = "shard_map"

    @property
    @override
    def effects(self) -> Effects:
        own = frozenset(map(NamedAxisEffect, self.manual_axes))
        return self.jaxpr.effects - own

    @override
    def untracked(self) -> ShardMap:
        return evolve(self, check_vma=False)

    @property
    def manual(self) -> Manual:
        """The mesh as the program sees it."""
        return Manual(self.mesh, self.manual_axes, self.check_vma)

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if (len(avals), len(self.jaxpr.outvars)) != (len(self.in_specs), len(self.out_specs)):
            raise TypingError(
                f"shard_map has {len(self.in_specs)} in_specs and {len(self.out_specs)} out_specs for {len(avals)} "
                f"operands and {len(self.jaxpr.outvars)} results"
            )
        manual = self.manual
        parts = [manual.local(aval, spec) for aval, spec in zip(avals, self.in_specs, strict=True)]
        if not all_match(parts, self.jaxpr.in_avals) or axes_of(parts) != axes_of(self.jaxpr.in_avals):
            raise TypingError(
                f"the program of shard_map takes {listed(self.jaxpr.in_avals)}, but the parts of the operands are "
                f"{listed(parts)}"
            )
        for i, (aval, spec) in enumerate(zip(self.jaxpr.out_avals, self.out_specs, strict=True)):
            manual.check_result(aval, spec, f"result {i}")
        return tuple(
            [manual.whole(aval, spec) for aval, spec in zip(self.jaxpr.out_avals, self.out_specs, strict=True)]
        )

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return found, axes_of(types)

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        avals = tuple(arg.aval for arg in args)
        if evaluator.compiles and any(arg.on_several for arg in args):
            return evaluator.execute(single_equation(self, avals), args, self.name)
        program = on_one_device(self, avals)
        if evaluator.compiles and not all(arg.on_host for arg in args):
            return evaluator.execute(program, args, self.name)
        return evaluator.interpret(program, args)

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        """The same without a mesh: what tools that have no rule for meshes look at."""
        return interpret(ctx, on_one_device(self, tuple(map(ctx.aval, args))), args)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        derived, nonzero_out = _differentiated(self, nonzero_marks(tangents))
        outs = ctx.bind(derived, *primals, *without_zeros(tangents))
        n = len(nonzero_out)
        avals = [ctx.aval(out) for out in outs[:n]]
        return outs[:n], with_zeros(outs[n:], nonzero_out, avals)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        batched, out_axes = _batched(self, axis, tuple(axes))
        return ctx.bind(batched, *args), out_axes

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split:
        return _split(self, unknown)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        return apply_transposed(ctx, _transposed(self, linear_marks(args), nonzero_marks(cotangents)), cotangents, args)


# On one device: all parts at once, as a batch along the mesh.


@bounded(4096)
def on_one_device(primitive: ShardMap, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    """The same without a mesh, for operands of these types."""
    program = unvarying(primitive.jaxpr)
    sizes = primitive.manual.sizes
    axis = BatchAxis(math.prod([size for _, size in sizes]), mesh=sizes)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        inner = BatchContext(ctx, axis)
        parts = [_parted(ctx, x, primitive, spec) for x, spec in zip(ins, primitive.in_specs, strict=True)]
        outs = interpret(inner, program, parts)
        return [_joined(ctx, out, primitive, spec) for out, spec in zip(outs, primitive.out_specs, strict=True)]

    return stage([aval.varying_over(()) for aval in avals], run)


def _parted(ctx: Context[V], x: V, primitive: ShardMap, spec: PartitionSpec) -> Batched[V]:
    """All parts of x, along a new first axis for all devices; x itself if all have the same. Of a sum yet to be made,
    the first devices have all."""
    divided = primitive.manual.divided(spec)
    sizes, shape = dict(primitive.manual.sizes), ctx.aval(x).shape
    terms = tuple([name for name in sizes if name in spec.unreduced])
    if not any(divided) and not terms:
        return Batched(x, None)
    split: list[int] = [sizes[name] for name in terms]
    place: dict[str, int] = {name: i for i, name in enumerate(terms)}  # where the numbers of the parts along axes are
    rest: list[int] = []
    if terms:
        x = expand_dims(ctx, x, tuple(range(len(terms))))
        x = pad(ctx, x, (*[(0, size - 1, 0) for size in split], *[(0, 0, 0)] * len(shape)))
    for i, size in enumerate(shape):
        names = divided[i] if i < len(divided) else ()
        for name in names:
            place[name] = len(split)
            split.append(sizes[name])
        rest.append(len(split))
        split.append(size // math.prod([sizes[name] for name in names]))
    x = reshape(ctx, x, tuple(split))
    x = permute(ctx, x, (*[place[name] for name in sizes if name in place], *rest))
    local = tuple([split[i] for i in rest])
    x = reshape(ctx, x, (*[sizes[name] if name in place else 1 for name in sizes], *local))
    whole = (*sizes.values(), *local)
    x = broadcast_in_dim(ctx, x, whole, tuple(range(len(whole))))
    return Batched(reshape(ctx, x, (math.prod(sizes.values()), *local)), 0)


def _joined(ctx: Context[V], out: Batched[V], primitive: ShardMap, spec: PartitionSpec) -> V:
    """A result of which each device has a part, or a term; that of the first device along axes that aren't named."""
    sizes = dict(primitive.manual.sizes)
    divided = primitive.manual.divided(spec)
    x = place_axis(ctx, out.value, out.axis, 0, math.prod(sizes.values()))
    local = ctx.aval(x).shape[1:]
    x = reshape(ctx, x, (*sizes.values(), *local))
    names = list(sizes)
    named = {name for part in divided for name in part}
    for i, name in enumerate(names):
        if name in spec.unreduced:
            x = expand_dims(ctx, reduce_sum(ctx, x, (i,)), (i,))
        elif name not in named:
            x = slice_in_dim(ctx, x, 0, 1, 1, i)
    order: list[int] = [i for i, name in enumerate(names) if name not in named]
    shape: list[int] = []
    for i, size in enumerate(local):
        part = divided[i] if i < len(divided) else ()
        order += [*[names.index(name) for name in part], len(names) + i]
        shape.append(size * math.prod([sizes[name] for name in part]))
    return reshape(ctx, permute(ctx, x, tuple(order)), tuple(shape))


# What transformations make of it.


@remembered_of
def _differentiated(mapped: ShardMap, nonzero: tuple[bool, ...]) -> tuple[ShardMap, tuple[bool, ...]]:
    derived = inner_jvp(mapped.jaxpr, nonzero)
    both = evolve(
        mapped,
        jaxpr=derived.jaxpr,
        in_specs=(*mapped.in_specs, *_marked(mapped.in_specs, nonzero)),
        out_specs=(*mapped.out_specs, *_marked(mapped.out_specs, derived.nonzero_out)),
    )
    return both, derived.nonzero_out


@remembered_of
def _batched(
    mapped: ShardMap, axis: BatchAxis, axes: tuple[int | None, ...]
) -> tuple[ShardMap, tuple[int | None, ...]]:
    """The batch within each part; or divided as well, along the mesh axes that `vmap` was given for it."""
    names = tuple([name for name in axis.spmd if name in mapped.manual_axes])
    _check_free(mapped, names)
    count = math.prod([mapped.mesh.shape[name] for name in names])
    if axis.size % count:
        raise ShapeError(f"vmap: a batch of {axis.size} can't be divided along {along(names)} into {count} parts")
    others = tuple([name for name in axis.spmd if name not in names])
    batched = batch(mapped.jaxpr, evolve(axis, size=axis.size // count, spmd=others), axes)
    jaxpr = batched.jaxpr
    if names and mapped.check_vma:
        more = as_axes(names)
        avals = [
            aval if at is None else aval.varying_over(also(aval.axes, more))
            for aval, at in zip(jaxpr.in_avals, axes, strict=True)
        ]
        jaxpr = stage(avals, lambda ctx, ins: interpret(ctx, batched.jaxpr, ins)).named_by(jaxpr.names)
    part = names or None
    in_specs = tuple([_with_part(spec, at, part) for spec, at in zip(mapped.in_specs, axes, strict=True)])
    out_specs = tuple([_with_part(spec, at, part) for spec, at in zip(mapped.out_specs, batched.out_axes, strict=True)])
    return evolve(mapped, jaxpr=jaxpr, in_specs=in_specs, out_specs=out_specs), batched.out_axes


def _check_free(mapped: ShardMap, names: Sequence[str]) -> None:
    """A ShardingError if a shard_map makes use of axes that a batch is to be divided along."""
    used, talks = _told_apart(mapped), axis_names(mapped.jaxpr.effects)
    for name in names:
        if name in used:
            does = "communicates along it" if name in talks else "divides operands or results along it"
            raise ShardingError(
                f"vmap: the batch is divided along {along(names)} (by spmd_axis_name, or as mapped arrays lie along "
                f"Explicit axes), but a shard_map within {does}, {name!r}. Choose another axis, or move the arrays "
                "first: tinyjax.reshard(x, P(None))."
            )


def _with_part(spec: PartitionSpec, at: int | None, part: tuple[str, ...] | None) -> PartitionSpec:
    """The specification of an array with one axis more."""
    if at is None:
        return spec
    parts = [*spec.partitions, *[None] * (at - len(spec.partitions))]
    return spec.update([*parts[:at], part, *parts[at:]])


@remembered_of
def _split(mapped: ShardMap, unknown: tuple[bool, ...]) -> Split:
    parts = partial_eval(mapped.jaxpr, unknown)
    computed = [residual.aval for residual in parts.residuals if residual.input is None]
    num_known = parts.unknown_out.count(False)
    known_in = [spec for spec, mark in zip(mapped.in_specs, unknown, strict=True) if not mark]
    known_out = [spec for spec, mark in zip(mapped.out_specs, parts.unknown_out, strict=True) if not mark]
    specs = [_residual_spec(mapped, aval) for aval in computed]

    def known(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        outs = interpret(ctx, parts.known, ins)
        return [*outs[:num_known], *(_with_axis(ctx, x, spec) for x, spec in zip(outs[num_known:], specs, strict=True))]

    fed = iter(specs)
    given = [next(fed) if residual.input is None else None for residual in parts.residuals]
    avals = [
        aval if spec is None or aval.shape or not spec.partitions else aval.of_shape((1,))
        for aval, spec in zip(parts.staged.in_avals, (*given, *[None] * unknown.count(True)), strict=True)
    ]

    def staged(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        shapes = [aval.shape for aval in parts.staged.in_avals]
        return interpret(ctx, parts.staged, [reshape(ctx, x, shape) for x, shape in zip(ins, shapes, strict=True)])

    residual_specs = [
        mapped.in_specs[residual.input] if residual.input is not None else spec
        for residual, spec in zip(parts.residuals, given, strict=True)
    ]
    first = evolve(
        mapped,
        jaxpr=stage(parts.known.in_avals, known).named_by(parts.known.names),
        in_specs=tuple(known_in),
        out_specs=(*known_out, *specs),
    )
    second = evolve(
        mapped,
        jaxpr=stage(avals, staged).named_by(parts.staged.names),
        in_specs=(*[spec for spec in residual_specs if spec is not None], *_marked(mapped.in_specs, unknown)),
        out_specs=_marked(mapped.out_specs, parts.unknown_out),
    )
    return Split(first, second, parts.unknown_out, tuple(residual.input for residual in parts.residuals))


def _residual_spec(mapped: ShardMap, aval: ShapedArray) -> PartitionSpec:
    """How residuals of this type are put together: along their first axis, over all axes along which they vary."""
    own, named = {*mapped.manual_axes}, aval.varying if mapped.check_vma else _told_apart(mapped)
    over = [name for name in mapped.manual_axes if name in named]
    parts = (tuple(over),) if over else ()
    return PartitionSpec(*parts, unreduced=own & {*aval.unreduced}, reduced=own & {*aval.reduced})


def _told_apart(mapped: ShardMap) -> set[str]:
    """The axes along which devices may differ, as far as can be told without types: no other has to do with what is
    divided, put together or communicated."""
    specs = (*mapped.in_specs, *mapped.out_specs)
    named = {name for spec in specs for name in (*spec.names, *spec.unreduced, *spec.reduced)}
    return named | axis_names(mapped.jaxpr.effects)


def _with_axis(ctx: Context[V], x: V, spec: PartitionSpec) -> V:
    """A residual with an axis to be put together along."""
    shape = ctx.aval(x).shape
    return x if shape or not spec.partitions else reshape(ctx, x, (1,))


@remembered_of
def _transposed(
    mapped: ShardMap, linear: tuple[bool, ...], nonzero: tuple[bool, ...]
) -> tuple[ShardMap, tuple[bool, ...]]:
    found = transpose_linear(mapped.jaxpr, linear, nonzero, False)
    known = [spec for spec, mark in zip(mapped.in_specs, linear, strict=True) if not mark]
    given = tuple([spec.dual for spec in _marked(mapped.out_specs, nonzero)])
    wanted = tuple([spec.dual for spec in _marked(_marked(mapped.in_specs, linear), found.nonzero_out)])
    jaxpr = found.jaxpr if mapped.check_vma else _untracked(mapped, found.jaxpr, len(known), given, wanted)
    transposed = evolve(mapped, jaxpr=jaxpr, in_specs=(*known, *given), out_specs=wanted)
    return transposed, found.nonzero_out


def _untracked(
    mapped: ShardMap, jaxpr: Jaxpr, num_known: int, given: Sequence[PartitionSpec], wanted: Sequence[PartitionSpec]
) -> Jaxpr:
    """The transposed program where types don't say what varies: of a result that all devices have, each has a share of
    the cotangent, and that of an operand that all have is the sum of their shares."""

    apart = _told_apart(mapped)

    def absent(spec: PartitionSpec) -> tuple[str, ...]:
        return tuple([name for name in mapped.manual.absent(spec) if name in apart])

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        sizes = mapped.mesh.shape
        cts = [
            scale(ctx, ct, 1 / math.prod([sizes[name] for name in absent(spec)]))
            for ct, spec in zip(ins[num_known:], given, strict=True)
        ]
        outs = interpret(ctx, jaxpr, [*ins[:num_known], *cts])
        return [
            psum(ctx, out, names[0] if len(names) == 1 else names) if (names := absent(spec)) else out
            for out, spec in zip(outs, wanted, strict=True)
        ]

    return stage(jaxpr.in_avals, run)


def _marked(specs: Sequence[PartitionSpec], marks: Sequence[bool]) -> tuple[PartitionSpec, ...]:
    return tuple([spec for spec, mark in zip(specs, marks, strict=True) if mark])
