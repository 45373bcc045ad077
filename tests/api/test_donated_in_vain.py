"""Arrays that are donated and that no result can use stay alive, with a warning: as in jax."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import DonationWarning

Make = Callable[[Any], Any]


def ones(*shape: int, dtype: str = "float32") -> Make:
    return lambda lib: lib.device_put(np.ones(shape, dtype), lib.devices()[0])


def divided(*shape: int) -> Make:
    def make(lib: Any) -> Any:
        mesh = lib.make_mesh((8,), ("x",), (lib.sharding.AxisType.Auto,))
        return lib.device_put(np.ones(shape, "float32"), lib.NamedSharding(mesh, lib.P("x")))

    return make


def _whole(lib: Any) -> Any:
    return lib.NamedSharding(lib.make_mesh((8,), ("x",), (lib.sharding.AxisType.Auto,)), lib.P())


#: A function, what it is called with, and what is donated of that.
CASES: dict[str, tuple[Callable[[Any], Callable[..., Any]], tuple[Make, ...], tuple[int, ...]]] = {
    "used": (lambda lib: lambda x: x + 1, (ones(4, 4),), (0,)),
    "sum": (lambda lib: lambda x: x.sum(), (ones(4, 4),), (0,)),
    "one of two": (lambda lib: lambda x, y: x + y.sum(), (ones(4, 4), ones(4, 4)), (0, 1)),
    "the second": (lambda lib: lambda x, y: x[0] + y, (ones(4, 4), ones(4)), (0, 1)),
    "both": (lambda lib: lambda x, y: (x + y, x - y), (ones(4, 4), ones(4, 4)), (0, 1)),
    "returned": (lambda lib: lambda x, y: (x + 1, y), (ones(4, 4), ones(2)), (0, 1)),
    "another dtype": (lambda lib: lambda x: x.astype("int32"), (ones(4, 4),), (0,)),
    "another shape": (lambda lib: lambda x: x.reshape(16) + 1, (ones(4, 4),), (0,)),
    "not read": (lambda lib: lambda x, y: x + 1, (ones(4, 4), ones(4, 4)), (0, 1)),
    "not read, first": (lambda lib: lambda y, x: x + 1, (ones(4, 4), ones(4, 4)), (0, 1)),
    "empty": (lambda lib: lambda x: x.sum(), (ones(0),), (0,)),
    "in a tree": (lambda lib: lambda t: {"a": t["a"] * 2}, (lambda lib: {"a": ones(3)(lib)},), (0,)),
    "some of a tree": (
        lambda lib: lambda t: {"a": t["a"] * t["b"].sum()},
        (lambda lib: {"a": ones(3)(lib), "b": ones(2)(lib)},),
        (0,),
    ),
    "divided": (lambda lib: lambda x: x + 1, (divided(16),), (0,)),
    "made whole": (
        lambda lib: lib.jit(lambda x: lib.lax.with_sharding_constraint(x + 1, _whole(lib))),
        (divided(16),),
        (0,),
    ),
}


def _after(lib: Any, name: str) -> tuple[list[list[bool]], list[int]]:
    """For each of two calls which arrays are deleted, and how many warnings there are."""
    made, makers, donated = CASES[name]
    f = lib.jit(made(lib), donate_argnums=donated)
    deleted, warned = [], []
    for _ in range(2):
        args = [make(lib) for make in makers]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            f(*args)
        deleted.append([bool(x.is_deleted()) for x in lib.tree.leaves(args)])
        warned.append(len([each for each in caught if "donated" in str(each.message)]))
    return deleted, warned


@pytest.mark.parametrize("name", CASES)
def test_what_no_result_can_use_is_kept(name: str) -> None:
    jax.clear_caches()
    tj.clear_caches()
    assert _after(tj, name) == _after(jax, name)


@pytest.mark.parametrize("ahead", [False, True])
def test_it_is_warned_once_for_each_program(ahead: bool) -> None:
    tj.clear_caches()
    f: Any = tj.jit(lambda x, y: (x * y).sum(), donate_argnums=(0, 1))
    args = tj.numpy.ones(3) * 2, tj.numpy.ones(3)
    message = r"donated in vain, and kept: argument x of '<lambda>', f64\[3\], argument y of '<lambda>', f64\[3\]"
    with pytest.warns(DonationWarning, match=message):
        f = f.lower(*args).compile() if ahead else f(*args) and f
    for _ in range(3):
        assert float(f(*args)) == 6.0


@pytest.mark.parametrize("static", [False, True])
def test_arrays_on_the_host_are_kept_too(static: bool) -> None:
    tj.clear_caches()
    f = tj.jit(lambda x, y, n=2: (x + y.sum()) * n, donate_argnums=(0, 1), static_argnames="n" if static else ())
    with pytest.warns(DonationWarning, match="argument y of"):
        f(tj.numpy.ones(3), tj.numpy.ones(4))
    for _ in range(3):
        x, y = tj.numpy.ones(3), tj.numpy.ones(4)
        f(x, y)
        assert x.is_deleted()
        assert not y.is_deleted()
        f(tj.numpy.ones(3), y)  # as another argument, too


@pytest.mark.parametrize("name", ["sum", "one of two", "another shape", "divided", "made whole"])
def test_lowering_warns(name: str) -> None:
    def counts(m: Any) -> list[int]:
        made, makers, donated = CASES[name]
        args = [make(m) for make in makers]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            traced = m.jit(made(m), donate_argnums=donated).trace(*args)
            found = [len(caught)]
            lowered = traced.lower()
            found.append(len(caught))
            lowered.compile()
        return [*found, len(caught)]

    jax.clear_caches()
    tj.clear_caches()
    assert counts(tj) == counts(jax)
