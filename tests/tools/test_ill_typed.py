"""Tools that follow programs refuse those that don't typecheck, naming what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import ir, tools
from tinyjax.errors import VerificationError
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.trigonometric import sin

SCALAR: Final = tj.ShapedArray((), "f64")
VECTOR: Final = tj.ShapedArray((3,), "f64")
A, B, FAR = ir.Var(0, SCALAR), ir.Var(1, SCALAR), ir.Var(7, SCALAR)

WRONG: Final[dict[str, ir.AnyProgram]] = {
    "itself": ir.Jaxpr((), (ir.Eqn(add, (A, A), (A,)),), (A,)),
    "type": ir.Jaxpr((A,), (ir.Eqn(sin, (A,), (ir.Var(1, VECTOR),)),), (ir.Var(1, VECTOR),)),
    "output": ir.Jaxpr((A,), (), (FAR,)),
    "number": ir.Jaxpr((FAR,), (ir.Eqn(sin, (FAR,), (B,)),), (B,)),
    "operand": ir.Jaxpr((A,), (ir.Eqn(sin, (FAR,), (B,)),), (B,)),
    "constants": ir.ClosedJaxpr(ir.Jaxpr((A,), (), (A,)), [1.0, 2.0]),
    "constant": ir.ClosedJaxpr(ir.Jaxpr((A,), (), (A,)), [np.ones(3)]),
}

TOOLS: Final[tuple[Callable[[ir.AnyProgram], object], ...]] = (
    tools.program_cost,
    tools.cost_of,
    tools.live_memory,
    tools.memory_plot,
    tools.residual_memory,
    tools.liveness,
    tools.dependence,
    tools.constancy,
    tools.to_html,
)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_typecheck_is_refused(name: str, tool: Callable[[ir.AnyProgram], object]) -> None:
    with pytest.raises(VerificationError, match=r"of the program|constants for a program"):
        tool(WRONG[name])


@pytest.mark.parametrize("name", WRONG)
def test_it_is_printed(name: str) -> None:
    assert "lambda" in repr(WRONG[name])


def test_the_cost_of_a_program() -> None:
    traced = tj.trace(lambda x: tj.numpy.sin(x) * 2.0, np.ones(3))
    expected = tools.cost_of(lambda x: tj.numpy.sin(x) * 2.0, np.ones(3)).total
    for program in (traced, traced.jaxpr, traced.jaxpr.jaxpr):
        assert tools.cost_of(program).total == expected
    assert tools.cost_of(traced, np.ones(3)).total.fixed.transcendentals == 3
