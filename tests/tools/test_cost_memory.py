"""Memory: what is alive when, at the peak, and what reverse mode keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.tools.control_steps import control_programs
from tinyjax import Array, ShapedArray, checkpoint, jit, lax, make_jaxpr, saved_residuals
from tinyjax import numpy as tnp
from tinyjax.errors import InputError
from tinyjax.ir import Jaxpr, Var, subjaxprs
from tinyjax.tools.cost import live_memory, residual_memory

VEC = ShapedArray((100,), "float32")
MATRIX = ShapedArray((10, 10), "float32")


@given(control_programs())
@settings(max_examples=40, deadline=None)
def test_the_peak_of_a_program_without_programs_is_that_of_its_live_values(jaxpr: Jaxpr) -> None:
    found = live_memory(jaxpr)
    inputs = sum(var.aval.nbytes for var in jaxpr.invars)
    uses: dict[int, int] = {}
    for position, eqn in enumerate(jaxpr.eqns):
        uses.update({atom.index: position for atom in eqn.invars if isinstance(atom, Var)})
    uses.update({atom.index: len(jaxpr.eqns) for atom in jaxpr.outvars if isinstance(atom, Var)})
    made: list[Var] = []
    for position, eqn in enumerate(jaxpr.eqns):
        made += eqn.outvars
        alive = [var for var in made if uses.get(var.index, -1) >= position or var in eqn.outvars]
        during = inputs + sum(var.aval.nbytes for var in alive)
        assert found.during[position] == during if not subjaxprs(eqn.primitive) else found.during[position] >= during
        left = [var for var in made if uses.get(var.index, -1) > position]
        assert found.after[position] == inputs + sum(var.aval.nbytes for var in left)


def test_views_take_no_memory() -> None:
    found = live_memory(make_jaxpr(lambda x: tnp.sin(tnp.sin(x).reshape(10, 10)))(VEC))
    assert found.during == (800, 800, 1200)
    assert (found.peak, found.peak_at, found.needed) == (1200, 2, 800)
    assert live_memory(make_jaxpr(lambda x: x)(VEC)).peak_at is None


def test_programs_within_need_memory_on_top() -> None:
    def f(x: Array) -> Array:
        y = tnp.sin(x)
        return jit(lambda x: tnp.cos(tnp.cos(x)))(x) + y

    assert live_memory(make_jaxpr(f)(VEC)).during == (800, 400 + 400 + 800, 1600 - 400 + 400 - 400 + 400)


def test_loops_hold_a_carry_and_the_next_one() -> None:
    found = live_memory(make_jaxpr(lambda x: lax.scan(lambda c, _: (c * 2.0, c), x, None, length=5))(VEC))
    assert found.peak == 400 + 400 + 2000 + 400
    scanned = live_memory(make_jaxpr(lambda xs: lax.scan(lambda c, x: (c, x * 2.0), 0.0, xs)[1])(MATRIX))
    assert scanned.peak == 400 + 400 + 40 + 40


def test_residuals() -> None:
    def f(x: Array) -> Array:
        return tnp.sum(tnp.sin(x) * tnp.exp(x))

    found = residual_memory(f, VEC)
    assert found.residuals == saved_residuals(f, np.ones(100, np.float32))
    assert found.total == sum(residual.nbytes for residual in found.residuals)
    assert found.computed == sum(size for _, size in found.lines)
    assert str(found).startswith(f"{found.total:,} bytes in {len(found.residuals)} residuals")
    by_program = residual_memory(make_jaxpr(f)(VEC))
    assert (by_program.total, residual_memory(make_jaxpr(f)(VEC).jaxpr).total) == (found.total, found.total)
    assert residual_memory(checkpoint(f), VEC).computed == 0
    with pytest.raises(InputError, match=r"argument x of .*f: "):
        residual_memory(f, "text")


def test_residuals_of_what_a_function_closes_over() -> None:
    weights = tnp.ones((10, 10))
    closed = make_jaxpr(lambda x: tnp.sum(tnp.tanh(weights @ x)))(ShapedArray((10,), "float64"))
    assert any(residual.input == 0 for residual in residual_memory(closed).residuals)
