"""`transforms.transpose`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests import strategies
from tests.api.families import FUNCTIONS
from tests.golden import Golden
from tests.transforms.checks import F64, VECTOR, assert_close, checked, family_program, in_jax, numbers, program, run
from tinyjax import ShapedArray, transforms
from tinyjax.contexts.staging import StagingContext
from tinyjax.errors import InputError, LinearityError
from tinyjax.ir import Atom, Jaxpr, Var
from tinyjax.ir.dtypes import FLOAT64
from tinyjax.primitives.elementwise import add, sub
from tinyjax.testing import check_laws


def test_golden(golden: Golden) -> None:
    j = program(lambda x, y: (y * x, tnp.sum(y) * 2.0), F64, VECTOR)
    call = program(tj.jit(lambda a, b: (tnp.sin(a) * b, 2.0 * b)), F64, F64)
    texts = [
        str(j),
        "Linear in y:",
        transforms.transpose(j, [False, True]).jaxpr,
        "With a cotangent of the second output only:",
        transforms.transpose(j, [False, True], [False, True]).jaxpr,
        str(call),
        transforms.transpose(call, [False, True]).jaxpr,
        transforms.transpose(call, [False, True], [True, False]).jaxpr,
    ]
    golden("transpose", "\n\n".join(map(str, texts)))


def test_record() -> None:
    j = program(lambda c, x, y: (c * x, x + 2.0 * x), F64, VECTOR, F64)
    backward = transforms.transpose(j, [False, True, True])
    assert backward.nonzero_in == (True, True)
    assert backward.nonzero_out == (True, True)
    checked(backward.jaxpr, [F64, VECTOR, VECTOR], [VECTOR, F64])
    symbolic = transforms.transpose(j, [False, True, True], force=False)
    assert symbolic.nonzero_out == (True, False)
    checked(symbolic.jaxpr, [F64, VECTOR, VECTOR], [VECTOR])
    part = transforms.transpose(j, [False, True, True], [False, True])
    assert part.nonzero_in == (False, True)
    checked(part.jaxpr, [F64, VECTOR], [VECTOR, F64])
    silent = transforms.transpose(j, [False, True, True], [False, False], force=False)
    assert silent.nonzero_out == (False, False)
    checked(silent.jaxpr, [F64], [])


def test_cotangents_are_as_weak_as_the_inputs() -> None:
    weak = ShapedArray((), float, weak_type=True)
    j = program(lambda x, y: x * tnp.asarray(2.0, float) + y * 3.0, weak, F64)
    assert transforms.transpose(j, [True, True]).jaxpr.out_avals == (weak, F64)


def add_or_subtract(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    """A sum or difference of two variables: linear in both."""
    variables = [atom for atom in atoms if isinstance(atom, Var)]
    x = draw(st.sampled_from(variables))
    fitting = [y for y in variables if y.aval.shape in (x.aval.shape, ()) or x.aval.shape == ()]
    return ctx.bind(draw(st.sampled_from([add, sub])), x, draw(st.sampled_from(fitting)))


#: Programs that are linear in all their inputs, but for outputs that are constants.
linear_programs = strategies.programs(
    steps=(strategies.negation, add_or_subtract, strategies.broadcasting, strategies.reduction, strategies.permutation),
    dtypes=st.just(FLOAT64),
    max_eqns=8,
    depth=0,
)


@pytest.mark.sweep
@given(linear_programs)
@settings(max_examples=20, deadline=None)
def test_random_linear_programs(j: Jaxpr) -> None:
    """The transposed program is jax's."""
    assert not check_laws(j, laws=["transpose"]).skipped
    linear = [True] * len(j.invars)
    marks = [isinstance(out, Var) for out in j.outvars]
    kept = [aval for aval, mark in zip(j.out_avals, marks, strict=True) if mark]
    backward = transforms.transpose(j, linear, marks)
    checked(backward.jaxpr, kept, j.in_avals)
    args, cts = numbers(j.in_avals), numbers(kept, 1)

    def only_kept(*args: jax.Array) -> list[jax.Array]:
        return [out for out, mark in zip(in_jax(j)(*args), marks, strict=True) if mark]

    oracle = jax.jit(lambda args, cts: jax.vjp(only_kept, *args)[1](cts))
    expected = oracle(args, cts) if kept else [np.zeros_like(x) for x in args]
    assert_close(run(backward.jaxpr, cts), expected)
    symbolic = transforms.transpose(j, linear, marks, force=False)
    for zero, found in zip(symbolic.nonzero_out, expected, strict=True):
        assert zero or not np.any(found)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 2.0,
        tnp.sum,
        lambda x: tnp.transpose(tnp.outer(x, np.ones(2))),
        lambda x: -x[::-1],
        tj.jit(lambda y: y * 3.0),
    ],
)
def test_twice_gives_the_program_back(f: object) -> None:
    assert callable(f)
    closed = tj.make_jaxpr(f)(VECTOR)
    constants = len(closed.consts)
    j = closed.jaxpr
    linear = [False] * constants + [True]
    once = transforms.transpose(j, linear).jaxpr
    twice = transforms.transpose(once, linear).jaxpr
    if constants == 0:
        assert transforms.dce(twice) == transforms.dce(j)
    args = [*(np.asarray(const) for const in closed.consts), np.arange(3.0)]
    assert_close(run(twice, args), run(j, args))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_families(name: str) -> None:
    """The linear part of a linearization, transposed, gives the gradient."""
    lin = transforms.linearize(family_program(name))
    f, g = FUNCTIONS[name]
    x = np.asarray(0.7)
    backward = transforms.transpose(lin.linear, [False] * len(lin.residuals) + [True])
    made = iter(run(lin.primal, [x])[1:])
    residuals = [next(made) if res.input is None else x for res in lin.residuals]
    expected = jax.jit(jax.grad(g))(jnp.asarray(x))
    assert_close(run(backward.jaxpr, [*residuals, np.asarray(1.0)]), [expected])
    assert_close([tj.grad(f)(tnp.asarray(x))], [expected])


def test_what_is_not_linear() -> None:
    square = program(lambda x: x * x, F64)
    with pytest.raises(LinearityError, match="mul is linear in each of its operands, but not in both"):
        transforms.transpose(square, [True])
    with pytest.raises(LinearityError, match=r"(?s)the program is not linear: sin is not linear.* = sin a"):
        transforms.transpose(program(tnp.sin, F64), [True])
    nested = program(tj.jit(lambda y: y * y), F64)
    with pytest.raises(LinearityError, match=r"(?s)but not in both.*comes from .*test_transpose.py:\d+"):
        transforms.transpose(nested, [True])


def test_marks_must_fit() -> None:
    j = program(lambda x, y: x * y, F64, F64)
    with pytest.raises(InputError, match="transpose: linear has 1 entries, but the program has 2 inputs"):
        transforms.transpose(j, [True])
    with pytest.raises(InputError, match="transpose: nonzero has 2 entries, but the program has 1 outputs"):
        transforms.transpose(j, [False, True], [True, True])
