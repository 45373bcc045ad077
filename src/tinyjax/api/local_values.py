"""What each device has of a value, shown while the function of a `shard_map` is staged: `print` debugs it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyjax.arrays.conversions import host_array
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.recording import Captured, Values, renumber
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.manual import Manual
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.effects import axis_names
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import PartitionSpec
from tinyjax.primitives.shaping import reshape
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.transforms.unvarying import unvarying

#: Of more devices, so many of the first and of the last are shown.
_MOST = 64
_EDGE = 4


def local_values(manual: Manual, specs: Sequence[PartitionSpec], args: Sequence[Array]) -> Values | None:
    """What shows a value by what it is on each device, for these arguments. None if they have no elements yet.

    It is computed when it is asked for, on the host, from what has been staged until then. What a call of a Python
    function would give isn't known, as it isn't called twice.
    """
    known = [arg.value for arg in args if isinstance(arg, ConcreteArray)]
    if len(known) < len(args):
        return None

    def shown(jaxpr: Jaxpr, captured: Sequence[Captured]) -> str:
        needed = _needed(jaxpr)
        constants = [value for value in captured if isinstance(value, ConcreteValue)]
        if needed is None or len(constants) < len(captured):
            return ""
        (aval,) = needed.out_avals
        over = [
            (name, size)
            for name, size in manual.sizes
            if not manual.tracked or name in (*aval.varying, *aval.unreduced)
        ]
        program = ShardMap(
            _stacked(unvarying(needed), len(over)),
            manual.mesh,
            (*[PartitionSpec()] * len(constants), *specs),
            (PartitionSpec(*[name for name, _ in over]),),
            manual.axes,
            False,
        )
        host = [ConcreteValue.of(host_array(value)) for value in (*constants, *known)]
        (out,) = EvalContext().bind(program, *host)
        return _listed(out, over)

    return shown


def _needed(jaxpr: Jaxpr) -> Jaxpr | None:
    """The program with only what its result needs. None if that has effects."""
    wanted = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    records = []
    for eqn in reversed(jaxpr.eqns):
        if wanted.isdisjoint(eqn.outvars):
            continue
        if len(axis_names(eqn.primitive.effects)) < len(eqn.primitive.effects):
            return None
        wanted.update(atom for atom in eqn.invars if isinstance(atom, Var))
        records.append((eqn.primitive, eqn.invars, eqn.outvars, eqn.source))
    return renumber(jaxpr.invars, records[::-1], jaxpr.outvars, None)


def _stacked(jaxpr: Jaxpr, count: int) -> Jaxpr:
    """The program with so many axes of size 1 before those of its result, along which devices lie."""

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        (out,) = interpret(ctx, jaxpr, ins)
        return [reshape(ctx, out, (1,) * count + ctx.aval(out).shape)]

    return stage(jaxpr.in_avals, run)


def _listed(value: ConcreteValue, over: Sequence[tuple[str, int]]) -> str:
    """What each device has, by its place on the axes along which it varies."""
    elements = host_array(value)
    places = list(np.ndindex(*[size for _, size in over]))
    shown = places if len(places) <= _MOST else [*places[:_EDGE], *places[-_EDGE:]]
    lines = []
    for place in shown:
        at = ", ".join(f"{name}={i}" for (name, _), i in zip(over, place, strict=True)) or "everywhere"
        text = str(ConcreteArray(ConcreteValue.of(elements[place])))
        lines.append(f"{at}:\n{text}" if "\n" in text else f"{at}: {text}")
    if len(shown) < len(places):
        lines.insert(_EDGE, f"... and {len(places) - len(shown)} more ...")
    return "\n".join(["with these values", *lines])
