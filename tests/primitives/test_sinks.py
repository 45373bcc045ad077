"""`dce_sink`: what a value is computed by stays, and nothing else changes; against JAX's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import ir, lax, transforms
from tinyjax.interop.jax import from_jax, of_jax, to_jax
from tinyjax.primitives.sinks import DceSink


def kept(x: Any, keep: bool = False) -> Any:
    lax.dce_sink({"a": x + 1.0, "b": (x * 2.0,)}, prevent_mlir_dce=keep)
    return x * 3.0


def in_control_flow(m: Any, x: Any) -> Any:
    def more(state: Any) -> Any:
        m.dce_sink(state[1])
        return state[0] < 3

    def step(state: Any) -> Any:
        i, x = state
        m.dce_sink(x * 2.0)

        def halved(x: Any) -> Any:
            m.dce_sink(x)
            return x * 0.5

        return i + 1, m.cond(x > 0.0, halved, lambda x: x, x)

    def summed(total: Any, _: Any) -> Any:
        m.dce_sink(total)
        return total * 0.9, total

    return m.scan(summed, m.while_loop(more, step, (0, x))[1], None, length=3)[0]


@pytest.mark.parametrize("keep", [False, True])
def test_transformations(keep: bool) -> None:
    def f(x: Any) -> Any:
        return kept(x, keep)

    x = np.arange(3.0)
    for g in (f, tj.jit(f), tj.vmap(f), tj.jit(tj.vmap(f)), tj.checkpoint(f), tj.jit(tj.checkpoint(f))):
        np.testing.assert_array_equal(g(x), x * 3.0)
        np.testing.assert_array_equal(tj.jvp(g, (x,), (x,))[1], x * 3.0)
        np.testing.assert_array_equal(tj.vjp(g, x)[1](x)[0], x * 3.0)
        ir.typecheck(tj.make_jaxpr(g)(x))
    np.testing.assert_array_equal(tj.linear_transpose(f, x)(x)[0], x * 3.0)
    key = tj.random.key(0)

    def of_key(key: tj.Array) -> tj.Array:
        lax.dce_sink(key, prevent_mlir_dce=keep)
        return key

    assert tj.jit(of_key)(key) == key


def test_passes_leave_it() -> None:
    jaxpr = tj.make_jaxpr(kept)(2.0).jaxpr
    for program in (jaxpr, transforms.dce(jaxpr), transforms.optimize(jaxpr)):
        assert sum(isinstance(eqn.primitive, DceSink) for eqn in program.eqns) == 2
        assert [eqn.primitive.name for eqn in program.eqns].count("mul") == 2
    assert ir.parse(str(jaxpr)) == jaxpr


def test_compiled() -> None:
    """As in JAX's own test."""
    for m, jit in ((jax.lax, jax.jit), (lax, tj.jit)):

        def f(x: Any, keep: bool, m: Any = m) -> Any:
            m.dce_sink(x + 1, prevent_mlir_dce=keep)
            return x

        compiled: Any = jit(f, static_argnums=1)
        texts = [compiled.lower(np.float32(1.0), keep).compile().as_text() for keep in (False, True)]
        assert "add" not in str(texts[0])
        for word in ("custom_call", "dce_sink", "add"):
            assert word in str(texts[1])


@pytest.mark.sweep
def test_in_control_flow() -> None:
    for x in (np.float64(1.0), np.float64(-2.0)):
        expected = jax.jit(lambda x: in_control_flow(jax.lax, x))(x)
        for g in (lambda x: in_control_flow(lax, x), of_jax(lambda x: in_control_flow(jax.lax, x))):
            mapped: Any = tj.vmap(g)
            forms: list[Any] = [g, tj.jit(g), tj.checkpoint(g), lambda x, mapped=mapped: mapped(np.stack([x, -x]))[0]]
            for f in forms:
                np.testing.assert_allclose(f(x), expected)
            np.testing.assert_allclose(tj.jvp(g, (x,), (1.0,))[1], expected / x)


def test_from_and_to_jax() -> None:
    def f(x: Any) -> Any:
        jax.lax.dce_sink(x + 1.0, prevent_mlir_dce=True)
        return x

    program = from_jax(jax.make_jaxpr(f)(2.0))
    assert [eqn.primitive for eqn in program.eqns][1:] == [DceSink(True)]
    again = jax.make_jaxpr(to_jax(program))(2.0)
    assert [str(eqn.primitive) for eqn in again.eqns][-1] == "dce_sink"
    assert from_jax(again).jaxpr == program.jaxpr
