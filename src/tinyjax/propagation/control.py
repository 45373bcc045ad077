"""How the results of primitives that hold programs lie, and of those that say it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tinyjax.control.call import Calling
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.control.shard_map import ShardMap
from tinyjax.errors import ShardingTypeError
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.rules import RuleTable
from tinyjax.meshes.spec import UNCONSTRAINED
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.propagation.specs import (
    Lies,
    Open,
    Site,
    but_for_reduced,
    divided_by,
    lying,
    named_spec,
    only,
    parts_of,
    replicated,
    spec_of,
    sums_said,
)

#: How the outputs of a program lie, for how its inputs do.
Run: TypeAlias = Callable[[Jaxpr, Sequence[Lies]], list[Lies]]
PROGRAMS: Final = RuleTable[[Sequence[Lies], Site, Run], Sequence[Lies]]("Sharding", name="PROGRAMS")


@PROGRAMS.register(ShardingConstraint)
def _(primitive: ShardingConstraint, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    """As it says; along axes of which it says nothing, as before."""
    (lies,), said = operands, primitive.sharding.spec
    ndim = site.outs[0].ndim
    spec = spec_of(said, ndim, site.mesh)
    sums = sums_said(said, site.mesh)
    if isinstance(lies, Open) and lies.sums and said.unreduced and said.unreduced != {*lies.sums}:
        why = f"the axes of unreduced={set(said.unreduced)} aren't those that the summed axes are divided along"
        return [Open(ShardingTypeError(f"out_sharding: {why}, which are {', '.join(map(repr, lies.sums))}"))]
    free = [axis for axis, part in enumerate(said.partitions) if part is UNCONSTRAINED]
    if not free:
        return [lying(spec, sums)]
    if len(free) == ndim and not sums:
        return [Open()]
    if isinstance(lies, Open):  # as along a batch
        return [lying(spec, sums)]
    taken = {name for names in (*spec, said.unreduced, said.reduced) for name in names}
    before = parts_of(lies)
    kept = [
        tuple([name for name in before[axis] if name not in taken]) if axis in free else spec[axis]
        for axis in range(ndim)
    ]
    return [lying(tuple(kept), sums)]


@PROGRAMS.register(Calling)
def _(primitive: Calling, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    return run(primitive.jaxpr, operands)


def _custom(primitive: CustomCall, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    return run(primitive.jaxpr, operands)


PROGRAMS[CustomJvp] = PROGRAMS[CustomVjp] = PROGRAMS[MappedCustom] = _custom


@PROGRAMS.register(Cond)
def _(primitive: Cond, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    found = [run(branch, operands[1:]) for branch in primitive.branches]
    return [_same(column, operands, site, "the branches divide") for column in zip(*found, strict=True)]


@PROGRAMS.register(While)
def _(primitive: While, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    _, consts, carry = primitive.operands(operands)
    after = run(primitive.body_jaxpr, [*consts, *carry])
    found = _kept(carry, after, operands, site)
    if found != list(carry):  # something is left open, and so may be more
        after = run(primitive.body_jaxpr, [*consts, *found])
        found = _kept(found, after, operands, site)
    return found


@PROGRAMS.register(Scan)
def _(primitive: Scan, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    consts, carry, xs = primitive.operands(operands)
    slices: list[Lies] = []
    for lies in xs:
        if isinstance(lies, Open):
            slices.append(lies)
        elif parts_of(lies)[0]:
            slices.append(site.refuse(operands, "the first axis of what is scanned over is divided"))
        else:
            slices.append(divided_by(lies, lambda spec: spec[1:]))
    outs = run(primitive.jaxpr, [*consts, *carry, *slices])
    found = _kept(carry, outs[: len(carry)], operands, site)
    if found != list(carry):
        outs = run(primitive.jaxpr, [*consts, *found, *slices])
        found = _kept(found, outs[: len(carry)], operands, site)
    stacks = [divided_by(lies, lambda spec: ((), *spec)) for lies in outs[len(carry) :]]
    return [*found, *stacks]


def _kept(carry: Sequence[Lies], after: Sequence[Lies], operands: Sequence[Lies], site: Site) -> list[Lies]:
    """A carry, which lies as what is returned for it."""
    pairs = zip(carry, after, strict=True)
    return [_same(pair, operands, site, "the body divides") for pair in pairs]


def _same(found: Sequence[Lies], operands: Sequence[Lies], site: Site, who: str) -> Lies:
    for lies in found:
        if isinstance(lies, Open):
            return lies
    if site.backward:  # where nothing depends on what would be summed on the way back
        found = [but_for_reduced(lies) for lies in found if not isinstance(lies, Open)]
    first = found[0]
    if any(lies != first for lies in found[1:]):
        specs = " and ".join(str(named_spec(lies)) for lies in found if not isinstance(lies, Open))
        return site.refuse(operands, f"{who} a result as {specs}, which must be one")
    return first


@PROGRAMS.register(ShardMap)
def _(primitive: ShardMap, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    """As it puts results together; and along the axes of the mesh that it leaves, as its program says."""
    manual = primitive.manual
    others = [name for name in site.mesh.explicit_axes if name not in primitive.manual_axes]
    inner: list[Lies]
    if others:
        inner = run(primitive.jaxpr, [divided_by(lies, lambda spec: only(spec, others)) for lies in operands])
    else:
        inner = [replicated(aval) for aval in primitive.jaxpr.out_avals]
    found: list[Lies] = []
    for lies, out_spec, out in zip(inner, primitive.out_specs, site.outs, strict=True):
        if isinstance(lies, Open):
            found.append(lies)
            continue
        own = manual.divided(out_spec)
        own += [()] * (out.ndim - len(own))
        explicit = site.mesh.explicit_axes
        parts = zip(own, parts_of(lies), strict=True)
        spec = [(*[name for name in part if name in explicit], *names) for part, names in parts]
        found.append(lying(tuple(spec), sums_said(out_spec, site.mesh)))
    return found
