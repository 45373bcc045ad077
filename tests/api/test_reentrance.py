"""User code that the library runs in odd places, and which calls the library: comparing and hashing static arguments,
signal handlers, trees, conversions, finalisers. Nothing waits for itself."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.backend.cache import OnceCache
from tinyjax.caching import BoundedCache


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """A test that waits for itself fails."""

    def late(_: int, __: FrameType | None) -> None:
        raise TimeoutError("this waits for itself")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class Static:
    """A static argument; comparing it and hashing it call the function that it is an argument of."""

    calls = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def again(self) -> None:
        if Static.calls < 6:
            Static.calls += 1
            assert float(scaled(1.0, Static(self.value + 100.0))) == self.value + 100.0

    @override
    def __hash__(self) -> int:
        self.again()
        return 1

    @override
    def __eq__(self, other: object) -> bool:
        self.again()
        return isinstance(other, Static) and self.value == other.value


def _scaled(x: Any, s: Static) -> Any:
    return x * s.value


scaled: Callable[..., Any] = tj.jit(_scaled, static_argnums=1)


def test_static_arguments() -> None:
    for value in (1.0, 2.0, 1.0, 3.0, 2.0):
        Static.calls = 0
        assert float(scaled(1.0, Static(value))) == value
        assert float(tj.grad(scaled)(1.0, Static(value))) == value


def test_a_cache_whose_keys_use_it() -> None:
    caches: list[BoundedCache[Any, int] | OnceCache[Any, int]] = [BoundedCache(4), OnceCache(4)]
    for cache in caches:

        class Key:
            def __init__(self, n: int) -> None:
                self.n = n

            @override
            def __hash__(self) -> int:
                return self.n % 2

            @override
            def __eq__(self, other: object, cache: Any = cache) -> bool:
                cache.get("another")
                cache.get_or_make("another", lambda: -1)
                return isinstance(other, Key) and self.n == other.n

        for n in (1, 2, 3, 4, 5, 6, 7, 1, 2, 3):
            assert cache.get_or_make(Key(n), partial(int, n)) == n
        assert cache.info().size <= 4


def test_keys_that_wait_for_another_thread() -> None:
    """No lock is held while keys are compared."""
    cache: BoundedCache[Any, int] = BoundedCache(4)

    class Key:
        @override
        def __hash__(self) -> int:
            return 1

        @override
        def __eq__(self, other: object) -> bool:
            thread = threading.Thread(target=cache.get, args=("other",))
            thread.start()
            thread.join(20)
            assert not thread.is_alive()
            return False

    cache.put(Key(), 1)
    assert cache.get(Key()) is None
    cache.put(Key(), 2)
    assert len(cache) == 2


def test_making_an_entry_that_needs_itself() -> None:
    cache: OnceCache[str, int] = OnceCache(2)
    depth: list[int] = []

    def make() -> int:
        depth.append(1)
        return 5 if len(depth) > 3 else cache.get_or_make("a", make)

    assert cache.get_or_make("a", make) == 5
    assert cache.get("a") == 5


def test_signal_handlers_that_call_what_is_being_compiled() -> None:
    found: list[float] = []

    def f(x: Any) -> Any:
        for i in range(100):
            x = tnp.sin(x) * float(i)
        # While it is lowered or compiled: in time of this process's own, since other processes may take all else.
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
        return x

    compiled = tj.jit(f)

    def handler(_: int, __: FrameType | None) -> None:
        found.append(float(compiled(0.5)))

    before = signal.signal(signal.SIGVTALRM, handler)
    try:
        result = float(compiled(0.5))
        while not found:
            pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert found == [result]


def use() -> None:
    """Within a transformation, this is a part of it, as everything is that is called there."""
    for result in (tj.jit(lambda x: x * 2.0)(1.5), tj.grad(lambda x: x * x)(1.5), tnp.sin(3.0) / tnp.sin(1.0)):
        assert str(result.aval) == "~f64[]"


@pytest.mark.sweep
def test_finalisers_and_weak_references() -> None:
    called: list[str] = []

    class Node:
        def __init__(self) -> None:
            self.own = self  # only the collector frees it

        def __del__(self) -> None:
            use()
            called.append("del")

    def finalised() -> None:
        use()
        called.append("finalize")

    def f(x: Any) -> Any:
        for i in range(20):
            node = Node()
            weakref.finalize(node, finalised)
            del node
            x = tnp.sin(x) * float(i)
            gc.collect(0)
        gc.collect()
        return x

    program = tj.make_jaxpr(f)(1.0)
    assert called.count("del") == called.count("finalize") == 20
    tj.ir.typecheck(program.jaxpr)
    np.testing.assert_array_equal(tj.eval_jaxpr(program, (), 1.0)[0], f(1.0))
    assert str(tj.transforms.dce(program.jaxpr)).count("sin") == 20


class Converted:
    """Becomes an array by calling the library."""

    def __jax_array__(self) -> Any:
        use()
        return tnp.asarray(2.0)


class NumPy:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        use()
        return np.asarray(2.0)


@pytest.mark.parametrize("argument", [Converted(), NumPy()])
def test_conversions(argument: Any) -> None:
    if isinstance(argument, Converted):
        assert float(tj.jit(lambda x: x * 2.0)(argument)) == 4.0
        assert float(tj.grad(lambda x: x * argument)(3.0)) == 2.0
        assert float(tj.jit(lambda x: x)(argument)) == 2.0
    else:
        assert float(tnp.asarray(argument)) == 2.0


def test_errors_of_conversions_reach_the_caller() -> None:
    class Fails:
        def __jax_array__(self) -> Any:
            raise KeyboardInterrupt("conversion")

    calls: tuple[Callable[..., Any], ...] = (tj.jit(lambda x: x), tj.grad(tnp.sum), tnp.sin, tj.vmap(tnp.sin))
    for call in calls:
        with pytest.raises(KeyboardInterrupt, match="conversion"):
            call(Fails())
    use()


def test_trees() -> None:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    def flatten(pair: Pair) -> tuple[tuple[Any, Any], None]:
        use()
        return (pair.a, pair.b), None

    def unflatten(_: None, children: tuple[Any, Any]) -> Pair:
        use()
        return Pair(*children)

    tj.tree.register_pytree_node(Pair, flatten, unflatten)
    for _ in range(2):
        out = tj.jit(lambda p: Pair(p.a * 2.0, p.b))(Pair(1.0, 2.0))
        assert float(out.a) == 2.0
        assert float(tj.grad(lambda p: p.a * p.b)(Pair(1.0, 2.0)).a) == 2.0
