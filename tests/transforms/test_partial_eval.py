"""`transforms.partial_eval` and `transforms.linearize`."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS
from tests.golden import Golden
from tests.transforms.checks import (
    F64,
    VECTOR,
    any_programs,
    assert_close,
    family_program,
    float_programs,
    program,
)
from tinyjax import ShapedArray, lax, transforms
from tinyjax.errors import InputError
from tinyjax.ir import Jaxpr
from tinyjax.testing import check_laws


def test_golden(golden: Golden) -> None:
    j = program(lambda x, y: (tnp.sin(x) * y, x + 1.0, y * y, tnp.cos(x) * tnp.exp(x) + x * y), F64, F64)
    call = program(tj.jit(lambda a, b: (tnp.sin(a) * b, a * 2.0)), F64, F64)
    texts: list[object] = [j]
    cases = [("y unknown", j, (False, True)), ("x unknown", j, (True, False)), ("call", call, (False, True))]
    for title, case, marks in cases:
        parts = transforms.partial_eval(case, marks)
        texts += [f"{title}:", "known", parts.known, "staged", parts.staged]
    lin = transforms.linearize(program(lambda x, y: (tnp.sin(x) * y, 3.0, y), VECTOR, F64))
    texts += ["linearize:", "primal", lin.primal, "linear", lin.linear]
    golden("partial_eval", "\n\n".join(map(str, texts)))


def test_record() -> None:
    j = program(lambda x, y, z: (tnp.sin(x) * y, x * 2.0, y + z, 3.0), VECTOR, F64, F64)
    parts = transforms.partial_eval(j, [False, True, False])
    assert parts.unknown_in == (False, True, False)
    assert parts.unknown_out == (True, False, True, False)
    assert [(res.input, str(res.aval)) for res in parts.residuals] == [(None, "f64[3]"), (2, "f64[]")]
    everything = transforms.partial_eval(j, [True] * 3, force_unknown=[True] * 4)
    assert (everything.staged, everything.residuals) == (j, ())
    assert transforms.partial_eval(j, [True] * 3).unknown_out == (True, True, True, False)
    nothing = transforms.partial_eval(j, [False] * 3)
    assert (nothing.known, nothing.residuals) == (j, ())
    forced = transforms.partial_eval(j, [False] * 3, force_unknown=[False, True, False, True])
    assert forced.unknown_out == (False, True, False, True)
    check_laws(j, laws=["partial_eval"])


def test_each_residual_is_there_once() -> None:
    j = program(lambda x, y: (tnp.sin(x) * y) * (tnp.sin(x) + y) * y * x * x, F64, F64)
    parts = transforms.partial_eval(j, [False, True])
    assert len(parts.residuals) == 3, "two sines and x"


def test_literals_are_no_residuals() -> None:
    parts = transforms.partial_eval(program(lambda x, y: y * 2.0 + 1.0, F64, F64), [False, True])
    assert parts.residuals == ()


def test_arrays_of_one_literal_are_no_residuals() -> None:
    """The zeros that a scan starts its tangents with are made again where they are needed."""

    def f(x: tj.ArrayLike) -> tj.Array:
        def body(c: tuple[tj.Array, tj.Array], a: tj.Array) -> tuple[tuple[tj.Array, tj.Array], tj.Array]:
            h, total = c
            return (tnp.tanh(h * a), total + h), total * 2.0

        (h, total), ys = lax.scan(body, (tnp.asarray(x), tnp.zeros(3)), np.arange(4.0))
        return h + total + ys.sum(0)

    found = transforms.linearize(tj.make_jaxpr(f)(np.ones(3)).jaxpr)
    assert {str(residual.aval) for residual in found.residuals} == {"f64[4]", "f64[4,3]"}
    np.testing.assert_allclose(tj.jacrev(f)(np.ones(3)), tj.jacfwd(f)(np.ones(3)), rtol=1e-6)
    assert not tj.linearize(lambda x: x * tnp.zeros(3), np.ones(3))[1](np.ones(3)).any()


def test_sources_of_equal_programs_from_different_lines() -> None:
    def first(x: tj.Array) -> tj.Array:
        return tnp.sin(tnp.exp(x))

    def second(x: tj.Array) -> tj.Array:
        return tnp.sin(tnp.exp(x))

    lines = []
    for f in (first, second):
        program = tj.make_jaxpr(tj.jit(f))(1.0).jaxpr
        for residual in transforms.linearize(program).residuals:
            assert residual.source is not None
            lines.append(residual.source.line)
    assert lines == [first.__code__.co_firstlineno + 1] * 2 + [second.__code__.co_firstlineno + 1] * 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_linearize_families(name: str) -> None:
    f, g = FUNCTIONS[name]
    x, t = np.asarray(0.7), np.asarray(2.0)
    assert not check_laws(family_program(name), [x], laws=["linearize"]).skipped
    value, push = tj.linearize(f, x)
    assert_close([value, push(t)], jax.jit(lambda x, t: jax.jvp(g, (x,), (t,)))(x, t))


@given(float_programs)
@settings(max_examples=20, deadline=None)
def test_random_programs(j: Jaxpr) -> None:
    assert not check_laws(j, laws=["partial_eval", "linearize"]).skipped


@given(any_programs)
@settings(max_examples=20, deadline=None)
def test_random_programs_of_all_dtypes(j: Jaxpr) -> None:
    assert not check_laws(j, laws=["partial_eval", "linearize"]).skipped


@given(any_programs, st.data())
@settings(max_examples=10, deadline=None)
def test_what_is_forced_is_for_later(j: Jaxpr, data: st.DataObject) -> None:
    unknown = [data.draw(st.booleans()) for _ in j.invars]
    force = [data.draw(st.booleans()) for _ in j.outvars]
    found = transforms.partial_eval(j, unknown, force_unknown=force)
    free = transforms.partial_eval(j, unknown)
    assert found.unknown_out == tuple(map(any, zip(free.unknown_out, force, strict=True)))
    assert transforms.partial_eval(j, unknown, force_unknown=force) == found


def test_marks_must_fit() -> None:
    j = program(lambda x, y: x * y, F64, F64)
    with pytest.raises(InputError, match="partial_eval: unknown has 1 entries, but the program has 2 inputs"):
        transforms.partial_eval(j, [True])
    with pytest.raises(InputError, match="partial_eval: force_unknown has 2 entries, but the program has 1 outputs"):
        transforms.partial_eval(j, [True, True], force_unknown=[True, True])
    with pytest.raises(InputError, match="linearize: nonzero has 1 entries"):
        transforms.linearize(j, [True])
    with pytest.raises(InputError, match=r"linearize: nonzero marks input 0 .*, i64"):
        transforms.linearize(program(lambda n: n, ShapedArray((), int)), [True])
