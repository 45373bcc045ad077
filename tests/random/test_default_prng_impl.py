"""`default_prng_impl`: the implementation of keys in a block, if nobody says which, as in JAX."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import random
from tinyjax.api.differences import KeysChanged
from tinyjax.errors import InputError, UnsupportedError

NAMES = ["threefry2x32", "rbg", "unsafe_rbg"]


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_keys_and_their_words(name: str) -> None:
    with tj.default_prng_impl(name), jax.default_prng_impl(name):
        assert random.key_impl(random.key(3)) == name == str(jax.random.key_impl(jax.random.key(3)))
        assert random.key_dtype() == random.key(0).dtype == random.key(0, impl=name).dtype
        assert tj.config.jax_default_prng_impl == name
        ours, theirs = random.PRNGKey(3), jax.random.PRNGKey(3)
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(random.split(ours, 3), jax.random.split(theirs, 3))
        np.testing.assert_array_equal(random.fold_in(ours, 5), jax.random.fold_in(theirs, 5))
        np.testing.assert_array_equal(random.bits(ours, (4,), "uint32"), jax.random.bits(theirs, (4,), "uint32"))
        found = tj.jit(lambda key: random.randint(key, (5,), 0, 100))(ours)
        np.testing.assert_array_equal(found, jax.random.randint(theirs, (5,), 0, 100, "int64"))
    assert random.key_impl(random.key(3)) == tj.config.jax_default_prng_impl == "threefry2x32"


@pytest.mark.parametrize("name", NAMES)
def test_wrap(name: str) -> None:
    words = random.PRNGKey(3, impl=name)
    with tj.default_prng_impl(name):
        assert random.key_impl(random.wrap_key_data(words)) == name


def test_programs_are_kept_apart() -> None:
    made = tj.jit(lambda seed: random.key_data(random.key(seed)))
    assert made(3).shape == (2,)
    for _ in range(2):
        with tj.default_prng_impl("rbg"):
            assert made(3).shape == (4,)
            with tj.default_matmul_precision("float32"):
                assert made(3).shape == (4,)
            with tj.default_prng_impl(None):
                assert made(3).shape == (2,)
        assert made(3).shape == (2,)
    with tj.default_prng_impl("rbg"):
        assert tj.eval_shape(lambda: random.key(3)).dtype == random.key_dtype("rbg")
        np.testing.assert_array_equal(
            tj.vmap(lambda seed: random.key_data(random.key(seed)))(np.arange(3)).shape, (3, 4)
        )


def test_difference() -> None:
    change = KeysChanged(None, random.key_dtype("rbg"))
    assert str(change) == "the dtype of keys: key<rbg>, was none"
    assert change.row == ("the dtype of keys", "key<rbg>", "none")


def test_only_here() -> None:
    with tj.default_prng_impl("rbg"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: random.key_impl(random.key(3))).result() == "threefry2x32"

    @tj.default_prng_impl("rbg")
    def decorated() -> str:
        return random.key_impl(random.key(3))

    assert decorated() == "rbg"


def test_refused() -> None:
    with pytest.raises(UnsupportedError, match="there is no 'mersenne', but 'threefry2x32'"):
        tj.default_prng_impl("mersenne")
    with tj.default_prng_impl("rbg"), pytest.raises(InputError, match=r"those of 'rbg', which are 4; got u32\[2\]"):
        random.split(random.PRNGKey(3, impl="threefry2x32"))
