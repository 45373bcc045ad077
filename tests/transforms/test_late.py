"""Equations that are moved to where their results are read: none is lost, and each comes after what it reads."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array
from tinyjax.ir import Var
from tinyjax.transforms.late import late
from tinyjax.transforms.rows import Lazy

NOTHING_LAZY = Lazy({}, frozenset(), {})


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["new", "new", "joined", "turned round", "swapped", "kept"]), min_size=30, max_size=60))
def test_the_same_equations_in_an_order_that_runs(steps: list[str]) -> None:
    """Of programs with longer stretches of quick equations than are put in order at once: what is made lies on a stack,
    and is read together with what lies below it."""

    def function(x: Array) -> list[Array]:
        stack = [x]
        for step in steps:
            if step == "kept":
                stack.append(tnp.exp(stack.pop()))
            elif step == "new" or len(stack) < 2:
                stack.append(x * len(stack))
            elif step == "swapped":
                stack[-1], stack[-2] = stack[-2], stack[-1]
            else:
                a, b = stack.pop(), stack.pop()
                stack.append(a + b if step == "joined" else b - a)
        return stack

    program = tj.make_jaxpr(function)(tj.ShapeDtypeStruct((2, 2), "float64")).jaxpr
    found = late(program.eqns, NOTHING_LAZY)
    assert sorted(map(id, found)) == sorted(map(id, program.eqns))
    bound = {var.index for var in program.invars}
    for eqn in found:
        assert all(atom.index in bound for atom in eqn.invars if isinstance(atom, Var))
        bound |= {out.index for out in eqn.outvars}
