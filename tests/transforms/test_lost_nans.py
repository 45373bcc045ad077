"""Maxima of compiled programs of whose nan the results don't depend: in softmaxes as users write them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tn
from tests.compiled import instructions
from tinyjax.ir import HostArray
from tinyjax.ir.program import Atom, Jaxpr, Var
from tinyjax.primitives.reductions import ReduceMax
from tinyjax.transforms import lost_nans as lost_nans_module
from tinyjax.transforms.lost_nans import lost_nans
from tinyjax.transforms.rebuild import Rebuilding, read

Function: TypeAlias = Callable[[tj.Array], object]
NEEDED: Final = np.tri(64, dtype=bool)


def softmax(x: tj.Array, axis: int = -1) -> tj.Array:
    e = tn.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def unnormalised_attention(x: tj.Array) -> tj.Array:
    """Divided after the product, as attention in blocks does."""
    s = tn.where(NEEDED, x @ x.T, -tn.inf)
    e = tn.exp(s - s.max(-1, keepdims=True))
    return (e @ x) / e.sum(-1, keepdims=True)


def attention(x: tj.Array) -> tj.Array:
    heads = x.reshape(64, 2, 32).transpose(1, 0, 2)
    return softmax(heads @ heads.transpose(0, 2, 1) * 0.3) @ heads


def logsumexp(x: tj.Array) -> tj.Array:
    m = x.max(1)
    m = tn.where(tn.isfinite(m), m, 0)
    return tn.log(tn.exp(x - m[:, None]).sum(1)) + m


def log_softmax(x: tj.Array) -> tj.Array:
    shifted = x - tj.lax.stop_gradient(x.max(0))
    return shifted - tn.log(tn.exp(shifted).sum(0))


def cross_entropy(x: tj.Array) -> tj.Array:
    return -(log_softmax(x) * NEEDED).mean()


def of_powers_of_two(x: tj.Array) -> tj.Array:
    e = tn.exp2((x - x.max()) * 1.5)
    return e / e.sum()


def twice(x: tj.Array) -> tj.Array:
    return softmax(softmax(x) * x, 0)


NOBODY_ASKS: Final[list[Function]] = [
    softmax,
    unnormalised_attention,
    attention,
    logsumexp,
    log_softmax,
    cross_entropy,
    of_powers_of_two,
    twice,
]


def other_rows(x: tj.Array) -> tj.Array:
    """Each row is moved by another row's maximum."""
    e = tn.exp(x - x.max(-1)[None, :])
    return e / e.sum(-1, keepdims=True)


def other_sums(x: tj.Array) -> tj.Array:
    e = tn.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(0, keepdims=True)


def part_of_the_axes(x: tj.Array) -> tj.Array:
    e = tn.exp(x - x.max())
    return e / e.sum(-1, keepdims=True)


def masked_after(x: tj.Array) -> tj.Array:
    """The nan may be what is left out."""
    e = tn.where(NEEDED, tn.exp(x - x.max(-1, keepdims=True)), 0.0)
    return e / e.sum(-1, keepdims=True)


def printed(x: tj.Array) -> tj.Array:
    m = x.max(-1, keepdims=True)
    tj.debug.print("{}", m.sum())
    e = tn.exp(x - m)
    return e / e.sum(-1, keepdims=True)


def with_the_sign_of_a_zero(x: tj.Array) -> tj.Array:
    m = x.max(-1, keepdims=True)
    e = tn.exp(x - m)
    return e / e.sum(-1, keepdims=True) / m


def with_a_chosen_sign(x: tj.Array) -> tj.Array:
    m = x.max(-1, keepdims=True)
    return softmax(x) / tn.where(tn.isfinite(m), m, 1.0)


def of_its_own_row_or_another(x: tj.Array) -> tj.Array:
    m = x.max(-1)
    e = tn.exp(x - tn.where(x > 0, m[None, :], m[:, None]))
    return e / e.sum(-1, keepdims=True)


SOMEBODY_ASKS: Final[list[Function]] = [
    other_rows,
    other_sums,
    part_of_the_axes,
    masked_after,
    printed,
    with_the_sign_of_a_zero,
    with_a_chosen_sign,
    of_its_own_row_or_another,
    lambda x: x.max(-1),
    lambda x: (softmax(x), x.max(-1)),
    lambda x: tn.exp(x - x.max(-1, keepdims=True)),
    lambda x: softmax(x) + x.max(-1, keepdims=True),
]


def derivatives(f: Function) -> list[Function]:
    """A function, and its derivatives forwards, backwards, and forwards of backwards."""

    def total(x: tj.Array) -> tj.Array:
        return sum((tn.sum(tn.sin(y)) for y in tj.tree.leaves(f(x))), tn.asarray(0.0))

    return [
        f,
        lambda x: tj.jvp(f, (x,), (tn.cos(x),)),
        tj.grad(total),
        lambda x: tj.jvp(tj.grad(total), (x,), (tn.cos(x),)),
    ]


def numbers() -> tj.Array:
    """So many that XLA's library takes a maximum; with nan and infinities in some rows."""
    x = np.random.default_rng(0).normal(size=(64, 64)).astype("float32")
    x[3, 5] = x[40, 0] = x[40, 1] = np.nan
    x[7, 2], x[9, 9] = np.inf, -np.inf
    return tn.asarray(x)


def maxima(jaxpr: Jaxpr) -> list[bool]:
    """Of each maximum, whether it may be a number."""
    return [eqn.primitive.nan_mode is not None for eqn in jaxpr.eqns if isinstance(eqn.primitive, ReduceMax)]


@pytest.mark.parametrize("f", NOBODY_ASKS)
def test_maxima_that_may_be_numbers(f: Function) -> None:
    for g in derivatives(f):
        found = maxima(lost_nans(tj.make_jaxpr(g)(numbers()).jaxpr))
        assert found
        assert all(found)


@pytest.mark.parametrize("f", SOMEBODY_ASKS)
def test_maxima_that_are_asked_for(f: Function) -> None:
    found = maxima(lost_nans(tj.make_jaxpr(f)(numbers()).jaxpr))
    assert not all(found)


def test_programs_without_stay_the_same_object() -> None:
    jaxpr = tj.make_jaxpr(tn.sin)(1.0).jaxpr
    assert lost_nans(jaxpr) is jaxpr


def test_within_calls_and_loops() -> None:
    program = tj.make_jaxpr(lambda x: tj.lax.fori_loop(0, 3, lambda i, y: softmax(tj.jit(softmax)(y)), x))(numbers())
    assert str(lost_nans(program.jaxpr)).count("NanMode.EITHER") == 2


WITHIN: Final[list[Function]] = [
    tj.jit(softmax),
    lambda x: tj.lax.scan(lambda y, _: (softmax(y * 3), y), x, None, length=3),
    lambda x: tj.lax.fori_loop(0, 3, lambda _, y: softmax(y * 3), x),
    lambda x: tj.lax.cond(x[0, 0] > 0, softmax, tn.sin, x),
    tj.checkpoint(softmax),
    tj.vmap(lambda row: tj.jit(softmax)(row[None])[0]),
]


@pytest.mark.parametrize("f", WITHIN)
def test_derivatives_of_what_is_within(f: Function) -> None:
    """What it keeps for the way back doesn't say that it'll be nan."""
    for g in derivatives(f):
        text = tj.jit(g).lower(numbers()).as_text()
        assert "stablehlo.maximum" in text
        assert "stablehlo.if" not in text


def test_as_few_instructions_as_of_jax() -> None:
    """Neither a sum that finds a nan, nor a question in the derivative."""

    def theirs(x: jax.Array) -> jax.Array:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return ((e / e.sum(-1, keepdims=True)) @ x).sum()

    x = np.asarray(numbers())
    text = tj.jit(tj.grad(lambda x: (softmax(x) @ x).sum())).lower(x).compile().as_text()
    reference = jax.jit(jax.grad(theirs)).lower(x).compile().as_text()
    assert reference is not None
    assert instructions(text) <= instructions(reference) + 6


@pytest.mark.sweep
@pytest.mark.parametrize("f", [*NOBODY_ASKS, *SOMEBODY_ASKS, *WITHIN])
def test_nan_stays_where_it_was(f: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers()
    ours = [tj.jit(g)(x) for g in derivatives(f)]
    monkeypatch.setattr(lost_nans_module, "lost_nans", lambda jaxpr: jaxpr)
    tj.clear_caches()
    expected = [tj.jit(g)(x) for g in derivatives(f)]
    for a, b in zip(tj.tree.leaves(ours), tj.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 2e-3, 2e-4)


# --- the law, of programs that nobody wrote ---

SIZE: Final = 4
AXES: Final[list[int | tuple[int, ...]]] = [0, 1, -1, (0, 1)]


def with_given_maxima(jaxpr: Jaxpr) -> tuple[Jaxpr, list[tuple[int, ...]]]:
    """The program with further inputs for what those maxima are that may be numbers, and the operands of these as
    further results; and the axes they are taken over."""
    marked = [eqn for eqn in jaxpr.eqns if isinstance(eqn.primitive, ReduceMax) and eqn.primitive.nan_mode is not None]
    first = len(jaxpr.invars)
    inputs = [*jaxpr.invars, *[Var(first + i, eqn.outvars[0].aval) for i, eqn in enumerate(marked)]]
    ctx = Rebuilding(inputs)
    env: list[Atom] = list(jaxpr.invars)
    left = iter(inputs[first:])
    operands: list[Atom] = []
    for eqn in jaxpr.eqns:
        ins = read(env, eqn.invars)
        if isinstance(eqn.primitive, ReduceMax) and eqn.primitive.nan_mode is not None:
            env.append(next(left))
            operands += ins
        else:
            env += ctx.again(eqn, ins)
    return ctx.finish([*read(env, jaxpr.outvars), *operands]), [
        tuple(eqn.primitive.axes) for eqn in marked if isinstance(eqn.primitive, ReduceMax)
    ]


def random_function(rng: random.Random) -> Callable[[tj.Array, tj.Array], list[tj.Array]]:
    """Something like a softmax, and steps that use and misuse what there is in it."""
    steps = [(rng.randrange(20), rng.random(), rng.random(), rng.randrange(3)) for _ in range(rng.randrange(1, 9))]
    start, axis, also = rng.randrange(8), rng.choice(AXES), rng.random()
    summed = axis if rng.random() < 0.8 else 1

    def square(x: tj.Array) -> tj.Array:
        return tn.broadcast_to(x, (SIZE, SIZE))

    def step(which: int, u: tj.Array, v: tj.Array, y: tj.Array, axis: int) -> tj.Array:
        either: Sequence[Callable[[], tj.Array]] = [
            lambda: u + v,
            lambda: u - v,
            lambda: u * v,
            lambda: u / v,
            lambda: tn.exp(u),
            lambda: tn.log(tn.abs(u)),
            lambda: tn.sum(u, AXES[axis + 1], keepdims=True),
            lambda: tn.where(y > 0, u, v),
            lambda: tn.where(u > v, u, v),
            lambda: square(u).T,
            lambda: square(u) @ square(v),
            lambda: tn.maximum(u, v),
            lambda: -u,
            lambda: tn.max(u, -1, keepdims=True),
            lambda: (u > v) * 1.0,
            lambda: square(u).reshape(2, -1).reshape(SIZE, SIZE),
            lambda: tn.sign(u),
            lambda: tj.lax.integer_pow(u, [0, 2, -1][axis]),
            lambda: tn.flip(u, 0),
            lambda: tn.sum(tn.broadcast_to(u, (SIZE, SIZE, SIZE)), axis),
        ]
        return either[which]()

    def f(x: tj.Array, y: tj.Array) -> list[tj.Array]:
        given = x
        if start == 1:
            x = tn.where(y > 0, x, -tn.inf)
        m = tn.max(x, axis, keepdims=True)
        if start == 2:
            m = tj.lax.stop_gradient(m)
        if start == 3:
            m = tn.where(tn.isfinite(m), m, 0)
        shifted = (x - m) * 0.5 if start == 4 else x - m
        e = tn.exp(shifted)
        total = tn.sum(e, summed, keepdims=True)
        there = [given, y, m, shifted, e, total, e / total, tn.log(total) + m]
        new: list[tj.Array] = []
        for which, first, second, axis_of_step in steps:
            pool = there + new * 2
            u, v = (pool[int(at * len(pool))] for at in (first, second))
            new.append(step(which, u, v, y, axis_of_step))
        return [new[-1], e / total] if also < 0.3 else [new[-1]]

    return f


def total_of(outs: Sequence[tj.Array]) -> tj.Array:
    return sum((tn.sum(out) for out in outs), tn.asarray(0.0))


def transformed(f: Callable[[tj.Array, tj.Array], list[tj.Array]], how: int) -> Callable[..., object]:
    if how == 1:
        gradient: Callable[..., object] = tj.grad(lambda x, y: total_of(f(x, y)))
        return gradient
    return f if how == 0 else lambda x, y: tj.jvp(lambda x: f(x, y), (x,), (y,))


def special_numbers(rng: np.random.Generator) -> HostArray:
    x = rng.normal(size=(SIZE, SIZE))
    for value in (np.nan, *rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], 2)):
        x[rng.integers(SIZE), rng.integers(SIZE)] = value
    if rng.random() < 0.6:
        x[rng.integers(SIZE)] = rng.choice([-np.inf, 0.0, -0.0])
    return x


def results(jaxpr: Jaxpr, *args: HostArray) -> list[HostArray]:
    return [np.asarray(out) for out in tj.eval_jaxpr(jaxpr, [], *args)]


def check(seed: int) -> bool:
    """Whether a program has maxima that may be numbers; if so, whatever they are where there is a nan, or what sign
    they have where they are zero, its results are the same."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    f = transformed(random_function(rng), rng.randrange(3))
    x, y = special_numbers(numbers), numbers.normal(size=(SIZE, SIZE))
    program = tj.make_jaxpr(f)(x, y)
    args = [*map(np.asarray, program.consts), x, y]
    expected = results(program.jaxpr, *args)
    given, axes = with_given_maxima(lost_nans(program.jaxpr))
    count = len(expected)
    for way in range(3 if axes else 0):
        guesses = [np.zeros(var.aval.shape) for var in given.invars[len(args) :]]
        for i in range(len(guesses)):  # in turn, as one may follow from another
            operand = results(given, *args, *guesses)[count + i]
            right = np.asarray(np.max(operand, axis=axes[i]))
            others = [np.max(np.where(np.isnan(operand), -np.inf, operand), axis=axes[i]),
                      numbers.normal(size=right.shape), right]  # fmt: skip
            zero = np.where(right == 0, -right, right)
            guesses[i] = np.asarray(zero if way == 2 else np.where(np.isnan(right), others[way], right))
        for a, b in zip(results(given, *args, *guesses)[:count], expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-12)
            signs = np.signbit(a) == np.signbit(b)
            assert way < 2 or signs[~np.isnan(a)].all()
    return bool(axes)


@given(st.integers(0, 2**32))
def test_results_are_the_same_whatever_a_maximum_is(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(seed)


@pytest.mark.sweep
def test_of_many_programs_many_have_such_maxima() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert 300 < sum(map(check, range(1000))) < 700
