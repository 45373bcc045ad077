"""While a program is made the garbage collector runs seldom, and afterwards as it did before, whatever happens."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, ShapedArray, hlo, ir, tools, transforms
from tinyjax.collecting import RARELY, SELDOM, FewCollections, collecting_seldom, loading

X = ShapedArray((), "float64")
#: What a user may have set: the default of older and of newer versions of Python, and others.
SETTINGS = [(700, 10, 10), (2000, 10, 0), (1, 1, 1), (SELDOM - 1, 3, 7), (700, RARELY + 1, 3)]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before, on = gc.get_threshold(), gc.isenabled()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    (gc.enable if on else gc.disable)()


@pytest.mark.sweep
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_setting_is_raised_within_the_block_and_put_back(setting: tuple[int, int, int]) -> None:
    gc.set_threshold(*setting)
    raised = (SELDOM, max(setting[1], RARELY), setting[2])
    with FewCollections():
        assert gc.get_threshold() == raised
        with FewCollections():
            assert gc.get_threshold() == raised
        assert gc.get_threshold() == raised
    assert gc.get_threshold() == setting


@pytest.mark.parametrize("setting", [(SELDOM, 10, 10), (10 * SELDOM, 5, 5), (0, 10, 10)])
def test_a_threshold_as_high_stays_and_one_that_says_never(setting: tuple[int, int, int]) -> None:
    gc.set_threshold(*setting)
    with FewCollections():
        assert gc.get_threshold() == setting
    assert gc.get_threshold() == setting


def test_a_collector_that_is_off_is_left_alone() -> None:
    before = gc.get_threshold()
    gc.disable()
    with FewCollections():
        assert gc.get_threshold() == before
        assert not gc.isenabled()
        gc.enable()  # by the user's function
    assert gc.isenabled()
    assert gc.get_threshold() == before


@pytest.mark.parametrize("chosen", [(123, 4, 5), (10 * SELDOM, 10, 10), (0, 10, 10)])
def test_what_the_traced_function_sets_counts(chosen: tuple[int, int, int]) -> None:
    def f(x: Array) -> Array:
        gc.set_threshold(*chosen)
        return x * 2.0

    tj.make_jaxpr(f)(X)
    assert gc.get_threshold() == chosen


def test_the_collector_stays_on_and_finds_cycles() -> None:
    class Node:
        other: Node

    def cycle() -> Node:
        a, b = Node(), Node()
        a.other, b.other = b, a
        return a

    found: list[weakref.ref[Node]] = []

    def f(x: Array) -> Array:
        assert gc.isenabled()
        found.append(weakref.ref(cycle()))
        kept: list[list[int]] = [[] for _ in range(2 * SELDOM)]
        assert found[0]() is None, len(kept)
        return x

    tj.make_jaxpr(f)(X)
    assert found


def test_errors_put_the_setting_back() -> None:
    gc.set_threshold(700, 10, 10)

    def f(x: Array) -> Array:
        assert gc.get_threshold()[0] == SELDOM
        raise KeyboardInterrupt

    for transformed in (tj.make_jaxpr(f), tj.jit(f), tj.make_jaxpr(tj.grad(f)), tj.make_jaxpr(tj.vmap(tj.jit(f)))):
        with pytest.raises(KeyboardInterrupt):
            transformed(tj.numpy.asarray(np.ones(3)))
        assert gc.get_threshold() == (700, 10, 10)


def test_an_interrupt_at_the_moment_of_entering_puts_it_back() -> None:
    gc.set_threshold(700, 10, 10)
    block = FewCollections()
    block.__enter__()  # and then the interrupt: nobody leaves it
    assert gc.get_threshold()[0] == SELDOM
    del block
    assert gc.get_threshold() == (700, 10, 10)


def test_threads_put_back_what_was_there_before_all_of_them() -> None:
    gc.set_threshold(700, 10, 10)
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for i in range(30):
            with FewCollections():
                tj.make_jaxpr(lambda x, i=i: tj.numpy.sin(x) * float(i))(X)
            assert gc.get_threshold()[0] in (700, SELDOM)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == (700, 10, 10)


def test_a_function_is_still_itself() -> None:
    def f(x: int, *, y: int = 2) -> int:
        """Adds."""
        assert gc.get_threshold()[0] >= SELDOM
        return x + y

    wrapped = collecting_seldom(f)
    assert wrapped(1) == 3
    assert wrapped(1, y=5) == 6
    assert wrapped.__doc__ == "Adds."
    assert wrapped.__name__ == "f"


def chain(x: Array) -> Array:
    for _ in range(20):
        x = tj.numpy.sin(x) * 2.0 + x
    return x


def stages() -> dict[str, Callable[[], object]]:
    j = tj.make_jaxpr(chain)(X).jaxpr
    text = str(j)
    return {
        "trace": lambda: tj.make_jaxpr(lambda x: chain(x) + 1.0)(X),
        "jit": lambda: tj.jit(lambda x: chain(x) + 1.0).lower(X),
        "jvp": lambda: transforms.jvp(j),
        "linearize": lambda: transforms.linearize(j),
        "batch": lambda: transforms.batch(j, ir.BatchAxis(3), [0]),
        "cse": lambda: transforms.cse(j),
        "typecheck": lambda: ir.typecheck(j),
        "parse": lambda: ir.parse(text),
        "lower": lambda: hlo.lower(j),
        "optimize": lambda: transforms.OPTIMIZATION.report(j, check=True),
        "diff": lambda: tools.diff(j, transforms.jvp(j).jaxpr),
        "liveness": lambda: tools.liveness(j),
    }


@pytest.mark.parametrize("name", stages())
def test_every_stage_raises_the_threshold_while_it_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.set_threshold(700, 10, 10)
    run = stages()[name]
    tj.clear_caches()
    raised: list[tuple[int, ...]] = []
    set_threshold = gc.set_threshold

    def noted(*setting: int) -> None:
        raised.append(setting)
        set_threshold(*setting)

    monkeypatch.setattr(gc, "set_threshold", noted)
    run()
    assert (SELDOM, RARELY, 10) in raised
    assert raised[-1] == (700, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """Nothing is frozen, as it is in a user's process; here, the tests' own modules are."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.sweep
def test_what_is_loaded_counts_as_old(unfrozen: None) -> None:
    """The collector isn't made to look at it, nor at what was there before; garbage is found with the old objects."""

    class Node:
        itself: Node

    def load() -> weakref.ref[Node]:
        kept.extend([] for _ in range(2000))
        node = Node()
        node.itself = node
        return weakref.ref(node)

    kept: list[list[object]] = []
    gc.collect()
    seen = loading(load)()
    assert gc.get_threshold() == (700, 10, 10)
    assert len(gc.get_objects(0)) < 1000
    assert seen() is not None
    gc.collect()
    assert seen() is None


def test_what_a_user_has_frozen_or_switched_off_stays_so(unfrozen: None) -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    loading(lambda: None)()
    assert gc.get_freeze_count() == before
    gc.unfreeze()
    gc.disable()
    loading(lambda: None)()
    assert not gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_nothing_is_looked_at_while_modules_are_loaded() -> None:
    gc.set_threshold(700, 10, 10)
    collections = [generation["collections"] for generation in gc.get_stats()]

    def load() -> list[list[int]]:
        made: list[list[int]] = [[] for _ in range(2 * SELDOM)]
        assert [generation["collections"] for generation in gc.get_stats()] == collections
        return made

    assert len(loading(load)()) == 2 * SELDOM
    assert gc.get_threshold() == (700, 10, 10)


def test_loading_within_a_block_leaves_its_setting() -> None:
    gc.set_threshold(700, 10, 10)
    with FewCollections():
        loading(lambda: None)()
        assert gc.get_threshold() == (SELDOM, RARELY, 10)
    assert gc.get_threshold() == (700, 10, 10)
