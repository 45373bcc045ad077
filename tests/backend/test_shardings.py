"""Arrays on several devices, and programs on them, compared with jax."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.meshes.cases import jax_sharding, shardings
from tinyjax import NamedSharding, P, random
from tinyjax.backend import CompilationCache, XlaExecutor
from tinyjax.backend.layouts import input_labels, lay_out
from tinyjax.backend.store import StoreInfo
from tinyjax.errors import DeletedBufferError, ShardingError
from tinyjax.ir.naming import InputNames
from tinyjax.meshes import Device, Mesh, SingleDeviceSharding
from tinyjax.tracing.concrete import ConcreteArray

MESH = Mesh(np.array(tj.devices("cpu"), object).reshape(4, 2), ("x", "y"))
A = np.arange(48.0).reshape(8, 6)
B = np.linspace(-1.0, 1.0, 24).reshape(6, 4)


def on(spec: P, mesh: Mesh = MESH) -> NamedSharding:
    return NamedSharding(mesh, spec)


def alike(ours: tj.Array, theirs: jax.Array) -> None:
    """The same elements, and the same parts of them on the same devices."""
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-12)
    mine = {shard.device.id: (shard.index, shard.replica_id) for shard in ours.addressable_shards}
    assert mine == {shard.device.id: (shard.index, shard.replica_id) for shard in theirs.addressable_shards}


@given(shardings(2))
@settings(max_examples=20, deadline=None)
def test_each_device_has_its_part(sharding: NamedSharding) -> None:
    host = np.arange(24.0 * 24).reshape(24, 24)
    x = tj.device_put(host, sharding)
    assert x.sharding == (sharding if sharding.num_devices > 1 else x.sharding)
    alike(x, jax.device_put(host, jax_sharding(sharding)))
    assert x.is_fully_addressable
    assert x.is_fully_replicated == sharding.is_fully_replicated
    assert x.devices() == sharding.device_set
    for shard in x.addressable_shards:
        assert shard.data is not None
        assert shard.data.device == shard.device
        np.testing.assert_array_equal(np.asarray(shard.data), host[shard.index])
    assert x.to_device(sharding) is x


@given(shardings(2), shardings(2))
@settings(max_examples=15, deadline=None)
def test_from_any_sharding_to_any_other(one: NamedSharding, two: NamedSharding) -> None:
    host = np.arange(24.0 * 24).reshape(24, 24)
    moved = tj.device_put(tj.device_put(host, one), two)
    np.testing.assert_array_equal(np.asarray(moved), host)
    assert moved.sharding.is_equivalent_to(two, 2) or two.num_devices == 1


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda np_, x: x + x,
    "with the host": lambda np_, x: x * np.arange(6.0),
    "with a number": lambda np_, x: 2.0 - x,
    "sum": lambda np_, x: x.sum(),
    "sum of an axis": lambda np_, x: x.sum(axis=0),
    "product": lambda np_, x: x @ B,
    "function": lambda np_, x: np_.sin(x),
    "index": lambda np_, x: x[3, 2],
    "slice": lambda np_, x: x[2:5, ::2],
    "gather": lambda np_, x: x[np.array([1, 7, 0])],
    "transpose": lambda np_, x: x.T,
    "reshape": lambda np_, x: x.reshape(6, 8),
    "several": lambda np_, x: np_.where(x > 3.0, np_.exp(-x), np_.cumsum(x, axis=1)),
    "sort": lambda np_, x: np_.sort(-x, axis=0),
    "mean": lambda np_, x: np_.mean(x, axis=1),
    "norm": lambda np_, x: np_.linalg.norm(x),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("spec", [P("x", "y"), P(None, "y"), P(("x", "y"))], ids=str)
def test_operations_stay_on_the_devices(name: str, spec: P) -> None:
    x = tj.device_put(A, on(spec))
    operation = OPERATIONS[name]
    for _ in range(3):  # in each of the ways in which calls are prepared
        result = operation(tnp, x)
        np.testing.assert_allclose(np.asarray(result), operation(np, A), rtol=1e-12, atol=1e-12)
        assert result.devices() == on(spec).device_set


@pytest.mark.sweep
def test_functions_of_arrays_on_devices() -> None:
    a = np.sin(A)
    x, w = tj.device_put(a, on(P("x", "y"))), tj.device_put(B, on(P("y")))

    def loss(w: Any, x: Any) -> Any:
        return tnp.sum(tnp.tanh(x @ w) ** 2)

    def theirs(w: Any, x: Any) -> Any:
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    for f in (loss, tj.jit(loss)):
        for _ in range(2):
            np.testing.assert_allclose(np.asarray(f(w, x)), theirs(B, a), rtol=1e-12)
            value, gradient = tj.value_and_grad(f)(w, x)
            np.testing.assert_allclose(np.asarray(value), theirs(B, a), rtol=1e-12)
            np.testing.assert_allclose(np.asarray(gradient), jax.grad(theirs)(B, a), rtol=1e-10)
            assert gradient.devices() == x.devices()
    rows = tj.vmap(tj.jit(lambda row: row @ B), in_axes=0)(x)
    np.testing.assert_allclose(np.asarray(rows), a @ B, rtol=1e-12)
    assert rows.devices() == x.devices()


def test_results_lie_where_jax_has_them() -> None:
    ours = tj.jit(lambda x: (x * 2.0, x.sum(axis=0), x.T, x.sum()))
    theirs = jax.jit(lambda x: (x * 2.0, x.sum(axis=0), x.T, x.sum()))
    sharding = on(P("x", "y"))
    expected = jax.block_until_ready(theirs(jax.device_put(A, jax_sharding(sharding))))
    found = ours(tj.device_put(A, sharding))
    for mine, other in zip(found, expected, strict=True):
        alike(mine, other)
    assert found[0].sharding == sharding


def test_a_prepared_call_asks_where_its_arguments_are() -> None:
    f = tj.jit(lambda x, y: x @ y)
    expected = A @ B
    places = [on(P("x")), on(P(None, "y")), tj.devices("cpu")[0], tj.devices("cpu")[3], "host", on(P("x", "y"))]
    for _ in range(2):
        for place in places:
            x = tj.device_put(A, place)
            for y in (B, tj.device_put(B, "host")):
                result = f(x, y)
                np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12)
                if place != "host":
                    assert result.devices() == x.devices()


def test_to_and_from_jax_without_a_copy() -> None:
    theirs = jax.device_put(A, jax_sharding(on(P("x", "y"))))
    ours = tnp.asarray(theirs)
    assert ours.sharding == on(P("x", "y"))
    back = ours.__jax_array__()
    assert isinstance(back, jax.Array)
    pointers = [shard.data.unsafe_buffer_pointer() for shard in theirs.addressable_shards]
    assert [shard.data.unsafe_buffer_pointer() for shard in back.addressable_shards] == pointers
    assert back.sharding == theirs.sharding


def test_printed_pickled_freed() -> None:
    x = tj.device_put(A[:4, :2], on(P("x", "y")))
    assert repr(x) == repr(tnp.asarray(A[:4, :2]))
    assert str(x) == str(A[:4, :2])
    assert "data=[[0.]]" in repr(x.addressable_shards[0])
    np.testing.assert_array_equal(np.asarray(pickle.loads(pickle.dumps(x))), A[:4, :2])
    assert tj.block_until_ready((x, x + x))[0] is x
    x.delete()
    assert x.is_deleted()
    with pytest.raises(DeletedBufferError, match="deleted"):
        x + 1.0
    with pytest.raises(DeletedBufferError, match="deleted"):
        np.asarray(x)


def test_types_of_elements() -> None:
    sharding = on(P("x"))
    for dtype in ("bool", "int8", "uint64", "float32", "complex128", "bfloat16"):
        x = tj.device_put(tnp.arange(8).astype(dtype), sharding)
        assert x.sharding == sharding
        np.testing.assert_array_equal(np.asarray(x), np.asarray(tnp.arange(8).astype(dtype)))
    keys = random.split(random.key(0), 8)
    moved = tj.device_put(keys, sharding)
    assert moved.sharding == sharding
    np.testing.assert_array_equal(np.asarray(tj.vmap(random.uniform)(moved)), np.asarray(tj.vmap(random.uniform)(keys)))


def test_trees_of_shardings() -> None:
    tree: dict[str, Any] = {"a": A, "b": (B, np.float64(3.0))}
    moved = tj.device_put(tree, {"a": on(P("x")), "b": on(P())})
    assert moved["a"].sharding == on(P("x"))
    assert moved["b"][1].sharding == on(P())
    assert tj.device_put(A, on(P("y"))).sharding == on(P("y"))


def test_of_one_device() -> None:
    (place,) = (x := tj.device_put(A, "cpu:0")).devices()
    assert x.sharding == SingleDeviceSharding(place)
    assert tnp.ones(3).sharding == SingleDeviceSharding(Device("host"))
    (shard,) = x.addressable_shards
    assert (shard.device, shard.index, shard.replica_id) == (place, (slice(None), slice(None)), 0)


def test_what_doesnt_fit_is_named() -> None:
    with pytest.raises(ShardingError, match=r"the array has the shape \(6, 4\), whose axis 0 of size 6"):
        tj.device_put(B, on(P("x")))
    with pytest.raises(ShardingError, match="found when a program is placed"):
        tj.device_put(A, NamedSharding(MESH.abstract_mesh, P("x")))
    other = Mesh(np.array(tj.devices("cpu")[:4], object), "z")

    @tj.jit
    def f(x: Any, y: Any) -> Any:
        return x + y

    with pytest.raises(ShardingError, match=r"argument y of 'f' lies on 4 devices .* argument x of 'f' on 8"):
        f(tj.device_put(A, on(P("x"))), tj.device_put(A, on(P("z"), other)))
    half = Mesh(np.array(tj.devices("cpu")[4:], object), "z")
    with pytest.raises(ShardingError, match=r"is on the devices cpu:4, cpu:5, cpu:6, cpu:7, but"):
        tj.device_put(A, on(P("z"), other)) + tj.device_put(A, on(P("z"), half))


def test_donated_arguments_are_used_up() -> None:
    f = tj.jit(lambda x, y: (x + y, y), donate_argnums=0)
    for _ in range(2):
        x, y = tj.device_put(A, on(P("x"))), tj.device_put(A, on(P("x")))
        np.testing.assert_array_equal(np.asarray(f(x, y)[0]), A + A)
        assert x.is_deleted()
        assert not y.is_deleted()
        with pytest.raises(DeletedBufferError, match="argument 0"):
            f(x, y)


def test_compiled_programs_are_kept_on_disk(tmp_path: Path) -> None:
    program = tj.make_jaxpr(lambda x, y: (x @ y, x.sum()))(A, B).jaxpr
    arrays = tj.device_put(A, on(P("x"))), tj.device_put(B, on(P()))
    values = [array.value for array in arrays if isinstance(array, ConcreteArray)]
    for expected in (StoreInfo(0, 1, 0), StoreInfo(1, 0, 0)):
        executor = XlaExecutor(persistent=CompilationCache(tmp_path))
        product, total = executor(program, values, "f")
        np.testing.assert_allclose(np.asarray(product), A @ B, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(total), A.sum())
        assert ConcreteArray(product).sharding == on(P("x"))
        assert executor.persistent is not None
        assert executor.persistent.info() == expected


def test_callbacks_and_numbers() -> None:
    x = tj.device_put(A, on(P("x")))
    asked = tj.jit(lambda x: tj.pure_callback(lambda v: 2.0 * np.asarray(v), tj.ShapedArray(A.shape, "f8"), x))
    np.testing.assert_array_equal(np.asarray(asked(x)), 2.0 * A)
    calls: list[object] = []

    def total(v: object) -> object:
        calls.append(np.asarray(v))
        return np.sum(np.asarray(v))

    told = tj.jit(lambda x: x + tj.io_callback(total, tj.ShapedArray((), "f8"), x))
    np.testing.assert_array_equal(np.asarray(told(x)), A + A.sum())
    np.testing.assert_array_equal(np.asarray(calls), [A])  # one device calls, with all elements
    scaled = tj.jit(lambda x, a: x * a)
    for factor in (2.0, 3.0, 3.0, np.float64(4.0)):
        result = scaled(x, factor)
        np.testing.assert_array_equal(np.asarray(result), A * factor)
        assert result.sharding == on(P("x"))
    everywhere = tj.device_put(A, on(P()))
    for _ in range(2):
        assert scaled(everywhere, 3.0).devices() == on(P()).device_set
        assert scaled(A, 3.0).devices() == {tj.devices()[0]}


def test_threads_launch_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    x = tj.device_put(A, on(P("x", "y")))
    f = tj.jit(lambda x: (x @ x.T).sum() + tnp.sin(x).sum())
    expected = (A @ A.T).sum() + np.sin(A).sum()
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: f(x), range(40)):
            np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-12)


def test_inputs_are_named_once_and_only_where_something_lies_on_a_mesh() -> None:
    asked: list[str] = []

    def names() -> list[str]:
        asked.append("x")
        return ["", "", "x"]

    plain = tj.make_jaxpr(lambda a, b, c: a + b * c)(1.0, 2.0, 3.0).jaxpr
    program = plain.named_by(InputNames(names))
    assert lay_out(program, [None] * 3, None, "f") is None
    assert not asked
    closed = "an array that 'f' closes over"
    assert input_labels(program, "f") == [closed, closed, "argument x of 'f'"]
    assert input_labels(plain.with_names(["w"]), "f")[1:] == ["argument 1 of 'f'", "argument 2 of 'f'"]
    with pytest.raises(ShardingError, match=r"argument x of 'f'"):
        lay_out(program, [None, None, on(P("x"))], None, "f")
