"""Functions of functions of functions: a thousand deep, through everything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import hlo, interpreters, ir, transforms
from tinyjax import numpy as tnp
from tinyjax.ir import Jaxpr

DEPTH = 1000
X = np.float64(0.5)


def nested(depth: int) -> Callable[[Any], Any]:
    """A chain of Python functions, each of which calls the next one by jit."""
    found: Callable[[Any], Any] = tnp.sin
    for _ in range(depth):
        found = partial(lambda inner, x: tj.jit(inner)(x) * 1.0001, found)
    return found


F = nested(DEPTH)


@pytest.fixture(scope="module")
def program() -> Jaxpr:
    return tj.make_jaxpr(F)(X).jaxpr


def test_tracing(program: Jaxpr) -> None:
    depth, jaxpr = 0, program
    while len(jaxpr.eqns) == 2:
        (jaxpr,) = ir.subjaxprs(jaxpr.eqns[0].primitive)
        depth += 1
    assert depth == DEPTH
    assert str(tj.eval_shape(F, X)) == "f64[]"


@pytest.mark.sweep
def test_transformations(program: Jaxpr) -> None:
    found = transforms.linearize(program)
    for jaxpr in (
        program,
        transforms.jvp(program).jaxpr,
        transforms.batch(program, ir.BatchAxis(2), (0,)).jaxpr,
        found.primal,
        found.linear,
        transforms.transpose(found.linear, [False] * len(found.residuals) + [True]).jaxpr,
        transforms.dce(program),
    ):
        assert len(ir.typecheck(jaxpr).in_types) == len(jaxpr.invars)
        assert ir.content_hash(jaxpr)
    assert str(program).count("call[") == DEPTH
    assert hlo.lower(program).count("func.func private") == DEPTH


def test_running() -> None:
    f, scale = nested(DEPTH // 4), 1.0001 ** (DEPTH // 4)
    np.testing.assert_allclose(f(X), np.sin(0.5) * scale, rtol=1e-6)
    np.testing.assert_allclose(tj.linearize(f, X)[1](1.0), np.cos(0.5) * scale, rtol=1e-6)


@pytest.mark.parametrize(
    "transformed",
    [
        interpreters.inverse(F),
        interpreters.harvest(lambda x: F(tj.checkpoint_name(x, "x"))),
        lambda x: interpreters.bounds(F)(x, x + 0.1),
        tj.vmap(F, axis_size=2, in_axes=None),
        tj.grad(F),
    ],
)
def test_programs_of_transformed_functions(transformed: Callable[[Any], Any]) -> None:
    assert len(ir.nested_programs(tj.make_jaxpr(transformed)(X).jaxpr)) > DEPTH


def test_what_keeps_no_calls() -> None:
    assert str(tj.make_jaxpr(tj.grad(tj.checkpoint(F)))(X)).count("mul") >= DEPTH
    assert interpreters.jacobian_sparsity(F, X).tolist() == [[True]]


def test_a_program_that_is_called_twice_is_interpreted_once() -> None:
    """Otherwise this would take 2**40 steps."""
    found: Callable[[Any], Any] = tnp.sin
    for _ in range(40):
        found = partial(lambda inner, x: tj.jit(inner)(tj.jit(inner)(x)), found)
    bounded = tj.make_jaxpr(lambda x: interpreters.bounds(found)(x, x + 0.1))(X)
    assert len(ir.nested_programs(bounded.jaxpr)) < 100
