"""Gradients of programs as users write them: no more temporary bytes and hardly more instructions than of JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import tinyjax as tj
from tests.compiled import instructions
from tinyjax import numpy as tnp
from tinyjax.ir.traverse import programs_of

#: A module of functions of arrays: `jax.numpy`, or ours. Any: the programs are for both.
Numpy: TypeAlias = Any

X = np.random.default_rng(0).uniform(0.2, 0.8, (32, 32)).astype("float32")


def rows(m: Numpy, x: Any) -> Any:
    """Rows and elements that are added to: what isn't updated keeps its derivative, and what is, too."""
    return m.sin(x).at[3].add(x[0]).at[5:9].add(x[:4] * 2).at[1, 2].add(x[0, 0]).at[7].subtract(x[2])


def diffusion(m: Numpy, x: Any) -> Any:
    for _ in range(3):
        around = x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]
        x = x.at[1:-1, 1:-1].add(0.1 * around)
    return x


def transmittance(m: Numpy, x: Any) -> Any:
    left = m.cumprod(1 - x, axis=0)
    return x[1:] * left[:-1]


def greatest(m: Numpy, x: Any) -> Any:
    lax: Any = jax.lax if m is jnp else tj.lax
    return lax.cummax(m.sin(x * 9), axis=0) * lax.cumlogsumexp(x, axis=1)


def slopes(m: Numpy, x: Any) -> Any:
    return m.gradient(x, axis=1) * x


@pytest.mark.parametrize("program", [rows, diffusion, transmittance, greatest, slopes])
def test_gradients_take_no_more_than_jax(program: Callable[[Numpy, Any], Any]) -> None:
    ours = tj.jit(tj.grad(lambda x: (program(tnp, x) ** 2).sum()))
    theirs = jax.jit(jax.grad(lambda x: (program(jnp, x) ** 2).sum()))
    np.testing.assert_allclose(ours(X), np.asarray(theirs(X)), rtol=1e-4, atol=1e-5)
    mine, other = ours.lower(X).compile(), theirs.lower(X).compile()
    memory = other.memory_analysis()
    assert memory is not None
    assert mine.memory_analysis().temp_size_in_bytes <= 1.05 * memory.temp_size_in_bytes + 64
    assert instructions(mine.as_text()) <= 1.1 * instructions(str(other.as_text())) + 2


def names(f: Callable[..., object], *args: object) -> set[str]:
    waiting, found = [tj.make_jaxpr(f)(*args).jaxpr], set[str]()
    while waiting:
        for eqn in waiting.pop().eqns:
            found.add(eqn.primitive.name)
            waiting += programs_of(eqn.primitive)
    return found


def test_products_are_computed_once_with_their_derivative() -> None:
    """But for numbers of half precision, which are multiplied in a wider dtype."""

    def product(x: tj.Array) -> tj.Array:
        return tnp.cumprod(x).sum()

    assert "cumprod" not in names(tj.value_and_grad(product), X[0])
    assert "cumprod" in names(tj.value_and_grad(product), X[0].astype("float16"))


def test_what_is_added_to_is_no_slice_that_is_written_over() -> None:
    """Where the elements are known, and of integers, which have no derivative, it is."""

    def f(x: Any) -> Any:
        return x.at[2, 1:3].add(1)

    assert names(f, X) == {"broadcast_in_dim", "concatenate", "scatter_add"}
    assert "scatter_add" not in names(f, X.astype("int32"))
    expected = X.copy()
    expected[2, 1:3] += 1
    for found in (f(tnp.asarray(X)), tj.jit(f)(X), tj.vmap(f)(X[None])[0], tj.jvp(f, (X,), (X,))[0]):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("wrap", [lambda f: f, tj.jit], ids=["plain", "jit"])
def test_remainders_that_are_zero(wrap: Callable[[Any], Any]) -> None:
    """They have the divisor's sign and the derivatives of those beside them."""
    x = np.array([6.0, -6.0, 6.0, -6.0, 0.0, -0.0, 0.0, -0.0, 1e300, -np.inf, 1.0, -1.0])
    y = np.array([3.0, 3.0, -3.0, -3.0, 2.0, 2.0, -2.0, -2.0, 1e300, 2.0, np.inf, np.inf])
    found = wrap(tnp.mod)(x, y)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.mod(x, y))
        np.testing.assert_array_equal(np.signbit(found[:9]), np.signbit(np.mod(x, y)[:9]))
    ones, zeros = np.ones_like(x), np.zeros_like(x)
    np.testing.assert_array_equal(wrap(lambda x: tj.jvp(lambda x: tnp.mod(x, y), (x,), (ones,))[1])(x), ones)
    slopes = wrap(tj.vmap(tj.grad(lambda y, x: tnp.mod(x, y))))(y, x)
    np.testing.assert_array_equal(slopes[:9], [-2.0, 2.0, 2.0, -2.0, 0, 0, 0, 0, -1.0])
    assert (wrap(lambda y: tj.jvp(lambda y: tnp.mod(x, y), (y,), (zeros,))[1])(y)[:9] == 0).all()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_slopes_of_magnitudes_are_made_of_parts(dtype: str) -> None:
    """No quotient or product of complex numbers, which are many instructions each; and tiny ones have one, too."""
    z = np.array([3 + 4j, -2, 1j, 0, -1 - 1j, 5e-310j if dtype == "complex128" else 1e-44j], dtype)

    def total(z: tj.ArrayLike) -> tj.Array:
        return tnp.abs(z).sum()

    program = tj.make_jaxpr(tj.grad(total))(z).jaxpr
    made = {eqn.primitive.name for eqn in program.eqns for out in eqn.outvars if out.aval.dtype == dtype}
    assert made <= {"complex", "add"}
    expected = np.array([0.6 - 0.8j, -1, -1j, 0, (1j - 1) * np.sqrt(0.5), -1j], dtype)
    np.testing.assert_allclose(tj.grad(total)(z), expected, rtol=1e-6)
    np.testing.assert_allclose(tj.jit(tj.grad(total))(z[:5]), expected[:5], rtol=1e-6)
    t = np.array([1j, 2, 1 - 1j, 1, 2 + 1j, 1j], dtype)
    np.testing.assert_allclose(tj.jvp(tnp.abs, (z,), (t,))[1], (t * expected).real, rtol=1e-6)
