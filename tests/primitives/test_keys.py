"""Keys and the bits that they stand for: jax's, to the bit, wherever they are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import TinyjaxError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.generators import RandomAlgorithm
from tinyjax.primitives.key_generators import WIDTHS
from tinyjax.primitives.keys import (
    RandomBits,
    RandomFoldIn,
    RandomSeed,
    RandomSplit,
    RandomUnwrap,
    RandomWrap,
    key_words,
)
from tinyjax.primitives.threefry import Threefry2x32
from tinyjax.testing import check_laws
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

SEEDS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3), st.sampled_from([2**31, 2**32, -(2**31)]))
SHAPES = st.sampled_from([(), (1,), (3,), (2, 3), (0,), (2, 0, 3), (1, 1)])


def apply(primitive: Primitive, *args: Any) -> Any:
    return bind(primitive, *map(as_array, args))[0]


def of(x: object) -> np.ndarray[Any, Any]:
    """The elements, and of keys the words."""
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(x))
    elements = np.asarray(x)
    return key_words(elements) if elements.dtype.names else elements


def same(found: object, expected: object) -> None:
    left, right = of(found), of(expected)
    assert left.shape == right.shape
    assert left.dtype == right.dtype
    np.testing.assert_array_equal(left, right)


def sampled(names: Iterable[str], *usual: str) -> list[Any]:
    """All names; only a few are tried when not asked for more."""
    return [name if name in usual else pytest.param(name, marks=pytest.mark.sweep) for name in names]


def everywhere(f: Callable[..., Any], *args: Any, expected: object) -> None:
    """On the host, compiled, and one by one under `vmap`."""
    same(f(*args), expected)
    same(tj.jit(f)(*args), expected)
    stacked = [tnp.stack([as_array(arg)] * 2) for arg in args]
    same(tj.vmap(f)(*stacked)[1], expected)


@pytest.mark.sweep
@settings(max_examples=4, deadline=None)
@given(SEEDS, st.sampled_from(sorted(WIDTHS)), SHAPES)
def test_bits_of_keys(seed: int, width: int, shape: tuple[int, ...]) -> None:
    ours, theirs = apply(RandomSeed(), seed), jax.random.key(seed)
    same(ours, theirs)
    same(apply(RandomBits(width, shape), ours), jax.random.bits(theirs, shape, f"uint{width}"))
    same(apply(RandomSplit(shape), ours), jax.random.split(theirs, shape))
    data = np.uint32(seed % 2**32)
    same(apply(RandomFoldIn(), ours, data), jax.random.fold_in(theirs, data))


@pytest.mark.sweep
@pytest.mark.parametrize("width", WIDTHS)
def test_bits_everywhere(width: int) -> None:
    keys = jax.random.split(jax.random.key(7), 3)
    expected = jax.vmap(lambda key: jax.random.bits(key, (2, 5), f"uint{width}"))(keys)
    everywhere(lambda keys: apply(RandomBits(width, (2, 5)), keys), keys, expected=expected)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_seeds_of_every_dtype(dtype: str) -> None:
    seeds = np.array([3, 100, -5]).astype(dtype)
    expected = jax.vmap(jax.random.key)(seeds)
    everywhere(lambda seeds: apply(RandomSeed(), seeds), seeds, expected=expected)


@pytest.mark.sweep
def test_other_primitives_everywhere() -> None:
    keys = jax.random.split(jax.random.key(7), (3, 2))
    data = np.arange(6, dtype=np.uint32).reshape(3, 2)
    fold = jax.vmap(jax.vmap(jax.random.fold_in))
    everywhere(lambda keys, data: apply(RandomFoldIn(), keys, data), keys, data, expected=fold(keys, data))
    split = jax.vmap(jax.vmap(lambda key: jax.random.split(key, (2, 2))))(keys)
    everywhere(lambda keys: apply(RandomSplit((2, 2)), keys), keys, expected=split)
    words = jax.random.key_data(keys)
    everywhere(lambda keys: apply(RandomUnwrap(), keys), keys, expected=words)
    everywhere(lambda words: apply(RandomWrap(), words), words, expected=keys)
    # The mapped axis may be the last one of the operand, after the words.
    mapped = tj.vmap(lambda words: apply(RandomWrap(), words), in_axes=2)(np.moveaxis(np.asarray(words), 1, 2))
    same(mapped, keys.T)


@pytest.mark.parametrize("size", [5, *(pytest.param(size, marks=pytest.mark.sweep) for size in (0, 1, 20_000))])
def test_hashes(size: int) -> None:
    rng = np.random.default_rng(3)
    x0, x1 = (rng.integers(2**32, size=size, dtype=np.uint32) for _ in range(2))
    k0, k1 = (rng.integers(2**32, dtype=np.uint32) for _ in range(2))
    expected = jax.extend.random.threefry2x32_p.bind(jnp.asarray(k0), jnp.asarray(k1), jnp.asarray(x0), jnp.asarray(x1))

    def f(*args: Any) -> Any:
        return bind(Threefry2x32(), *map(as_array, args))

    for run in (f, tj.jit(f)):
        for found, word in zip(run(k0, k1, x0, x1), expected, strict=True):
            same(found, word)
    everywhere(lambda *args: f(*args)[1], k0, k1, x0, x1, expected=expected[1])


MOVES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "index": lambda np_, lax_, x: x[1],
    "steps": lambda np_, lax_, x: x[-1, ::2],
    "fancy": lambda np_, lax_, x: x[np.array([0, 2, 1]), np.array([3, 1, 0])],
    "outside": lambda np_, lax_, x: np_.take(x, np.array([0, 7]), axis=0),
    "reshape": lambda np_, lax_, x: x.reshape(4, 3).T,
    "joined": lambda np_, lax_, x: np_.concatenate([x, x[:1]], 0),
    "where": lambda np_, lax_, x: np_.where(np.array([True, False, True, False]), x, x[::-1]),
    "set": lambda np_, lax_, x: x.at[np.array([0, 1]), 1].set(x[2, 0]),
    "slice": lambda np_, lax_, x: lax_.dynamic_slice(x, (1, 1), (2, 2)),
    "update": lambda np_, lax_, x: lax_.dynamic_update_slice(x, x[:1], (1, 0)),
    "scan": lambda np_, lax_, x: lax_.scan(lambda c, k: (k, c), x[0], x)[1],
    "while": lambda np_, lax_, x: lax_.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1][::-1]), (0, x))[1],
    "cond": lambda np_, lax_, x: lax_.cond(np_.asarray(True), lambda: x, lambda: x[::-1]),
    "repeated": lambda np_, lax_, x: np_.broadcast_to(x[0], (3, 4)),
    "equal": lambda np_, lax_, x: x == x[::-1],
    "different": lambda np_, lax_, x: x != x[0],
    "rolled": lambda np_, lax_, x: np_.roll(x, 1, axis=0),
    "same": lambda np_, lax_, x: lax_.stop_gradient(x),
}


@pytest.mark.parametrize("name", sampled(MOVES, "outside", "scan", "set", "equal"))
def test_keys_are_moved_about(name: str) -> None:
    keys = jax.random.split(jax.random.key(0), (3, 4))
    expected = MOVES[name](jnp, jax.lax, keys)
    everywhere(lambda keys: MOVES[name](tnp, lax, keys), tnp.asarray(keys), expected=expected)


def test_keys_are_no_numbers() -> None:
    key = apply(RandomSeed(), 0)
    refused: list[Callable[[], Any]] = [
        lambda: key + 1, lambda: -key, lambda: tnp.sin(key), lambda: bool(key), lambda: key.astype("int32"),
        lambda: tnp.cumsum(key[None]), lambda: key < 2, lambda: tnp.where(True, key, 1),
        lambda: tj.grad(lambda k: k)(key),
    ]  # fmt: skip
    for f in refused:
        with pytest.raises(TypeError, match=r"key<fry>|a key of random numbers"):
            f()
    with pytest.raises(TypeError, match=r"random_bits takes keys of random numbers, .* got f32\[2\]"):
        apply(RandomBits(32, ()), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="a key of dtype key<fry> consists of 2 words, along the last axis"):
        apply(RandomWrap(), np.zeros(3, np.uint32))
    with pytest.raises(TinyjaxError, match="bit_width is one of 8, 16, 32, 64, got 12"):
        RandomBits(12, ())


def test_how_keys_are_shown() -> None:
    key = apply(RandomSeed(), 3)
    assert repr(key) == "Array((), dtype=key<fry>) overlaying:\n[0 3]"
    assert repr(tj.jit(lambda k: k)(key)) == repr(key)
    assert str(key.aval) == "key<fry>[]"
    assert ShapedArray((2,), "key<fry>") == ShapedArray((2,), key.dtype)


def test_laws() -> None:
    def f(seed: Any) -> Any:
        keys = apply(RandomSplit((3,)), apply(RandomSeed(), seed))
        folded = apply(RandomFoldIn(), keys, np.arange(3, dtype=np.uint32))
        return apply(RandomBits(16, (2,)), folded), apply(RandomUnwrap(), folded[1])

    program = tj.make_jaxpr(f)(np.int64(3))
    check_laws(program, [np.int64(3)])
    assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr
    closed = tj.make_jaxpr(lambda: tnp.stack([apply(RandomSeed(), 3)] * 2))()
    assert tj.ir.parse(str(closed.jaxpr)) == closed.jaxpr


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda key: jax.random.normal(key, (3,), "float32"),
    "keys": lambda key: (jax.random.fold_in(key, 3), jax.random.wrap_key_data(jax.random.key_data(key))),
    "mapped": lambda key: jax.vmap(lambda key: jax.random.uniform(key, (2,)))(jax.random.split(key, 4)),
    "scan": lambda key: jax.lax.scan(
        lambda key, _: (jax.random.split(key)[0], jax.random.randint(key, (2,), 0, 9)), key, None, length=3
    ),
    "while": lambda key: jax.lax.while_loop(
        lambda key: jax.random.uniform(key) < 0.9, lambda key: jax.random.split(key)[1], key
    ),
    "cond": lambda key: jax.lax.cond(jax.random.bernoulli(key), lambda k: jax.random.split(k)[0], lambda k: k, key),
    "permutation": lambda key: jax.random.permutation(key, 10),
    "gather": lambda key: jax.random.split(key, 5)[jnp.array([1, 7])],
    "clone": jax.random.clone,
    "equal": lambda key: jax.random.split(key, 5) == key,
    "checkpoint": jax.checkpoint(lambda key: jax.random.bits(key, (3,))),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(PROGRAMS, "keys", "gather", "equal"))
def test_programs_with_keys_go_to_and_from_jax(name: str) -> None:
    f, key = PROGRAMS[name], jax.random.key(2)
    traced = jax.make_jaxpr(f)(key)
    program = from_jax(traced)
    assert str(program.in_avals[0]) == "key<fry>[]"
    expected = jax.tree.leaves(f(key))
    back = to_jax(program)
    for found in (tj.eval_jaxpr(program.jaxpr, program.consts, tnp.asarray(key)), jax.tree.leaves(jax.jit(back)(key))):
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(of(x).astype(float), of(y).astype(float), rtol=2e-7)
    assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr
    tj.ir.parse(str(traced))


def test_keys_in_and_out_of_jax() -> None:
    keys = jax.random.split(jax.random.key(2), (2, 3))
    for moved in (tnp.asarray(keys), tj.device_put(tnp.asarray(keys)), tj.jit(lambda k: k)(keys)):
        assert moved.shape == (2, 3)
        back = jnp.asarray(moved.__jax_array__())
        assert back.dtype == keys.dtype
        same(back, keys)


@pytest.mark.sweep
@pytest.mark.parametrize("algorithm", RandomAlgorithm)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_generators_of_xla(algorithm: RandomAlgorithm, dtype: str) -> None:
    theirs = jax.lax.RandomAlgorithm[algorithm.name]
    for key in (np.array([1, 2, 3, 4], np.uint32), np.array([2**63 + 7, 2**64 - 2], np.uint64)):
        for shape in ((), (5,), (6,), (2, 3), (3, 5), (0,), (3, 4, 2)):
            expected = jax.lax.rng_bit_generator(key, shape, dtype, theirs)
            for found, want in zip(lax.rng_bit_generator(key, shape, dtype, algorithm), expected, strict=True):
                same(found, want)


def test_a_generator_of_xla() -> None:
    key = np.array([1, 2, 3, 4], np.uint32)
    traced = jax.make_jaxpr(lambda key: jax.lax.rng_bit_generator(key, (3,)))(key)
    program = from_jax(traced)
    expected = jax.lax.rng_bit_generator(key, (3,))
    runs = (tj.eval_jaxpr(program.jaxpr, (), key), tj.jit(lambda key: lax.rng_bit_generator(key, (3,)))(key))
    for outs in (*runs, to_jax(program)(key)):
        for found, want in zip(outs, expected, strict=True):
            same(found, want)
    assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr == tj.ir.parse(str(traced))
    keys = np.stack([key + np.uint32(1), key, key * np.uint32(3)])
    mapped = tj.vmap(lambda key: lax.rng_bit_generator(key, (3,)))(keys)
    wanted = jax.vmap(lambda key: jax.lax.rng_bit_generator(key, (3,)))(keys)
    for found, want in zip(mapped, wanted, strict=True):  # of the first state alone
        same(found, want)
    with pytest.raises(ValueError, match=r"the state is u32\[4\] or u64\[2\], got u32\[2\]"):
        lax.rng_bit_generator(key[:2], (3,))
    with pytest.raises(ValueError, match="algorithm is one of RNG_DEFAULT"):
        lax.rng_bit_generator(key, (3,), algorithm="mersenne")
