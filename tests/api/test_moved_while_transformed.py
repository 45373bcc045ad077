"""Arrays are moved while a function is differentiated or mapped, too, and what is derived of them lies there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.test_mesh_of_one import spelled
from tinyjax import P
from tinyjax.errors import ShardingError
from tinyjax.sharding import AxisType, Mesh, NamedSharding

ROWS = np.arange(32.0).reshape(8, 4) / 8.0
X = tj.numpy.asarray(ROWS)


def mesh_of(m: Any, axis_type: str = "Auto") -> Any:  # Any: modules and arrays of two libraries
    types = (m.sharding.AxisType[axis_type],) * 2
    return m.make_mesh((4, 2), ("x", "y"), types, devices=m.devices("cpu")[:8])


def put(m: Any, x: Any, *parts: Any) -> Any:
    return m.device_put(x, m.sharding.NamedSharding(mesh_of(m), m.P(*parts)))


def constrained(m: Any, x: Any, *parts: Any) -> Any:
    return m.lax.with_sharding_constraint(x, m.sharding.NamedSharding(mesh_of(m), m.P(*parts)))


def mapped(m: Any, f: Any, spec: Any, out: Any) -> Any:
    return m.shard_map(f, mesh=mesh_of(m), in_specs=m.P(*spec), out_specs=m.P(*out))


#: What both libraries do to an array of the host.
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "grad of device_put": lambda m, x: m.grad(lambda x: (m.numpy.sin(put(m, x, "x")) ** 2).sum())(x),
    "value_and_grad": lambda m, x: m.value_and_grad(lambda x: (m.numpy.sin(put(m, x, "x", "y")) ** 2).sum())(x),
    "grad of a constraint": lambda m, x: m.grad(lambda x: (constrained(m, x, "y") ** 2).sum())(x),
    "jvp of device_put": lambda m, x: m.jvp(lambda x: m.numpy.sin(put(m, x, "y")), (x,), (x,)),
    "jvp of what is linear": lambda m, x: m.jvp(lambda x: put(m, x, "y") * 2.0, (x,), (x,)),
    "vmap along columns": lambda m, x: m.vmap(lambda x: put(m, x, "y") * 2.0, in_axes=1, out_axes=1)(x),
    "grad of grad": lambda m, x: m.grad(lambda x: (m.grad(lambda x: (put(m, x, "x") ** 3).sum())(x) ** 2).sum())(x),
    "vjp": lambda m, x: m.vjp(lambda x: put(m, x, "x") * 2.0, x)[1](x)[0],
    "linearize": lambda m, x: m.linearize(lambda x: m.numpy.sin(put(m, x, "x")), x)[1](x),
    "grad of a sum": lambda m, x: m.grad(
        lambda x: mapped(m, lambda x: m.lax.psum(x, "x"), ("x", "y"), (None, "y"))(x).sum()
    )(x),
    "grad of a product": lambda m, x: m.grad(
        lambda x: (mapped(m, lambda x: m.lax.psum(m.numpy.sin(x), "x"), ("x", "y"), (None, "y"))(x) ** 2).sum()
    )(x),
    "hessian's product": lambda m, x: m.jvp(
        m.grad(lambda x: (mapped(m, lambda x: m.lax.psum(x**3, "y"), ("x", "y"), ("x",))(x)).sum()), (x,), (x,)
    ),
    "jvp of shard_map": lambda m, x: m.jvp(mapped(m, lambda x: m.lax.psum(x, "x"), ("x",), ()), (x,), (x,)),
    "vmap of shard_map": lambda m, x: m.vmap(mapped(m, lambda x: x * 2.0, ("y",), ("y",)))(x),
    "vjp of shard_map": lambda m, x: m.vjp(mapped(m, lambda x: m.lax.psum(x, "x"), ("x",), ()), x)[1](x[:2])[0],
}


def spec_of(x: tj.Array) -> P:
    assert isinstance(x.sharding, NamedSharding)
    return x.sharding.spec


def compare(found: Any, expected: Any) -> None:
    for ours, theirs in zip(tj.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)
        assert spelled(ours.sharding) == spelled(theirs.sharding)


@pytest.mark.parametrize("case", CASES)
def test_results_lie_as_in_jax(case: str) -> None:
    with jax.enable_x64(True):
        compare(CASES[case](tj, ROWS), CASES[case](jax, jax.numpy.asarray(ROWS)))


def test_what_is_mapped_is_divided_as_each_element_is() -> None:
    """In JAX the specification of an element is then that of the batch."""
    mesh = mesh_of(tj)
    columns = NamedSharding(mesh, P("y"))

    def f(x: tj.Array) -> tj.Array:
        return tj.device_put(x, columns) ** 3

    assert spec_of(tj.vmap(f)(X)) == P(None, "y")
    assert spec_of(tj.vmap(f, in_axes=1, out_axes=1)(X)).stripped == P("y")
    assert spec_of(tj.vmap(f, spmd_axis_name="x")(X)) == P("x", "y")
    for gradient in (tj.grad(lambda x: tj.vmap(f)(x).sum()), tj.vmap(tj.grad(lambda x: f(x).sum()))):
        np.testing.assert_allclose(gradient(X), 3.0 * X**2)
        assert gradient(X).device == tj.Device("host")  # where it came from


def test_one_device() -> None:
    second = tj.devices("cpu")[1]
    seen: list[tj.Array] = []

    def f(x: tj.Array) -> tj.Array:
        y = tj.device_put(x, second)
        seen.append(y)
        return (tj.numpy.sin(y) * y).sum()

    value, gradient = tj.value_and_grad(f)(tj.numpy.arange(3.0))
    assert value.device == second
    assert gradient.device == tj.Device("host")
    assert seen[0].device == second
    assert tj.vmap(lambda x: tj.device_put(x, second))(np.arange(3.0)).device == second
    assert tj.grad(lambda x: tj.device_put(x, "host").sum())(tj.device_put(np.ones(3), second)).shape == (3,)


def test_along_explicit_axes() -> None:
    mesh = mesh_of(tj, "Explicit")
    seen: list[str] = []

    def f(x: tj.Array) -> tj.Array:
        y = tj.device_put(x, NamedSharding(mesh, P("x", "y")))
        seen.append(str(tj.typeof(y)))
        return (tj.numpy.sin(y) * y).sum()

    tj.grad(f)(X)
    tj.vmap(lambda x: tj.numpy.sum(tj.device_put(x, NamedSharding(mesh, P("y")))))(X)
    assert seen == ["f64[8@x,4@y]"]


def test_a_batch_that_is_divided_stays_so() -> None:
    mesh = mesh_of(tj)
    rows = tj.device_put(X, NamedSharding(mesh, P("x")))
    found = tj.vmap(lambda x: tj.device_put(x, NamedSharding(mesh, P("y"))))(rows)
    assert spec_of(found) == P("x", "y")
    twice = tj.vmap(tj.vmap(lambda x: tj.device_put(x, NamedSharding(mesh, P("y"))), in_axes=1, out_axes=1))
    assert spec_of(twice(np.ones((4, 2, 8)))).stripped == P(None, "y")


def test_what_a_place_leaves_open_is_refused() -> None:
    open_place = NamedSharding(Mesh(np.array(tj.devices("cpu")[:2]), "x"), P(P.UNCONSTRAINED))
    with pytest.raises(ShardingError, match="can't leave that open"):
        tj.grad(lambda x: tj.device_put(x, open_place).sum())(np.ones(2))


@pytest.mark.parametrize("axis_type", ["Auto", "Explicit"])
@pytest.mark.parametrize("parts", [("x",), ("x", None), (None, "y"), (("x", "y"),), ("x", "y"), ()], ids=str)
def test_results_are_spelled_as_it_was_asked(parts: tuple[Any, ...], axis_type: str) -> None:
    mesh, spec = mesh_of(tj, axis_type), P(*parts)
    sharding = NamedSharding(mesh, spec)
    assert tj.jit(lambda x: x * 2.0, out_shardings=sharding)(X).sharding == sharding
    each = tj.shard_map(lambda x: x, mesh=mesh, in_specs=spec, out_specs=spec)
    assert each(X).sharding == sharding
    assert spec_of(tj.vmap(each)(X[None])) == P(None, *parts)


def test_axes_of_size_one_beside_axes_that_are_left_to_xla() -> None:
    types = (AxisType.Explicit, AxisType.Auto)
    mesh = tj.make_mesh((1, 2), ("x", "y"), types, devices=tj.devices("cpu")[:2])
    x = tj.device_put(X, NamedSharding(mesh, P("x")))
    for found in (tj.numpy.sin(x), tj.jit(lambda x: x * 2.0)(x), tj.grad(lambda x: (x**2).sum())(x)):
        assert spec_of(found) == P("x", None)


def test_a_function_that_is_called_as_ours() -> None:
    """Its results are its own, and not those of what it calls."""
    mesh = mesh_of(tj)

    @tj.jit
    def shard_map(x: tj.Array) -> tuple[tj.Array, tj.Array]:
        part = tj.shard_map(tnp.sin, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)
        return part, x.sum()

    x = tj.device_put(np.arange(8.0), tj.NamedSharding(mesh, P("x")))
    (part, total), _ = tj.jvp(shard_map, (x,), (x,))
    np.testing.assert_allclose(part, np.sin(np.arange(8.0)))
    assert total == 28.0


#: Functions of `shard_map`, and how their arguments and results lie.
MAPPED: dict[str, tuple[Callable[[Any, Any], Any], tuple[str, ...], tuple[str, ...]]] = {
    "identity": (lambda m, x: x, (), ()),
    "product": (lambda m, x: x * 2.0, ("x",), ("x",)),
    "sum": (lambda m, x: m.lax.psum(x, "x"), ("x",), ()),
    "sine": (lambda m, x: m.numpy.sin(x), ("x", "y"), ("x", "y")),
    "gathered": (lambda m, x: m.lax.all_gather(x, "x", tiled=True) * 1.5, ("x",), ("x",)),
    "sum of products": (lambda m, x: m.lax.psum(m.numpy.sin(x) * x, "y"), ("x", "y"), ("x",)),
}


@pytest.mark.parametrize("on_mesh", [False, True])
@pytest.mark.parametrize("name", MAPPED)
def test_a_mapped_function_s_derivative_says_no_more_than_its_specifications(name: str, on_mesh: bool) -> None:
    """It says where its operands lie: no equation of the derivative says it once more."""
    f, spec, out = MAPPED[name]

    def sizes(m: Any, x: Any) -> list[int]:
        g, x = mapped(m, lambda x: f(m, x), spec, out), put(m, x, "x") if on_mesh else x
        value, forwards = m.linearize(g, x)
        backwards = m.vjp(g, x)[1]
        return [len(m.make_jaxpr(forwards)(x).jaxpr.eqns), len(m.make_jaxpr(backwards)(value).jaxpr.eqns)]

    with jax.enable_x64(True):
        assert sizes(tj, ROWS) == sizes(jax, jax.numpy.asarray(ROWS)) == [1, 1]
