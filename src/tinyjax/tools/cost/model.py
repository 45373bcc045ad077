"""The cost of a program: of each equation, each line of user code, and in total, without compiling it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyjax.api.make_jaxpr import make_jaxpr
from tinyjax.errors import InputError
from tinyjax.ir.holding import AnyProgram, HoldsProgram, checked_jaxpr
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.tools.cost.report import CostReport
from tinyjax.tools.cost.rules import COSTS, CostRules
from tinyjax.tools.cost.survey import Branches, Survey


def program_cost(program: AnyProgram, *, branches: Branches = "costliest", rules: CostRules = COSTS) -> CostReport:
    """What a program costs, as it is written: of equations that nothing reads too (`dce` removes them).

    A `scan` costs its length times its body, and what it moves to take arrays apart and to stack them. Of a `while`,
    the cost of an iteration is known, and named by a `Loop`; the number of iterations is left open. A conditional costs
    as much as its costliest branch, or, with `branches="cheapest"`, as its cheapest one: so two reports bound the cost.
    Primitives without a rule cost what their decomposition does; one that has none is listed as unknown. `rules` is
    COSTS, or a table of your own whose parent is COSTS.

    >>> from tinyjax import ShapedArray, make_jaxpr, numpy as tnp
    >>> x, w = ShapedArray((8, 16), "float32"), ShapedArray((16, 4), "float32")
    >>> program_cost(make_jaxpr(lambda x, w: tnp.tanh(x @ w))(x, w)).total.fixed
    Cost(flops=1024, transcendentals=32, bytes=1152)
    """
    if branches not in ("costliest", "cheapest"):
        raise InputError(f"program_cost: branches must be 'costliest' or 'cheapest', got {branches!r}")
    jaxpr = checked_jaxpr(program, "program_cost")
    survey = Survey(branches, rules)
    survey.visit(jaxpr)
    return survey.report(jaxpr)


def cost_of(fun: Callable[..., Any] | AnyProgram, /, *args: Any, **kwargs: Any) -> CostReport:
    """What a function costs for arguments like these: arrays, or types (ShapedArray). See `program_cost`.

    >>> from tinyjax import ShapedArray, numpy as tnp
    >>> cost_of(lambda x: tnp.sum(x * x), ShapedArray((100,), "float64")).total.fixed.flops
    199

    A program is taken as it is, if there are no arguments.
    """
    if isinstance(fun, Jaxpr | ClosedJaxpr | HoldsProgram):
        if not (args or kwargs):
            return program_cost(fun)
        if not callable(fun):
            raise InputError("cost_of: a program comes without arguments, which are for a function")
    return program_cost(make_jaxpr(fun)(*args, **kwargs))
