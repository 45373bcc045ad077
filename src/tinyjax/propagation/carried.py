"""Sums yet to be made that programs within programs take and return.

What lies how isn't said at the border of a loop, a branch or a function: XLA finds it out, or not. So the terms
themselves cross it, as arrays that have one more axis, which is divided: each device has its own term there.

{ lambda ; a:f64[4] b:f64[4]. let
    c:f64[4] = scan[jaxpr={ lambda ; a:f64[4] b:f64[4]. let c:f64[4] = add b a in (c,) } ...] a b
  in (c,) }

becomes, where both are sums along an axis "x" of two devices,

    d:f64[2@x,4] = shard_map[a[None]] a
    e:f64[2@x,4] = shard_map[b[None]] b
    f:f64[2@x,4] = scan[jaxpr={ lambda ; a:f64[2@x,4] b:f64[2@x,4]. let ... in (c,) } ...] d e
    c:f64[4]{U:x} = shard_map[f[0]] f
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

from attrs import evolve, frozen

from tinyjax.caching import bounded
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Call
from tinyjax.control.checkpoint import Checkpoint
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall
from tinyjax.control.forward_pass import ForwardPass
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import KEYS
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr
from tinyjax.ir.shapes import UNREDUCED
from tinyjax.ir.varying import without
from tinyjax.meshes.mesh import AbstractMesh, Mesh
from tinyjax.meshes.named import NamedSharding
from tinyjax.meshes.spec import PartitionSpec
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.shaping import expand_dims, squeeze
from tinyjax.primitives.structure import reduce_sum
from tinyjax.propagation.specs import Lies, Names, Open, Summed, divided, lying, parts_of, pinned, sums_of
from tinyjax.propagation.summands import unreduced_of

#: What makes the program that says how its values lie, of one whose inputs do so; these results are asked for as terms.
Tell: TypeAlias = Callable[[Jaxpr, Sequence[Lies], Sequence[NamedSharding | None]], Jaxpr]


@final
@frozen
class Stack:
    """A sum that crosses a border as an array of its terms: how it lies, and which axis the array has in addition."""

    lies: Summed
    at: int = 0

    @property
    def names(self) -> Names:
        """Along which axes of the mesh there are terms."""
        return unreduced_of(self.lies)

    def of_row(self) -> Stack:
        """The same of a row of what is stacked."""
        return Stack(Summed(self.lies.spec[1:], self.lies.axes))


@final
@frozen
class Crossing:
    """What crosses the border of the programs within an equation as terms: of its operands and results, and of the
    inputs and outputs of these programs, which are fewer, and without the axis along which a scan goes."""

    operands: tuple[Stack | None, ...]
    results: tuple[Stack | None, ...]
    ins: tuple[Stack | None, ...]
    outs: tuple[Stack | None, ...]


def crossing(eqn: Eqn, operands: Sequence[Lies], results: Sequence[Lies]) -> Crossing | None:
    """What is to cross as terms, where operands and results lie so; None if nothing is, or if it isn't known how."""
    primitive = eqn.primitive
    given = [_stack(lies, atom.aval) for lies, atom in zip(operands, eqn.invars, strict=True)]
    found = [_stack(lies, var.aval) for lies, var in zip(results, eqn.outvars, strict=True)]
    if isinstance(primitive, Scan):
        start, count = primitive.num_consts, primitive.num_carry
        _both(given, found, start, count)
        rows = start + count
        ins = [*given[:rows], *[stack and stack.of_row() for stack in given[rows:]]]
        given[rows:] = [stack and evolve(stack, at=1) for stack in given[rows:]]
        outs = [*found[:count], *[stack and stack.of_row() for stack in found[count:]]]
        found[count:] = [stack and evolve(stack, at=1) for stack in found[count:]]
    elif isinstance(primitive, While):
        given[: primitive.cond_nconsts] = [None] * primitive.cond_nconsts
        _both(given, found, primitive.cond_nconsts + primitive.body_nconsts, len(found))
        ins, outs = given[primitive.cond_nconsts :], [*found]
    elif isinstance(primitive, Cond):
        ins, outs = given[1:], [*found]
    elif isinstance(primitive, Call | Checkpoint | ForwardPass | CustomCall):
        ins, outs = [*given], [*found]
    else:
        return None
    return Crossing(tuple(given), tuple(found), tuple(ins), tuple(outs)) if any(given) or any(found) else None


def _stack(lies: Lies, aval: ShapedArray) -> Stack | None:
    return Stack(lies) if isinstance(lies, Summed) and unreduced_of(lies) and aval.dtype not in KEYS else None


def _both(given: list[Stack | None], found: list[Stack | None], start: int, count: int) -> None:
    """What is carried crosses as terms if it is such a sum at the start and at the end."""
    for i in range(count):
        if given[start + i] != found[i]:
            given[start + i] = found[i] = None


def told(primitive: Primitive, cross: Crossing, seen: dict[Jaxpr, Sequence[Lies]], tell: Tell, mesh: Mesh) -> Primitive:
    """The primitive with programs that take and return terms, and say how their values lie."""

    def within(jaxpr: Jaxpr) -> Jaxpr:
        ins = [
            lies if stack is not None else but_for_sums(lies)
            for lies, stack in zip(seen[jaxpr], cross.ins, strict=True)
        ]
        left = AbstractMesh(mesh.axis_sizes, mesh.axis_names)
        asked = [stack and NamedSharding(left, PartitionSpec(unreduced=frozenset(stack.names))) for stack in cross.outs]
        inner = tell(jaxpr, ins, asked)

        def run(ctx: StagingContext, args: list[Atom]) -> Sequence[Atom]:
            taken = [
                said(ctx, x, lies, mesh) if stack is None else unstacked(ctx, x, stack, mesh)
                for x, lies, stack in zip(args, ins, cross.ins, strict=True)
            ]
            outs = interpret(ctx, inner, taken)
            return [
                x if stack is None else stacked(ctx, x, stack, mesh) for x, stack in zip(outs, cross.outs, strict=True)
            ]

        avals = [_stacked_type(aval, stack, mesh) for aval, stack in zip(jaxpr.in_avals, cross.ins, strict=True)]
        return stage(avals, run).named_by(jaxpr.names)

    if isinstance(primitive, Scan):
        return evolve(primitive, jaxpr=within(primitive.jaxpr))
    if isinstance(primitive, While):
        tested = _summed(primitive, cross, mesh)
        return evolve(primitive, cond_jaxpr=tested, body_jaxpr=within(primitive.body_jaxpr))
    if isinstance(primitive, Cond):
        return evolve(primitive, branches=tuple(map(within, primitive.branches)))
    if isinstance(primitive, Checkpoint):
        return primitive.of(within(primitive.jaxpr))
    assert isinstance(primitive, Call | ForwardPass | CustomCall)
    return Call(primitive.function_name, within(primitive.jaxpr))


def _summed(primitive: While, cross: Crossing, mesh: Mesh) -> Jaxpr:
    """The condition of a loop, which makes the sums that it reads."""
    before, count = primitive.cond_jaxpr, primitive.cond_nconsts
    stacks = [*[None] * count, *cross.outs]

    def run(ctx: StagingContext, args: list[Atom]) -> Sequence[Atom]:
        made = [
            x if stack is None else convert(ctx, reduce_sum(ctx, x, (stack.at,)), aval.dtype, aval.weak_type)
            for x, stack, aval in zip(args, stacks, before.in_avals, strict=True)
        ]
        return interpret(ctx, before, made)

    return stage([_stacked_type(aval, stack, mesh) for aval, stack in zip(before.in_avals, stacks, strict=True)], run)


def but_for_sums(lies: Lies) -> Lies:
    """How a value lies once its sum is made."""
    if isinstance(lies, Open) or not unreduced_of(lies):
        return lies
    axes = sums_of(lies)
    return lying(parts_of(lies), without(axes, [name for name in axes if name.startswith(UNREDUCED)]))


def said(ctx: Context[Atom], x: Atom, lies: Lies, mesh: Mesh) -> Atom:
    """The value, of which a constraint says how it lies."""
    if isinstance(lies, Open) or not divided(lies) or x.aval.dtype in KEYS:
        return x
    return ctx.bind(ShardingConstraint(pinned(lies, mesh)), x)[0]


def stacked(ctx: Context[Atom], x: Atom, stack: Stack, mesh: Mesh) -> Atom:
    """A sum of which devices have terms as an array of these."""
    primitive = _stacking(x.aval, AbstractMesh(mesh.axis_sizes, mesh.axis_names), stack.names, stack.at, False)
    return ctx.bind(primitive, said(ctx, x, stack.lies, mesh))[0]


def unstacked(ctx: Context[Atom], x: Atom, stack: Stack, mesh: Mesh) -> Atom:
    """The sum again."""
    aval = x.aval.of_shape((*x.aval.shape[: stack.at], *x.aval.shape[stack.at + 1 :]))
    left = AbstractMesh(mesh.axis_sizes, mesh.axis_names)
    return said(ctx, ctx.bind(_stacking(aval, left, stack.names, stack.at, True), x)[0], stack.lies, mesh)


def _stacked_type(aval: ShapedArray, stack: Stack | None, mesh: Mesh) -> ShapedArray:
    if stack is None:
        return aval
    count = 1
    for name in stack.names:
        count *= mesh.shape[name]
    return aval.of_shape((*aval.shape[: stack.at], count, *aval.shape[stack.at :]))


@bounded(1024)
def _stacking(aval: ShapedArray, mesh: Mesh, names: Names, at: int, back: bool) -> ShardMap:
    """Each device gives its term, or takes it. Both are the same bytes."""
    whole, terms = PartitionSpec(unreduced=frozenset(names)), PartitionSpec(*[None] * at, names)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return [squeeze(ctx, ins[0], (at,)) if back else expand_dims(ctx, ins[0], (at,))]

    local = aval.of_shape((*aval.shape[:at], 1, *aval.shape[at:])) if back else aval
    specs = ((terms,), (whole,)) if back else ((whole,), (terms,))
    return ShardMap(stage([local], run), mesh, *specs, names, False)
