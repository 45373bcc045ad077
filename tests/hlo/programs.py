"""Programs to lower, and a way to run their text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyjax.backend import execute
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn, Jaxpr, Var
from tinyjax.ir.value import ConcreteValue


def side_by_side(applications: Sequence[tuple[Primitive, Sequence[ShapedArray]]]) -> Jaxpr:
    """One program that applies each primitive to inputs of its own. To compile one is faster than to compile many."""
    invars: list[Var] = []
    operands: list[tuple[Var, ...]] = []
    for _, avals in applications:
        operands.append(tuple(Var(len(invars) + i, aval) for i, aval in enumerate(avals)))
        invars += operands[-1]
    count = len(invars)
    eqns: list[Eqn] = []
    outs: list[Var] = []
    for (primitive, avals), ins in zip(applications, operands, strict=True):
        results = tuple(Var(count + i, aval) for i, aval in enumerate(primitive.type_of(*avals)))
        count += len(results)
        eqns.append(Eqn(primitive, ins, results))
        outs += results
    return Jaxpr(tuple(invars), tuple(eqns), tuple(outs))


def run(jaxpr: Jaxpr, *args: HostArray) -> list[HostArray]:
    """The results of a program that is lowered and compiled."""
    values = [ConcreteValue(arg, aval) for arg, aval in zip(args, jaxpr.in_avals, strict=True)]
    return [np.asarray(out.data) for out in execute(jaxpr, values, "test")]
