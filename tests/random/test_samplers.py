"""Samplers: the numbers of jax.random for the same keys, on the host, compiled, and under `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.primitives.test_keys import SEEDS, of
from tinyjax import Array, random
from tinyjax.interop.jax import of_jax
from tinyjax.testing import check_laws

Case = tuple[str, tuple[Any, ...], dict[str, Any]]
#: These have the same bits.
EXACT: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "bits": [((), {}), (((3,), "uint8"), {}), (((3,), "uint32"), {})],
    "randint": [
        (((50,), 0, 10), {}), (((5,), -3, np.int64(2**62)), {}), (((50,), 0, 256, "uint8"), {}),
        (((50,), -128, 128, "int8"), {}), (((3,), 5, 2, "int32"), {}), (((2, 3), np.arange(3), 10, "uint16"), {}),
        (((4,), 0, 2**32, "uint32"), {}), (((4,), -(2**63), 2**63 - 1), {}),
    ],
    "bernoulli": [((0.3, (20,)), {}), ((np.array([0.1, 0.9]),), {}), ((np.float32(1e-3), (20,), "high"), {})],
    "rademacher": [(((9,),), {}), (((9,), "float32"), {})],
    "permutation": [
        ((10,), {}), ((np.arange(12.0).reshape(4, 3),), {}), ((np.arange(12).reshape(4, 3), 1, True), {}),
        ((np.arange(12).reshape(4, 3), -1), {}),
    ],
    "choice": [
        ((10, (4,)), {}), ((10, (4,), False), {}), ((np.arange(12.0).reshape(4, 3), (2, 2)), {"axis": 1}),
        ((5, (3,), True, np.array([0.1, 0.2, 0.3, 0.2, 0.2])), {}),
        ((5, (3,), False, np.array([0.1, 0.2, 0.3, 0.2, 0.2])), {}), ((7,), {}),
    ],
    "categorical": [
        ((np.log([0.1, 0.2, 0.7]),), {"shape": (9,)}), ((np.arange(30.0).reshape(2, 3, 5) / 30,), {"axis": 1}),
        ((np.arange(20.0).reshape(4, 5) / 20,), {"shape": (3, 4), "replace": False}),
    ],
    "poisson": [((3.0, (20,)), {}), ((np.array([0.0, 0.1, 9.9, 10.0, 50.0, 1e4]),), {}), ((20.0, (5,), "int32"), {})],
    "geometric": [((0.3, (9,)), {}), ((np.float32(0.1), (9,), "int32"), {})],
    "binomial": [
        ((10, 0.3, (9,)), {}),
        ((np.array([5.0, 1e2, 1e3, np.nan, -1.0, np.inf]), np.array([0.5, 0.7, 0.01, 0.2, 0.2, 0.2])), {}),
        ((np.float32(200), np.float32(0.4), (5,), "float32"), {}),
    ],
    "multinomial": [((10, np.array([0.2, 0.3, 0.5])), {}), ((1e3, np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])), {})],
}  # fmt: skip
#: Functions of the distribution's own, which may round otherwise.
NEAR: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    **{
        name: [((), {}), (((5,), "float32"), {}), (((50,), "bfloat16"), {}), (((50,), "float16"), {})]
        for name in ("uniform", "normal", "exponential", "gumbel", "laplace", "logistic", "cauchy", "maxwell")
    },
    "truncated_normal": [((-1.0, 2.0, (5,)), {}), ((np.arange(3.0), 4.0, None, "float32"), {})],
    "pareto": [((3.0, (5,)), {}), ((np.ones(3, "float32"),), {"dtype": "float32"})],
    "rayleigh": [((np.arange(1.0, 4.0),), {})],
    "double_sided_maxwell": [((1.0, 2.0, (4,)), {}), ((np.ones(3), 2.0), {})],
    "wald": [((2.0, (5,)), {}), ((np.float32(1), (4,), "float32"), {})],
    "weibull_min": [((2.0, 1.5, (5,)), {}), ((np.ones(3), 2.0, (3,)), {})],
    "triangular": [((0.0, 1.0, 3.0, (6,)), {})],
    "lognormal": [((), {}), ((0.5, (4,), "float32"), {})],
    "gamma": [((3.0, (5,)), {}), ((np.array([0.1, 1.0, 20.0]),), {}), ((0.5, (4,), "float32"), {})],
    "loggamma": [((1e-3, (5,)), {}), ((2.0, (3,), "float32"), {})],
    "beta": [((2.0, 3.0, (4,)), {})],
    "dirichlet": [((np.arange(1.0, 4.0),), {}), ((np.ones((2, 3)), (4, 2)), {})],
    "chisquare": [((4.0, (3,)), {})],
    "f": [((4.0, 6.0, (3,)), {})],
    "t": [((4.0, (3,)), {}), ((np.arange(1.0, 4.0),), {})],
    "generalized_normal": [((3.0, (4,)), {})],
    "ball": [((3,), {}), ((2, 1.0, (4,)), {})],
    "multivariate_normal": [
        ((np.array([1.0, 2.0]), np.array([[1.0, 0.5], [0.5, 2.0]])), {}),
        ((np.array([1.0, 2.0]), np.array([[1.0, 0.5], [0.5, 2.0]]), (3,)), {"method": "eigh"}),
        ((np.ones((3, 2)), np.array([[1.0, 0.5], [0.5, 2.0]])), {"method": "svd"}),
    ],
    "orthogonal": [((3,), {}), ((3, (2,)), {"m": 5}), ((2, (), "complex128"), {})],
}
NEAR["normal"].append((((4,), "complex64"), {}))
NEAR["uniform"].append((((4,), "float32", -2, 3.5), {}))
NEAR["gumbel"] += [(((40,), "float32", "highest"), {}), (((40,), "float64", "high"), {})]


def cases() -> Iterator[Case]:
    for name, found in (EXACT | NEAR).items():
        for args, kwargs in found:
            yield name, args, kwargs


CASES = list(cases())
IDS = [f"{name}-{i}" for i, (name, _, _) in enumerate(CASES)]
#: One of each that compiles nothing slowly.
USUAL = {"uniform", "randint", "bernoulli"}


def compare(name: str, found: object, expected: object) -> None:
    left, right = of(found), of(expected)
    assert (left.shape, left.dtype) == (right.shape, right.dtype)
    if name in EXACT:
        np.testing.assert_array_equal(left, right)
        return
    eps = float(tnp.finfo(right.dtype).eps)
    wide = np.complex128 if right.dtype.kind == "c" else np.float64
    # XLA's own functions of doubles differ by up to 60 eps between processors, before what is done with them.
    rtol, atol = (2**12, 2**8) if eps < 1e-12 else (32, 8)
    np.testing.assert_allclose(left.astype(wide), right.astype(wide), rtol=rtol * eps, atol=atol * eps)


def sampled() -> list[Any]:
    return [
        pytest.param(case, id=name, marks=() if case[0] in USUAL else pytest.mark.sweep)
        for case, name in zip(CASES, IDS, strict=True)
    ]


@pytest.mark.parametrize("case", sampled())
@pytest.mark.sweep
def test_numbers_of_jax(case: Case) -> None:
    name, args, kwargs = case
    for seed in (0, 7):
        expected = getattr(jax.random, name)(jax.random.key(seed), *args, **kwargs)
        compare(name, getattr(random, name)(random.key(seed), *args, **kwargs), expected)
        compare(name, getattr(random, name)(random.PRNGKey(seed), *args, **kwargs), expected)


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_compiled_and_mapped(case: Case) -> None:
    name, args, kwargs = case

    def ours(key: Array) -> Any:
        return getattr(random, name)(key, *args, **kwargs)

    def theirs(key: jax.Array) -> Any:
        return getattr(jax.random, name)(key, *args, **kwargs)

    compare(name, tj.jit(ours)(random.key(3)), theirs(jax.random.key(3)))
    keys = jax.random.split(jax.random.key(3))
    compare(name, tj.vmap(ours)(tnp.asarray(keys)), jax.vmap(theirs)(keys))


@settings(max_examples=3, deadline=None)
@given(SEEDS, st.integers(-100, 100), st.integers(-100, 100), st.sampled_from(["int8", "uint8", "int32", "int64"]))
def test_integers_of_any_seed(seed: int, low: int, high: int, dtype: str) -> None:
    expected = jax.random.randint(jax.random.key(seed), (7,), low, high, dtype)
    compare("randint", random.randint(random.key(seed), (7,), low, high, dtype), expected)


def test_keys() -> None:
    ours, theirs = random.key(5), jax.random.key(5)
    for f in ("split", "clone", "key_data"):
        np.testing.assert_array_equal(of(getattr(random, f)(ours)), of(getattr(jax.random, f)(theirs)))
    np.testing.assert_array_equal(of(random.split(ours, (2, 3))), of(jax.random.split(theirs, (2, 3))))
    np.testing.assert_array_equal(of(random.fold_in(ours, 2**32 - 1)), of(jax.random.fold_in(theirs, 2**32 - 1)))
    raw = random.PRNGKey(5)
    assert raw.dtype == np.uint32
    np.testing.assert_array_equal(random.split(raw), jax.random.split(jax.random.PRNGKey(5)))
    np.testing.assert_array_equal(random.fold_in(raw, 3), jax.random.fold_in(jax.random.PRNGKey(5), 3))
    assert bool(random.wrap_key_data(raw) == ours)
    assert (random.key_impl(ours), random.key_dtype(), random.key(1, impl="threefry2x32").dtype) == (
        "threefry2x32", ours.dtype, ours.dtype
    )  # fmt: skip


NO_NUMBER: Any = 1.5
#: What is given: what is wrong with it.
WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: random.key(1.5), TypeError, "random_seed takes i2, i4, i8"),
    (lambda: random.key(np.arange(2)), ValueError, r"accepts a scalar seed.*vmap\(key\)\(seeds\)"),
    (lambda: random.key(random.key(0)), TypeError, "accepts a scalar seed, but was given a PRNG key"),
    (lambda: random.key(0, impl="mt"), ValueError, "unrecognized PRNG implementation 'mt'"),
    (lambda: random.normal(random.split(random.key(0))), ValueError, "but was given a key array"),
    (lambda: random.normal(3), TypeError, r"takes a key of random numbers, got ~i64\[\].*random.key\(0\)"),
    (lambda: random.uniform(random.key(0), (), "int32"), ValueError, "must be a float dtype, got int32"),
    (lambda: random.normal(random.key(0), (), "int32"), ValueError, "must be a float or complex dtype, got int32"),
    (lambda: random.bits(random.key(0), (), "int32"), ValueError, "must be an unsigned int dtype, got int32"),
    (lambda: random.poisson(random.key(0), 1.0, (), "float32"), ValueError, "must be an int dtype, got float32"),
    (lambda: random.randint(random.key(0), (), 0, 2, "float32"), TypeError, "only accepts integer dtypes, got float32"),
    (lambda: random.bernoulli(random.key(0), 1), TypeError, "must have a floating dtype, got int64"),
    (lambda: random.bernoulli(random.key(0), 0.5, (), "medium"), ValueError, "expected 'high' or 'low'"),
    (lambda: random.gumbel(random.key(0), (), mode="x"), ValueError, "Must provide valid mode for gumbel"),
    (lambda: random.beta(random.key(0), np.ones(2), 1.0, (3,)), ValueError, "broadcast"),
    (lambda: random.beta(random.key(0), np.ones(3), 1.0, ()), ValueError, r"got result \(3,\) for shape argument \(\)"),
    (lambda: random.pareto(random.key(0), np.ones(2), None, "float32"), ValueError, "cannot safely cast argument"),
    (lambda: random.dirichlet(random.key(0), 1.0), ValueError, "alpha.ndim >= 1"),
    (lambda: random.permutation(random.key(0), 1.5), TypeError, "x must be an integer or at least 1-dimensional"),
    (lambda: random.permutation(random.key(0), np.ones(3), 1), IndexError, "axis 1 is out of range"),
    (lambda: random.choice(random.key(0), 3, (4,), False), ValueError, r"larger sample \(size 4\) than population"),
    (lambda: random.choice(random.key(0), 3, (4,), p=np.ones(2)), ValueError, r"p has shape \(2,\)"),
    (lambda: random.choice(random.key(0), 0, (4,)), ValueError, "a must be greater than 0"),
    (lambda: random.categorical(random.key(0), np.ones(3), shape=(4,), replace=False), ValueError, "cannot exceed"),
    (lambda: random.fold_in(random.key(0), np.arange(2)), ValueError, "fold_in accepts a scalar"),
    (lambda: random.multivariate_normal(random.key(0), np.ones(2), np.eye(3)), ValueError, "for n=2, but got"),
    (lambda: random.multivariate_normal(random.key(0), np.ones(2), np.eye(2), method="x"), ValueError, "method must"),
    (lambda: random.ball(random.key(0), NO_NUMBER), TypeError, "ball: d is an integer, got 1.5"),
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(WRONG)))
def test_errors(i: int) -> None:
    f, error, message = WRONG[i]
    with pytest.raises(error, match=message):
        f()


@pytest.mark.sweep
@pytest.mark.parametrize("log_space", [False, True])
def test_gammas_of_jax(log_space: bool) -> None:
    """JAX has a primitive for them."""
    draw = jax.random.loggamma if log_space else jax.random.gamma
    key, a = jax.random.key(3), np.array([0.3, 2.0])
    f = of_jax(draw)
    np.testing.assert_allclose(f(key, a), draw(key, a), rtol=1e-12)
    slope = tj.jit(tj.grad(lambda a: tnp.sum(f(key, a))))(a)
    np.testing.assert_allclose(slope, jax.grad(lambda a: jnp.sum(draw(key, a)))(a), rtol=1e-8)
    keys = jax.random.split(key)
    expected = jax.vmap(draw, (0, None))(keys, a)
    np.testing.assert_allclose(of_jax(jax.vmap(draw, (0, None)))(keys, a), expected, rtol=1e-12)
    np.testing.assert_allclose(tj.vmap(f, (0, None))(tnp.asarray(keys), a), expected, rtol=1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_gammas_by_the_generator_of_xla(impl: str) -> None:
    """It draws the bits of several keys from the first of them, so numbers are drawn one by one."""
    a = np.random.default_rng(0).uniform(0.2, 6.0, (2, 3))

    def drawn(lib: Any) -> list[Any]:
        key, draw = lib.random.key(7, impl=impl), lib.random.gamma
        slopes = lib.vmap(lib.grad(lambda a: lib.numpy.sum(lib.random.loggamma(key, a))))
        return [draw(key, a), lib.vmap(draw, (0, None))(lib.random.split(key, 2), a), slopes(a)]

    for found, expected in zip(drawn(tj), drawn(jax), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


@pytest.mark.sweep
def test_gradients() -> None:
    key, theirs = random.key(2), jax.random.key(2)
    for name, a in (("gamma", 2.5), ("loggamma", 0.3)):
        slope = tj.grad(lambda a, name=name: tnp.sum(getattr(random, name)(key, a, (3,))))(a)
        expected = jax.grad(lambda a, name=name: jnp.sum(getattr(jax.random, name)(theirs, a, (3,))))(a)
        np.testing.assert_allclose(slope, expected, rtol=1e-8)

    def ours(low: Any) -> Any:
        return tnp.sum(random.uniform(key, (3,), minval=low, maxval=4.0) * random.truncated_normal(key, low, 3.0, (3,)))

    def same(low: Any) -> Any:
        both = jax.random.uniform(theirs, (3,), minval=low, maxval=4.0)
        return jnp.sum(both * jax.random.truncated_normal(theirs, low, 3.0, (3,)))

    np.testing.assert_allclose(tj.grad(ours)(-1.0), jax.grad(same)(-1.0), rtol=1e-10)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["gamma", "loggamma", "beta", "dirichlet", "t", "chisquare"])
def test_hessians(name: str) -> None:
    """Of what is made of gamma samples: forward over reverse as in JAX, and reverse over reverse, which it can't."""

    def drawn(lib: Any, a: Any) -> Any:
        parameters = {"beta": (a, a + 1), "dirichlet": (lib.numpy.array([1.0, 2.0]) * a,)}.get(name, (a,))
        return (getattr(lib.random, name)(lib.random.key(0), *parameters) ** 2).sum()

    expected = jax.hessian(lambda a: drawn(jax, a))(1.7)
    for transform in (tj.hessian, lambda f: tj.jit(tj.grad(tj.grad(f)))):
        np.testing.assert_allclose(transform(lambda a: drawn(tj, a))(1.7), expected, rtol=1e-10)


def test_laws() -> None:
    def f(key: Array, mean: Array) -> Array:
        first, second = random.split(key)
        chosen = random.bernoulli(first, 0.3, (3,))
        return tnp.where(chosen, random.normal(second, (3,)) * mean, random.uniform(second, (3,), maxval=mean))

    program = tj.make_jaxpr(f)(random.key(0), tnp.asarray(2.0))
    check_laws(program, [np.asarray(random.key(0)), np.float64(2.0)])
    assert "key<fry>[]" in str(program)
