"""Layers that are calls or checkpoints of programs which differ in numbers alone are equal blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.test_layered import close
from tests.transforms.test_penalties import X, lines, weights
from tinyjax.control.call import Call
from tinyjax.control.checkpoint import Checkpoint
from tinyjax.ir.verify import verify
from tinyjax.transforms.numbers_apart import numbers_apart


def layer(p: Any, x: Any, rate: float, shift: int) -> Any:
    """It has too many equations to be spelled out where it is called."""
    y = tnp.roll(x, 1, 0) * rate + tnp.where(x > 0.1 * shift, x, rate)
    y = tnp.sin(y * p["scale"]) @ p["kernel"] + p["bias"] * rate
    return x + tnp.tanh(y) * tnp.cos(y) / (1.0 + y * y)


WRAPPINGS: Final = [
    tj.checkpoint,
    tj.jit,
    partial(tj.checkpoint, policy=tj.checkpoint_policies.dots_saveable),
    lambda f: tj.checkpoint(tj.jit(f)),
]


def step(wrapping: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def loss(layers: Any, x: Any) -> Any:
        for i in range(len(layers)):
            x = wrapping(partial(layer, rate=0.1 * i + 0.5, shift=i % 5))(layers[f"layer_{i}"], x)
        return tnp.mean(x**2)

    return lambda layers, x: tj.tree.map(lambda w, g: w - 0.1 * g, layers, tj.grad(loss)(layers, x))


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_what_is_compiled_has_one_size(wrapping: Callable[[Any], Any]) -> None:
    assert lines(step(wrapping), 24) == lines(step(wrapping), 48)


@pytest.mark.sweep
@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_are_the_same(wrapping: Callable[[Any], Any], dtype: Any) -> None:
    layers = tj.tree.map(lambda w: w.astype(dtype), weights(12))
    f = step(wrapping)
    one, other = tj.jit(f, reroll=True)(layers, X.astype(dtype)), f(layers, X.astype(dtype))
    if dtype is np.float64:
        close(one, other)
    for a, b in zip(tj.tree.leaves(one), tj.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def apart(f: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """A program, and what becomes of it: checked, and the same values."""
    program = tj.make_jaxpr(f)(*args)
    found = numbers_apart(program.jaxpr)
    verify(found)
    for a, b in zip(tj.core.eval_jaxpr(found, (), *args), tj.tree.leaves(f(*args)), strict=True):
        np.testing.assert_array_equal(a, b)
    return program.jaxpr, found


def test_one_operand_for_what_is_one_number() -> None:
    def f(x: Any) -> Any:
        for c in (2.0, 3.0, 5.0):
            x = tj.checkpoint(lambda x, c=c: tnp.sin(x * c + c) * 7.0)(x)
        return x

    _, found = apart(f, X)
    primitives = [eqn.primitive for eqn in found.eqns]
    assert len(set(primitives)) == 1
    assert isinstance(primitives[0], Checkpoint)
    assert [len(eqn.invars) for eqn in found.eqns] == [2, 2, 2]
    assert "7.0" in str(primitives[0].jaxpr)


def test_numbers_of_other_types_and_other_programs_stay() -> None:
    def f(x: Any) -> Any:
        x = tj.checkpoint(lambda x: x * 2.0)(x)
        x = tj.checkpoint(lambda x: x * np.float64(3.0) + 1.0)(x)
        return tj.checkpoint(lambda x: x + 2.0)(x)

    program, found = apart(f, X)
    assert found is program


@pytest.mark.parametrize("value", [(0.0, -0.0), (1.0, float("nan")), (1.0, float("inf"))])
def test_numbers_are_apart_to_the_bit(value: tuple[float, float]) -> None:
    def f(x: Any) -> Any:
        return [tj.jit(lambda x, c=c: tnp.copysign(x, x * c))(x) for c in value]

    _, found = apart(f, X)
    assert len({eqn.primitive for eqn in found.eqns if isinstance(eqn.primitive, Call)}) == 1


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.bool_])
def test_numbers_of_each_type(dtype: Any) -> None:
    def f(x: Any) -> Any:
        return [tj.jit(lambda x, c=c: tnp.where(x > 0, tnp.asarray(c, dtype), 0))(x) for c in (0, 1)]

    _, found = apart(f, X)
    assert len({eqn.primitive for eqn in found.eqns}) == 1
