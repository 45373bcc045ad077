"""Few random numbers: hashed as one integer, by steps that are prepared; and the same as many, and as JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.random
from tinyjax.primitives import threefry
from tinyjax.primitives.threefry import Threefry2x32
from tinyjax.random import drawing

WORDS = np.random.default_rng(0).integers(0, 2**32, (4, 300), dtype=np.uint32)
WORDS[:, :3] = 0xFFFFFFFF, 0, 0x80000000


@pytest.mark.parametrize("size", [1, 2, 3, 127, 128, 129, 300])
@pytest.mark.parametrize("one_key", [True, False])
def test_few_pairs_of_words_have_the_hashes_of_many(size: int, one_key: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [k[0] if one_key else k[:size] for k in WORDS[:2]]
    args = [*keys, *WORDS[2:, :size]]
    found = Threefry2x32().evaluate(*args)
    monkeypatch.setattr(threefry, "_PACKED", 0)
    for few, many in zip(found, Threefry2x32().evaluate(*args), strict=True):
        assert few.dtype == many.dtype == np.uint32
        np.testing.assert_array_equal(few, many)


def test_scalars_and_nothing_are_hashed() -> None:
    ones = Threefry2x32().evaluate(*WORDS[:, 5])
    rows = Threefry2x32().evaluate(*WORDS[:, 5:7].reshape(4, 2, 1))
    assert [x.shape for x in ones] == [(), ()]
    assert [x[0, 0] for x in rows] == [x[()] for x in ones]
    assert [x.shape for x in Threefry2x32().evaluate(*WORDS[:, :0])] == [(0,), (0,)]


SAMPLERS: dict[str, Callable[[Any, Any], Any]] = {
    "uniform": lambda r, key: r.uniform(key, (5,)),
    "uniform between": lambda r, key: r.uniform(key, (5,), "float32", -1.0, 3.0),
    "normal": lambda r, key: r.normal(key, (2, 3)),
    "normal float16": lambda r, key: r.normal(key, (3,), "float16"),
    "complex normal": lambda r, key: r.normal(key, (3,), complex),
    "exponential": lambda r, key: r.exponential(key, (4,)),
    "split": lambda r, key: r.key_data(r.split(key, (2, 2))),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samples_are_the_same_at_every_call_and_jaxs(name: str) -> None:
    sampler = SAMPLERS[name]
    results = [sampler(tj.random, tj.random.key(seed)) for seed in (3, 3, 3, 4)]
    for found in results[1:3]:
        assert found.aval == results[0].aval
        assert found.value.on_host
        np.testing.assert_array_equal(found, results[0])
    with jax.enable_x64(True):
        for seed, found in ((3, results[2]), (4, results[3])):
            theirs = sampler(jax.random, jax.random.key(seed))
            assert found.dtype == theirs.dtype
            np.testing.assert_allclose(found, theirs, rtol=1e-5)
    rows = tj.vmap(lambda key: sampler(tj.random, key))(tj.random.split(tj.random.key(3), 2))
    np.testing.assert_allclose(rows[1], sampler(tj.random, tj.random.split(tj.random.key(3), 2)[1]), rtol=1e-6)


def test_steps_of_samples_are_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        tj.random.normal(tj.random.key(0), (11,))
    monkeypatch.setattr(drawing, "random_bits", None)
    assert tj.random.normal(tj.random.key(1), (11,)).shape == (11,)
