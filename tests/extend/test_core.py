"""What programs are made of, under JAX's names."""

from __future__ import annotations

import jax
import jax.extend.core as jex
import numpy as np

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.extend import core


def test_names_are_those_of_jax() -> None:
    for name in core.__all__:
        assert hasattr(jex, name)
    program = tj.make_jaxpr(lambda x: tnp.sin(x) * 2.0)(1.0)
    assert isinstance(program, core.ClosedJaxpr)
    assert isinstance(program.jaxpr, core.Jaxpr)
    assert {type(eqn) for eqn in program.eqns} == {core.JaxprEqn}
    assert all(isinstance(eqn.primitive, core.Primitive) for eqn in program.eqns)
    assert {type(atom) for eqn in program.eqns for atom in eqn.invars} == {core.Var, core.Literal}


def test_programs_as_functions() -> None:
    table = np.arange(3.0)
    program = tj.make_jaxpr(lambda x: (tnp.sin(x) * table, x + 1.0))(1.0)
    function = core.jaxpr_as_fun(program)
    expected = jex.jaxpr_as_fun(jax.make_jaxpr(lambda x: (jax.numpy.sin(x) * table, x + 1.0))(1.0))(2.0)
    found = function(2.0)
    assert isinstance(found, list)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    slopes = tj.jit(tj.jacfwd(lambda x: function(x)[0]))(2.0)
    np.testing.assert_allclose(slopes, np.cos(2.0) * table)
