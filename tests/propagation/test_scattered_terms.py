"""What is added at positions is a sum that devices have terms of, if each knows its own part of what is added."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, P, ops
from tinyjax.sharding import AbstractMesh, AxisType

tnp = tj.numpy
MESH = tj.make_mesh((2, 2), ("x", "y"))
RNG = np.random.default_rng(0)
ROWS, AT = RNG.normal(size=(8, 4)), np.array([0, 3, 1, 1, 5, 0, 3, 3])
WEIGHTS = RNG.normal(size=(6, 4))
WHOLE = np.zeros((6, 4))
np.add.at(WHOLE, AT, ROWS)


def sums(compiled: Any) -> int:
    return len(re.findall(r" (all-reduce|all-gather|reduce-scatter)\(", compiled.as_text()))


def segments(rows: Array, at: Array, out: P) -> Array:
    return ops.segment_sum(rows, at, num_segments=6, out_sharding=out)


def added(rows: Array, at: Array, out: P) -> Array:
    zeros = tnp.zeros((6, 4), out_sharding=P(None, *out.partitions[1:], unreduced=out.unreduced))
    return zeros.at[at].add(rows, out_sharding=out)


@pytest.mark.parametrize("f", [segments, added])
@pytest.mark.parametrize(
    ("rows", "out"),
    [
        (P("x"), P(unreduced={"x"})),
        (P("x", "y"), P(None, "y", unreduced={"x"})),
        (P(("x", "y")), P(unreduced={"x", "y"})),
    ],
    ids=str,
)
def test_each_device_adds_its_own(f: Any, rows: P, out: P) -> None:
    with tj.set_mesh(MESH):
        args = tj.device_put(ROWS, rows), tj.device_put(AT, P(rows.partitions[0]))
        for run in (tj.jit(f, static_argnums=2), f)[: 1 + (f is segments)]:  # by itself, an array isn't known to be 0
            found = run(*args, out)
            np.testing.assert_allclose(found, WHOLE, rtol=1e-12)
            for shard in found.addressable_shards:
                own = args[0].sharding.devices_indices_map((8, 4))[shard.device]
                want = np.zeros((6, 4))
                np.add.at(want[:, own[1]], AT[own[0]], ROWS[own])
                np.testing.assert_allclose(np.asarray(shard.data), want[:, own[1]], rtol=1e-12)
        assert sums(tj.jit(f, static_argnums=2).lower(*args, out).compile()) == 0


@pytest.mark.parametrize("rows", [P(), P("y"), P(("x", "y")), P(None, "x")], ids=str)
def test_the_sum_is_right_where_others_are_divided(rows: P) -> None:
    with tj.set_mesh(MESH):
        args = tj.device_put(ROWS, rows), tj.device_put(AT, P())
        for f in (segments, added):
            found = tj.jit(f, static_argnums=2)(*args, P(unreduced={"x"}))
            np.testing.assert_allclose(tj.reshard(found, P()), WHOLE, rtol=1e-12)


def test_counts() -> None:
    def f(at: Array) -> Array:
        return tnp.bincount(at, length=6, out_sharding=P(unreduced={"x", "y"}))

    with tj.set_mesh(MESH):
        at = tj.device_put(AT, P(("x", "y")))
        found = tj.jit(f)(at)
        np.testing.assert_array_equal(tj.reshard(found, P()), np.bincount(AT, minlength=6))
        for shard, part in zip(found.addressable_shards, AT.reshape(4, 2), strict=True):
            np.testing.assert_array_equal(np.asarray(shard.data), np.bincount(part, minlength=6))
        assert sums(tj.jit(f).lower(at).compile()) == 0


def test_what_is_there_already_is_counted_once() -> None:
    def f(weights: Array, rows: Array, at: Array) -> Array:
        return weights.at[at].add(rows, out_sharding=P(unreduced={"x"}))

    with tj.set_mesh(MESH):
        args = tj.device_put(WEIGHTS, P()), tj.device_put(ROWS, P("x")), tj.device_put(AT, P("x"))
        for run in (f, tj.jit(f)):
            np.testing.assert_allclose(tj.reshard(run(*args), P()), WEIGHTS + WHOLE, rtol=1e-12)


def test_gradients_of_rows_that_are_looked_up_are_summed_once() -> None:
    def loss(weights: Array, at: Array) -> Array:
        return (weights.at[at].get(out_sharding=P("x")) ** 2).sum()

    def steps(weights: Array, batches: Array) -> Array:
        start = tnp.zeros((6, 4), out_sharding=P(unreduced={"x"}))
        total, _ = tj.lax.scan(lambda total, at: (total + tj.grad(loss)(weights, at), None), start, batches)
        return tj.reshard(total, P())

    batches = np.stack([AT, AT[::-1], (AT + 1) % 6])
    with tj.set_mesh(MESH):
        weights = tj.device_put(WEIGHTS, P(reduced={"x"}))
        args = weights, tj.device_put(batches, P(None, "x"))
        counts = np.bincount(batches.ravel(), minlength=6)
        np.testing.assert_allclose(tj.jit(steps)(*args), 2.0 * counts[:, None] * WEIGHTS, rtol=1e-12)
        assert sums(tj.jit(steps).lower(*args).compile()) == 1
        gradient: Any = tj.jit(tj.grad(loss))(weights, args[1][0])
        assert gradient.sharding.spec.unreduced == {"x"}


def test_where_no_mesh_of_devices_is_in_force() -> None:
    out = P(unreduced={"x"})

    def f(x: Any) -> Any:
        return tj.reshard(3.0 * tj.reshard(2.0 * x, out), P())

    with tj.set_mesh(AbstractMesh((2, 2), ("x", "y"), (AxisType.Explicit,) * 2)):
        np.testing.assert_allclose(segments(tnp.asarray(ROWS), tnp.asarray(AT), out), WHOLE, rtol=1e-12)
        np.testing.assert_allclose(tj.jit(f)(ROWS), 6.0 * ROWS)
        program = tj.make_jaxpr(f)(ROWS)

    def run(x: Any) -> Array:
        (found,) = tj.eval_jaxpr(program.jaxpr, program.consts, x)
        return found

    for x in (ROWS, *[tj.device_put(ROWS, tj.NamedSharding(MESH, spec)) for spec in (P(), P("x"), P(None, "y"))]):
        for each in (run, tj.jit(run)):
            np.testing.assert_allclose(each(x), 6.0 * ROWS)
