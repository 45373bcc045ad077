"""What says where something is to lie counts, also while a function is traced, and for what lies elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, P
from tinyjax.errors import ShardingError
from tinyjax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding, make_single_device_sharding

tnp = tj.numpy
MESH = tj.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)
EXPLICIT = tj.make_mesh((4, 2), ("x", "y"))
HERE = NamedSharding(MESH, P("x", "y"))
X = np.arange(32.0).reshape(8, 4)
IDS = np.array([0, 0, 1, 1, 1, 2, 2, 3])

#: What makes an array of an array, with `device=`.
MADE: dict[str, Callable[[Array], Array]] = {
    "array": lambda x: tnp.array(x, device=HERE),
    "asarray": lambda x: tnp.asarray(x, device=HERE),
    "a constant": lambda x: tnp.asarray(X, device=HERE),
    "zeros": lambda x: tnp.zeros((8, 4), device=HERE),
    "ones": lambda x: tnp.ones((8, 4), device=HERE),
    "full": lambda x: tnp.full((8, 4), x[0, 0], device=HERE),
    "zeros_like": lambda x: tnp.zeros_like(x, device=HERE),
    "full_like": lambda x: tnp.full_like(x, 2.0, device=HERE),
    "eye": lambda x: tnp.eye(8, 4, device=HERE),
    "to_device": lambda x: (x + 1).to_device(HERE),
    "device_put": lambda x: tj.device_put(x * 2, HERE),
}
AROUND: dict[str, Callable[[Callable[[Array], Array]], Callable[[Array], Array]]] = {
    "eager": lambda f: f,
    "jit": tj.jit,
    "twice": lambda f: tj.jit(tj.jit(f)),
    "remade": lambda f: lambda x: tj.jit(f).trace(x)(x),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", MADE)
def test_new_arrays_lie_where_they_are_told_to(name: str, around: str) -> None:
    made = AROUND[around](MADE[name])(tnp.asarray(X))
    assert made.sharding == HERE
    np.testing.assert_array_equal(made, MADE[name](tnp.asarray(X)))


def test_derivatives_and_batches_of_what_is_told_where_to_lie() -> None:
    def f(x: Array) -> Array:
        return (tnp.asarray(x * x, device=HERE) * x).sum()

    np.testing.assert_allclose(tj.jit(tj.grad(f))(tnp.asarray(X)), 3 * X**2)
    row = NamedSharding(MESH, P("x"))
    doubled = tj.jit(tj.vmap(lambda x: tnp.asarray(2 * x, device=row), in_axes=1))(tnp.asarray(X))
    np.testing.assert_array_equal(doubled, 2 * X.T)


@pytest.mark.parametrize("device", [1, 7])
def test_a_function_on_one_device_takes_what_lies_on_a_mesh(device: int) -> None:
    where = tj.devices()[device]
    f = tj.jit(lambda x, y: x @ y, device=where)
    on_mesh, on_explicit = tj.device_put(X, HERE), tj.device_put(X.T, NamedSharding(EXPLICIT, P("y")))
    elsewhere = tj.device_put(X.T, tj.devices()[2])
    for _ in range(2):  # the second time it is prepared
        for args in ((on_mesh, on_explicit), (X, X.T), (on_mesh, X.T), (X, elsewhere), (on_mesh, elsewhere)):
            out = f(*args)
            assert out.sharding == SingleDeviceSharding(where)
            np.testing.assert_allclose(out, X @ X.T)


def test_an_empty_mesh_is_no_place() -> None:
    nowhere = NamedSharding(Mesh((), ()), P())
    wheres: list[dict[str, Any]] = [{"in_shardings": nowhere}, {"out_shardings": nowhere}]
    for where in wheres:
        with pytest.raises(ShardingError, match="whose mesh is empty: make one by make_mesh"):
            tj.jit(lambda x: x, **where)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["segment_sum", "segment_prod", "segment_max", "segment_min"])
@pytest.mark.parametrize("bucket_size", [None, 4])
@pytest.mark.parametrize("spec", [P(), P("x"), P(None, "y"), P(unreduced={"x"})])
def test_segments_lie_as_is_said(name: str, bucket_size: int | None, spec: P) -> None:
    options: Any = {"num_segments": 4, "bucket_size": bucket_size}
    expected = getattr(jax.ops, name)(X, IDS, **options)

    def f(x: Array, ids: Array) -> Array:
        found: Array = getattr(tj.ops, name)(x, ids, **options, out_sharding=spec)
        return found

    with tj.set_mesh(EXPLICIT):
        args = tj.device_put(X, P("x")), tj.device_put(IDS, P("x"))
        for found in (f(*args), tj.jit(f)(*args)):
            np.testing.assert_allclose(found, np.asarray(expected))
            assert isinstance(found.sharding, NamedSharding)
            assert found.sharding.is_equivalent_to(NamedSharding(EXPLICIT, spec), 2)
        if name != "segment_prod":  # which has one if no segment has two entries
            gradient = tj.jit(tj.grad(lambda x: f(x, args[1]).sum()))(args[0])
            assert gradient.sharding.is_equivalent_to(args[0].sharding, 2)


@pytest.mark.parametrize("jit", [False, True])
def test_right_sides_are_solved_for_by_themselves(jit: bool) -> None:
    a, b = np.eye(4) * 3 + np.ones((4, 4)), X
    solve = tj.vmap(tnp.linalg.solve, in_axes=(None, 0))
    with tj.set_mesh(EXPLICIT):
        right = tj.device_put(b, P("x"))
        found = (tj.jit(solve) if jit else solve)(a, right)
        assert found.sharding.is_equivalent_to(right.sharding, 2)
        np.testing.assert_allclose(found, np.linalg.solve(a, b.T).T)
        gradient = tj.grad(lambda b: (solve(a, b) ** 2).sum())(right)
        assert gradient.sharding.is_equivalent_to(right.sharding, 2)


def test_one_element_is_everywhere() -> None:
    with tj.set_mesh(EXPLICIT):
        x = tj.device_put(X, P("x", "y"))
        for found in (x[0, 1], tj.jit(lambda x: x[0, 1])(x), tj.jit(lambda x: x[2:3, 1:2])(x)):
            assert isinstance(found.sharding, NamedSharding)
            assert found.sharding.is_fully_replicated
        np.testing.assert_array_equal(tj.jit(lambda x: x[2:3, 1:2])(x), X[2:3, 1:2])


def test_types_of_arrays_say_how_they_lie_whatever_mesh_is_in_force() -> None:
    x = tj.device_put(X, NamedSharding(EXPLICIT, P("x")))
    other = tj.make_mesh((2, 4), ("a", "b"))
    wanted = tj.typeof(x)
    assert str(wanted) == "f64[8@x,4]"
    for mesh in (other, EXPLICIT, MESH):
        with tj.set_mesh(mesh):
            assert tj.typeof(x) == wanted


def test_a_callback_without_results_may_return_none() -> None:
    seen: list[float] = []

    def noted(x: Any) -> None:
        seen.append(float(x.sum()))

    @tj.jit
    def f(x: Array) -> Array:
        tj.io_callback(noted, (), x, ordered=True)
        return x + 1

    tj.shard_map(f, mesh=MESH, in_specs=P(), out_specs=P())(tnp.asarray(X)).block_until_ready()
    np.testing.assert_array_equal(f(tnp.asarray(X)), X + 1)
    assert set(seen) == {float(X.sum())}


def test_compiled_for_devices_that_are_named_at_last() -> None:
    devices = tj.devices()
    described = tj.ShapeDtypeStruct(X.shape, X.dtype, sharding=HERE.abstract)
    lowered = tj.jit(lambda x: 2 * x).lower(described)
    for chosen in (devices, devices[::-1]):
        out = lowered.compile(device_assignment=chosen)(X)
        assert out.sharding.flat_devices == tuple(chosen)
        np.testing.assert_array_equal(out, 2 * X)
    with pytest.raises(ShardingError, match="is for 8 devices, but device_assignment has 1: cpu:0"):
        lowered.compile(device_assignment=devices[:1])
    placed = tj.jit(lambda x: 2 * x).lower(tj.device_put(X, HERE))
    assert placed.compile(device_assignment=devices)(X).sharding == HERE
    with pytest.raises(ShardingError, match=r"was lowered for what lies on cpu:0, cpu:1, \.\.\., cpu:7"):
        placed.compile(device_assignment=devices[::-1])
    single = tj.jit(lambda x: 2 * x).lower(X)
    assert single.compile(device_assignment=[devices[3]])(X).sharding == make_single_device_sharding(devices[3])
    with pytest.raises(ShardingError, match="is for 1 device, but device_assignment has 8"):
        single.compile(device_assignment=devices)


def test_types_like_arrays_say_where_something_has_put_these() -> None:
    """As jax's do."""
    makers: list[Callable[[Any, Any], Any]] = [
        lambda m, s: m.numpy.ones(3),
        lambda m, s: m.device_put(X, s),
        lambda m, s: m.jit(m.numpy.sin)(X),
    ]
    for made in makers:
        ours = tj.ShapeDtypeStruct.like(made(tj, make_single_device_sharding(tj.devices()[1])))
        theirs = jax.ShapeDtypeStruct.like(made(jax, jax.sharding.make_single_device_sharding(jax.devices()[1])))
        assert (ours.sharding is None) == (theirs.sharding is None)
        if ours.sharding is not None:
            assert {d.id for d in ours.sharding.device_set} == {d.id for d in theirs.sharding.device_set} == {1}


@pytest.mark.parametrize("update", ["set", "add", "multiply", "min", "max"])
@pytest.mark.parametrize(("spec", "part"), [(P("x", None, "y"), P("x", "y")), (P("x"), P("x"))])
def test_gradients_of_updates_lie_as_the_arrays(update: str, spec: P, part: P) -> None:
    """The rules of minima and maxima scatter into zeros, which aren't divided."""
    f = tj.vmap(lambda x, i, y: getattr(x.at[i], update)(y))
    values = np.arange(320.0).reshape(8, 10, 4), np.arange(8) % 5, np.arange(32.0).reshape(8, 4) + 9.5
    with tj.set_mesh(EXPLICIT):
        args = [tj.device_put(x, s) for x, s in zip(values, (spec, P("x"), part), strict=True)]
        gradient = tj.grad(lambda x, i, y: (f(x, i, y) ** 2).sum(), argnums=(0, 2))
        found = tj.jit(gradient)(*args)
    for ours, arg, expected in zip(found, (args[0], args[2]), gradient(*values), strict=True):
        np.testing.assert_allclose(ours, expected)
        assert ours.sharding.is_equivalent_to(arg.sharding, ours.ndim)


PUT: dict[str, Callable[[Any], object]] = {
    "on the host": lambda lib: np.ones(16, "float32"),
    "first": lambda lib: lib.devices()[0],
    "another": lambda lib: lib.devices()[3],
    "divided": lambda lib: lib.NamedSharding(lib.make_mesh((8,), ("x",), (lib.sharding.AxisType.Auto,)), lib.P("x")),
    "whole": lambda lib: lib.NamedSharding(lib.make_mesh((8,), ("x",), (lib.sharding.AxisType.Auto,)), lib.P()),
}


def _put(lib: Any, name: str) -> Any:
    place = PUT[name](lib)
    return place if isinstance(place, np.ndarray) else lib.device_put(np.ones(16, "float32"), place)


@pytest.mark.parametrize("given", PUT)
@pytest.mark.parametrize("compiled_for", ["divided", "whole"])
def test_compiled_functions_of_several_devices_take_what_lies_on_these(compiled_for: str, given: str) -> None:
    taken = []
    for lib in (tj, jax):
        compiled = lib.jit(lambda x: x + 1).lower(_put(lib, compiled_for)).compile()
        try:
            np.testing.assert_array_equal(compiled(_put(lib, given)), np.full(16, 2.0))
        except ValueError:
            taken.append(False)
        else:
            taken.append(True)
    assert taken[0] == taken[1]
