"""Keys of random numbers in compiled programs: functions and loops pass on their words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from benchmarks.library import our_sizes, their_sizes
from tests.compiled import instructions
from tinyjax import lax, random
from tinyjax.interop.jax import of_jax


def _two(key: jax.Array) -> jax.Array:
    one, other = jax.random.split(key)
    return jax.random.normal(one, (3,)) + jax.random.uniform(other, (3,))


def _chain(key: jax.Array) -> jax.Array:
    total = jnp.zeros(())
    for _ in range(3):
        key, now = jax.random.split(key)
        total = total + jax.random.normal(now)
    return total


def _mapped(key: jax.Array) -> jax.Array:
    return jax.vmap(lambda key: jax.random.normal(key, (3,)))(jax.random.split(key, 5))


def _carried(key: jax.Array) -> jax.Array:
    def step(_: int, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        key, total = carry
        return jax.random.split(key)[0], total + jax.random.normal(key)

    total: jax.Array = jax.lax.fori_loop(0, 5, step, (key, jnp.zeros(())))[1]
    return total


def _scanned(key: jax.Array) -> jax.Array:
    keys = jax.random.split(key, 7)
    return jax.lax.scan(lambda total, key: (total + jax.random.normal(key), None), jnp.zeros(()), keys)[0]


def _folded(key: jax.Array) -> jax.Array:
    return jax.random.normal(jax.random.fold_in(key, 3)) + jax.random.normal(jax.random.fold_in(key, 4))


def _drawn(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.random.permutation(key, 10), jax.random.choice(key, 10, (3,))


@pytest.mark.parametrize("f", [_two, _chain, _mapped, _carried, _scanned, _folded, _drawn])
def test_programs_with_keys_are_as_small_as_jax_has_them(f: Callable[[jax.Array], object]) -> None:
    key = jax.random.key(3)
    ours, theirs = tj.jit(of_jax(f)).lower(key).compile(), jax.jit(f).lower(key).compile()
    assert instructions(ours.as_text()) <= 1.02 * instructions(theirs.as_text() or "")
    for x, y in zip(tj.tree.leaves(tj.jit(of_jax(f))(key)), jax.tree.leaves(jax.jit(f)(key)), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)


def test_what_passes_keys_on_passes_their_words() -> None:
    @tj.jit
    def inner(keys: tj.Array) -> tj.Array:
        return keys[::2]

    text = tj.jit(lambda key: random.normal(inner(random.split(key, 6))[1])).lower(random.key(0)).as_text()
    assert "func.func private @inner(%arg0: tensor<6x2xui32>) -> tensor<3x2xui32>" in text
    assert "func.func public @main(%arg0: tensor<ui64>)" in text


def _keys() -> tj.Array:
    return random.split(random.key(7), 6)


#: Of six keys, what moves them, chooses them, carries them or compares them.
MOVES: dict[str, Callable[[tj.Array], Any]] = {
    "none": lambda keys: keys,
    "slices": lambda keys: (keys[1:5:2], keys[3], keys[::-1]),
    "shapes": lambda keys: (keys.reshape(3, 2).T, tnp.broadcast_to(keys[:, None], (6, 2)), lax.rev(keys, (0,))),
    "one key, repeated": lambda keys: lax.broadcast_in_dim(keys[0], (2, 3), ()),
    "joined and split": lambda keys: (tnp.concatenate([keys[3:], keys[:2]]), lax.split(keys, (2, 4))),
    "at positions": lambda keys: (
        keys[tnp.asarray([4, 0, 4])],
        lax.dynamic_slice(keys, (tnp.sum(lax.iota("int32", 3)),), (2,)),
    ),
    "written": lambda keys: lax.dynamic_update_slice(keys, keys[:2], (lax.iota("int32", 4)[3],)),
    "chosen": lambda keys: (
        tnp.where(lax.iota("int32", 6) > 2, keys, keys[::-1]),
        keys == keys[::-1],
        keys != keys[::-1],
    ),
    "of a scan": lambda keys: lax.scan(lambda last, key: (key, random.split(last)[1]), keys[0], keys),
    "of a scan in reverse": lambda keys: lax.scan(lambda last, key: (key, last), keys[0], keys, reverse=True, unroll=4),
    "of a while": lambda keys: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1][::-1], c[1][0]), (0, keys, keys[5])
    ),
    "closed over by a loop": lambda keys: lax.fori_loop(0, 4, lambda i, x: x + random.normal(keys[i]), 0.0),
    "of a branch": lambda keys: lax.cond(keys[0] == keys[1], lambda: keys[2], lambda: random.split(keys[3])[0]),
    "mapped": tj.vmap(lambda key: (random.split(key), random.fold_in(key, 3), random.uniform(key))),
    "mapped twice": lambda keys: tj.vmap(tj.vmap(lambda key: random.bits(key, (2,))))(keys.reshape(2, 3)),
    "held back": lambda keys: lax.optimization_barrier((keys, keys[0])),
    "checkpointed": lambda keys: tj.grad(tj.checkpoint(lambda x: tnp.sum(x * random.normal(keys[0], (2,)))))(
        tnp.ones(2)
    ),
    "a composite": lax.composite(lambda keys: keys[1:3], "my.keys"),
    "as numbers": lambda keys: random.wrap_key_data(random.key_data(keys) + tnp.asarray(1, "uint32")),
}


@pytest.mark.parametrize("name", MOVES)
def test_compiled_keys_are_those_of_the_host(name: str) -> None:
    f = MOVES[name]
    found, expected = tj.jit(f)(_keys()), f(_keys())
    assert tj.tree.structure(found) == tj.tree.structure(expected)
    for x, y in zip(tj.tree.leaves(found), tj.tree.leaves(expected), strict=True):
        assert x.aval == y.aval
        one, other = map(random.key_data, (x, y)) if x.dtype == _keys().dtype else (x, y)
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg", "threefry2x32"])
def test_keys_of_each_generator(impl: str) -> None:
    def f(key: tj.Array) -> tj.Array:
        return lax.fori_loop(0, 3, lambda _, key: random.split(key)[1], random.split(key, 4)[2])

    key = random.key(5, impl=impl)
    compiled, on_host = (np.asarray(random.key_data(g(key))) for g in (tj.jit(f), f))
    np.testing.assert_array_equal(compiled, on_host)


def test_keys_beside_effects(capsys: pytest.CaptureFixture[str]) -> None:
    @tj.jit
    def shown(key: tj.Array) -> tj.Array:
        tj.debug.print("{}", random.randint(key, (), 0, 10), ordered=True)
        return random.split(key)[0]

    def f(key: tj.Array) -> tj.Array:
        key = lax.fori_loop(0, 2, lambda _, key: shown(key), key)
        return lax.cond(random.bits(key) >= 0, shown, lambda key: key, key)

    compiled = random.key_data(tj.jit(f)(random.key(2)))
    tj.effects_barrier()
    lines = capsys.readouterr().out
    np.testing.assert_array_equal(np.asarray(compiled), np.asarray(random.key_data(f(random.key(2)))))
    assert len(lines.splitlines()) == 3
    assert capsys.readouterr().out == lines


@pytest.mark.parametrize("shape", [(50,), (5, 3)])
def test_draws_of_each_of_many_keys_take_no_more_than_those_of_jax(shape: tuple[int, ...]) -> None:
    """Keys are small beside what is drawn, and the loop of the hash carries them as they are."""
    words = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(3), 8)))

    def drawn(words: jax.Array) -> jax.Array:
        return jax.vmap(lambda key: jax.random.uniform(key, shape))(jax.random.wrap_key_data(words))

    ours, theirs = our_sizes(of_jax(drawn), words), their_sizes(drawn, words)
    assert ours.instructions <= theirs.instructions
    assert ours.temporary <= theirs.temporary
    np.testing.assert_array_equal(np.asarray(tj.jit(of_jax(drawn))(words)), np.asarray(drawn(jnp.asarray(words))))


@pytest.mark.parametrize("shape", [(), (1,), (5, 3)])
def test_draws_of_many_keys_beside_those_of_one(shape: tuple[int, ...]) -> None:
    keys = random.split(random.key(3), 4)
    of_two = tj.vmap(lambda key, other: random.bits(key, shape) ^ random.bits(other, shape), (0, None))
    np.testing.assert_array_equal(
        np.asarray(tj.jit(of_two)(keys, keys[0])),
        np.asarray([random.bits(k, shape) ^ random.bits(keys[0], shape) for k in keys]),
    )
