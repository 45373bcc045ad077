"""`transforms.jvp`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import pytest
from hypothesis import given, settings

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS
from tests.golden import Golden
from tests.transforms.checks import (
    F64,
    VECTOR,
    any_programs,
    assert_close,
    checked,
    family_program,
    float_programs,
    in_jax,
    numbers,
    program,
    run,
)
from tinyjax import ShapedArray, transforms
from tinyjax.errors import InputError
from tinyjax.ir import Jaxpr
from tinyjax.ir.dtypes import INEXACT


def marked(avals: Sequence[ShapedArray], marks: Sequence[bool]) -> list[ShapedArray]:
    return [aval for aval, mark in zip(avals, marks, strict=True) if mark]


def test_golden(golden: Golden) -> None:
    j = program(lambda x, y: (tnp.sin(x) * y, y, 2.0), VECTOR, F64)
    call = program(lambda x: tj.jit(lambda y: tnp.exp(y) * 2.0)(x) + x, F64)
    texts = [
        str(j),
        transforms.jvp(j).jaxpr,
        "With a tangent of y only:",
        transforms.jvp(j, [False, True]).jaxpr,
        "With all tangents returned:",
        transforms.jvp(j, [False, True], force=[True, True, True]).jaxpr,
        str(call),
        transforms.jvp(call).jaxpr,
    ]
    golden("jvp", "\n\n".join(map(str, texts)))


def test_record() -> None:
    j = program(lambda x, y, n: (x * y, n + 1, y, 3.0), F64, F64, ShapedArray((), "int64"))
    derived = transforms.jvp(j)
    assert derived.nonzero_in == (True, True, False)
    assert derived.nonzero_out == (True, False, True, False)
    checked(derived.jaxpr, [*j.in_avals, F64, F64], [*j.out_avals, F64, F64])
    only_x = transforms.jvp(j, (True, False, False))
    assert only_x.nonzero_out == (True, False, False, False)
    forced = transforms.jvp(j, (True, False, False), force=(True, False, True, True))
    assert forced.nonzero_out == (True, False, True, True)
    checked(forced.jaxpr, [*j.in_avals, F64], [*j.out_avals, F64, F64, F64])
    nothing = transforms.jvp(j, (False,) * 3)
    assert nothing.nonzero_out == (False,) * 4
    assert nothing.jaxpr == j


def test_integers_have_no_tangents_to_return() -> None:
    j = program(lambda n: (n * 2, n > 1), ShapedArray((3,), "int32"))
    forced = transforms.jvp(j, force=[True, True])
    assert forced.nonzero_in == (False,)
    assert forced.nonzero_out == (False, False)
    assert forced.jaxpr == j


@pytest.mark.parametrize("name", FUNCTIONS)
def test_families(name: str) -> None:
    """The transformed program, the derivative on the fly, and jax agree; so do higher derivatives."""
    j = family_program(name)
    f, g = FUNCTIONS[name]
    x, t = np.float64(0.7), np.float64(2.0)
    first = checked(transforms.jvp(j).jaxpr, [F64, F64], [F64, F64])
    oracle = jax.jit(lambda x, t: jax.jvp(g, (x,), (t,)))
    expected = oracle(x, t)
    assert_close(run(first, [x, t]), expected)
    assert_close(tj.jvp(f, (x,), (t,)), expected)
    second = checked(transforms.jvp(first, [True, False]).jaxpr, [F64] * 3, [F64] * 4)
    assert_close(
        run(second, [x, t, t]), jax.tree.leaves(jax.jit(lambda x, t: jax.jvp(lambda x: oracle(x, t), (x,), (t,)))(x, t))
    )


@given(float_programs)
@settings(max_examples=20, deadline=None)
def test_random_programs(j: Jaxpr) -> None:
    derived = transforms.jvp(j)
    checked(
        derived.jaxpr,
        [*j.in_avals, *marked(j.in_avals, derived.nonzero_in)],
        [*j.out_avals, *marked(j.out_avals, derived.nonzero_out)],
    )
    primals, tangents = numbers(j.in_avals), numbers(j.in_avals, 1)
    outs, their_tangents = jax.jit(lambda x, t: jax.jvp(in_jax(j), x, t))(tuple(primals), tuple(tangents))
    found = run(derived.jaxpr, [*primals, *tangents])
    assert_close(found, [*outs, *(t for t, mark in zip(their_tangents, derived.nonzero_out, strict=True) if mark)])
    for tangent, mark in zip(their_tangents, derived.nonzero_out, strict=True):
        assert mark or not np.any(tangent)


@given(any_programs)
@settings(max_examples=20, deadline=None)
def test_random_programs_of_all_dtypes_stay_valid(j: Jaxpr) -> None:
    derived = transforms.jvp(j, force=[True] * len(j.outvars))
    tangents = marked(j.in_avals, derived.nonzero_in)
    assert derived.nonzero_out == tuple(aval.dtype in INEXACT for aval in j.out_avals)
    checked(derived.jaxpr, [*j.in_avals, *tangents], [*j.out_avals, *marked(j.out_avals, derived.nonzero_out)])
    assert transforms.jvp(j, force=[True] * len(j.outvars)) == derived


def test_marks_must_fit() -> None:
    j = program(lambda x, n: x * n, F64, ShapedArray((), "int64"))
    with pytest.raises(InputError, match="jvp: nonzero has 1 entries, but the program has 2 inputs"):
        transforms.jvp(j, [True])
    with pytest.raises(InputError, match=r"jvp: nonzero marks input 1 \(n\), i64\[\], which can't have a tangent"):
        transforms.jvp(j, [True, True])
    with pytest.raises(InputError, match="jvp: force has 2 entries, but the program has 1 outputs"):
        transforms.jvp(j, force=[True, True])
