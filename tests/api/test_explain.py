"""`jit(f).explain`: why a call is traced anew."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import tinyjax as tj
from tinyjax import ShapedArray
from tinyjax.api import misses
from tinyjax.api.differences import LeafChanged, StaticChanged, StructureChanged
from tinyjax.api.explain import Explanation
from tinyjax.errors import InputError, StaticArgumentError

X = np.array([0.3, -1.2, 2.0])
WEAK = ShapedArray((), "float64", weak_type=True)


class Counter:
    """Counts the calls of a function: how often it is traced. For one test, as classes are remembered."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, x: Any) -> Any:
        self.count += 1
        return x * 2


def test_first_call_then_hit() -> None:
    f = Counter()
    g = tj.jit(f)
    assert g.explain(1.0).reason == "first call"
    assert f.count == 0, "nothing is traced"
    g(1.0)
    found = g.explain(2.0)
    assert found == Explanation(found.function, "hit")
    assert found.hit
    assert f.count == 1


def test_the_leaf_that_differs() -> None:
    def loss(params: Any, x: Any) -> Any:
        return params["w"] * x

    f = tj.jit(loss)
    f({"w": X}, 1.0)
    found = f.explain({"w": X.astype("float32")}, ShapedArray((), "float64"))
    assert found.differences == (
        LeafChanged("params['w']", ShapedArray((3,), "float64"), ShapedArray((3,), "float32")),
        LeafChanged("x", WEAK, ShapedArray((), "float64")),
    )
    line = loss.__code__.co_firstlineno
    assert str(found) == (
        f"miss: jit of loss ({__file__}:{line}) was traced for 1 other signature; from the nearest differs\n"
        "  argument params['w']: f32[3], was f64[3]\n"
        "  argument x: f64[], was ~f64[] (then a Python scalar or computed from such, now an array)"
    )


def test_the_nearest_signature_and_the_last_of_equals() -> None:
    f = tj.jit(lambda x, y: x)
    f(X, X)
    f(1.0, 1.0)
    f(1, 1.0)
    found = f.explain(True, 1.0)
    assert found.signatures == 3
    (change,) = found.differences
    assert isinstance(change, LeafChanged)
    assert str(change.earlier) == "~i64[]"


def test_why_it_was_a_miss() -> None:
    f = tj.jit(lambda x: x)
    f(1.0)
    f(X)
    f(X[:2])
    found = f.explain(X)
    assert found.hit
    assert found.differences == (LeafChanged("x", WEAK, ShapedArray((3,), "float64")),)
    assert "was traced for this signature; the call that did it differed in\n  argument x: f64[3], was" in str(found)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((X, 4), {}, (StaticChanged("n", "3", "4"),)),
        ((X, 3.0), {}, (StaticChanged("n", "3", "3.0"),)),
        ((X,), {"n": 3}, (StaticChanged("n", "3", "3 by name"),)),
        ((X, 3), {"mode": "fast"}, (StaticChanged("mode", None, "'fast' by name"),)),
        ((X, "x" * 500), {}, (StaticChanged("n", "3", "'" + "x" * 119 + "…"),)),
    ],
)
def test_the_static_argument_that_differs(args: Any, kwargs: Any, expected: Any) -> None:
    def f(x: Any, n: Any, *, mode: str = "exact") -> Any:
        return x

    g = tj.jit(f, static_argnames=("n", "mode"))
    g(X, 3)
    assert g.explain(*args, **kwargs).differences == expected


def test_static_arguments_that_print_alike() -> None:
    class Opaque:
        @override
        def __repr__(self) -> str:
            return "<opaque>"

    f = tj.jit(lambda x, n: x, static_argnums=(1,))
    f(1.0, Opaque())
    (difference,) = f.explain(1.0, Opaque()).differences
    assert str(difference) == "static argument n: <opaque>, was another <opaque>"


def test_paths_count_static_arguments() -> None:
    def f(n: int, x: Any, mode: str, y: Any) -> Any:
        return x * y

    g = tj.jit(f, static_argnums=(0, 2))
    g(1, 1.0, "a", 1.0)
    assert [str(d) for d in g.explain(2, 1.0, "a", X).differences] == [
        "argument y: f64[3], was ~f64[]",
        "static argument n: 2, was 1",
    ]


def test_another_tree() -> None:
    f = tj.jit(lambda t: tj.tree.leaves(t)[0])
    f({"w": 1.0})
    (difference,) = f.explain({"v": 1.0}).differences
    assert isinstance(difference, StructureChanged)
    assert (difference.added, difference.removed) == (("t['v']",), ("t['w']",))
    assert str(difference) == "the tree of the arguments: new t['v']; gone t['w']"
    f([1.0])
    (difference,) = f.explain((1.0,)).differences
    assert str(difference) == "the tree of the arguments: (((*,),), {}), was (([*],), {})"
    (difference,) = f.explain([1.0, 2.0]).differences
    assert str(difference) == "the tree of the arguments: new t[1]"


def test_functions_made_anew() -> None:
    class Scaled:
        def __call__(self, x: Any) -> Any:
            return x * 5

    def each_time(make: Any) -> list[str]:
        found: list[str] = []
        for _ in range(3):
            f = tj.jit(make())
            found.append(f.explain(1.0).reason)
            f(1.0)
        return found

    assert each_time(lambda: lambda x: x * 2) == ["first call", "new function", "new function"]
    assert each_time(lambda: partial(lambda k, x: x * k, 2)) == ["first call", "new function", "new function"]
    assert each_time(Scaled) == ["first call", "new function", "new function"]

    def fixed(x: Any) -> Any:
        return x * 3

    assert each_time(lambda: fixed) == ["first call", "hit", "hit"]
    assert each_time(lambda: tj.grad(fixed)) == ["first call", "new function", "new function"]
    assert each_time(lambda: tj.value_and_grad(fixed)) == ["first call", "new function", "new function"]

    f = tj.jit(lambda x: x * 2)
    assert "is a new function object" not in str(f.explain(1.0))
    text = str(tj.jit(Scaled()).explain(1.0))
    assert "is a new function object, and has no programs yet\n" in text
    assert "with the same code had been traced: make the function, and its jit, once" in text


def test_what_is_never_kept() -> None:
    found: list[Explanation] = []

    def outer(y: Any) -> Any:
        f = tj.jit(lambda x: x * y)
        result = f(1.0)
        found.append(f.explain(1.0))
        return result

    tj.grad(outer)(2.0)
    tj.vmap(outer)(X)
    assert [e.reason for e in found] == ["never kept"] * 2
    assert [e.hit for e in found] == [False] * 2
    at = f"outer ({__file__}:{outer.__code__.co_firstlineno}): pass it as an argument"
    assert [e.notes for e in found] == [
        (f"it closes over a value of type ~f64[] of grad of {at}",),
        (f"it closes over a value of type f64[] of vmap of {at}",),
    ]


def test_named_axes() -> None:
    found: list[Explanation] = []

    def outer(y: Any) -> Any:
        total = tj.jit(lambda x: tj.lax.psum(x, "i"))
        total(y)
        same = tj.jit(lambda x: x)
        found.extend([total.explain(y), same.explain(y)])
        return same(y)

    tj.vmap(outer, axis_name="i")(X)
    assert [e.reason for e in found] == ["never kept", "first call"]
    assert [e.notes for e in found] == [
        ("it uses the axis i, which a transformation outside of it maps",),
        ("a program that is traced where axes are in scope isn't kept; here: 'i'",),
    ]


def test_after_the_caches_are_cleared() -> None:
    f = tj.jit(lambda x: x)
    f(1.0)
    tj.clear_caches()
    assert f.explain(1.0).reason == "cleared"
    f(1.0)
    assert f.explain(1.0).hit


def test_after_making_room() -> None:
    """A program that others have pushed out of the cache, and a log that forgets too."""
    f = tj.jit(lambda x, n: x, static_argnums=1)
    f(1.0, 0)
    f._own.clear()
    assert f.explain(1.0, 0).reason == "dropped"
    for n in range(misses._KEPT + 1):
        f.lower(1.0, n)
    assert f.explain(1.0, -1).signatures == misses._KEPT


def test_jits_of_one_function_share_what_they_know() -> None:
    def f(x: Any) -> Any:
        return x

    tj.jit(f)(1.0)
    assert tj.jit(f).explain(1.0).hit
    assert tj.jit(f).explain(X).reason == "changed"


def test_functions_are_not_kept_alive() -> None:
    def f(x: Any, n: int) -> Any:
        return x

    g = tj.jit(f, static_argnums=1)
    g(1.0, 2)
    g.explain(1.0, 3)
    alive = weakref.ref(f)
    del f, g
    gc.collect()
    assert alive() is None


def test_errors_are_those_of_a_call() -> None:
    f = tj.jit(lambda x, n=1: x, static_argnames="n")
    with pytest.raises(InputError):
        f.explain("text")
    with pytest.raises(StaticArgumentError, match="must be hashable"):
        f.explain(1.0, n=[])
