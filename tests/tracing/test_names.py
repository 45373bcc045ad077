"""What inputs of programs are called: by the function that was traced, in every kind of call; no part of the value."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import ir


def f(p: Any, x: Any, *rest: Any, flag: Any = 1.0, **more: Any) -> Any:
    return p["w"] * x + sum(rest) + flag + sum(more.values())


class Model:
    def method(self, a: Any, b: Any) -> Any:
        return a * b

    def __call__(self, a: Any, b: Any) -> Any:
        return a * b


@wraps(f)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return f(*args, **kwargs)


P = {"w": 1.0, "b": (2.0,)}
GENERAL: Callable[..., Any] = f


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: tj.make_jaxpr(f)(P, 1.0), ("p['b'][0]", "p['w']", "x")),
        (lambda: tj.make_jaxpr(f)(P, x=1.0, flag=2.0, z=3.0), ("p['b'][0]", "p['w']", "flag", "x", "z")),
        (lambda: tj.make_jaxpr(f)({"w": 1.0}, 1.0, 2.0, (3.0, 4.0)[0]), ("p['w']", "x", "rest[0]", "rest[1]")),
        (lambda: tj.make_jaxpr(f, static_argnums=1)({"w": 1.0}, 1.0, 2.0), ("p['w']", "rest[0]")),
        (lambda: tj.make_jaxpr(partial(f, P))(1.0, 2.0), ("x", "rest[0]")),
        (lambda: tj.make_jaxpr(wrapped)({"w": 1.0}, 1.0), ("p['w']", "x")),
        (lambda: tj.make_jaxpr(Model().method)(1.0, 2.0), ("a", "b")),
        (lambda: tj.make_jaxpr(Model())(1.0, 2.0), ("a", "b")),
        (lambda: tj.make_jaxpr(tj.grad(GENERAL))({"w": 1.0}, 1.0), ("p['w']", "x")),
        (lambda: tj.make_jaxpr(tj.jit(tj.vmap(f)))({"w": np.ones(2)}, np.ones(2)), ("p['w']", "x")),
        (tj.make_jaxpr(lambda: 1.0), ()),
    ],
)
def test_names_of_inputs(make: Callable[[], tj.ClosedJaxpr], names: tuple[str, ...]) -> None:
    assert make().input_names == names


def test_programs_within_have_names_too() -> None:
    array = np.ones(3)

    def inner(a: Any, b: Any) -> Any:
        return tj.lax.cond(a > 0, lambda u: u, lambda v: -v, b) * array

    closed = tj.make_jaxpr(lambda q: tj.jit(inner)(q, b=q))(1.0)
    names = {program.input_names for program in ir.nested_programs(closed.jaxpr)}
    assert names == {("v",), ("u",), ("", "a", "b"), ("", "q")}
    assert closed.input_names == ("q",)


def test_names_are_no_part_of_the_value() -> None:
    x = tj.make_jaxpr(lambda a: 2.0 * a)(1.0)
    y = tj.make_jaxpr(lambda b: 2.0 * b)(1.0)
    assert x == y
    assert hash(x) == hash(y)
    assert ir.content_hash(x) == ir.content_hash(y)
    assert str(x) == str(y)
    assert (x.input_names, y.input_names) == (("a",), ("b",))
    named = x.jaxpr.with_names(["c"])
    assert named == x.jaxpr
    assert named.remembered_by is x.jaxpr.remembered_by
    assert named.input_names == ("c",)
    assert named.with_names([]).input_names == ("",)
    assert copy.deepcopy(named).input_names == ("c",)
    parsed = ir.parse(str(named))
    assert parsed.input_names == ("",)
    assert parsed.named_like(named).input_names == ("c",)


def test_names_survive_pickling() -> None:
    x = tj.make_jaxpr(f)(P, 1.0)
    again = pickle.loads(pickle.dumps(x))
    assert again == x
    assert again.input_names == x.input_names


def test_names_keep_no_function_alive() -> None:
    def g(x: Any) -> Any:
        return 2.0 * x

    there = weakref.ref(g)
    closed = tj.make_jaxpr(g)(1.0)
    del g
    gc.collect()
    assert there() is None
    assert closed.input_names == ("x",)
