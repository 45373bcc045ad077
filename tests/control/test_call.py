"""`Call`: each transformation of the equation is a call of the transformed program."""

from __future__ import annotations

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import F64, VECTOR, assert_close, program, run
from tinyjax import ShapedArray, ir, transforms
from tinyjax.contexts.staging import stage
from tinyjax.control.call import Call
from tinyjax.errors import TypingError
from tinyjax.ir import BatchAxis, Jaxpr, NamedAxisEffect
from tinyjax.primitives.collectives import PSum

BODY = program(lambda x, y: (tnp.sin(x) * y, y + 1.0, x), VECTOR, F64)


def called(body: Jaxpr) -> Jaxpr:
    return stage(body.in_avals, lambda ctx, ins: ctx.bind(Call("f", body), *ins))


def inner(jaxpr: Jaxpr, at: int = 0) -> Jaxpr:
    """The program that an equation calls."""
    primitive = jaxpr.eqns[at].primitive
    assert isinstance(primitive, Call)
    assert primitive.function_name == "f"
    return primitive.jaxpr


def test_typing() -> None:
    outer = called(BODY)
    assert ir.typecheck(outer).out_types == BODY.out_avals
    with pytest.raises(TypingError, match=r"call of 'f' takes \(f64\[3\], f64\[\]\), got \(f64\[3\]\)"):
        Call("f", BODY).type_of(VECTOR)
    with pytest.raises(TypingError, match=r"got \(f64\[3\], f32\[\]\)"):
        Call("f", BODY).type_of(VECTOR, ShapedArray((), "float32"))
    weak = ShapedArray((), float, weak_type=True)
    assert Call("f", BODY).type_of(VECTOR, weak) == BODY.out_avals, "weak or not"


def test_evaluation() -> None:
    args = [np.arange(3.0), np.asarray(2.0)]
    assert_close(run(called(BODY), args), run(BODY, args))


def test_transformations_are_those_of_the_body() -> None:
    outer = called(BODY)
    assert inner(transforms.jvp(outer).jaxpr) == transforms.jvp(BODY).jaxpr
    assert inner(transforms.batch(outer, BatchAxis(4), [1, None]).jaxpr) == (
        transforms.batch(BODY, BatchAxis(4), [1, None]).jaxpr
    )
    parts, whole = transforms.partial_eval(BODY, [False, True]), transforms.partial_eval(outer, [False, True])
    assert inner(whole.known) == parts.known
    assert inner(whole.staged) == parts.staged
    assert [res.input for res in whole.residuals] == [res.input for res in parts.residuals]
    linear = program(lambda x, y: (y * x, tnp.sum(y)), F64, VECTOR)
    assert inner(transforms.transpose(called(linear), [False, True]).jaxpr) == (
        transforms.transpose(linear, [False, True]).jaxpr
    )


def test_only_what_is_needed() -> None:
    outer = called(BODY)
    derived = transforms.jvp(outer, [False, True])
    assert derived.nonzero_out == (True, True, False)
    assert len(inner(derived.jaxpr).invars) == 3
    linear = called(program(lambda x, y: (x * 2.0, y * 3.0), F64, F64))
    backward = transforms.transpose(linear, [True, True], [True, False], force=False)
    assert backward.nonzero_out == (True, False)
    assert len(inner(backward.jaxpr).eqns) == 1


def test_effects_are_those_of_the_body() -> None:
    body = stage([F64], lambda ctx, ins: ctx.bind(PSum("i"), *ins))
    assert Call("f", body).effects == {NamedAxisEffect("i")}
    assert called(called(body)).effects == {NamedAxisEffect("i")}
    assert not Call("f", BODY).effects


def test_calls_of_several_results_some_unused() -> None:
    @tj.jit
    def f(x: tj.Array) -> tuple[tj.Array, tj.Array, tj.Array]:
        return x * 2.0, tnp.sin(x), tnp.zeros(2)

    def g(x: tj.Array) -> tj.Array:
        return f(x)[0] * f(x)[1]

    x = tnp.asarray(0.5)
    np.testing.assert_allclose(tj.grad(g)(x), 2 * np.sin(0.5) + np.cos(0.5))
    np.testing.assert_allclose(tj.grad(tj.grad(g))(x), 4 * np.cos(0.5) - np.sin(0.5))
