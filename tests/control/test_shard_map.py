"""`shard_map` on the host: against JAX, and by the laws that hold of every program."""

from __future__ import annotations

import io
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tests.control.shard_map_programs import MESH, PROGRAMS, of_jax, ours
from tinyjax import ir, lax
from tinyjax.errors import AxisNameError, InputError, ParseError, ShardingError, TreeError, TypingError
from tinyjax.sharding import AbstractMesh
from tinyjax.sharding import PartitionSpec as P
from tinyjax.testing import check_laws

RANDOM = np.random.default_rng(5)
X, W = RANDOM.normal(size=(8, 4)), RANDOM.normal(size=(4, 4))
DX, DW = RANDOM.normal(size=(8, 4)), RANDOM.normal(size=(4, 4))
#: Reverse mode of a `while` is nobody's.
FORWARD_ONLY = {"loop_as_long_as_each_likes"}
#: Where JAX waits for ever (a sum within what devices choose), or fails.
NOT_IN_JAX = {"choice_of_each", "untiled_all_to_all", "one_within_another"}


def leaves(results: object) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(results, is_leaf=lambda x: hasattr(x, "__array__"))]


def loss(name: str, m: Any) -> Any:
    """A number that all results have a part in."""

    def total(x: Any, w: Any) -> Any:
        found = jax.tree.leaves(PROGRAMS[name](m, x, w), is_leaf=lambda leaf: hasattr(leaf, "shape"))
        return sum((m.np.sin(leaf) * m.np.arange(1.0, leaf.size + 1.0).reshape(leaf.shape)).sum() for leaf in found)

    return total


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str) -> None:
    """Against quotients of differences, forward and backward; and the programs of both are well typed."""
    f = loss(name, ours())
    eps = 1e-6
    up, down = (float(f(X + sign * eps * DX, W + sign * eps * DW)) for sign in (1, -1))
    expected = (up - down) / (2 * eps)
    forward = float(tj.jvp(f, (X, W), (DX, DW))[1])
    assert forward == pytest.approx(expected, rel=1e-5, abs=1e-5)
    ir.typecheck(tj.make_jaxpr(f)(X, W))
    if name not in FORWARD_ONLY:
        gx, gw = tj.grad(f, (0, 1))(X, W)
        assert float((gx * DX).sum() + (gw * DW).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-5)
        ir.typecheck(tj.make_jaxpr(tj.grad(f, (0, 1)))(X, W))


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_jax(name: str) -> None:
    m, theirs = ours(), of_jax()
    if name != "one_within_another":
        for found, wanted in zip(
            leaves(PROGRAMS[name](m, X, W)),
            leaves(jax.block_until_ready(jax.jit(lambda x, w: PROGRAMS[name](theirs, x, w))(X, W))),
            strict=True,
        ):
            np.testing.assert_allclose(found, wanted, rtol=2**-40, atol=2**-40)
    if name not in FORWARD_ONLY | NOT_IN_JAX:
        derived = jax.block_until_ready(jax.jit(jax.grad(loss(name, theirs), (0, 1)))(X, W))
        for found, wanted in zip(tj.grad(loss(name, m), (0, 1))(X, W), derived, strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=2**-36, atol=2**-36)


@pytest.mark.parametrize("name", ["sums_in_a_scan", "gathered_and_scattered", "types_that_say_nothing", "trees"])
def test_programs_are_read_saved_and_mapped(name: str) -> None:
    found = tj.make_jaxpr(lambda x, w: PROGRAMS[name](ours(), x, w))(X, W)
    assert ir.parse(str(found.jaxpr)) == found.jaxpr
    file = io.BytesIO()
    ir.save(file, found)
    file.seek(0)
    assert ir.load(file) == found == pickle.loads(pickle.dumps(found))
    assert ir.content_hash(ir.parse(str(found.jaxpr))) == ir.content_hash(found.jaxpr)


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_laws(name: str) -> None:
    check_laws(tj.make_jaxpr(lambda x, w: PROGRAMS[name](ours(), x, w))(X, W))


def test_what_varies_is_part_of_types() -> None:
    seen: list[str] = []

    def body(a: tj.Array, b: tj.Array) -> tj.Array:
        seen.extend(str(tj.typeof(v)) for v in (a, b, a * b, lax.psum(a, "x"), lax.axis_index("y")))
        assert tj.typeof(a).vma == {"x"}
        return lax.psum(a * b, ("x", "y"))

    tj.make_jaxpr(tj.shard_map(body, mesh=MESH, in_specs=(P("x"), P("y")), out_specs=P()))(np.ones(8), np.ones(4))
    assert seen == ["f64[2]{V:x}", "f64[2]{V:y}", "f64[2]{V:(x,y)}", "f64[2]", "i32[]{V:y}"]


def test_results_that_differ_need_an_axis() -> None:
    with pytest.raises(TypingError, match=r"result\['a'\] is f64\[2\]\{V:x\}, which varies along axis 'x' .*lax.psum"):
        tj.shard_map(lambda x: {"a": x}, mesh=MESH, in_specs=P("x"), out_specs={"a": P()})(np.ones(8))
    same = tj.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P(), check_vma=False)(np.ones(8))
    assert np.asarray(same).tolist() == [1.0, 1.0]


def test_communication_that_not_all_take_part_in() -> None:
    def chooses(x: Any) -> Any:
        return lax.cond(lax.axis_index("x") > 1, lambda x: lax.psum(x, "x"), lambda x: x, x)

    def loops(x: Any) -> Any:
        return lax.while_loop(lambda c: c.sum() < 3, lambda c: c + lax.psum(c, "x"), x)

    for body in (chooses, loops):
        with pytest.raises(TypingError, match=r"varies along 'x', and psum at .* communicates along it"):
            tj.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(np.ones(8))
    # Along another axis, all that communicate choose alike.
    apart = tj.shard_map(
        lambda x: lax.cond(lax.axis_index("x") > 1, lambda x: lax.psum(x, "y"), lambda x: x * 1.0, x),
        mesh=MESH, in_specs=P("x"), out_specs=P("x"),
    )  # fmt: skip
    assert np.asarray(apart(np.ones(8))).tolist() == [1, 1, 1, 1, 2, 2, 2, 2]


def test_bad_specifications() -> None:
    def run(x: object, **given: Any) -> object:
        given = {"mesh": MESH, "in_specs": P("x"), "out_specs": P("x"), **given}
        return tj.shard_map(lambda x: x, **given)(x)

    with pytest.raises(ShardingError, match=r"argument x of <lambda>: .* dimension 0 has 6 elements.*4 devices"):
        run(np.ones(6))
    with pytest.raises(ShardingError, match="dimension 0 isn't there"):
        run(1.0)
    with pytest.raises(ShardingError, match="its axes of the mesh are 'x', 'y'"):
        run(np.ones(8), in_specs=P("z"))
    with pytest.raises(InputError, match="tree of PartitionSpecs"):
        run(np.ones(8), in_specs="x")
    with pytest.raises(TreeError, match="in_specs must be a prefix"):
        run(np.ones(8), in_specs=(P("x"), P("y")))
    with pytest.raises(ShardingError, match="axis_names has 'z'"):
        run(np.ones(8), axis_names={"z"})
    with pytest.raises(ShardingError, match="needs a mesh"):
        run(np.ones(8), mesh=None)
    with pytest.raises(AxisNameError, match="or shard_map"):
        tj.shard_map(lambda x: lax.psum(x, "z"), mesh=MESH, in_specs=P("x"), out_specs=P())(np.ones(8))


def test_an_axis_is_manual_once() -> None:
    def body(x: Any) -> Any:
        return tj.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(x)

    with pytest.raises(ShardingError, match="the axis 'x' of the mesh is manual already"):
        tj.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(np.ones(8))


def test_a_mesh_of_many_devices_without_any() -> None:
    mesh = AbstractMesh((32, 32), ("x", "y"))
    f = tj.shard_map(lambda x: x - lax.pmean(x, ("x", "y")), mesh=mesh, in_specs=P(("x", "y")), out_specs=P(("x", "y")))
    x = np.arange(2048.0)
    assert np.asarray(f(x)).tolist() == (x.reshape(1024, 2) - x.reshape(1024, 2).mean(0)).ravel().tolist()


def test_casts() -> None:
    def body(x: Any) -> Any:
        y = lax.pcast(x, "x", to="varying")
        with pytest.raises(AxisNameError, match="the same along"):
            lax.pcast(y, "x", to="varying")
        return y

    found = tj.shard_map(body, mesh=MESH, in_specs=P(), out_specs=P("x"))(np.arange(2.0))
    assert np.asarray(found).tolist() == [0, 1] * 4


def test_verifier_sees_operands_that_vary_differently() -> None:
    text = """{ lambda ; a:f64[2]{V:x} b:f64[2]. let c:f64[2]{V:x} = mul a b in (c,) }"""
    with pytest.raises(ParseError, match="mul takes operands that vary alike"):
        ir.parse(text)
