"""`transforms.batch`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
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
    checked,
    family_program,
    float_programs,
    in_jax,
    numbers,
    program,
    run,
)
from tinyjax import ShapedArray, lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.errors import InputError
from tinyjax.ir import BatchAxis, Jaxpr
from tinyjax.primitives.collectives import PSum
from tinyjax.transforms.batch import add_axis


def test_golden(golden: Golden) -> None:
    j = program(lambda x, y: (tnp.sin(x) * y, y, tnp.sum(x)), VECTOR, F64)
    call = program(lambda x, y: tj.jit(lambda z: tnp.exp(z) * 2.0)(x) + y, F64, F64)
    axis = BatchAxis(4)
    texts = [
        str(j),
        "Along the last axis of x:",
        transforms.batch(j, axis, [1, None]).jaxpr,
        "Both, with the results' axes last:",
        transforms.batch(j, axis, [0, 0], [1, 0, 0]).jaxpr,
        str(call),
        transforms.batch(call, axis, [0, None]).jaxpr,
        "A collective:",
        transforms.batch(_collective(), BatchAxis(4, "i"), [0]).jaxpr,
    ]
    golden("batch", "\n\n".join(map(str, texts)))


def _collective() -> Jaxpr:
    return stage([F64], lambda ctx, ins: [ctx.bind(PSum("i"), *ins)[0], *ins])


def test_record() -> None:
    j = program(lambda x, y: (x * 2.0, y, 3.0, x + tnp.sum(y)), VECTOR, F64)
    batched = transforms.batch(j, BatchAxis(2), [1, None])
    assert batched.in_axes == (1, None)
    assert batched.out_axes == (1, None, None, 1)
    checked(
        batched.jaxpr,
        [ShapedArray((3, 2), float), F64],
        [ShapedArray((3, 2), float), F64, F64, ShapedArray((3, 2), float)],
    )
    placed = transforms.batch(j, BatchAxis(2), [0, None], [1, 0, 0, None])
    assert placed.out_axes == (1, 0, 0, 0)
    assert [str(aval) for aval in placed.jaxpr.out_avals] == ["f64[3,2]", "f64[2]", "~f64[2]", "f64[2,3]"]
    nothing = transforms.batch(j, BatchAxis(2), [None, None])
    assert nothing.out_axes == (None,) * 4
    assert nothing.jaxpr == j


@pytest.mark.parametrize("name", FUNCTIONS)
def test_families(name: str) -> None:
    j = family_program(name)
    f, g = FUNCTIONS[name]
    xs = np.arange(1.0, 5.0) / 3
    batch = ShapedArray((4,), float)
    once = checked(transforms.batch(j, BatchAxis(4), [0], [0]).jaxpr, [batch], [batch])
    expected = jax.jit(jax.vmap(g))(jnp.asarray(xs))
    assert_close(run(once, [xs]), [expected])
    assert_close([tj.vmap(f)(tnp.asarray(xs))], [expected])
    twice = transforms.batch(once, BatchAxis(2), [1], [1]).jaxpr
    square = np.stack([xs, xs * 2], 1)
    assert_close(run(twice, [square]), [jax.jit(jax.vmap(jax.vmap(g), 1, 1))(jnp.asarray(square))])


@given(float_programs, st.data())
@settings(max_examples=20, deadline=None)
def test_random_programs(j: Jaxpr, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 3))
    in_axes = [data.draw(st.one_of(st.none(), st.integers(0, aval.ndim))) for aval in j.in_avals]
    out_axes = [data.draw(st.integers(0, aval.ndim)) for aval in j.out_avals]
    avals = [add_axis(aval, at, size) for aval, at in zip(j.in_avals, in_axes, strict=True)]
    batched = transforms.batch(j, BatchAxis(size), in_axes, out_axes)
    outs = [add_axis(aval, at, size) for aval, at in zip(j.out_avals, out_axes, strict=True)]
    checked(batched.jaxpr, avals, outs)
    assert batched.out_axes == tuple(out_axes)
    free = transforms.batch(j, BatchAxis(size), in_axes)
    checked(free.jaxpr, avals, [add_axis(aval, at, size) for aval, at in zip(j.out_avals, free.out_axes, strict=True)])
    if size and any(axis is not None for axis in in_axes):
        args = numbers(avals)
        expected = jax.jit(jax.vmap(in_jax(j), tuple(in_axes), list(out_axes)))(*args) if j.outvars else []
        assert_close(run(batched.jaxpr, args), expected)


@given(any_programs)
@settings(max_examples=20, deadline=None)
def test_random_programs_of_all_dtypes_stay_valid(j: Jaxpr) -> None:
    batched = transforms.batch(j, BatchAxis(2), [0] * len(j.invars), [0] * len(j.outvars))
    checked(batched.jaxpr, [add_axis(a, 0, 2) for a in j.in_avals], [add_axis(a, 0, 2) for a in j.out_avals])
    assert transforms.batch(j, BatchAxis(2), [0] * len(j.invars), [0] * len(j.outvars)) == batched


def test_named_axes() -> None:
    """A collective is resolved by the axis of its name, also inside calls, and left alone by others."""
    j = _collective()
    nested = program(lambda x: x, F64)
    assert not nested.effects
    other = transforms.batch(j, BatchAxis(4, "j"), [0])
    assert other.jaxpr.effects == j.effects
    assert other.out_axes == (0, 0)
    same = transforms.batch(other.jaxpr, BatchAxis(5, "i"), [0])
    assert not same.jaxpr.effects
    assert same.out_axes == (None, 0)
    args = numbers(same.jaxpr.in_avals)
    assert_close(run(same.jaxpr, args), [args[0].sum(0), args[0]])
    unmapped = transforms.batch(j, BatchAxis(4, "i"), [None])
    assert_close(run(unmapped.jaxpr, [np.float64(2.0)]), [8.0, 2.0])


def test_named_axes_in_calls() -> None:
    from tinyjax.control.call import Call

    j = stage([F64], lambda ctx, ins: ctx.bind(Call("f", _collective()), *ins))
    assert j.effects
    batched = transforms.batch(j, BatchAxis(3, "i"), [0])
    assert not batched.jaxpr.effects
    assert_close(run(batched.jaxpr, [np.arange(3.0)]), [3.0, np.arange(3.0)])
    found = tj.vmap(tj.jit(lambda y: lax.psum(y, "i")), axis_name="i")(tnp.arange(3.0))
    assert_close([found], [np.full(3, 3.0)])


def test_axes_must_fit() -> None:
    j = program(lambda x, y: x * y, VECTOR, F64)
    axis = BatchAxis(2)
    with pytest.raises(InputError, match="batch: in_axes has 1 entries, but the program has 2 inputs"):
        transforms.batch(j, axis, [0])
    with pytest.raises(InputError, match="batch: out_axes has 2 entries, but the program has 1 outputs"):
        transforms.batch(j, axis, [0, 0], [0, 0])
    for wrong in (2, -1):
        with pytest.raises(
            InputError, match=rf"batch: in_axes\[0\] is {wrong}, but f64\[3\] can have one more axis at"
        ):
            transforms.batch(j, axis, [wrong, 0])
    with pytest.raises(InputError, match=r"batch: out_axes\[0\] is 2, but f64\[3\] can have"):
        transforms.batch(j, axis, [0, 0], [2])
