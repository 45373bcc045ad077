"""Explicit axes: results lie as the program says, and what it leaves open is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P, lax
from tinyjax.errors import ShardingError, ShardingTypeError
from tinyjax.nn import initializers
from tinyjax.sharding import AxisType, Mesh, Sharding, auto_axes, explicit_axes

MESH = tj.make_mesh((4, 2), ("x", "y"))
X = np.arange(32.0).reshape(8, 4)
W = np.linspace(-1.0, 1.0, 24).reshape(4, 6)


def put(array: np.ndarray[Any, Any], *parts: str | None) -> tj.Array:
    found: tj.Array = tj.device_put(array, NamedSharding(MESH, P(*parts)))
    return found


def spec(x: tj.Array) -> P:
    assert isinstance(x.sharding, NamedSharding)
    assert x.sharding.mesh == MESH
    return x.sharding.spec


def test_results_lie_as_the_program_says_also_by_single_operations() -> None:
    def f(x: tj.Array, w: tj.Array) -> tuple[tj.Array, ...]:
        y = tnp.tanh(x) @ w
        return y, y.T, y.sum(0), x * 2.0, tnp.max(x)

    x, w = put(X, "x", None), put(W, None, "y")
    for outs in (f(x, w), tj.jit(f)(x, w)):
        assert list(map(spec, outs)) == [P("x", "y"), P("y", "x"), P("y"), P("x", None), P()]
        np.testing.assert_allclose(np.asarray(outs[0]), np.tanh(X) @ W)


def contracted(x: tj.Array) -> tj.Array:
    return x @ x.T


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (contracted, "the contracting axes 1 and 0 are divided"),
        (lambda x: x + put(X, "y", "x"), "along axis 0 the operands are divided differently"),
        (lambda x: lax.cumsum(x, 0), "axis 0, along which it goes, is divided"),
        (
            lambda x: lax.slice(x, (0, 0), (3, 4)),
            "axis 0 of the result has the size 3, which the mesh axis 'x' \\(4\\)",
        ),
        (lambda x: x.reshape(4, 8), "can't become \\[4, 8\\] axis by axis"),
        (lambda x: x[tnp.array([1, 2])], "axis 0 of the operand, along which it is indexed, is divided"),
        (tnp.sort, "axis 1, which is sorted, is divided"),
        (lambda x: x[:, None] * x[None], "the result would be .*divided along 'x' twice"),
    ],
)
def test_what_is_left_open_is_an_error(f: Callable[[tj.Array], tj.Array], why: str) -> None:
    x = put(X, "x", "y")
    with pytest.raises(ShardingTypeError, match=why) as seen:
        tj.jit(f)(x)
    assert f"at {__file__}:" in str(seen.value)
    assert "f64[8@x,4@y]" in str(seen.value) or "f64[8@x,8,4@y]" in str(seen.value)
    with pytest.raises(ShardingTypeError, match=why):
        f(x)
    with pytest.raises(ShardingTypeError, match=why):
        tj.jit(f).lower(x)


@pytest.mark.sweep
def test_the_hints_of_errors_help() -> None:
    x = put(X, "x", "y")
    expected = X @ X.T
    with tj.set_mesh(MESH):
        ways: list[Callable[[tj.Array], tj.Array]] = [
            lambda x: tnp.matmul(x, x.T, out_sharding=P("x", None)),
            lambda x: tj.reshard(x, P("x", None)) @ tj.reshard(x.T, P()),
            auto_axes(contracted, out_sharding=P("x", None)),
        ]
        for way in ways:
            for f in (way, tj.jit(way)):
                found = f(x)
                assert spec(found) == P("x", None)
                np.testing.assert_allclose(np.asarray(found), expected)
        staged = tj.jit(lambda x: tj.reshard(contracted(x), P(None, "y")))(x)
        assert spec(staged) == P(None, "y")


@pytest.mark.sweep
def test_gradients_lie_as_what_they_are_of() -> None:
    def loss(w: tj.Array, x: tj.Array) -> tj.Array:
        with tj.sharding.use_abstract_mesh(MESH.abstract_mesh):
            return tnp.sum(tnp.sin(tnp.matmul(x, w, out_sharding=P("x", None))))

    x, w = put(X, "x", "y"), put(W, "y", None)
    expected = tj.grad(lambda w: tnp.sum(tnp.sin(X @ w)))(W)
    for g in (tj.grad(loss), tj.jit(tj.grad(loss)), tj.grad(tj.jit(loss)), lambda *a: tj.vjp(loss, *a)[1](1.0)[0]):
        found = g(w, x)
        assert spec(found) == P("y", None)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected))


def test_types_say_it_while_a_function_is_traced() -> None:
    seen = []

    def note(x: tj.Array) -> tj.Array:
        seen.append(str(tj.typeof(x)))
        return x * 2.0

    def f(x: tj.Array) -> tj.Array:
        tj.vmap(note)(x)
        tj.grad(lambda x: note(x.T).sum())(x)
        tj.jit(note)(x + 1.0)
        return note(x).sum(1)

    expected = ["f64[4@y]", "f64[4@y,8@x]", "f64[8@x,4@y]", "f64[8@x,4@y]"]
    tj.jit(f)(put(X, "x", "y"))
    assert seen == expected
    seen.clear()
    f(put(X, "x", "y"))
    assert seen == expected
    seen.clear()
    tj.jit(f)(put(X, None, "x"))  # other arguments, another program
    assert seen == ["f64[4@x]", "f64[4@x,8]", "f64[8,4@x]", "f64[8,4@x]"]
    assert isinstance(tj.typeof(X), tj.ShapedArray)


def test_loops_and_branches() -> None:
    def f(x: tj.Array) -> tuple[tj.Array, tj.Array]:
        total, rows = lax.scan(lambda c, r: (c + r, r.sum(1)), tnp.zeros_like(x[0]), x)
        return lax.cond(True, lambda t: t, lambda t: 2.0 * t, total), rows

    x = put(np.ones((3, 8, 4)), None, "x", "y")
    total, rows = tj.jit(f)(x)
    assert (spec(total), spec(rows)) == (P("x", "y"), P(None, "x"))
    assert spec(tj.jit(tj.grad(lambda x: f(x)[1].sum()))(x)) == P(None, "x", "y")
    # What isn't divided at all lies as what it becomes.
    assert spec(tj.jit(lambda x: lax.scan(lambda c, r: (c + r, None), tnp.zeros((8, 4)), x)[0])(x)) == P("x", "y")
    either = tj.jit(lambda x: lax.cond(x.sum() > 0.0, lambda x: x[0], lambda x: tnp.zeros((8, 4)), x))
    assert spec(either(x)) == P("x", "y")
    for other in (P(), P("y", "x")):
        with pytest.raises(ShardingTypeError, match="the body divides a result as"):
            tj.jit(lambda x, s=other: lax.scan(lambda c, _: (tj.reshard(c, s), None), x[0], None, length=2)[0])(x)
    with pytest.raises(ShardingTypeError, match="the first axis of what is scanned over is divided"):
        tj.jit(lambda x: lax.scan(lambda c, r: (c, r), 0.0, x)[1])(put(X, "x"))


def test_axes_change_their_type() -> None:
    auto = Mesh(MESH.devices, ("x", "y"), (AxisType.Auto, AxisType.Auto))
    seen = []

    def f(x: tj.Array) -> tj.Array:
        seen.append(str(tj.typeof(x)))
        return x + 1.0

    with tj.set_mesh(auto):
        given: Any = explicit_axes(f, in_sharding=P("x"))
        for g in (given, tj.jit(given)):
            found = g(X)
            assert found.sharding.mesh.auto_axes == ("x", "y")
    assert seen == ["f64[8@x,4]"] * 2
    mixed = Mesh(MESH.devices, ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    x = tj.device_put(X, NamedSharding(mixed, P("x", "y")))
    tj.jit(f)(x)
    assert seen[2:] == ["f64[8@x,4]"]


def test_methods_take_how_their_results_lie() -> None:
    x = put(X, "x", "y")
    rows = NamedSharding(MESH, P("x", None))
    cases: list[tuple[Callable[[tj.Array], tj.Array], np.ndarray[Any, Any]]] = [
        (lambda x: x.reshape(4, 8, out_sharding=rows), X.reshape(4, 8)),
        (lambda x: x.at[np.arange(4)].get(out_sharding=rows), X[:4]),
        (lambda x: x.at[3:5].add(1.0, out_sharding=rows), X + np.isin(np.arange(8), [3, 4])[:, None]),
        (lambda x: x.at[0].divide(2.0, out_sharding=rows), np.concatenate([X[:1] / 2.0, X[1:]])),
    ]
    for f, expected in cases:
        for g in (f, tj.jit(f)):
            found = g(x)
            assert spec(found) == P("x", None)
            np.testing.assert_allclose(np.asarray(found), expected)


def test_loops_know_how_what_they_take_lies() -> None:
    seen: list[str] = []

    def noted(sharding: Sharding) -> None:
        assert isinstance(sharding, NamedSharding)
        seen.append(str(sharding.spec))

    def f(x: tj.Array) -> tj.Array:
        def body(c: tj.Array, r: tj.Array) -> tuple[tj.Array, None]:
            seen.append(f"{tj.typeof(c)} {tj.typeof(r)}")
            tj.debug.inspect_array_sharding(r, callback=noted)
            return c + r.sum(1), None

        return lax.scan(body, x[0].sum(1), x)[0]

    tj.jit(f)(put(np.ones((3, 8, 4)), None, "x", "y"))
    assert seen == ["f64[8@x] f64[8@x,4@y]", "P('x', 'y')"]
    lies = tj.eval_shape(f, tj.ShapeDtypeStruct((3, 8, 4), "f64", sharding=NamedSharding(MESH, P(None, "x"))))
    assert str(lies) == "f64[8@x]"
    with pytest.raises(ShardingTypeError, match="contracting"):
        tj.make_jaxpr(contracted)(put(X, "x", "y"))


def test_batches_lie_as_what_they_are_mapped_from() -> None:
    within = tj.shard_map(tnp.sin, mesh=MESH, in_specs=P("y"), out_specs=P("y"))
    x = put(X, "x", "y")
    for f in (tj.vmap(within), tj.jit(tj.vmap(within)), tj.jit(lambda x: tj.vmap(within)(x) * 2.0)):
        assert spec(f(x)) == P("x", "y")
    assert spec(tj.jit(tj.vmap(within, in_axes=1, out_axes=1))(put(X.T, "y", "x"))) == P("y", "x")
    gradient = tj.jit(tj.grad(lambda x: (tj.vmap(within)(x) ** 2).sum()))(x)
    assert spec(gradient) == P("x", "y")
    np.testing.assert_allclose(gradient, np.sin(2 * X), rtol=1e-12)
    nested = tj.jit(tj.vmap(tj.vmap(tj.shard_map(tnp.sin, mesh=MESH, in_specs=P(), out_specs=P()))))
    assert spec(nested(x)) == P("x", "y")
    # What isn't divided, or not alike, divides no batch.
    assert spec(tj.jit(tj.vmap(within))(put(X, None, "y"))) == P(None, "y")
    other = tj.jit(tj.vmap(lambda x, y: within(x) + within(y)))
    np.testing.assert_allclose(other(x, put(X, None, "y")), 2 * np.sin(X), rtol=1e-12)


def test_batches_lie_as_specifications_within_leave_room() -> None:
    x = put(X, "x", None)
    with tj.set_mesh(MESH):
        assert spec(tj.jit(tj.vmap(lambda v: tj.reshard(v, P("y"))))(x)) == P("x", "y")
        outer = tj.vmap(lambda v: tnp.einsum("i,j->ij", v, v, out_sharding=P(None, "y")))
        assert spec(tj.jit(outer)(x)) == P("x", None, "y")
        assert spec(tj.jit(tj.vmap(lambda v: tnp.dot(v, W[:, :4], out_sharding=P("y"))))(x)) == P("x", "y")


def test_a_batch_can_not_lie_along_axes_that_are_used_within() -> None:
    within = tj.shard_map(tnp.sin, mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    x = put(X.reshape(4, 8), "x", None)
    with pytest.raises(ShardingError, match=r"the batch is divided along axis 'x' .*, but a shard_map within divides"):
        tj.vmap(within)(x)
    moved = tj.vmap(within)(tj.reshard(x, NamedSharding(MESH, P(None))))
    np.testing.assert_array_equal(moved, np.sin(X).reshape(4, 8))


@pytest.mark.parametrize(
    "initialize",
    [
        initializers.zeros,
        initializers.ones,
        initializers.constant(0.5),
        initializers.uniform(),
        initializers.normal(),
        initializers.truncated_normal(),
        initializers.variance_scaling(1.0, "fan_avg", "uniform"),
        initializers.he_normal(),
        initializers.lecun_uniform(),
        initializers.glorot_normal(),
        initializers.orthogonal(),
    ],
)
def test_parameters_begin_where_they_are_told_to(initialize: initializers.Initializer) -> None:
    key = tj.random.key(0)
    alone = initialize(key, (8, 4), "float32")
    with tj.set_mesh(MESH):
        placed = initialize(key, (8, 4), "float32", out_sharding=P("x", "y"))
        staged = tj.jit(lambda key: initialize(key, (8, 4), "float32", P("x")))(key)
    assert spec(placed) == P("x", "y")
    assert spec(staged) == P("x", None)
    for found in (placed, staged):
        np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.sweep
def test_results_that_are_told_where_to_lie() -> None:
    cases: list[tuple[Callable[[Any], tj.Array], Any, tuple[str, ...]]] = [
        (lambda x: tnp.percentile(x, 25, axis=0, out_sharding=P("y")), np.percentile(X, 25, axis=0), ("y",)),
        (lambda x: tj.nn.one_hot(x[:, 0] // 4, 8, out_sharding=P("x", "y")), np.eye(8), ("x", "y")),
    ]
    with tj.set_mesh(MESH):
        x = put(X, "x", None)
        for f, expected, parts in cases:
            for found in (f(x), tj.jit(f)(x)):
                assert spec(found) == P(*parts)
                np.testing.assert_allclose(found, expected)


def test_arrays_made_like_a_type_lie_as_it_says() -> None:
    lies = tj.ShapeDtypeStruct((8, 2), "float32", sharding=NamedSharding(MESH.abstract_mesh, P("x")))
    placed = tj.ShapeDtypeStruct((8, 2), "float32", sharding=NamedSharding(MESH, P("x")))
    for made in (tnp.zeros_like, tnp.ones_like, lambda t: tnp.full_like(t, 3), lambda t: lax.full_like(t, 3)):
        assert spec(made(placed)) == P("x", None)
        assert not isinstance(made(lies).sharding, NamedSharding)
        with tj.set_mesh(MESH):
            assert spec(made(lies)) == P("x", None)


def test_programs_run_as_a_whole_where_a_later_equation_says_how_results_lie() -> None:
    def f(x: tj.Array) -> tj.Array:
        return tj.numpy.einsum("xy,zy->xz", x, x, out_sharding=P("x", None))

    mesh = tj.make_mesh((2, 2), ("x", "y"))
    data = np.arange(16.0).reshape(4, 4)
    with tj.set_mesh(mesh):
        x = tj.device_put(data, P(None, "y"))
        program = tj.make_jaxpr(f)(x)
        (found,) = tj.eval_jaxpr(program, (), x)
        assert found.sharding == NamedSharding(mesh, P("x", None))
        np.testing.assert_array_equal(found, data @ data.T)
        slope = tj.grad(lambda x: tj.eval_jaxpr(program, (), x)[0].sum())(x)
        np.testing.assert_allclose(slope, 2.0 * data.sum(0) + 0.0 * data)
        assert slope.sharding == NamedSharding(mesh, P(None, "y"))
    np.testing.assert_array_equal(tj.eval_jaxpr(program, (), data)[0], data @ data.T)


def test_what_is_said_of_another_mesh_is_left_to_xla() -> None:
    """The result lies so, in the names of the mesh around."""
    mesh = tj.make_mesh((4, 2), ("x", "y"), devices=tj.devices("cpu"))
    x = tj.device_put(np.arange(16.0).reshape(8, 2), tj.NamedSharding(mesh, P("x", "y")))
    other = mesh.abstract_mesh.update(axis_names=("a", "b"))

    @tj.jit
    def f(x: tj.Array) -> tj.Array:
        with tj.sharding.use_abstract_mesh(other):
            y = tj.reshard(tnp.sin(x), P(("a", "b"), None)) * 2
            assert tj.typeof(y).sharding == tj.NamedSharding(other, P(("a", "b"), None))
            return y

    with tj.set_mesh(mesh):
        y = f(x)
    np.testing.assert_allclose(np.asarray(y), np.sin(np.asarray(x)) * 2)
    assert y.sharding.is_equivalent_to(tj.NamedSharding(mesh, P(("x", "y"), None)), 2)


def test_results_within_functions_name_no_memory() -> None:
    """As in JAX; arrays that are there are moved to it."""
    pinned = NamedSharding(MESH, P("x"), memory_kind="pinned_host")
    with pytest.raises(ShardingError, match=r"out_sharding: .* names a kind of memory"):
        tj.jit(lambda x: tnp.einsum("xy->x", x, out_sharding=pinned))(put(X, "x"))
    assert tnp.zeros(8, out_sharding=pinned).sharding.memory_kind == "pinned_host"
