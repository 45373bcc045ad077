"""Few random numbers: hashed as one integer, by steps that are prepared; and the same as many, and as JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.random
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives import keys as key_primitives
from tinyjax.primitives import threefry_values
from tinyjax.primitives.keys import RandomBits, RandomFoldIn, RandomSplit, as_keys
from tinyjax.primitives.threefry import Threefry2x32
from tinyjax.random import drawing

FEW = threefry_values.FEW
WORDS = np.random.default_rng(0).integers(0, 2**32, (4, FEW + 10), dtype=np.uint32)
WORDS[:, :3] = 0xFFFFFFFF, 0, 0x80000000


@pytest.mark.parametrize("size", [1, 2, 3, 127, FEW, FEW + 1])
@pytest.mark.parametrize("one_key", [True, False])
def test_few_pairs_of_words_have_the_hashes_of_many(size: int, one_key: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [k[0] if one_key else k[:size] for k in WORDS[:2]]
    args = [*keys, *WORDS[2:, :size]]
    found = Threefry2x32().evaluate(*args)
    monkeypatch.setattr(threefry_values, "FEW", 0)
    for few, many in zip(found, Threefry2x32().evaluate(*args), strict=True):
        assert few.dtype == many.dtype == np.uint32
        np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("words", [(0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0x80000000, 3), (123456789, 4294967290)])
def test_one_key_gives_the_same_few_bits_and_keys_as_it_would_many(
    words: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = as_keys(np.array(words, np.uint32))
    shapes = [(), (1,), (2, 3), (FEW,), (FEW + 1,), (0, 2)]
    primitives: list[Primitive] = [RandomBits(width, shape) for shape in shapes for width in (8, 16, 32, 64)]
    primitives += [RandomSplit(shape) for shape in shapes]
    few = [primitive.evaluate(key)[0] for primitive in primitives]
    few += [RandomFoldIn().evaluate(key, np.asarray(number, np.uint32))[0] for number in (0, 7, 0xFFFFFFFF)]
    for module in (key_primitives, threefry_values):
        monkeypatch.setattr(module, "FEW", 0)
    many = [primitive.evaluate(key)[0] for primitive in primitives]
    many += [RandomFoldIn().evaluate(key, np.asarray([n], np.uint32))[0][0] for n in (0, 7, 0xFFFFFFFF)]
    for one, other in zip(few, many, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)


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
    "laplace": lambda r, key: r.laplace(key, (3,)),
    "logistic": lambda r, key: r.logistic(key, (3,)),
    "cauchy": lambda r, key: r.cauchy(key, (3,)),
    "gumbel": lambda r, key: r.gumbel(key, (3,)),
    "gumbel, more bits": lambda r, key: r.gumbel(key, (3,), "float32", "high"),
    "gumbel, most bits": lambda r, key: r.gumbel(key, (3,), "float32", "highest"),
    "pareto": lambda r, key: r.pareto(key, 2.0, (3,)),
    "rayleigh": lambda r, key: r.rayleigh(key, 2.0, (3,)),
    "maxwell": lambda r, key: r.maxwell(key, (3,)),
    "wald": lambda r, key: r.wald(key, 2.0, (3,)),
    "weibull_min": lambda r, key: r.weibull_min(key, 2.0, 1.5, (3,)),
    "triangular": lambda r, key: r.triangular(key, 0.0, 1.0, 4.0, (3,)),
    "lognormal": lambda r, key: r.lognormal(key, 0.5, (3,)),
    "bernoulli": lambda r, key: r.bernoulli(key, 0.3, (3,)),
    "bernoulli, more bits": lambda r, key: r.bernoulli(key, 0.3, (3,), "high"),
    "rademacher": lambda r, key: r.rademacher(key, (3,)),
    "categorical": lambda r, key: r.categorical(key, np.log([0.1, 0.2, 0.7]), shape=(5,)),
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
