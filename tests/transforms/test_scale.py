"""Costs are linear in the size of the program, and nothing recurses along it. Counted, not timed."""

from __future__ import annotations

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import F64, count_eqns, program, run
from tinyjax import Array, ir, transforms
from tinyjax.contexts.staging import stage
from tinyjax.control.call import Call
from tinyjax.ir import Atom, BatchAxis, Context, Jaxpr
from tinyjax.primitives.elementwise import mul
from tinyjax.primitives.trigonometric import cos, sin


def chain(n: int) -> Jaxpr:
    """n equations, each of which reads the one before."""

    def body(ctx: Context[Atom], x: Atom) -> Atom:
        for _ in range(n):
            (x,) = ctx.bind(sin, x)
        return x

    return stage([F64], lambda ctx, ins: [body(ctx, *ins)])


def nested(depth: int, seed: float) -> Jaxpr:
    """Calls within calls, unlike those of any other seed."""

    def leaf(ctx: Context[Atom], x: Atom) -> tuple[Atom, ...]:
        return ctx.bind(mul, x, ctx.constant(ir.Literal.of(seed)))

    jaxpr = stage([F64], lambda ctx, ins: leaf(ctx, *ins))
    for _ in range(depth):
        jaxpr = _cosine_of_call(jaxpr)
    return jaxpr


def _cosine_of_call(inner: Jaxpr) -> Jaxpr:
    return stage([F64], lambda ctx, ins: ctx.bind(cos, *ctx.bind(Call("f", inner), *ins)))


def all_sizes(j: Jaxpr) -> dict[str, int]:
    """The number of equations of the program and of its transformations."""
    lin = transforms.linearize(j)
    backward = transforms.transpose(lin.linear, [False] * len(lin.residuals) + [True])
    return {
        "program": count_eqns(j),
        "jvp": count_eqns(transforms.jvp(j).jaxpr),
        "batch": count_eqns(transforms.batch(j, BatchAxis(3), [0]).jaxpr),
        "primal": count_eqns(lin.primal),
        "linear": count_eqns(lin.linear),
        "transpose": count_eqns(backward.jaxpr),
        "residuals": len(lin.residuals),
        "dce": count_eqns(transforms.dce(transforms.jvp(j).jaxpr)),
    }


def test_sizes_grow_with_the_program() -> None:
    small, large = all_sizes(chain(500)), all_sizes(chain(2000))
    assert small == {
        "program": 500,
        "jvp": 1500,
        "batch": 500,
        "primal": 1000,
        "linear": 500,
        "transpose": 500,
        "residuals": 500,
        "dce": 1500,
    }
    assert large == {name: 4 * size for name, size in small.items()}


def test_second_derivatives_grow_with_the_program() -> None:
    def size(n: int) -> int:
        first = transforms.jvp(chain(n)).jaxpr
        return count_eqns(transforms.jvp(first).jaxpr)

    assert size(400) == 4 * size(100)


def test_shared_programs_are_transformed_once() -> None:
    """100 calls of one program: its transformation is one program too."""
    inner = tj.jit(lambda x: tnp.sin(x) * 2.0)

    def f(x: Array) -> Array:
        for _ in range(100):
            x = inner(x)
        return x

    j = program(f, F64)
    assert count_eqns(j) == 102
    derived = transforms.jvp(j).jaxpr
    assert len({id(ir.subjaxprs(eqn.primitive)[0]) for eqn in derived.eqns}) == 1
    assert count_eqns(derived) < 110
    assert count_eqns(transforms.batch(j, BatchAxis(3), [0]).jaxpr) == 102


LONG = 4_000


def test_long_chains() -> None:
    j = chain(LONG)
    assert ir.typecheck(j).out_types == (F64,)
    assert hash(j) == hash(chain(LONG))
    assert j == chain(LONG)
    assert str(j).count(" = sin ") == LONG
    sizes = all_sizes(j)
    assert sizes["transpose"] == LONG
    assert np.isfinite(run(transforms.jvp(j).jaxpr, [np.asarray(0.5), np.asarray(1.0)])[1])


def test_long_chains_on_the_fly() -> None:
    def f(x: Array) -> Array:
        for _ in range(1000):
            x = x * 1.0001
        return x

    expected = 1.0001**1000
    np.testing.assert_allclose(tj.grad(f)(tnp.asarray(1.0)), expected)
    np.testing.assert_allclose(tj.vmap(tj.grad(f))(tnp.ones(2)), [expected] * 2)
    assert len(tj.make_jaxpr(f)(1.0).eqns) == 1000


@pytest.mark.parametrize("depth", [20, 100])
def test_deep_nesting(depth: int) -> None:
    j = nested(depth, depth + 0.5)
    assert ir.typecheck(j).out_types == (F64,)
    assert j == nested(depth, depth + 0.5)
    assert j != nested(depth, depth + 0.25)
    assert len(ir.content_hash(j)) == 64
    sizes = all_sizes(j)
    assert sizes["program"] == 2 * depth + 1
    assert sizes["linear"] == 2 * depth + 1
    assert sizes["transpose"] == 2 * depth + 1


def test_deep_nesting_on_the_fly() -> None:
    j = nested(100, 0.125)

    def f(x: Array) -> Array:
        return tj.eval_jaxpr(j, (), x)[0]

    x = np.float64(0.3)
    assert len(tj.make_jaxpr(tj.grad(f))(x).eqns) > 0
    assert len(tj.make_jaxpr(tj.vmap(tj.grad(tj.grad(f))))(np.ones(2)).eqns) > 0
