"""What the library remembers is bounded, can be seen, and can be forgotten."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.caching import BoundedCache, CacheInfo, IdentityCache, registered_caches, remembered_of
from tinyjax.ir.result_types import result_types
from tinyjax.primitives.elementwise import add


def test_cache_info() -> None:
    gc.collect()  # or functions of other tests may go while we count
    tj.clear_caches()
    compiled = tj.jit(lambda x: tnp.sin(x) * 7.0)
    before = tj.cache_info()
    for _ in range(3):
        compiled(1.0)
        tj.grad(compiled)(1.0)
    after = tj.cache_info()
    made = {name: info.made - (before[name].made if name in before else 0) for name, info in after.items()}
    assert made["traced functions"] == 1
    assert made["calls of compiled functions"] == 1
    assert made["compiled programs"] >= 2
    assert made["transforms.jvp._jvp"] >= 1
    assert all(info.limit > 0 for info in after.values())
    assert all(0 <= info.size <= info.limit for info in after.values()), after


def test_clear_caches() -> None:
    traces: list[int] = []

    @tj.jit
    def f(x: Any) -> Any:
        traces.append(1)
        return x + 1.5

    for _ in range(2):
        f(1.0)
    assert len(traces) == 1
    made = tj.cache_info()["compiled programs"].made
    tj.clear_caches()
    assert {name: info.size for name, info in tj.cache_info().items() if info.size} == {}
    assert float(f(1.0)) == 2.5
    assert len(traces) == 2
    assert tj.cache_info()["compiled programs"].made == made + 1


@pytest.mark.sweep
def test_caches_of_functions_go_with_them() -> None:
    def count() -> int:
        gc.collect()
        return sum(cache.name == "traced functions" for cache in registered_caches())

    before = count()
    kept = [tj.jit(lambda x, i=i: x + i) for i in range(5)]
    assert count() == before + 5
    kept.clear()
    assert count() == before


def test_bounds() -> None:
    cache: BoundedCache[int, str] = BoundedCache(3, "numbers")
    for i in range(10):
        cache.put(i, str(i))
    assert cache.info() == CacheInfo(made=10, size=3, limit=3)
    types: IdentityCache[int] = IdentityCache(3, "types")
    arguments = [(np.zeros(1),) for _ in range(10)]
    for n, argument in enumerate(arguments):
        types.keep(argument, n)
        assert types.entries[(id(argument[0]),)][1] == n
    assert types.info() == CacheInfo(made=10, size=1, limit=3)


def test_remembered_of_one_object() -> None:
    """By identity: an object that is made where one was freed is another one."""
    made: list[int] = []

    @remembered_of
    def total(x: list[int], factor: int) -> int:
        made.append(1)
        return sum(x) * factor

    x = [1, 2]
    assert (total(x, 2), total(x, 2), total(x, 3), total([1, 2], 2)) == (6, 6, 9, 6)
    assert len(made) == 3
    assert (total(x, factor=2), total(x, factor=3)) == (6, 9)
    for n in range(5000):
        assert total([n], 1) == n


def test_identities_are_not_mistaken() -> None:
    """A type that is made, used and freed may have the identity of one before; the answer is its own all the same."""
    for n in range(20_000):
        aval = tj.ShapedArray((n % 50,), "float32")
        assert result_types(add, [aval, aval]) == (aval,)


@pytest.mark.sweep
def test_threads() -> None:
    """Threads that share functions, trace, transform, call and forget get their own results."""
    functions = [tj.jit(lambda x, k=k: tnp.sum(tnp.sin(x) * k)) for k in range(8)]

    def work(seed: int) -> bool:
        good = True
        for i in range(12):
            k = (seed + i) % 8
            x = np.full(3 + seed % 2, 0.5)
            good &= bool(np.isclose(float(functions[k](x)), k * np.sin(0.5) * len(x)))
            good &= bool(np.allclose(np.asarray(tj.grad(functions[k])(x)), k * np.cos(0.5)))
            if i == 6 and seed % 3 == 0:
                tj.clear_caches()
        return good

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(work, range(12)))
