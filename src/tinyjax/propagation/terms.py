"""Sums between devices that are yet to be made, in programs that are to be lowered.

XLA makes such a sum where something needs it. But where a program says that a result is one, XLA takes that for
granted: whether devices have terms of it is up to what computes it. So that is only said of results of which it is
known. Of all others terms are made: each device has what is its own, and zeros for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Final, final

from tinyjax.caching import bounded
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shared_types import array_type
from tinyjax.meshes.mesh import AbstractMesh, Mesh
from tinyjax.meshes.named import NamedSharding
from tinyjax.meshes.spec import PartitionSpec
from tinyjax.primitives.arithmetic import Div
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.collectives import axis_index
from tinyjax.primitives.comparison import eq
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.dynamic import dynamic_update_slice
from tinyjax.primitives.elementwise import Add, Mul, Neg, Sub, add, mul
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.selection import SelectN, select
from tinyjax.primitives.shaping import Reshape, Squeeze
from tinyjax.primitives.slicing import Concatenate, Slice
from tinyjax.primitives.stacking import Stack, Unstack
from tinyjax.primitives.structure import Transpose, broadcast_in_dim, full
from tinyjax.propagation.specs import Lies, Names, Open, Spec, named_spec, parts_of, replicated
from tinyjax.propagation.summands import makers_of, sums_over, unreduced_of
from tinyjax.transforms.rebuild import Rebuilding, count_reads

#: What XLA applies to the terms where it is said that operands and results are sums.
LINEAR: Final[frozenset[type[Primitive]]] = frozenset(
    (
        *(Add, Sub, Neg, Mul, Div, SelectN, ConvertElementType),
        *(Transpose, Reshape, Squeeze, Slice, Concatenate, Stack, Unstack),
    )
)


@final
class Sums:
    """Which results of a program devices have the terms of already, where a constraint says that they are sums."""

    def __init__(self, jaxpr: Jaxpr, lies: Sequence[Lies]) -> None:
        self._lies = lies
        self._makers = makers_of(jaxpr)
        self._reads = count_reads(jaxpr)
        #: What is to be left open, as a constraint that follows says what it is.
        self.bare: set[int] = set()
        self.made: set[int] = set()
        #: How operands of what makes terms have to be divided.
        self.operands: dict[int, tuple[Spec, ...]] = {}
        for eqn in jaxpr.eqns:
            if isinstance(eqn.primitive, ShardingConstraint):
                names, (operand,) = eqn.primitive.sharding.spec.unreduced, eqn.invars
                chain: list[int] = []
                if names and isinstance(operand, Var) and self._sums(operand, names, chain):
                    self.bare.update(chain)
                    self.made.add(eqn.outvars[0].index)

    def _sums(self, var: Var, names: frozenset[str], chain: list[int]) -> bool:
        """Whether it is a sum of what is divided along these axes of the mesh, and nothing else reads it."""
        eqn = self._makers.get(var.index)
        if eqn is None or self._reads[var.index] != 1:
            return False
        chain.append(var.index)
        first = eqn.invars[0] if eqn.invars else None
        if isinstance(eqn.primitive, Transpose | ConvertElementType):
            return isinstance(first, Var) and self._sums(first, names, chain)
        operands = [self._lies[atom.index] if isinstance(atom, Var) else replicated(atom.aval) for atom in eqn.invars]
        found = sums_over(eqn, operands, names, self._makers)
        if found is not None:
            self.operands[var.index] = found
        return found is not None


def as_terms(ctx: Rebuilding, x: Atom, lies: Lies, said: frozenset[str], mesh: Mesh) -> Atom:
    """The value, which lies so, as a sum yet to be made along these axes of the mesh."""
    left = AbstractMesh(mesh.axis_sizes, mesh.axis_names)
    names = tuple([name for name in mesh.axis_names if name in said])
    spec: Spec = replicated(x.aval) if isinstance(lies, Open) else parts_of(lies)
    before = tuple([name for name in unreduced_of(lies) if name in names])
    own = tuple([tuple([name for name in part if name in names]) for part in spec])
    if not isinstance(lies, Open) and x.aval.ndim:
        kept = named_spec(spec).update(unreduced=frozenset(before))
        (x,) = ctx.bind(ShardingConstraint(NamedSharding(left, kept)), x)
    (found,) = ctx.bind(_mapped(x.aval, left, own, before, names), x)
    return ctx.converted(found, x.aval)


def alone(eqn: Eqn, operands: Sequence[Lies], results: Sequence[Names], mesh: Mesh) -> ShardMap | None:
    """What applies an equation, which is linear in sums yet to be made, to each device's terms of them. It takes the
    operands that aren't literals. None if an operand is divided along the same axes of the mesh."""
    names = frozenset(results[0]) if results else frozenset[str]()
    if not names or any(names.symmetric_difference(other) for other in results):
        return None
    for lies in operands:
        if isinstance(lies, Open) or frozenset(unreduced_of(lies)) not in (frozenset(), names):
            return None
        if any(name in names for part in parts_of(lies) for name in part):
            return None
    pairs = [(atom, lies) for atom, lies in zip(eqn.invars, operands, strict=True) if not isinstance(atom, Literal)]

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        left = iter(ins)
        return ctx.bind(eqn.primitive, *[x if isinstance(x, Literal) else next(left) for x in eqn.invars])

    whole = PartitionSpec(unreduced=names)
    return ShardMap(
        stage([atom.aval for atom, _ in pairs], run),
        AbstractMesh(mesh.axis_sizes, mesh.axis_names),
        tuple([PartitionSpec(unreduced=frozenset(unreduced_of(lies))) for _, lies in pairs]),
        (whole,) * len(results),
        tuple([name for name in mesh.axis_names if name in names]),
        False,
    )


@bounded(1024)
def _mapped(aval: ShapedArray, mesh: Mesh, own: Spec, before: Names, names: Names) -> ShardMap:
    sizes = mesh.shape
    blocks = [math.prod([sizes[name] for name in part]) for part in own]
    local = aval.of_shape(tuple([size // count for size, count in zip(aval.shape, blocks, strict=True)]))
    given = {name for part in own for name in part}

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        (x,) = ins
        if given:
            starts = [_start(ctx, part, mesh, size) for part, size in zip(own, local.shape, strict=True)]
            x = dynamic_update_slice(ctx, full(ctx, aval, 0), x, *starts)
        rest = [name for name in names if name not in before and name not in given]
        if not rest:
            return [x]
        marks = [eq(ctx, axis_index(ctx, name), _number(0)) for name in rest]
        first = reduce(lambda a, b: logical_and(ctx, a, b), marks)
        return [select(ctx, broadcast_in_dim(ctx, first, aval.shape, ()), x, full(ctx, aval, 0))]

    return ShardMap(
        stage([local], run),
        mesh,
        (PartitionSpec(*own, unreduced=frozenset(before)),),
        (PartitionSpec(unreduced=frozenset(names)),),
        names,
        False,
    )


def _start(ctx: StagingContext, names: Names, mesh: Mesh, size: int) -> Atom:
    """Where along an axis a device's own part begins, which has this size."""
    at: Atom = _number(0)
    for name in names:
        at = add(ctx, mul(ctx, at, _number(mesh.shape[name])), axis_index(ctx, name))
    return mul(ctx, at, _number(size)) if names else at


def _number(value: int) -> Literal:
    return Literal(value, array_type((), INT32))
