"""The ways to say what `shard_map` divides: specifications left out, arguments as they are, `smap`, batches; and rules
of users within it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import P, lax
from tinyjax.errors import ChoiceError, InputError, RuleResultError, ShapeError, ShardingError, VaryingError
from tinyjax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding

MESH = AbstractMesh((4, 2), ("x", "y"))
ONE = AbstractMesh((4,), ("x",))
X = np.arange(8.0)


def placed() -> Mesh:
    return Mesh(np.array(tj.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))


def test_arguments_that_are_passed_as_they_are() -> None:
    given, seen = object(), []

    def f(options: Any, x: Any, pair: Any) -> Any:
        seen.append(options)
        return x * pair[1] if pair[0] is given else x

    mapped = tj.shard_map(f, mesh=MESH, in_specs=(None, P("x"), (None, P())), out_specs=P("x"))
    np.testing.assert_array_equal(mapped({"a": given}, X, (given, 2.0)), 2.0 * X)
    assert seen == [{"a": given}]
    assert tj.shard_map(lambda x: x, mesh=MESH, in_specs=None, out_specs=P())(3.0) == 3.0
    whole = tj.shard_map(lambda x, y: y + x.sum(), mesh=MESH, in_specs=(None, P("x")), out_specs=P("x"))
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: whole(x, X).sum()))(X), np.full(8, 8.0))


def test_arrays_are_divided_as_they_lie() -> None:
    mesh = placed()
    lies = tj.device_put(X.reshape(8, 1) * np.ones(2), NamedSharding(mesh, P(("x", "y"))))
    shapes: list[object] = []

    def f(x: Any) -> Any:
        shapes.append(x.shape)
        return x

    np.testing.assert_array_equal(tj.shard_map(f, mesh=mesh, out_specs=P(("x", "y")))(lies), lies)
    tj.shard_map(f, mesh=mesh, out_specs=P("x"), axis_names={"x"})(lies)
    assert shapes == [(1, 2), (2, 2)]
    with pytest.raises(InputError, match=r"argument x of f doesn't lie there.*by in_specs"):
        tj.shard_map(f, mesh=mesh, out_specs=P("x"))(X)
    with pytest.raises(InputError, match="Say how by in_specs"):
        tj.jit(tj.shard_map(f, mesh=mesh, out_specs=P("x")))(lies)


def test_what_lies_on_no_mesh_is_the_same_along_explicit_axes() -> None:
    """As in JAX. Of the arguments of a jitted function it isn't known."""
    mesh = tj.make_mesh((2,), "x", axis_types=(AxisType.Explicit,))
    f = tj.shard_map(lambda x: 2.0 * x, mesh=mesh, out_specs=P())
    np.testing.assert_array_equal(f(X), 2.0 * X)
    np.testing.assert_array_equal(tj.jit(lambda: f(X + 1.0))(), 2.0 * X + 2.0)
    with pytest.raises(InputError, match="Say how by in_specs"):
        tj.jit(f)(X)


def test_smap_says_it_by_axes() -> None:
    rows = np.arange(16.0).reshape(4, 4)
    mapped = tj.smap(lambda a, b: (lax.psum(a, "x"), a + b), in_axes=(0, None), out_axes=(None, 0), axis_name="x")
    with tj.set_mesh(MESH):
        total, both = mapped(rows, 1.0)
        inner = tj.smap(lambda a: lax.psum(a, "y"), in_axes=0, out_axes=None, axis_name="y")
        nested = tj.smap(lambda a: lax.psum(inner(a), "x"), in_axes=1, out_axes=None, axis_name="x")(rows)
    np.testing.assert_array_equal(total, rows.sum(0, keepdims=True))
    np.testing.assert_array_equal(both, rows + 1.0)
    np.testing.assert_array_equal(nested, (rows[:2] + rows[2:]).sum(1, keepdims=True))
    not_typed: Callable[..., object] = tj.smap
    for wrong in ({"in_axes": -1}, {"out_axes": "x"}, {"axis_name": ("x", "y")}, {"in_axes": [0]}, {"in_axes": True}):
        with pytest.raises(InputError, match="smap: "):
            not_typed(lambda a: a, **{"in_axes": 0, "out_axes": 0, "axis_name": "x", **wrong})


def test_a_result_that_varies_is_an_error_of_values_and_of_types() -> None:
    for kind in (VaryingError, ValueError, TypeError):
        with pytest.raises(kind, match="varies along axis 'x'"):
            tj.shard_map(lambda x: x, mesh=MESH, in_specs=P("x"), out_specs=P())(X)


def test_constraints_on_axes_that_are_manual() -> None:
    def f(x: Any) -> Any:
        return lax.with_sharding_constraint(x, NamedSharding(MESH, P("x")))

    with pytest.raises(ShardingError, match="names the axis 'x' of the mesh, which is Manual here"):
        tj.shard_map(f, mesh=MESH, in_specs=P("x"), out_specs=P("x"))(X)
    along_y = tj.shard_map(f, mesh=MESH, in_specs=P("y"), out_specs=P("y"), axis_names={"y"})
    np.testing.assert_array_equal(along_y(X), X)


def test_names_of_axes_are_in_order() -> None:
    with pytest.raises(InputError, match="axis_name is the name of a mapped axis"):
        tj.shard_map(lambda x: lax.psum(x, {"x"}), mesh=MESH, in_specs=P("x"), out_specs=P())(X)  # type: ignore[arg-type]


# Batches divided along the mesh.

BATCH = np.arange(32.0).reshape(4, 8) / 8.0


@pytest.mark.parametrize("check_vma", [True, False])
def test_a_batch_is_divided_along_an_axis_of_the_mesh(check_vma: bool) -> None:
    mapped = tj.shard_map(
        lambda a: lax.psum(tj.numpy.sin(a), "x"), mesh=MESH, in_specs=P("x"), out_specs=P(), check_vma=check_vma
    )

    def loss(x: Any) -> Any:
        return tj.numpy.square(mapped(x)).sum()

    divided = tj.vmap(mapped, spmd_axis_name="y")
    (eqn,) = tj.make_jaxpr(divided)(BATCH).jaxpr.eqns
    assert eqn.params["in_specs"] == (P("y", "x"),)
    assert eqn.params["out_specs"] == (P("y"),)
    np.testing.assert_array_equal(divided(BATCH), tj.vmap(mapped)(BATCH))
    np.testing.assert_allclose(
        tj.vmap(tj.grad(loss), spmd_axis_name="y")(BATCH), tj.vmap(tj.grad(loss))(BATCH), rtol=1e-12
    )
    np.testing.assert_allclose(
        tj.grad(lambda x: tj.vmap(loss, spmd_axis_name="y")(x).sum())(BATCH), tj.vmap(tj.grad(loss))(BATCH), rtol=1e-12
    )
    np.testing.assert_array_equal(tj.vmap(mapped, in_axes=1, out_axes=1, spmd_axis_name="y")(BATCH.T), divided(BATCH).T)
    with pytest.raises(ShardingError, match="communicates along it, 'x'"):
        tj.vmap(mapped, spmd_axis_name="x")(BATCH)
    with pytest.raises(ShapeError, match="a batch of 3 can't be divided"):
        tj.vmap(mapped, spmd_axis_name="y")(BATCH[:3])
    own = tj.shard_map(lambda a: a, mesh=MESH, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    with pytest.raises(ShardingError, match="divides operands or results along it, 'x'"):
        tj.vmap(own, spmd_axis_name="x")(BATCH)


def test_a_batch_is_divided_in_constraints() -> None:
    def f(x: Any) -> Any:
        return lax.with_sharding_constraint(x, NamedSharding(MESH, P("x")))

    (eqn,) = tj.make_jaxpr(tj.vmap(f, spmd_axis_name="y"))(BATCH).jaxpr.eqns
    assert eqn.params["sharding"] == NamedSharding(MESH, P("y", "x"))
    partly = tj.shard_map(f, mesh=MESH, in_specs=P(), out_specs=P(), axis_names={"y"})
    (eqn,) = tj.make_jaxpr(tj.vmap(partly, spmd_axis_name="y"))(BATCH).jaxpr.eqns
    assert eqn.params["in_specs"] == (P("y"),)
    for wrong in (3, ("x", "x"), ("x", 1)):
        with pytest.raises(ChoiceError, match="vmap: spmd_axis_name"):
            tj.vmap(f, spmd_axis_name=wrong)  # type: ignore[arg-type]


# Rules of users.


@pytest.mark.parametrize("transform", [tj.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize("ct", [lambda g: tj.numpy.ones(g.shape), lambda g: lax.psum(g, "x"), lambda g: 3.0 * g])
def test_a_cotangent_may_be_the_same_on_all_devices(transform: Callable[[Any], Any], ct: Callable[[Any], Any]) -> None:
    @tj.custom_vjp
    def double(x: Any) -> Any:
        return 2.0 * x

    double.defvjp(lambda x: (double(x), None), lambda _, g: (ct(g),))

    def loss(x: Any, check_vma: bool) -> Any:
        mapped = tj.shard_map(lambda x: double(x) * x, mesh=ONE, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
        return transform(mapped)(x).sum()

    typed, plain = [transform(tj.grad(lambda x, check=check: loss(x, check)))(X) for check in (True, False)]
    np.testing.assert_array_equal(typed, plain)


def test_a_cotangent_of_what_is_the_same_must_be_the_same() -> None:
    @tj.custom_vjp
    def scaled(w: Any, x: Any) -> Any:
        return w * x

    scaled.defvjp(lambda w, x: (scaled(w, x), (w, x)), lambda kept, g: ((g * kept[1]).sum(), g * kept[0]))
    mapped = tj.shard_map(scaled, mesh=MESH, in_specs=(P(), P("x")), out_specs=P("x"))
    with pytest.raises(
        RuleResultError, match=r"the cotangent of argument w is .* varies along 'x'.*lax.psum\(y, 'x'\)"
    ):
        tj.grad(lambda w: mapped(w, X).sum())(2.0)


def test_types_of_axes_dont_matter_to_a_nested_one() -> None:
    explicit = MESH.update(axis_types=(AxisType.Explicit, AxisType.Explicit))

    def outer(x: Any) -> Any:
        return tj.shard_map(lambda y: lax.psum(y, ("x", "y")), in_specs=P("y"), out_specs=P())(x)

    for mesh in (MESH, explicit):
        mapped = tj.shard_map(outer, mesh=mesh, in_specs=P("x"), out_specs=P(), axis_names={"x"})
        assert tj.jit(mapped).lower(X).as_text().count("sdy.mesh @") == 1
        np.testing.assert_array_equal(mapped(X), [28.0])
