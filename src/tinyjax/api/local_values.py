"""What each device has of a value while the function of a `shard_map` is staged: `print` shows it, and Python branches
on what all devices have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from attrs import frozen

from tinyjax.arrays.conversions import host_array
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.recording import Captured, renumber
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.manual import Manual
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.effects import axis_names
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.roles import Foreign
from tinyjax.ir.shapes import Axes
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import PartitionSpec
from tinyjax.primitives.shaping import reshape
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.transforms.unvarying import unvarying

#: Of more devices, so many of the first and of the last are shown.
_MOST = 64
_EDGE = 4


@final
@frozen(eq=False)
class LocalValues:
    """What each device has of a value of the function of a `shard_map`, for these arguments.

    It is computed when it is asked for, on the host, from what has been staged until then. What a call of a Python
    function would give isn't known, as it isn't called twice.
    """

    manual: Manual
    specs: Sequence[PartitionSpec]
    args: Sequence[ConcreteValue]

    @staticmethod
    def of(manual: Manual, specs: Sequence[PartitionSpec], args: Sequence[Array]) -> LocalValues | None:
        """None if the arguments have no elements yet."""
        known = [value for arg in args if (value := arg.concrete()) is not None]
        return LocalValues(manual, specs, known) if len(known) == len(args) else None

    def shown(self, jaxpr: Jaxpr, captured: Sequence[Captured]) -> str:
        over = self._over(jaxpr)
        out = self._computed(jaxpr, captured, over)
        sizes = [(name, size) for name, size in self.manual.sizes if name in over]
        return "" if out is None else _listed(out, sizes)

    def known(self, jaxpr: Jaxpr, captured: Sequence[Captured]) -> ConcreteValue | None:
        return None if self._over(jaxpr) else self._computed(jaxpr, captured, ())

    def _over(self, jaxpr: Jaxpr) -> Axes:
        """The axes along which the result may differ."""
        (aval,) = jaxpr.out_avals
        named = (*aval.varying, *aval.unreduced)
        return tuple([name for name in self.manual.axes if not self.manual.tracked or name in named])

    def _computed(self, jaxpr: Jaxpr, captured: Sequence[Captured], over: Axes) -> ConcreteValue | None:
        """The result, with an axis before its own for each of these."""
        needed = _needed(jaxpr)
        found = [value if isinstance(value, ConcreteValue) else _known(value) for value in captured]
        constants = [value for value in found if value is not None]
        if needed is None or len(constants) < len(captured):
            return None
        program = ShardMap(
            _stacked(unvarying(needed), len(over)),
            self.manual.mesh,
            (*[PartitionSpec()] * len(constants), *self.specs),
            (PartitionSpec(*over),),
            self.manual.axes,
            False,
        )
        host = [ConcreteValue.of(host_array(value)) for value in (*constants, *self.args)]
        (out,) = EvalContext().bind(program, *host)
        return out


def _known(value: Foreign) -> ConcreteValue | None:
    """What a value from outside of the function is, where it is known."""
    return value.concrete() if isinstance(value, Array) else None


def _needed(jaxpr: Jaxpr) -> Jaxpr | None:
    """The program with only what its result needs. None if that has effects."""
    wanted = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        if wanted.isdisjoint(eqn.outvars):
            continue
        if len(axis_names(eqn.primitive.effects)) < len(eqn.primitive.effects):
            return None
        wanted.update(atom for atom in eqn.invars if isinstance(atom, Var))
        kept.append(eqn)
    return renumber(jaxpr.invars, kept[::-1], jaxpr.outvars, None)


def _stacked(jaxpr: Jaxpr, count: int) -> Jaxpr:
    """The program with so many axes of size 1 before those of its result, along which devices lie."""

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        (out,) = interpret(ctx, jaxpr, ins)
        return [reshape(ctx, out, (1,) * count + ctx.aval(out).shape)]

    return stage(jaxpr.in_avals, run)


def _listed(value: ConcreteValue, sizes: Sequence[tuple[str, int]]) -> str:
    """What each device has, by its place on the axes along which it varies."""
    elements = host_array(value)
    places = list(np.ndindex(*[size for _, size in sizes]))
    shown = places if len(places) <= _MOST else [*places[:_EDGE], *places[-_EDGE:]]
    lines = []
    for place in shown:
        at = ", ".join(f"{name}={i}" for (name, _), i in zip(sizes, place, strict=True)) or "everywhere"
        text = str(ConcreteArray(ConcreteValue.of(elements[place])))
        lines.append(f"{at}:\n{text}" if "\n" in text else f"{at}: {text}")
    if len(shown) < len(places):
        lines.insert(_EDGE, f"... and {len(places) - len(shown)} more ...")
    return "\n".join(["with these values", *lines])
