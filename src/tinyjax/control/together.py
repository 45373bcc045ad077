"""Communication within programs of which devices may choose different ones, or run them different numbers of times."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.errors import TypingError
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shapes import Axes
from tinyjax.ir.traverse import nested_programs
from tinyjax.primitives.collectives import AxisIndex, Collective


def check_together(name: str, decided_by: str, varying: Axes, programs: Sequence[Jaxpr]) -> None:
    """A TypingError if a program communicates along an axis along which devices decide differently whether it runs:
    some would wait for others that never come."""
    if not varying:
        return
    for program in programs:
        for nested in nested_programs(program):
            for eqn in nested.eqns:
                collective = eqn.primitive
                if isinstance(collective, AxisIndex) or not isinstance(collective, Collective):
                    continue
                if shared := sorted({*collective.names} & {*varying}):
                    where = f" at {eqn.source.location}" if eqn.source else ""
                    raise TypingError(
                        f"{name}: its {decided_by} varies along {', '.join(map(repr, shared))}, and {collective.name}"
                        f"{where} communicates along it: devices that decide otherwise would not take part, and the "
                        f"others would wait for ever. Make the {decided_by} the same for all, for example with "
                        f"lax.pmax(..., {shared[0]!r}), or communicate outside."
                    )
