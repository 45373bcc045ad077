"""Arrays made of their parts, in one process and in two, compared with JAX's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.meshes.cases import jax_sharding, shardings
from tinyjax import NamedSharding, P
from tinyjax.errors import ChoiceError, InputError, ShapeError, ShardingError, TreeError
from tinyjax.meshes import Index, Mesh, SingleDeviceSharding

MESH = Mesh(np.array(tj.devices("cpu"), object).reshape(4, 2), ("x", "y"))
A = np.arange(48.0).reshape(8, 6)
ROWS = NamedSharding(MESH, P("x"))


@given(shardings(2))
@settings(max_examples=15, deadline=None)
def test_of_parts(sharding: NamedSharding) -> None:
    host = np.arange(24.0 * 24).reshape(24, 24)
    asked: list[Index] = []

    def part(index: Index) -> Any:
        asked.append(index)
        return host[index]

    x = tj.make_array_from_callback(host.shape, sharding, part)
    theirs = jax.make_array_from_callback(host.shape, jax_sharding(sharding), lambda index: host[index])
    np.testing.assert_array_equal(np.asarray(x), np.asarray(theirs))
    assert len(asked) == len({str(index) for index in asked})
    assert {s.device.id: s.index for s in x.addressable_shards} == {
        s.device.id: s.index for s in theirs.addressable_shards
    }
    parts = [shard.data for shard in x.addressable_shards]
    again = tj.make_array_from_single_device_arrays(
        host.shape, sharding, [part for part in reversed(parts) if part is not None]
    )
    np.testing.assert_array_equal(np.asarray(again), host)
    local = tj.make_array_from_process_local_data(sharding, host)
    np.testing.assert_array_equal(np.asarray(local), host)
    assert local.sharding == again.sharding == x.sharding


def test_of_local_data() -> None:
    tree = tj.make_array_from_process_local_data(ROWS, {"a": A, "b": A[:, 0]}, {"a": (8, None), "b": (8,)})
    assert tree["a"].sharding == ROWS
    np.testing.assert_array_equal(np.asarray(tree["b"]), A[:, 0])
    with pytest.raises(ShapeError, match="axis 0 of the whole array has the size 16"):
        tj.make_array_from_process_local_data(ROWS, A, (16, 6))
    with pytest.raises(TreeError, match="make_array_from_process_local_data"):
        tj.make_array_from_process_local_data({"a": ROWS}, {"b": A})


def test_gathered() -> None:
    from jax.experimental.multihost_utils import process_allgather

    x = tj.device_put(A, ROWS)
    for tiled in (False, True):
        found = tj.process_allgather({"a": x, "b": 2.0}, tiled=tiled)
        expected = process_allgather({"a": A, "b": np.float64(2.0)}, tiled=tiled)
        for name in ("a", "b"):
            assert isinstance(found[name], np.ndarray)
            np.testing.assert_array_equal(found[name], expected[name])


def test_processes() -> None:
    assert (tj.process_index(), tj.process_count()) == (jax.process_index(), jax.process_count())
    assert tj.local_device_count("cpu") == tj.device_count("cpu") == len(jax.devices("cpu"))
    assert tj.local_devices(backend="cpu") == tj.devices("cpu")
    assert tj.local_devices(1, "cpu") == []
    with pytest.raises(ChoiceError, match="no device abacus"):
        tj.local_devices(backend="abacus")


def test_mistakes_are_named() -> None:
    with pytest.raises(ShapeError, match=r"each device has a part of shape \(2, 6\), got \(8, 6\) for cpu:0"):
        tj.make_array_from_callback((8, 6), ROWS, lambda index: A)
    with pytest.raises(InputError, match="the dtype f64, got f32 for cpu:2"):
        tj.make_array_from_callback((8, 6), ROWS, lambda i: A[i].astype("f4" if i[0].start == 2 else "f8"))
    with pytest.raises(ShardingError, match="axis 0 of size 6"):
        tj.make_array_from_callback((6, 6), ROWS, lambda index: A)
    with pytest.raises(ShardingError, match="no parts for cpu:1, cpu:2"):
        tj.make_array_from_single_device_arrays((8, 6), ROWS, [tj.device_put(A[:2], "cpu:0")])
    with pytest.raises(ShardingError, match="host isn't one of"):
        tj.make_array_from_single_device_arrays((8, 6), ROWS, [A[:2]])
    with pytest.raises(ShardingError, match="found when a program is placed"):
        tj.make_array_from_callback((8, 6), ROWS.abstract, lambda index: A[index])
    with pytest.raises(InputError, match="being traced"):
        tj.jit(lambda x: tj.make_array_from_callback((8, 6), ROWS, lambda index: x))(A)
    with pytest.raises(InputError, match="the sharding is a NamedSharding"):
        tj.make_array_from_callback((8,), "x", lambda index: A)  # type: ignore[arg-type]


_PROCESS = """
import sys
import jax
import numpy as np
number, port = int(sys.argv[1]), sys.argv[2]
jax.distributed.initialize(f"127.0.0.1:{port}", 2, number, coordinator_bind_address=f"127.0.0.1:{port}")
import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P
from tinyjax.errors import AddressError
assert (tj.process_index(), tj.process_count()) == (number, 2)
assert (tj.device_count(), tj.local_device_count()) == (4, 2)
mesh = tj.make_mesh((4,), "x")
rows = NamedSharding(mesh, P("x"))
whole = np.arange(16.0).reshape(8, 2)
own = whole[4 * number : 4 * number + 4]
x = tj.make_array_from_process_local_data(rows, own)
assert x.shape == x.global_shape == (8, 2) and not x.is_fully_addressable
assert [shard.data is None for shard in x.global_shards] == [d.process_index != number for d in mesh.flat_devices]
np.testing.assert_array_equal(np.concatenate([np.asarray(s.data) for s in x.addressable_shards]), own)
y = tj.make_array_from_callback((8, 2), rows, lambda index: whole[index])
np.testing.assert_array_equal(tj.process_allgather(x + y, tiled=True), 2 * whole)
f = tj.jit(lambda x: tnp.sum(tnp.sin(x) ** 2), in_shardings=rows)
np.testing.assert_allclose(np.asarray(f(y)), np.sum(np.sin(whole) ** 2))
np.testing.assert_allclose(tj.process_allgather(tj.grad(f)(y), tiled=True), np.sin(2 * whole))
np.testing.assert_array_equal(tj.process_allgather(np.float64(number)), [0.0, 1.0])
np.testing.assert_array_equal(tj.process_allgather(own, tiled=True), whole)
moved = tj.device_put(x, NamedSharding(mesh, P(None)))
np.testing.assert_array_equal(np.asarray(moved), whole)
assert "with elements on devices of other processes" in repr(x)
for read in (np.asarray, float):
    try:
        read(x)
    except AddressError as error:
        assert "process_allgather" in str(error)
    else:
        raise AssertionError(read)
print("done", number)
"""


@pytest.mark.sweep
def test_two_processes() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    flags = "--xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _PROCESS, str(number), port],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip
    said = [process.communicate(timeout=120) for process in started]
    for number, (process, (out, err)) in enumerate(zip(started, said, strict=True)):
        assert process.returncode == 0, err
        assert f"done {number}" in out


def test_keys_and_scalars() -> None:
    keys = tj.random.split(tj.random.key(1), 8)
    x = tj.make_array_from_callback((8,), ROWS, lambda index: keys[index])
    np.testing.assert_array_equal(np.asarray(x), np.asarray(keys))
    one = tj.make_array_from_callback((), NamedSharding(MESH, P()), lambda index: tnp.float32(3.0))
    assert (float(one), one.is_fully_replicated, one.dtype.name) == (3.0, True, "float32")


def test_a_specification_or_a_device_says_where() -> None:
    device = tj.devices("cpu")[3]
    with tj.set_mesh(MESH):
        for made in (
            tj.make_array_from_callback(A.shape, P("x"), lambda index: A[index]),
            tj.make_array_from_process_local_data(P("x"), A),
        ):
            assert made.sharding == ROWS
            np.testing.assert_array_equal(np.asarray(made), A)
    for made in (
        tj.make_array_from_callback(A.shape, device, lambda index: A[index]),
        tj.make_array_from_process_local_data(device, A),
    ):
        assert made.sharding == SingleDeviceSharding(device)
    with pytest.raises(ShardingError, match="doesn't say of which mesh"):
        tj.make_array_from_callback(A.shape, P("x"), lambda index: A[index])
    with pytest.raises(InputError, match="the sharding is a NamedSharding, not 3"):
        tj.make_array_from_process_local_data(3, A)
