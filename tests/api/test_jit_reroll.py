"""`jit(reroll=True)` and `"auto"`: loops in the place of layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array
from tinyjax.control.scan import Scan
from tinyjax.errors import DeletedBufferError, InputError


def model(weights: Sequence[Any], x: Any) -> Array:
    for w in weights:
        x = tnp.tanh(x @ w) * 2.0 + tnp.sin(x)
    return tnp.sum(x * x)


def weights(n: int) -> list[Any]:
    generator = np.random.default_rng(n)
    return [generator.normal(size=(3, 3)) / 3.0 for _ in range(n)]


X = np.linspace(-1.0, 1.0, 3)


def scans(traced: Any) -> int:
    return sum(eqn.primitive.name == "scan" for eqn in traced.eqns)


@pytest.mark.sweep
def test_values_and_gradients() -> None:
    plain, rolled = tj.jit(tj.grad(model)), tj.jit(tj.grad(model), reroll=True)
    args = weights(40), X
    assert scans(rolled.trace(*args)) == 2
    assert scans(plain.trace(*args)) == 0  # the same function, and another program
    gradient = tj.grad(model)(*args)
    for found in (rolled(*args), tj.grad(tj.jit(model, reroll=True))(*args)):
        for one, other in zip(found, gradient, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_auto_waits_until_it_pays() -> None:
    f = tj.jit(tj.grad(model), reroll="auto")
    assert scans(f.trace(weights(40), X)) == 0
    assert scans(f.trace(weights(400), X)) == 2


def test_few_layers_are_not_worth_a_loop() -> None:
    """Neither before derivatives nor in what they come to."""
    f = tj.jit(tj.value_and_grad(model), reroll=True)
    assert [scans(f.trace(weights(n), X)) for n in (8, 16)] == [0, 2]


def test_auto_counts_all_loops() -> None:
    """The loops of 70 layers save 1000 equations together, and none of them does by itself."""

    def step(ws: Sequence[Any], x: Any) -> list[Any]:
        return [w - 0.1 * g for w, g in zip(ws, tj.grad(model)(ws, x), strict=True)]

    rolled = tj.jit(step, reroll="auto").trace(weights(70), X)
    assert scans(rolled) == 2
    assert max(len(eqn.primitive.jaxpr.eqns) for eqn in rolled.eqns if isinstance(eqn.primitive, Scan)) * 69 < 1000


def test_short_chains_stay_as_they_are() -> None:
    f = tj.jit(lambda x: x * x * x * x * x * x * x, reroll=True)
    assert scans(f.trace(2.0)) == 0


def test_calls_are_found_again() -> None:
    traces = 0

    @tj.jit(reroll=True)
    def f(x: Any) -> Any:
        nonlocal traces
        traces += 1
        for _ in range(200):
            x = tnp.sin(x)
        return x

    assert f(1.0) == f(1.0)
    assert traces == 1
    assert f.explain(1.0).differences == ()
    assert f.lower(1.0).as_text().count("stablehlo.sine") == 1


def test_what_is_no_choice() -> None:
    for wrong in ("always", 1, None):
        with pytest.raises(InputError, match=re.escape(f"jit: reroll is True, False or 'auto', got {wrong!r}")):
            tj.jit(model, reroll=wrong)  # type: ignore[call-overload]


#: So many that a step's update is a loop, too.
DEPTH = 60


def step(ws: Sequence[Any], x: Any) -> list[Any]:
    """Weights after a step of gradient descent."""
    gradient = tj.grad(model)(ws, x)
    return [w - 0.1 * g for w, g in zip(ws, gradient, strict=True)]


def on_device(n: int) -> list[Any]:
    return [tj.device_put(w, tj.devices("cpu")[0]) for w in weights(n)]


def close(found: Any, expected: Any) -> None:
    for one, other in zip(tj.tree.leaves(found), tj.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_steps_pass_stacks_on() -> None:
    """Weights that a step returns are rows of what the next one takes; they are arrays all the same."""
    rolled = tj.jit(step, reroll=True)
    ws, expected = on_device(DEPTH), on_device(DEPTH)
    for k in range(4):
        ws, expected = rolled(ws, X), step(expected, X)
        if k == 2:  # some of them have been looked at, and one is new
            close(ws[3:5], expected[3:5])
            ws[7] = expected[7] = tnp.ones((3, 3))
    close(ws, expected)
    assert ws[5].block_until_ready() is ws[5]
    assert (ws[5].shape, ws[5].dtype, str(ws[5].device)) == (expected[5].shape, expected[5].dtype, str(ws[0].device))
    close(tj.jit(lambda ws: tnp.sum(ws[5] @ ws[6]))(ws), tnp.sum(expected[5] @ expected[6]))
    assert float(tnp.sum(ws[11])) == pytest.approx(float(np.sum(np.asarray(ws[11]))))


def test_what_is_compiled_takes_stacks() -> None:
    """However many layers there are, the module has as many inputs and results; it is what is shown and compiled."""
    ws = on_device(DEPTH)
    lowered = tj.jit(step, reroll=True).lower(ws, X)
    text = lowered.as_text()
    assert f"%arg0: tensor<{DEPTH}x3x3xf64>" in text
    assert "%arg2" not in text[: text.index("\n", text.index("@main"))]
    compiled = lowered.compile()
    close(compiled(ws, X), step(ws, X))
    close(compiled(compiled(ws, X), X), step(step(ws, X), X))
    assert len(tj.tree.leaves(compiled.input_shardings)) == DEPTH + 1
    assert len(tj.tree.leaves(compiled.output_shardings)) == DEPTH
    with pytest.raises(InputError, match="was compiled for"):
        compiled(ws, X[:2])


def test_arguments_of_the_host() -> None:
    close(tj.jit(step, reroll=True)(weights(DEPTH), X), step(weights(DEPTH), X))


def test_what_is_closed_over() -> None:
    ws = on_device(DEPTH)
    rolled = tj.jit(lambda x, more: model([*ws, *more], x), reroll=True)
    for _ in range(2):
        close(rolled(X, on_device(3)), model([*ws, *on_device(3)], X))


def test_donated_rows_are_gone() -> None:
    rolled = tj.jit(step, reroll=True, donate_argnums=0)
    first = on_device(DEPTH)
    second = rolled(first, X)
    third = rolled(second, X)
    close(third, step(step(weights(DEPTH), X), X))
    for ws in (first, second):
        assert ws[3].is_deleted()
        with pytest.raises(DeletedBufferError, match="was used after it had been donated"):
            np.asarray(ws[3])
        with pytest.raises(DeletedBufferError):
            rolled(ws, X)
    assert not third[3].is_deleted()


def test_rows_stay_rows() -> None:
    """A part of the stack that a step takes is left alone; one that has been read by itself gives that memory back."""
    rolled = tj.jit(step, reroll=True)
    ws = rolled(on_device(DEPTH), X)
    rows = [w.row for w in ws]
    _ = tnp.sin(ws[4])
    assert ws[4].buffer is not None
    rolled(ws, X)
    assert ws[4].buffer is None
    assert all(w.row is row for i, (w, row) in enumerate(zip(ws, rows, strict=True)) if i != 4)
    assert tj.block_until_ready(ws) is ws
    close(rolled(ws, X), step(ws, X))


def test_what_waits_for_rows_that_are_gone_says_so() -> None:
    rolled = tj.jit(step, reroll=True, donate_argnums=0)
    ws = rolled(on_device(DEPTH), X)
    rolled(ws, X)
    with pytest.raises(DeletedBufferError, match="was used after it had been donated"):
        tj.block_until_ready({"ws": ws})


def test_donated_stacks_are_written_over() -> None:
    """The loop that makes new weights writes them to the stack of the old ones, so there is one stack, not two."""
    lowered = tj.jit(step, reroll=True, donate_argnums=0).lower(on_device(DEPTH), X)
    assert lowered.donate_argnums == tuple(range(DEPTH))
    compiled = lowered.compile()
    assert compiled.memory_analysis().alias_size_in_bytes >= (DEPTH - 1) * 3 * 3 * 8
    assert "tf.aliasing_output = 0" in lowered.as_text()
    ws, expected = on_device(DEPTH), on_device(DEPTH)
    for _ in range(3):
        before, ws = ws, compiled(ws, X)
        assert all(w.is_deleted() for w in before)
        expected = step(expected, X)
    close(ws, expected)


def test_donated_stacks_that_nothing_is_written_over_are_freed() -> None:
    """The results have another type, so the caller frees the stack once the loops are launched."""

    def halves(ws: Sequence[Any], x: Any) -> list[Any]:
        return [w[:2] - 0.1 * g[:2] for w, g in zip(ws, tj.grad(model)(ws, x), strict=True)]

    rolled = tj.jit(halves, reroll=True, donate_argnums=0)
    compiled = rolled.lower(on_device(DEPTH), X).compile()
    assert compiled.memory_analysis().alias_size_in_bytes == 0
    for f in (rolled, compiled):
        ws = on_device(DEPTH)
        close(f(ws, X), halves(weights(DEPTH), X))
        assert all(w.is_deleted() for w in ws[1:])


@pytest.mark.sweep
def test_donated_states_of_an_optimiser() -> None:
    """Moments and weights of one type: each is written over what it was made of, call after call."""

    def adam(ws: Sequence[Any], ms: Sequence[Any], vs: Sequence[Any], x: Any) -> tuple[list[Any], list[Any], list[Any]]:
        gs = tj.grad(model)(ws, x)
        ms = [0.9 * m + 0.1 * g for m, g in zip(ms, gs, strict=True)]
        vs = [0.99 * v + 0.01 * g * g for v, g in zip(vs, gs, strict=True)]
        ws = [w - 0.1 * m / (tnp.sqrt(v) + 1e-3) for w, m, v in zip(ws, ms, vs, strict=True)]
        return ws, ms, vs

    rolled = tj.jit(adam, reroll=True, donate_argnums=(0, 1, 2))
    nothing = [np.zeros((3, 3)) for _ in range(DEPTH)]
    ws, ms, vs = tj.tree.map(tj.device_put, (weights(DEPTH), nothing, nothing))
    expected = weights(DEPTH), nothing, nothing
    compiled = rolled.lower(ws, ms, vs, X).compile()
    assert compiled.memory_analysis().alias_size_in_bytes >= 3 * (DEPTH - 1) * 3 * 3 * 8
    for _ in range(4):
        ws, ms, vs = rolled(ws, ms, vs, X)
        expected = tj.jit(adam)(*expected, X)
        for one, other in zip((ws, ms, vs), expected, strict=True):
            close(one, other)


def test_donated_arrays_of_the_host() -> None:
    rolled = tj.jit(step, reroll=True, donate_argnums=0)
    ws = weights(DEPTH)
    for _ in range(2):
        close(rolled(ws, X), step(weights(DEPTH), X))


def test_one_row_that_was_deleted() -> None:
    rolled = tj.jit(step, reroll=True)
    ws = rolled(on_device(DEPTH), X)
    ws[3].delete()
    with pytest.raises(DeletedBufferError):
        rolled(ws, X)


def test_scalars_are_rows_too() -> None:
    def f(scales: Sequence[Any], x: Any) -> list[Any]:
        def loss(scales: Sequence[Any]) -> Any:
            y = x
            for s in scales:
                y = tnp.sin(tnp.tanh(y) * s) * 0.5
            return tnp.sum(y)

        return [s - 0.1 * g for s, g in zip(scales, tj.grad(loss)(scales), strict=True)]

    scales = [tj.device_put(np.float64(1.0 - i / 100.0)) for i in range(60)]
    rolled = tj.jit(f, reroll=True)
    found = rolled(rolled(scales, X), X)
    close(found, f(f(scales, X), X))
    assert found[2].shape == ()


def test_a_model_that_is_called_is_stacked_out_here() -> None:
    inner = tj.jit(step)
    ws = on_device(DEPTH)
    rolled = tj.jit(lambda ws, x: [w + 1.0 for w in inner(ws, x)], reroll=True)
    assert f"%arg1: tensor<{DEPTH - 1}x3x3xf64>" in rolled.lower(ws, X).as_text()
    close(rolled(ws, X), [w + 1.0 for w in step(ws, X)])


def masked(weights: Sequence[Any], x: Any, masks: Sequence[Any]) -> Array:
    """Layers that each close over arrays of their own."""
    for w, mask in zip(weights, masks, strict=True):
        x = tnp.tanh(x @ w) * mask + x[np.array([1, 2, 0])]
    return tnp.sum(x * x)


@pytest.mark.sweep
@pytest.mark.parametrize("alike", [True, False])
def test_arrays_that_layers_close_over(alike: bool) -> None:
    """Those of the same elements are one, and a stack of others is spelled out: the program doesn't grow with them."""

    def step(weights: Sequence[Any], x: Any) -> Any:
        masks = [np.cos(np.arange(3.0) * (1 if alike else i)) for i in range(len(weights))]
        return tj.grad(masked)(weights, x, masks)

    rolled = tj.jit(step, reroll=True)
    texts = [rolled.lower(weights(n), X).as_text() for n in (40, 60)]
    assert texts[0].count("\n") == texts[1].count("\n")
    args = weights(40), X
    for found in (rolled(*args), rolled(*args), tj.jit(rolled)(*args)):
        for one, other in zip(found, step(*args), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_arrays_that_are_not_to_be_embedded() -> None:
    """They are passed at each call, and the stack of them is made there."""
    masks = [np.cos(np.arange(3.0) * i) for i in range(60)]

    def f(weights: Sequence[Any], x: Any) -> Array:
        return masked(weights, x, masks)

    rolled = tj.jit(f, reroll=True, embedded_constants_max_bytes=0)
    args = weights(60), X
    assert scans(rolled.trace(*args)) == 1
    assert "dense<[" not in rolled.lower(*args).as_text()
    np.testing.assert_allclose(rolled(*args), f(*args), rtol=1e-9)
