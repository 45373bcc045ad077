"""What inputs of programs are called: by the function that was traced, in every kind of call; no part of the value."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
import zipfile
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, ir
from tinyjax.errors import FileFormatError


def f(p: Any, x: Any, *rest: Any, flag: Any = 1.0, **more: Any) -> Any:
    return p["w"] * x + sum(rest) + flag + sum(more.values())


class Model:
    def method(self, a: Any, b: Any) -> Any:
        return a * b

    def __call__(self, a: Any, b: Any) -> Any:
        return a * b


class Silent(Model):
    """What doesn't tell its signature."""

    @property
    def __signature__(self) -> Any:
        raise TypeError("no signature")


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
        (lambda: tj.make_jaxpr(Silent())(1.0, 2.0), ("0", "1")),
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


@pytest.mark.sweep
def test_names_keep_no_function_alive() -> None:
    def g(x: Any) -> Any:
        return 2.0 * x

    there = weakref.ref(g)
    closed = tj.make_jaxpr(g)(1.0)
    del g
    gc.collect()
    assert there() is None
    assert closed.input_names == ("x",)


def everywhere(program: tj.ClosedJaxpr | tj.Jaxpr) -> list[tuple[str, ...]]:
    """The names in all programs of a program."""
    jaxpr = program.jaxpr if isinstance(program, tj.ClosedJaxpr) else program
    return [inner.input_names for inner in ir.nested_programs(jaxpr)]


def with_programs() -> tj.ClosedJaxpr:
    def step(carry: Array, row: Array) -> tuple[Array, Array]:
        return carry * row, tj.lax.cond(row > 0.0, lambda up: up, lambda down: -down, row)

    weights = np.arange(3.0)
    return tj.make_jaxpr(lambda p, x: tj.lax.scan(step, p["w"], x * weights))({"w": 1.0}, np.ones(3))


def saved_and_loaded(program: tj.ClosedJaxpr | tj.Jaxpr) -> tj.ClosedJaxpr | tj.Jaxpr:
    file = io.BytesIO()
    ir.save(file, program)
    return ir.load(io.BytesIO(file.getvalue()))


def pickled(program: tj.ClosedJaxpr | tj.Jaxpr) -> tj.ClosedJaxpr | tj.Jaxpr:
    again: tj.ClosedJaxpr | tj.Jaxpr = pickle.loads(pickle.dumps(program))
    return again


@pytest.mark.parametrize("keep", [saved_and_loaded, pickled, copy.deepcopy])
def test_names_are_kept_at_every_depth(
    keep: Callable[[tj.ClosedJaxpr | tj.Jaxpr], tj.ClosedJaxpr | tj.Jaxpr],
) -> None:
    closed = with_programs()
    assert closed.input_names == ("p['w']", "x")
    assert {("carry", "row"), ("up",)} <= set(everywhere(closed))
    unusual = closed.jaxpr.with_names(["", "a\n\"b'", "ünïcödé"])
    unnamed = closed.jaxpr.with_names([])
    for program in (closed, closed.jaxpr, unusual, unnamed):
        again = keep(program)
        assert again == program
        assert everywhere(again) == everywhere(program)
        assert again.input_names == program.input_names
        assert ir.content_hash(again) == ir.content_hash(program)


def test_names_that_are_no_text() -> None:
    again = saved_and_loaded(with_programs().jaxpr.with_names(["", "a\udc80", "x"]))
    assert again.input_names == ("", "a?", "x")


def test_files_without_names_have_no_member_for_them() -> None:
    file = io.BytesIO()
    ir.save(file, tj.make_jaxpr(lambda x: x * 2)(1.0).jaxpr.with_names([]))
    assert "names.json" not in zipfile.ZipFile(file).namelist()


def test_what_trace_returns_can_be_saved() -> None:
    traced = tj.trace(lambda w: w * 2.0, 1.0)
    file = io.BytesIO()
    ir.save(file, traced)
    again = ir.load(io.BytesIO(file.getvalue()))
    assert (again, again.input_names) == (traced.jaxpr, ("w",))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (b"[", "its member 'names.json' is wrong: "),
        (b'{"a": 1}', "its member 'names.json' is wrong: "),
        (b"[[1]]", "its member 'names.json' is wrong: "),
        (b"[" * 100_000, "its member 'names.json' is wrong: "),
        (b'[["x"], ["y"]]', "it has names for 2 programs, but holds 1"),
        (b"[]", "it has names for 0 programs, but holds 1"),
        (b'[["x", "y"]]', "it has 2 names for the 1 inputs of program 0"),
    ],
)
def test_damaged_names(names: bytes, message: str) -> None:
    file = io.BytesIO()
    ir.save(file, tj.make_jaxpr(lambda x: x * 2)(1.0))
    changed = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, names if name == "names.json" else old.read(name))
    with pytest.raises(FileFormatError, match=f"the file can't be read: {message}"):
        ir.load(io.BytesIO(changed.getvalue()))


def test_damage_to_names_gives_no_other_program() -> None:
    program = with_programs()
    file = io.BytesIO()
    ir.save(file, program)
    content = bytearray(file.getvalue())
    start = content.index(b"names.json")
    for at in range(start, start + 200):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        try:
            found = ir.load(io.BytesIO(bytes(damaged)))
        except FileFormatError:
            continue
        assert found == program
        assert everywhere(found) == everywhere(program) or not any(map(any, everywhere(found)))
