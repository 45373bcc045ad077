"""Constants 0, 1, 2, …, and those that repeat a number, which are given to functions: XLA knows them there."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from benchmarks.library import our_sizes, their_sizes
from tests.compiled import instructions
from tinyjax.interop.jax import of_jax


@pytest.mark.parametrize("k", [np.arange(6, dtype="int32"), np.arange(4.0, dtype="float32") * 0.5], ids=["1", "half"])
def test_densities_at_each_of_them(k: np.ndarray[tuple[int, ...], np.dtype[np.int32 | np.float32]]) -> None:
    at = jnp.asarray(k)

    def density(x: jax.Array) -> jax.Array:
        return jnp.sum(at * jnp.log(x) - x - jax.scipy.special.gammaln(at + 1.0))

    x = jnp.asarray(1.5, "float32")
    ours, theirs = tj.jit(tj.grad(of_jax(density))), jax.jit(jax.grad(density))
    assert instructions(ours.lower(x).compile().as_text()) <= instructions(theirs.lower(x).compile().as_text() or "")
    np.testing.assert_allclose(np.asarray(ours(x)), np.asarray(theirs(x)), rtol=1e-6)


def _called(f: Callable[..., tj.Array]) -> Callable[[tj.Array], tj.Array]:
    ramp, other = tnp.asarray(np.arange(3.0)), tnp.asarray(np.asarray([0.0, 1.0, 3.0]))
    inner = tj.jit(f)
    return lambda x: inner(x, ramp) + inner(x, other) * inner(x, ramp) + inner(ramp, x)


def test_a_function_is_written_for_what_it_is_given() -> None:
    """Once with the constant in it, for both calls, once without, and once for another operand."""

    def scaled(x: tj.Array, y: tj.Array) -> tj.Array:
        return tnp.sin(x) * y + tj.jit(tnp.cos)(y)

    f = _called(scaled)
    text = tj.jit(f).lower(tnp.ones(3)).as_text()
    found = re.findall(r"func.func private @scaled\w*\((.*)\) ->", text)
    assert [arguments.count("tensor") for arguments in found] == [1, 2, 1]
    np.testing.assert_allclose(np.asarray(tj.jit(f)(tnp.full(3, 0.5))), np.asarray(f(tnp.full(3, 0.5))), rtol=1e-12)


def test_beside_keys_and_effects(capsys: pytest.CaptureFixture[str]) -> None:
    ramp = tnp.asarray(np.arange(3))

    @tj.jit
    def shown(key: tj.Array, x: tj.Array) -> tuple[tj.Array, tj.Array]:
        tj.debug.print("{}", x, ordered=True)
        return tj.random.split(key)[1], x + tj.random.randint(key, (), 0, 5)

    key, x = tj.jit(lambda key: shown(key, ramp))(tj.random.key(1))
    tj.effects_barrier()
    expected, y = shown(tj.random.key(1), ramp)
    assert tj.random.key_data(key).tolist() == tj.random.key_data(expected).tolist()
    assert x.tolist() == y.tolist()
    tj.effects_barrier()
    assert set(capsys.readouterr().out.splitlines()) == {"[0 1 2]"}


def test_not_where_there_are_many() -> None:
    ramp = tnp.asarray(np.arange(1025))
    text = tj.jit(lambda x: tj.jit(tnp.add)(x, ramp)).lower(np.arange(1025)).as_text()
    assert "@add(%arg0: tensor<1025xi64>, %arg1: tensor<1025xi64>)" in text


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8"])
@pytest.mark.parametrize("elements", [[0, np.inf, 1], [0, np.nan, 1], [0, 3e4, 6e4, 1], [0, 3e38, 1], range(300)])
def test_looking_for_them_warns_of_nothing(elements: Sequence[float], dtype: str) -> None:
    with np.errstate(all="ignore"):
        given = np.asarray(elements, "float64").astype(dtype)
    compiled = tj.jit(lambda x: tj.jit(lambda y, z: y * z)(x, given))
    np.testing.assert_array_equal(np.asarray(compiled(np.ones(given.shape, dtype))), given)


def test_loops_over_a_repeated_number_carry_no_more_than_those_of_jax() -> None:
    half, more = jnp.full(20, 0.5, "float32"), jnp.asarray(np.linspace(0.1, 2.0, 20), "float32")

    def returns(x: jax.Array) -> jax.Array:
        def step(c: jax.Array, row: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
            a, b, x = row
            return a * c + b * x, c

        return jnp.sum(jax.lax.scan(step, x[0], (half, more, x), reverse=True)[1])

    x = np.ones(20, "float32")
    ours, theirs = our_sizes(of_jax(returns), x), their_sizes(returns, x)
    assert ours.instructions <= theirs.instructions
    assert ours.temporary <= theirs.temporary
    np.testing.assert_allclose(np.asarray(tj.jit(of_jax(returns))(x)), np.asarray(returns(jnp.asarray(x))), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint8", "bfloat16", "float32", "complex128"])
@pytest.mark.parametrize("element", [0, 1, -0.0, np.inf, np.nan])
@pytest.mark.parametrize("shape", [(2,), (3, 7), (1, 1)])
def test_repeated_numbers_to_the_bit(shape: tuple[int, ...], element: float, dtype: str) -> None:
    if not np.isfinite(element) and dtype in ("int4", "uint8"):
        pytest.skip("no such integer")
    given = np.full(shape, element).astype(tnp.dtype(dtype))
    compiled = tj.jit(lambda: tj.jit(lambda x: (x, x[::-1]))(tnp.asarray(given)))()
    for found in compiled:
        assert np.asarray(found).tobytes() == given.tobytes()


def test_repeated_numbers_are_written_once() -> None:
    inner = tj.jit(lambda x, y: tnp.sin(x) * y)
    text = tj.jit(lambda x: inner(x, np.full((40, 50), 2.5))).lower(np.ones((40, 50))).as_text()
    assert text.count("dense<2.5> : tensor<40x50xf64>") == 2  # in main, which doesn't pass it on, and in the function
    assert "(%arg0: tensor<40x50xf64>) -> tensor<40x50xf64>" in text
    assert '"0x' not in text
