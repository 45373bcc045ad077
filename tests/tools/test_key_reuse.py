"""Keys that are used twice, and those that aren't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
import tinyjax.random as r
from tinyjax import lax
from tinyjax.errors import KeyReuseError
from tinyjax.tools import check_key_reuse, key_reuse

KEY = r.key(0)


def body(key: Any, _: Any) -> Any:
    key, part = r.split(key)
    return key, r.bits(part)


def parts(key: Any, first: int, second: int) -> Any:
    keys = r.split(key, 4)
    return r.bits(keys[first]) + r.bits(keys[second])


def both(words: Any) -> Any:
    return r.bits(words) + r.bits(words)


def mapped_then(keys: Any) -> Any:
    return tj.vmap(r.bits)(keys), r.bits(keys[1])


def scanned_then(key: Any, at: int) -> Any:
    keys = r.split(key, 5)
    return lax.scan(lambda c, k: (c, r.bits(k)), 0, keys[:4]), r.bits(keys[at])


TWICE: dict[str, Callable[[Any], Any]] = {
    "sampled": lambda key: r.normal(key) + r.uniform(key),
    "split": lambda key: (r.split(key), r.bits(key)),
    "index": lambda key: parts(key, 2, 2),
    "folded": lambda key: r.bits(r.fold_in(key, 1)) + r.bits(r.fold_in(key, 1)),
    "jit": lambda key: tj.jit(r.bits)(key) + tj.jit(r.bits)(key),
    "wrapped": lambda key: r.bits(key) + r.bits(r.wrap_key_data(r.key_data(key))),
    "words": lambda key: both(r.key_data(key)),
    "captured": lambda key: lax.scan(lambda c, x: (c, r.bits(key)), 0, None, length=3),
    "carried": lambda key: lax.scan(lambda c, x: (c, r.bits(c)), key, None, length=3),
    "scanned": lambda key: scanned_then(key, 3),
    "while": lambda key: lax.while_loop(lambda c: c < 3, lambda c: c + r.bits(key).astype("int64"), 0),
    "condition": lambda key: lax.while_loop(lambda k: r.bits(k) < 3, lambda k: k, key),
    "branch": lambda key: (lax.cond(r.bits(r.fold_in(key, 3)) > 3, r.bits, lambda k: np.uint64(0), key), r.bits(key)),
    "mapped": lambda key: mapped_then(r.split(key, 3)),
    "repeated": lambda key: tj.vmap(r.bits)(r.split(key)[np.array([0, 1, 0])]),
    "joined": lambda key: (tj.vmap(r.bits)(tnp.stack([key, r.fold_in(key, 0)])), r.bits(key)),
}
ONCE: dict[str, Callable[[Any], Any]] = {
    "split": lambda key: [r.bits(part) for part in r.split(key, 3)],
    "index": lambda key: parts(key, 1, 2),
    "folded": lambda key: r.bits(r.fold_in(key, 1)) + r.bits(r.fold_in(key, 2)),
    "clone": lambda key: r.bits(key) + r.bits(r.clone(key)),
    "folded in a loop": lambda key: lax.scan(lambda c, x: (c, r.bits(r.fold_in(key, x))), 0, np.arange(3)),
    "once": lambda key: lax.scan(lambda c, x: (c, r.bits(key)), 0, None, length=1),
    "carried": lambda key: lax.scan(body, key, None, length=3),
    "scanned": lambda key: scanned_then(key, 4),
    "counted": lambda key: lax.fori_loop(0, 3, lambda i, c: c + r.bits(r.fold_in(key, i)).astype("int64"), 0),
    "branches": lambda key: lax.cond(r.bits(r.fold_in(key, 3)) > 3, r.bits, lambda k: r.bits(k) + np.uint64(1), key),
    "mapped": lambda key: tj.vmap(r.bits)(r.split(key, 3)),
    "checkpoint": lambda key: tj.grad(tj.checkpoint(lambda x: tnp.sin(x * r.normal(key))))(2.0),
    "compared": lambda key: (key == r.clone(key), r.key_data(key), r.bits(key)),
}
SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda key: r.normal(key, (2,)),
    "randint": lambda key: r.randint(key, (2,), 0, 7),
    "gamma": lambda key: r.gamma(key, 2.0, (2,)),
    "beta": lambda key: r.beta(key, 2.0, 0.5, (2,)),
    "dirichlet": lambda key: r.dirichlet(key, np.ones(3)),
    "permutation": lambda key: r.permutation(key, 9),
    "choice": lambda key: r.choice(key, 9, (3,), replace=False),
    "categorical": lambda key: r.categorical(key, np.zeros(3)),
    "truncated_normal": lambda key: r.truncated_normal(key, -1.0, 1.0, (2,)),
    "multivariate_normal": lambda key: r.multivariate_normal(key, np.zeros(2), np.eye(2)),
    "poisson": lambda key: r.poisson(key, 3.0, (2,)),
    "binomial": lambda key: r.binomial(key, 3.0, 0.5, (2,)),
    "ball": lambda key: r.ball(key, 3),
    "orthogonal": lambda key: r.orthogonal(key, 2),
}


@pytest.mark.parametrize("name", TWICE)
def test_keys_used_twice(name: str) -> None:
    assert key_reuse(tj.make_jaxpr(TWICE[name])(KEY))
    with pytest.raises(KeyReuseError, match="a key is used twice"):
        check_key_reuse(TWICE[name], KEY)


@pytest.mark.parametrize("name", ONCE)
def test_keys_used_once(name: str) -> None:
    assert key_reuse(tj.make_jaxpr(ONCE[name])(KEY)) == ()


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_use_a_key_once(name: str) -> None:
    check_key_reuse(SAMPLERS[name], KEY)
    with pytest.raises(KeyReuseError):
        check_key_reuse(lambda key: (SAMPLERS[name](key), SAMPLERS[name](key)), KEY)


def test_the_error_says_which_key_and_where() -> None:
    def draw(params: Any) -> Any:
        noise = r.normal(params["key"], (3,))
        return noise * r.uniform(params["key"])

    line = draw.__code__.co_firstlineno
    with pytest.raises(KeyReuseError) as caught:
        check_key_reuse(draw, {"key": KEY})
    assert isinstance(caught.value, ValueError)
    name = draw.__qualname__
    first, second = str(caught.value).splitlines()[:2]
    assert first == "a key is used twice, and gives the same numbers twice:"
    assert second == (
        f"  argument params['key'] is used by random_bits at {__file__}:{line + 1} ({name}), "
        f"and then by random_bits at {__file__}:{line + 2} ({name})"
    )
    assert "`first, second = tinyjax.random.split(key)`" in str(caught.value)
    (found,) = key_reuse(tj.make_jaxpr(lambda key: parts(key, 2, 2))(KEY))
    assert found.key.startswith("the key[2] that random_split makes at ")


def test_explain_tells() -> None:
    f = tj.jit(lambda key: r.normal(key) + r.uniform(key))
    assert f.explain(KEY).notes == ()
    f(KEY)
    (note,) = f.explain(KEY).notes
    assert note.startswith("argument key is used by random_bits at ")
    assert note.endswith("see tinyjax.tools.check_key_reuse")
    g = tj.jit(r.normal)
    g(KEY)
    assert g.explain(KEY).notes == ()


def test_depth() -> None:
    """Loops within loops and calls within calls cost no power of two, and no RecursionError."""

    def nested(key: Any, depth: int) -> Any:
        if depth == 0:
            return r.bits(key)
        return lax.scan(lambda c, x: (c, nested(key, depth - 1)), 0, None, length=2)[1].sum()

    assert key_reuse(tj.make_jaxpr(lambda key: nested(key, 14))(KEY))

    f: Callable[[Any], Any] = r.bits
    for _ in range(300):
        f = tj.jit(lambda key, inner=f: inner(key))
    assert key_reuse(tj.make_jaxpr(lambda key: (f(key), f(key)))(KEY))
