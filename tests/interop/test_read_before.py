"""What the layers of a model have in common is read once: primitives, numbers, lines, and the programs within it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tinyjax as tj
from tests.test_scale import operations
from tinyjax.control.call import Call
from tinyjax.interop.jax import from_jax, of_jax
from tinyjax.ir import Jaxpr, Literal, ShapedArray
from tinyjax.ir.traverse import subjaxprs

F32 = ShapedArray((3,), "float32")


def layers(count: int, scale: float = 0.5) -> Jaxpr:
    """A program of so many equal layers, with functions in them that JAX traces anew for each."""

    def model(x: jax.Array) -> jax.Array:
        for _ in range(count):
            x = jax.nn.relu(x) * scale + jax.jit(lambda y: jnp.tanh(y) * 2.0)(x)
        return x

    return from_jax(model, F32).jaxpr


def test_equal_equations_apply_one_primitive() -> None:
    jaxpr = layers(6)
    by_value = {eqn.primitive for eqn in jaxpr.eqns}
    assert len({id(eqn.primitive) for eqn in jaxpr.eqns}) == len(by_value)
    holding = [eqn.primitive for eqn in jaxpr.eqns if subjaxprs(eqn.primitive)]
    assert len(holding) == 12
    assert len({id(primitive) for primitive in holding}) == 2


def test_equal_numbers_are_one_literal() -> None:
    literals = [atom for eqn in layers(6).eqns for atom in eqn.invars if isinstance(atom, Literal)]
    assert len(literals) == 6
    assert len({id(literal) for literal in literals}) == 1


def test_numbers_are_told_apart_to_the_bit() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.stack([x * 0.0, x * -0.0, x * jnp.float32(0.0), x * math.nan, x * math.inf, x * 1.0])

    found = from_jax(f, ShapedArray((), "float32")).jaxpr
    literals = [atom for eqn in found.eqns for atom in eqn.invars if isinstance(atom, Literal)]
    assert [str(literal.value) for literal in literals] == ["0.0", "-0.0", "0.0", "nan", "inf", "1.0"]


def test_keys_are_no_integers() -> None:
    """Typed keys of somebody's own are arrays of integers here, and what is done to them is something else."""
    impl = jax.random.key(0, impl="unsafe_rbg")

    def f(key: jax.Array, bits: jax.Array) -> tuple[jax.Array, jax.Array]:
        return bits.reshape(1, 4), jax.random.key_data(key.reshape(1))

    data = np.asarray(jax.random.key_data(impl))
    expected = f(impl, jnp.asarray(data))
    for ours, theirs in zip(of_jax(f)(impl, data), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_equal_programs_from_other_lines_keep_their_lines() -> None:
    def f(x: jax.Array) -> jax.Array:
        first = jax.jit(lambda y: jnp.tanh(y) * 2.0)
        second = jax.jit(lambda y: jnp.tanh(y) * 2.0)
        found: jax.Array = second(first(x))
        return found

    found = [program for eqn in from_jax(f, F32).jaxpr.eqns for program in subjaxprs(eqn.primitive)]
    assert found[0] == found[1]
    lines = [{eqn.source.line for eqn in program.eqns if eqn.source is not None} for program in found]
    assert [len(each) for each in lines] == [1, 1]
    assert max(lines[1]) == max(lines[0]) + 1


def cost_of_more(layer: Callable[[jax.Array], jax.Array]) -> float:
    """Lines of Python for each further layer."""

    def model(count: int) -> jax.extend.core.ClosedJaxpr:
        def f(x: jax.Array) -> jax.Array:
            for _ in range(count):
                x = layer(x)
            return x

        return jax.make_jaxpr(f)(jnp.ones(3, jnp.float32))

    small, large = model(10), model(210)
    from_jax(small)
    return (operations(lambda: from_jax(large)) - operations(lambda: from_jax(small))) / 200


def test_more_layers_cost_little() -> None:
    assert cost_of_more(lambda x: jnp.tanh(x) * 0.5 + x.reshape(3)[::-1]) < 4 * 75


def test_more_calls_cost_little() -> None:
    """JAX has traced such a function once, and each equation holds its program."""

    @jax.jit
    def called(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) * 2.0 + jnp.sin(x)

    assert cost_of_more(called) < 200


def test_more_calls_with_rules_cost_little() -> None:
    """The programs are traced anew for each, and so are the rules."""
    assert cost_of_more(jax.nn.relu) < 1700


def test_a_called_function_is_another_one_within_a_rule() -> None:
    """One program of JAX's, which applies a function: also within the rule of that function."""

    @jax.custom_vjp
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    @jax.jit
    def twice(x: jax.Array) -> Any:  # what JAX's decorators return has no type
        return f(f(x)) * x

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * jnp.cos(x) + 0.125 * ct * twice(x),))

    def model(x: jax.Array) -> Any:
        return (f(x) + twice(x)).sum()

    x = np.asarray([0.5, -1.0, 2.0], np.float32)
    ours: Callable[[Any], Any] = of_jax(model)
    theirs: Callable[[Any], Any] = model
    for _ in range(3):
        np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-5)
        ours, theirs = sum_of(tj.grad(ours)), sum_of(jax.grad(theirs))


def sum_of(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(x).sum()


def test_calls_differ_in_what_they_say() -> None:
    """The same program, called by other names."""

    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * 2.0

    closed = jax.make_jaxpr(lambda x: jax.jit(f)(jax.jit(f)(jax.jit(f)(x))))(jnp.ones(3, jnp.float32))
    eqns = list(closed.jaxpr.eqns)
    eqns[1] = eqns[1].replace(params={**eqns[1].params, "name": "another"})
    changed = closed.replace(jaxpr=closed.jaxpr.replace(eqns=eqns))
    named = [eqn.primitive.function_name for eqn in from_jax(changed).jaxpr.eqns if isinstance(eqn.primitive, Call)]
    assert named == ["f", "another", "f"]
