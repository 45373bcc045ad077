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
from tinyjax.meshes.spec import is_open
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.propagation.specs import (
    Lies,
    Open,
    Site,
    but_for_reduced,
    divided,
    divided_by,
    lying,
    named_spec,
    only,
    parts_of,
    replicated,
    spec_of,
    sums_of,
    sums_said,
)

#: How the outputs of a program lie, for how its inputs do.
Run: TypeAlias = Callable[[Jaxpr, Sequence[Lies]], list[Lies]]
PROGRAMS: Final = RuleTable[[Sequence[Lies], Site, Run], Sequence[Lies]]("Sharding", name="PROGRAMS")


@PROGRAMS.register(ShardingConstraint)
def _(primitive: ShardingConstraint, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    """As it says; along axes of which it says nothing, as before. What it says of another mesh is left to XLA."""
    (lies,), said = operands, primitive.sharding.spec
    if primitive.sharding.mesh.shape_tuple != site.mesh.shape_tuple:
        return [Open()]
    ndim = site.outs[0].ndim
    spec = spec_of(said, ndim, site.mesh)
    sums = sums_said(said, site.mesh)
    if isinstance(lies, Open) and lies.sums and said.unreduced and said.unreduced != {*lies.sums}:
        why = f"the axes of unreduced={set(said.unreduced)} aren't those that the summed axes are divided along"
        return [Open(ShardingTypeError(f"out_sharding: {why}, which are {', '.join(map(repr, lies.sums))}"))]
    if primitive.sharding.mesh.explicit_axes:  # the others are those of which it says nothing
        return [lying(spec, sums)]
    free = [axis for axis, part in enumerate(said.partitions) if is_open(part)]
    if not free:
        return [lying(spec, sums)]
    if len(free) == ndim and not sums:
        return [Open()]
    if isinstance(lies, Open):  # as along a batch
        return [lying(spec, sums)]
    taken = {name for names in (*spec, said.unreduced, said.reduced) for name in names}
    before = parts_of(lies)
    kept = [
        (*spec[axis], *[name for name in before[axis] if name not in taken]) if axis in free else spec[axis]
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
    who = "the branches divide"
    columns = [_along_what_is(column) for column in zip(*found, strict=True)]
    return [_same(column, operands, site, who) for column in columns]


def _along_what_is(found: Sequence[Lies]) -> Sequence[Lies]:
    """How values lie that become one: what isn't divided at all, as the first that is."""
    specs = [lies for lies in found if not isinstance(lies, Open)]
    first = next((lies for lies in specs if divided(lies)), None)
    if first is None or len(specs) < len(found) or sums_of(first):
        return found
    return [lies if divided(lies) else first for lies in specs]


@PROGRAMS.register(While)
def _(primitive: While, operands: Sequence[Lies], site: Site, run: Run) -> Sequence[Lies]:
    _, consts, carry = primitive.operands(operands)
    return _stable(carry, lambda given: run(primitive.body_jaxpr, [*consts, *given]), operands, site)[0]


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
    found, outs = _stable(carry, lambda given: run(primitive.jaxpr, [*consts, *given, *slices]), operands, site)
    stacks = [divided_by(lies, lambda spec: ((), *spec)) for lies in outs[len(carry) :]]
    return [*found, *stacks]


def _stable(
    carry: Sequence[Lies], body: Callable[[Sequence[Lies]], list[Lies]], operands: Sequence[Lies], site: Site
) -> tuple[list[Lies], list[Lies]]:
    """How a carry lies, as what is returned for it; and all that is returned then. What isn't divided at all when it is
    handed in lies as what is returned."""
    found = list(carry)
    while True:
        outs = body(found)
        before, found = found, [_carried(*pair, operands, site) for pair in zip(found, outs[: len(carry)], strict=True)]
        if found == before:  # else something is left open or divided, and so may be more
            return found, outs


def _carried(before: Lies, after: Lies, operands: Sequence[Lies], site: Site) -> Lies:
    pair: Sequence[Lies] = (before, after)
    if not isinstance(before, Open) and not divided(before):
        pair = _along_what_is(pair)
    return _same(pair, operands, site, "the body divides")


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
