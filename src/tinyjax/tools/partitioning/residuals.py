"""What reverse mode keeps between a program's value and its derivative, as bytes on each device."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal as Literal_
from typing import TypeAlias, final

from attrs import frozen

from tinyjax import backend
from tinyjax.backend.layouts import Layout
from tinyjax.contexts.rebuilding import DEPTH, QUICK
from tinyjax.control.shard_map import ShardMap
from tinyjax.errors import TinyjaxError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.source import SourceInfo
from tinyjax.meshes import Mesh, PartitionSpec
from tinyjax.tools.cost.residuals import residual_memory
from tinyjax.tools.partitioning.records import Placed
from tinyjax.transforms.dce import dce
from tinyjax.transforms.inline import inline
from tinyjax.transforms.linearize import linearize

#: Whether the program is a derivative and keeps them itself, or its gradient would.
Owner: TypeAlias = Literal_["program", "gradient"]


@final
@frozen
class Kept:
    """Residuals: of the program itself, if there is a backward part in it; else those that `grad` of it would keep.
    `placed` is None if they aren't known, and `why` says why."""

    owner: Owner
    placed: tuple[Placed, ...] | None
    why: str = ""


def residuals_on_devices(closed: ClosedJaxpr, layout: Layout) -> Kept:
    """The residuals of a program that is laid out so, those left out which are inputs."""
    jaxpr = inline(dce(closed.jaxpr))
    if any(map(_has_backward, jaxpr.eqns)):
        return _kept("program", _own(jaxpr, layout))
    try:
        return _kept("gradient", _of_gradient(closed, layout))
    except TinyjaxError as error:
        return Kept("gradient", None, str(error).partition("\n")[0])


def _kept(owner: Owner, placed: tuple[Placed, ...] | None) -> Kept:
    return Kept(owner, placed, "" if placed is not None else "this jaxlib doesn't say how they lie")


def _of_gradient(closed: ClosedJaxpr, layout: Layout) -> tuple[Placed, ...] | None:
    found = residual_memory(closed).residuals
    computed = [residual for residual in found if residual.input is None]
    if not computed:
        return ()
    primal = linearize(closed.jaxpr, _differentiable(closed)).primal
    count = len(closed.jaxpr.outvars)
    return _placed(primal, layout, range(count, len(primal.outvars)), [residual.source for residual in computed])


def _differentiable(closed: ClosedJaxpr) -> list[bool]:
    """The inputs that have derivatives: no constants."""
    return [
        i >= len(closed.consts) and aval.tangent.dtype == aval.dtype for i, aval in enumerate(closed.jaxpr.in_avals)
    ]


def _own(jaxpr: Jaxpr, layout: Layout) -> tuple[Placed, ...] | None:
    """What forward equations make and backward ones read: in the program, and in what each device runs itself."""
    found: list[Placed] = []
    for eqn in jaxpr.eqns:
        if isinstance(eqn.primitive, ShardMap) and not _is_backward(eqn):
            found += [
                Placed(
                    eqn.primitive.name, str(var.aval.varying_over(())), None, var.aval.nbytes, var.aval.nbytes, (), s
                )
                for var, s in _crossing(eqn.primitive.jaxpr)
            ]
    crossing = _crossing(jaxpr)
    if crossing:
        asked = Jaxpr(jaxpr.invars, jaxpr.eqns, tuple([var for var, _ in crossing]))
        placed = _placed(asked, layout, range(len(crossing)), [source for _, source in crossing])
        if placed is None:
            return None
        found += placed
    return tuple(found)


def _crossing(jaxpr: Jaxpr) -> list[tuple[Var, SourceInfo | None]]:
    """What backward equations read of others, without what is computed for them alone of what they read anyway."""
    made: dict[int, Eqn] = {}
    backward: set[int] = set()
    read: dict[int, Var] = {}
    for eqn in jaxpr.eqns:
        reads = [atom for atom in eqn.invars if isinstance(atom, Var)]
        if _is_backward(eqn) or (eqn.source is None and any(atom.index in backward for atom in reads)):
            read |= {atom.index: atom for atom in reads if atom.index not in backward}
            backward |= {var.index for var in eqn.outvars}
        else:
            made |= {var.index: eqn for var in eqn.outvars}

    return [
        (var, made[index].source)
        for index, var in read.items()
        if index in made and not (var.aval.shape and _follows(made[index], made, read))
    ]


def _follows(eqn: Eqn | None, made: Mapping[int, Eqn], read: Collection[int], depth: int = 0) -> bool:
    """Whether an equation quickly computes something of what is read anyway."""
    if eqn is None or type(eqn.primitive) not in QUICK or depth > DEPTH:
        return False
    return all(
        isinstance(atom, Literal) or atom.index in read or _follows(made.get(atom.index), made, read, depth + 1)
        for atom in eqn.invars
    )


def _is_backward(eqn: Eqn) -> bool:
    return eqn.source is not None and "transpose" in eqn.source.transformations


def _has_backward(eqn: Eqn) -> bool:
    inner = eqn.primitive.jaxpr.eqns if isinstance(eqn.primitive, ShardMap) else ()
    return _is_backward(eqn) or any(map(_is_backward, inner))


def _placed(
    program: Jaxpr, layout: Layout, positions: Sequence[int], sources: Sequence[SourceInfo | None]
) -> tuple[Placed, ...] | None:
    """How some results of a program would lie: as a `shard_map` says it, or else as the partitioner decides."""
    said = _said(program, layout.mesh)
    propagated: tuple[backend.Division, ...] | None = None
    found: list[Placed] = []
    for position, source in zip(positions, sources, strict=True):
        atom = program.outvars[position]
        division = said.get(atom.index) if isinstance(atom, Var) else None
        if division is None:
            propagated = propagated or backend.divided_results(program, layout)
            if propagated is None:
                return None
            division = propagated[position]
        found.append(_divided(atom.aval, division, layout.mesh, source))
    return tuple(found)


def _said(program: Jaxpr, mesh: Mesh) -> dict[int, backend.Division]:
    """How the results of those `shard_map`s lie that leave nothing to XLA, by their numbers."""
    found: dict[int, backend.Division] = {}
    for eqn in program.eqns:
        mapped = eqn.primitive
        if not isinstance(mapped, ShardMap) or mapped.mesh.shape_tuple != mesh.shape_tuple:
            continue
        if any(size > 1 and name not in mapped.manual_axes for name, size in mesh.shape_tuple):
            continue
        for var, spec in zip(eqn.outvars, mapped.out_specs, strict=True):
            axes = (*spec.axes, *[()] * (len(var.aval.shape) - len(spec.axes)))
            blocks = tuple([math.prod([mesh.shape[name] for name in names]) for names in axes])
            found[var.index] = backend.Division(axes, blocks, frozenset(spec.names))
    return found


def _divided(aval: ShapedArray, division: backend.Division, mesh: Mesh, source: SourceInfo | None) -> Placed:
    """An array that is divided so; what can't be divided equally is padded."""
    blocks = division.blocks or (1,) * len(aval.shape)
    count = math.prod([-(-size // parts) for size, parts in zip(aval.shape, blocks, strict=True)])
    whole = {name for names in division.axes for name in names} <= {*mesh.axis_names}
    same = [name for name, size in mesh.shape_tuple if size > 1 and name not in division.names]
    spec = PartitionSpec(*division.axes) if whole else None
    return Placed("", str(aval), spec, count * aval.dtype.itemsize, aval.nbytes, tuple(same), source)
