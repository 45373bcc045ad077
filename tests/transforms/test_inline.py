"""`transforms.inline`."""

from __future__ import annotations

import numpy as np

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.transforms.checks import F64, count_eqns, program, run
from tests.transforms.test_dce import names
from tinyjax import Array, ShapedArray, ir, lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.control.call import Call
from tinyjax.ir import Jaxpr
from tinyjax.primitives.elementwise import add


def test_golden(golden: Golden) -> None:
    double = tj.jit(lambda x: x * 2.0)
    f = tj.jit(lambda x, y: (double(x), double(y) + x))

    def g(x: Array, y: Array) -> object:
        a, b = f(x, y)
        return lax.cond(a > b, double, tnp.sin, a), lax.fori_loop(0, 3, lambda i, z: double(z), b)

    j = program(g, F64, F64)
    golden("inline", f"{j}\n\n{transforms.inline(j)}")


def test_which_calls() -> None:
    small = tj.jit(lambda x: x + 1.0)
    large = tj.jit(lambda x: tnp.sin(tnp.cos(x)) * 3.0 + 2.0 - x)
    j = program(lambda x: large(small(small(x))) + large(x), F64)
    assert names(j) == ["call"] * 4 + ["add"]
    picked = transforms.inline(j, lambda eqn: len(ir.subjaxprs(eqn.primitive)[0].eqns) == 1)
    assert names(picked) == ["add", "add", "call", "call", "add"]
    assert names(transforms.inline(j, transforms.once_or_small(j))) == names(picked)
    once = program(large, F64)
    assert "call" not in names(transforms.inline(once, transforms.once_or_small(once)))


def test_small_calls_of_small_calls_do_not_explode() -> None:
    """Each calls the one before twice: inlined, there would be 2 ** 60 equations."""
    j = stage([F64], lambda ctx, ins: ctx.bind(add, *ins, *ins))
    for _ in range(60):
        j = _twice(j)
    some = transforms.inline(j, transforms.once_or_small(j))
    assert ir.typecheck(some) == j.type
    assert count_eqns(some) <= 5 * count_eqns(j)
    assert count_eqns(transforms.optimize(j)) <= 5 * count_eqns(j)


def _twice(inner: Jaxpr) -> Jaxpr:
    call = Call("f", inner)
    return stage([F64], lambda ctx, ins: ctx.bind(call, *ctx.bind(call, *ins)))


def test_weak_operands() -> None:
    """A call may take a weak operand for a strong input; its equations must not notice."""
    weak = ShapedArray((), "float64", weak_type=True)
    inner = program(tnp.sin, F64)
    j = stage([weak], lambda ctx, ins: ctx.bind(Call("f", inner), *ins))
    flat = transforms.inline(j)
    assert ir.typecheck(flat) == j.type
    assert names(flat) == ["convert_element_type", "sin"]


def test_rules_and_policies_are_given_up_only_where_asked() -> None:
    @tj.custom_jvp
    def f(x: Array) -> Array:
        return tnp.sin(x)

    def doubled(x: Array) -> Array:
        return f(x) * 2.0

    f.defjvp(lambda primals, tangents: (f(*primals), 7.0 * tangents[0]))
    j = program(tj.checkpoint(doubled), F64)
    assert transforms.inline(j) is j
    flat = transforms.inline(j, lambda eqn: eqn.primitive.name != "custom_jvp")
    assert names(flat) == ["custom_jvp", "mul"]
    assert names(transforms.inline(j, lambda eqn: True)) == ["sin", "mul"]
    np.testing.assert_array_equal(run(flat, [np.asarray(0.5)]), run(j, [np.asarray(0.5)]))


def test_lines_of_calls() -> None:
    """Equations keep their lines; those without one get that of the call."""
    bare = ir.Jaxpr((ir.Var(0, F64),), (ir.Eqn(add, (ir.Var(0, F64),) * 2, (ir.Var(1, F64),)),), (ir.Var(1, F64),))
    j = stage([F64], lambda ctx, ins: ctx.bind(Call("f", bare), *ins))
    (eqn,) = transforms.inline(j).eqns
    assert eqn.source == j.eqns[0].source is not None
