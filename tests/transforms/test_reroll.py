"""`transforms.reroll`: what repeats itself becomes a loop, which computes the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests import strategies
from tests.golden import Golden
from tests.transforms.checks import F64, assert_close, numbers, program, run
from tests.transforms.pass_programs import REVERSIBLE, repeated, sine
from tests.transforms.test_dce import Emit, Noise, names
from tinyjax import Array, ShapedArray, ir, transforms
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.scan import Scan
from tinyjax.ir import Atom, Jaxpr
from tinyjax.primitives.trigonometric import sin
from tinyjax.testing import check_laws

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
M: Final = ShapedArray((3, 3), "float64")
V: Final = ShapedArray((3,), "float64")


def loops(jaxpr: Jaxpr) -> list[Scan]:
    return [eqn.primitive for eqn in jaxpr.eqns if isinstance(eqn.primitive, Scan)]


def layers(*args: Array) -> Array:
    """A chain of layers with weights of their own, and a bias for all."""
    *weights, bias, x = args
    for w in weights:
        x = tnp.sin(x @ w) * 2.0 + bias
    return tnp.sum(x)


def test_golden(golden: Golden) -> None:
    n = 4
    gradient = tj.grad(layers, argnums=(*range(n), n + 1))
    j = program(gradient, *[M] * n, V, V)
    golden("reroll", f"{j}\n\n{transforms.reroll(j)}")


@pytest.mark.parametrize("n", [2, 3, 7, 40])
def test_a_gradient_becomes_two_loops(n: int) -> None:
    j = program(tj.grad(layers, argnums=tuple(range(n + 2))), *[M] * n, V, V)
    rolled = transforms.reroll(j)
    assert ir.typecheck(rolled) == j.type
    args = numbers(j.in_avals)
    assert_close(run(rolled, args), run(j, args))
    if n > 3:
        forward, backward = loops(rolled)
        assert (forward.length, forward.reverse, backward.reverse) == (n, False, True)
        # What the forward pass stacks is what the backward pass reads: nothing is taken out and stacked again.
        assert names(rolled).count("stack") == 1
        assert "concatenate" not in names(rolled)


def test_rows_of_an_array_are_left_in_it() -> None:
    def f(w: Array, x: Array) -> Array:
        for i in range(6):
            x = tnp.sin(x @ w[i])
        return x

    rolled = transforms.reroll(program(f, ShapedArray((6, 3, 3), "float64"), V))
    assert names(rolled) == ["scan"]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows_along_any_axis(axis: int) -> None:
    """As a loop over time reads and joins them, whichever axis time is."""
    steps = 12

    def f(w: Array, x: Array) -> Array:
        h, found = tnp.zeros((2, 3)), []
        for t in range(steps):
            h = tnp.tanh(x[(slice(None),) * axis + (t,)] + h @ w)
            found.append(h)
        return tnp.stack(found, axis)

    shape = [(steps, 2, 3), (2, steps, 3), (2, 3, steps)][axis]
    for g, count in (f, 1), (tj.grad(lambda w, x: tnp.sum(f(w, x) ** 2), (0, 1)), 2):
        j = program(g, M, ShapedArray(shape, "float64"))
        rolled = transforms.reroll(j)
        assert len(loops(rolled)) >= count
        assert len(rolled.eqns) < 30 * count
        args = numbers(j.in_avals)
        assert_close(run(rolled, args), run(j, args))


def test_keys_that_are_handed_on() -> None:
    def f(key: Array, x: Array) -> Array:
        for _ in range(12):
            key, own = tj.random.split(key)
            x = tnp.sin(x) * tj.random.normal(own, (3,))
        return x

    j = tj.make_jaxpr(f)(tj.random.key(1), np.ones(3)).jaxpr
    rolled = transforms.reroll(j)
    assert loops(rolled)
    expected = f(tj.random.key(1), tnp.ones(3))
    assert_close(tj.eval_jaxpr(rolled, (), tj.random.key(1), np.ones(3)), [expected])
    assert ir.parse(str(rolled)) == rolled


@pytest.mark.parametrize("back", [1, 2, 3])
def test_values_of_earlier_blocks(back: int) -> None:
    def f(*xs: Array) -> Any:
        found = list(xs)
        for _ in range(9):
            found.append(tnp.sin(found[-1]) * found[-back])
        return found[-back:]

    j = program(f, *[F64] * back)
    rolled = transforms.reroll(j)
    assert names(rolled) == ["scan"]
    args = numbers(j.in_avals)
    assert_close(run(rolled, args), run(j, args))


def attention(p: Sequence[Array], x: Array) -> Array:
    """A layer with two places where only `x` is handed on, and the first of which has nothing to hand back to."""
    gain, q, k, v, wide, narrow = p

    def normal(x: Array) -> Array:
        x = x - tnp.mean(x, axis=-1, keepdims=True)
        return x / tnp.sqrt(tnp.mean(x * x, axis=-1, keepdims=True) + 1.0) * gain

    h = normal(x)
    scores = tnp.exp((h @ q) @ (h @ k).T)
    x = x + scores / tnp.sum(scores, axis=-1, keepdims=True) @ (h @ v)
    return x + tnp.tanh(normal(x) @ wide) @ narrow


def test_the_loops_of_a_gradient_have_the_same_blocks() -> None:
    """What the forward pass stacks is what the backward one reads: nothing is put together anew, or spread before."""
    n, depth = 4, 6
    shapes = [(n,), (n, n), (n, n), (n, n), (n, 2 * n), (2 * n, n)]
    avals = [ShapedArray(shape, "float64") for shape in shapes] * depth

    def loss(*args: Array) -> Array:
        *weights, x = args
        for i in range(depth):
            x = attention(weights[i * len(shapes) :][: len(shapes)], x)
        return tnp.sum(x * x)

    j = program(tj.grad(loss, argnums=tuple(range(len(avals)))), *avals, ShapedArray((3, n), "float64"))
    rolled = transforms.reroll(j, at_least=20)
    assert [(loop.length, loop.reverse) for loop in loops(rolled)] == [(depth - 1, False), (depth - 1, True)]
    assert [*map(names(rolled).count, ("stack", "concatenate"))] == [
        len(shapes),
        1,
    ]  # the weights; and gains, for either half of a layer
    args = numbers(j.in_avals)
    assert_close(run(rolled, args), run(j, args))


def test_numbers_that_differ_are_stacked() -> None:
    def f(x: Array) -> Array:
        for i in range(8):
            x = tnp.sin(x) + float(i)
        return x

    rolled = transforms.reroll(program(f, F64))
    assert names(rolled) == ["constant", "scan"]
    (loop,) = loops(rolled)
    assert (loop.length, loop.num_consts, loop.num_carry) == (8, 0, 1)


def test_blocks_within_blocks() -> None:
    def f(x: Array) -> Array:
        for _ in range(5):
            for _ in range(4):
                x = tnp.sin(tnp.cos(x) * 2.0)
            x = tnp.exp(-x)
        return x

    (outer,) = loops(transforms.reroll(program(f, F64)))
    (inner,) = loops(outer.jaxpr)
    assert (outer.length, inner.length) == (5, 4)


def test_what_is_the_same_in_all_blocks_is_computed_once() -> None:
    def f(x: Array, y: Array) -> Array:
        for _ in range(5):
            x = tnp.sin(x) * tnp.exp(tnp.tanh(y))
        return x

    rolled = transforms.reroll(program(f, F64, F64))
    assert names(rolled) == ["tanh", "exp", "scan"]


def test_within_calls_branches_and_loops() -> None:
    def chain(x: Array) -> Array:
        for _ in range(6):
            x = tnp.sin(x) * 2.0
        return x

    def f(x: Array) -> object:
        a = tj.jit(chain)(x)
        b = tj.lax.cond(x > 0.0, chain, lambda x: x, x)
        c, _ = tj.lax.scan(lambda c, _: (chain(c), None), x, None, length=2)
        return a, b, c

    j = program(f, F64)
    rolled = transforms.reroll(j)
    assert [p.eqns[0].primitive.name for p in ir.nested_programs(rolled) if len(p.eqns) == 1].count("scan") >= 1
    args = numbers(j.in_avals)
    assert_close(run(rolled, args), run(j, args))
    assert max(len(p.eqns) for p in ir.nested_programs(rolled)) <= len(j.eqns)


def test_equal_calls_are_one_loop() -> None:
    layer = tj.jit(lambda x: tnp.sin(x) * 2.0)

    def f(x: Array) -> Array:
        for _ in range(6):
            x = layer(x)
        return x

    (loop,) = loops(transforms.reroll(program(f, F64)))
    assert names(loop.jaxpr) == ["call"]


def test_effects_stay_in_order() -> None:
    def grow(ctx: StagingContext, x: Atom) -> list[Atom]:
        for _ in range(6):
            x = sin(ctx, sin(ctx, sin(ctx, x)))
            ctx.bind(Emit(Noise()), x)
        return [x]

    j = stage([F64], lambda ctx, ins: grow(ctx, *ins))
    rolled = transforms.reroll(j)
    assert names(rolled).count("emit") == 6
    assert rolled.effects == j.effects


def test_few_equations_stay_as_they_are() -> None:
    def f(*xs: Array) -> object:
        return [tnp.sin(x) for x in xs]

    j = program(f, *[F64] * 5)
    assert transforms.reroll(j) is j  # stacking takes more than it saves
    k = program(lambda x: tnp.sin(tnp.sin(x)), F64)
    assert transforms.reroll(k, at_least=2) is k


def test_the_report() -> None:
    n = 7
    j = program(tj.grad(layers, argnums=tuple(range(n))), *[M] * n, V, V)
    report = transforms.repeats(j)
    assert report.program.jaxpr == transforms.reroll(j)
    forward, backward = report.found
    assert (forward.count, forward.reverse, backward.count, backward.reverse) == (n, False, n - 1, True)
    assert forward.source is not None
    assert forward.source.function == "layers"
    assert (forward.carried, forward.stacked, forward.shared) == (3 * 8, n * 9 * 8, 3 * 8)
    assert " ".join(str(report).split()).startswith("loop at blocks equations carried stacked results shared")
    assert "<table>" in report._repr_html_()


def _almost(x: Array, change: Callable[[Array, int], Array]) -> Array:
    for i in range(6):
        x = change(tnp.cos(tnp.sin(tnp.exp(tnp.sin(x)))), i)
    return x


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda x, i: tj.lax.integer_pow(x, 2 + i), "y of integer_pow is 2, and then 3"),
        (lambda x, i: tj.lax.convert_element_type(x, ("float32", "float64")[i % 2]), "operand 0 of sin is"),
    ],
)
def test_the_report_says_what_stopped_it(change: Callable[[Array, int], Array], why: str) -> None:
    stopped = transforms.repeats(program(lambda x: _almost(x, change), F64)).stopped
    assert any(each.why.startswith(why) and each.source is not None for each in stopped), stopped


def test_the_report_counts_stacks() -> None:
    def f(*xs: Array) -> object:
        return [tnp.sin(x) for x in xs]

    report = transforms.repeats(program(f, *[F64] * 5))
    assert not report.found
    assert [each.why for each in report.stopped] == ["a loop saves 4 equations, and takes 12 for itself and for stacks"]


@st.composite
def repeating(draw: st.DrawFn) -> Jaxpr:
    """A block applied several times, with carries, shared operands and others in each, after and before something."""
    scalar = st.sampled_from([F64, F64, V])
    carried = draw(st.lists(scalar, min_size=1, max_size=3))
    shared = draw(st.lists(scalar, max_size=2))
    own = draw(st.lists(scalar, max_size=2))
    count = draw(st.integers(2, 6))
    steps = (*strategies.STEPS[:2], sine, repeated)

    def block(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        atoms = list(ins)
        for _ in range(draw(st.integers(1, 6))):
            atoms += draw(st.sampled_from(steps))(draw, ctx, atoms)
        new = [draw(st.sampled_from([a for a in atoms if a.aval == aval])) for aval in carried]
        return [*new, draw(st.sampled_from(atoms))]

    body = stage([*carried, *shared, *own], block)

    def grow(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        n, m = len(carried), len(shared)
        carry, consts = list(ins[:n]), ins[n : n + m]
        outs: list[Atom] = []
        for k in range(count):
            extra = ins[n + m + k * len(own) : n + m + (k + 1) * len(own)]
            *carry, out = ir.interpret(ctx, body, [*carry, *consts, *extra])
            outs.append(out)
            if draw(st.integers(0, 9)) == 0:
                carry[0] = ctx.bind(sin, carry[0])[0]  # a block that isn't like the others
        kept = [out for out in outs if draw(st.booleans())]
        return [*carry, *kept]

    return stage([*carried, *shared, *own * count], grow)


@given(repeating())
@settings(few, max_examples=60)
def test_repeating_programs_stay_the_same(j: Jaxpr) -> None:
    check_laws(j, laws=["reroll"])
    once = transforms.reroll(j)
    check_laws(once, laws=["typecheck", "text", "evaluation"])


@pytest.mark.sweep
@given(repeating())
@settings(few, max_examples=40)
def test_derivatives_and_batches_of_what_became_loops(j: Jaxpr) -> None:
    rolled = transforms.reroll(j)
    args = numbers(j.in_avals)
    for derive in (_jvp, _batch, _gradient):
        assert_close(derive(rolled, args), derive(j, args))


def _as_function(j: Jaxpr) -> Callable[..., list[Array]]:
    return lambda *args: tj.eval_jaxpr(j, (), *args)


def _jvp(j: Jaxpr, args: Sequence[Any]) -> list[Any]:
    return list(tj.jvp(_as_function(j), tuple(args), tuple(args))[1])


def _batch(j: Jaxpr, args: Sequence[Any]) -> list[Any]:
    return list(tj.vmap(_as_function(j))(*[np.stack([arg, 2 * arg]) for arg in args]))


def _gradient(j: Jaxpr, args: Sequence[Any]) -> list[Any]:
    outs, pull = tj.vjp(_as_function(j), *args)
    return list(pull([tnp.ones_like(out) for out in outs]))


def test_what_a_loop_and_a_reader_of_its_rows_read_comes_before_the_loop() -> None:
    def f(q: Array, y: Array) -> Any:
        noise = tnp.eye(2) * tnp.exp(q)
        _, states = tj.lax.scan(lambda state, x: (state @ noise + x, state), tnp.eye(2), y)
        _, smoothed = tj.lax.scan(lambda state, _: (state @ noise, state), states[5], None, length=3)
        z = y[0]
        for _ in range(8):
            z = tnp.sin(z @ y[1])
        return smoothed, z

    q, y = tnp.asarray(-2.0), tnp.asarray(np.linspace(0.0, 1.0, 24).reshape(6, 2, 2))
    for found, expected in zip(tj.jit(f, reroll=True)(q, y), f(q, y), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


def test_rows_that_one_block_writes_and_the_next_one_reads() -> None:
    """Wherever the run may begin: a row may be of an array that its own first block makes."""

    def walk(x: Array, a: Array) -> Array:
        for i in range(6):
            x = x.at[i].set(tnp.where(a > 0, tnp.sin(a) * x[i], tnp.cos(x[i])))
        return x

    x, a = tnp.linspace(0.1, 1.0, 18).reshape(6, 3), tnp.array([1.0, -1.0, 2.0])
    np.testing.assert_allclose(tj.jit(walk, reroll=True)(x, a), walk(x, a), rtol=1e-12)


@given(REVERSIBLE)
@few
def test_any_program_stays_the_same(j: Jaxpr) -> None:
    check_laws(j, laws=["reroll"])
