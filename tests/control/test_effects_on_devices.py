"""Calls of the host from programs on several devices: by each device within `shard_map`, elsewhere by the first."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P, lax
from tinyjax.errors import UnsupportedError
from tinyjax.sharding import Mesh

X = np.arange(16.0)


def four() -> Mesh:
    return tj.make_mesh((4,), ("x",))


def test_each_device_calls_in_order() -> None:
    seen: defaultdict[int, list[float]] = defaultdict(list)

    def note(i: Any, value: Any) -> None:
        seen[int(i)].append(float(np.sum(value)))

    def body(x: tj.Array) -> tj.Array:
        i = lax.axis_index("x")
        tj.debug.callback(note, i, x)
        total = lax.psum(x.sum(), "x")
        tj.debug.callback(note, i, total)

        def step(c: tj.Array, _: None) -> tuple[tj.Array, None]:
            tj.debug.callback(note, i, c)
            return c + 1.0, None

        last = lax.scan(step, x.sum(), None, length=2)[0]
        return lax.cond(i % 2 == 0, lambda v: (tj.debug.callback(note, i, -v), v)[1], lambda v: 2.0 * v, last * x)

    mesh = four()
    mapped = tj.jit(tj.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x")))
    found = np.asarray(mapped(tnp.asarray(X)))
    parts = X.reshape(4, 4)
    for i, part in enumerate(parts):
        result = (part.sum() + 2.0) * part
        told = [part.sum(), X.sum(), part.sum(), part.sum() + 1.0, *([-result.sum()] if i % 2 == 0 else [])]
        assert seen[i] == told
        np.testing.assert_array_equal(found[4 * i : 4 * i + 4], result if i % 2 == 0 else 2.0 * result)


def test_derivatives_call_too() -> None:
    seen: list[float] = []

    def body(x: tj.Array) -> tj.Array:
        tj.debug.callback(lambda v: seen.append(float(np.sum(v))), x)
        return lax.psum((x * x).sum(), "x")

    mesh = four()
    f = tj.jit(tj.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P()))
    np.testing.assert_array_equal(np.asarray(tj.grad(f)(tnp.asarray(X))), 2.0 * X)
    assert sorted(seen) == [part.sum() for part in X.reshape(4, 4)]


def test_elsewhere_the_first_calls_once(capsys: pytest.CaptureFixture[str]) -> None:
    x = tj.device_put(X, NamedSharding(four(), P("x")))

    @tj.jit
    def f(x: tj.Array) -> tj.Array:
        tj.debug.print("{}", x)

        def step(i: tj.Array, c: tj.Array) -> tj.Array:
            tj.debug.print("{} {}", i, c.sum())
            return 2.0 * c

        return lax.fori_loop(0, 2, step, x) + tj.io_callback(np.max, tj.ShapedArray((), "f8"), x)

    np.testing.assert_array_equal(np.asarray(f(x)), 4.0 * X + 15.0)
    assert capsys.readouterr().out == f"{X}\n0 120.0\n1 240.0\n"


def test_where_it_is_not_said_which_device_calls() -> None:
    mesh = tj.make_mesh((4, 2), ("x", "y"))

    def body(x: tj.Array) -> tj.Array:
        tj.experimental.io_callback(print, None, x)
        return x

    mapped = tj.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    with pytest.raises(UnsupportedError, match=r"some axes of Mesh\('x': 4, 'y': 2.* Name all axes in axis_names"):
        tj.jit(mapped)(tnp.asarray(X))
