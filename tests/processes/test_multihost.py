"""What processes tell each other by the functions of `multihost_utils`, in one process and in two."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils as theirs

import tinyjax as tj
from tests.meshes.cases import jax_sharding
from tests.processes.running import run
from tinyjax import NamedSharding, P
from tinyjax.errors import InputError, ShardingError
from tinyjax.experimental import multihost_utils
from tinyjax.meshes import Device, Mesh

MESH = tj.make_mesh((4, 2), ("x", "y"), devices=tj.devices("cpu"))
A = np.arange(48.0).reshape(8, 6)


def test_one_process() -> None:
    multihost_utils.sync_global_devices("here")
    multihost_utils.assert_equal({"a": A, "b": 3})
    found = multihost_utils.broadcast_one_to_all({"a": tj.numpy.asarray(A), "b": 3})
    np.testing.assert_array_equal(found["a"], A)
    assert type(found["a"]) is np.ndarray
    for spec in (P("x"), P(None, "y"), P()):
        ours = multihost_utils.host_local_array_to_global_array(A, MESH, spec)
        lies = jax_sharding(NamedSharding(MESH, spec))
        assert isinstance(lies.mesh, jax.sharding.Mesh)
        expected = theirs.host_local_array_to_global_array(A, lies.mesh, lies.spec)
        jax.block_until_ready(expected)
        assert ours.sharding == NamedSharding(MESH, spec)
        np.testing.assert_array_equal(ours, expected)
        assert multihost_utils.global_array_to_host_local_array(ours, MESH, spec) is ours
    tree = multihost_utils.host_local_array_to_global_array({"a": A, "b": (A, A)}, MESH, {"a": P("x"), "b": P()})
    assert tree["b"][1].is_fully_replicated
    with pytest.raises(InputError, match=r"pspecs has PartitionSpecs, such as P\(\) for what is not divided, not None"):
        multihost_utils.host_local_array_to_global_array(A, MESH, None)
    with pytest.raises(InputError, match="call it outside of jit"):
        tj.jit(multihost_utils.broadcast_one_to_all)(A)


def test_the_mesh_of_one_process() -> None:
    assert MESH.local_mesh == MESH
    devices = np.array([Device("cpu", i, i // 2) for i in range(4)], object)
    assert Mesh(devices.reshape(2, 2), ("x", "y")).local_mesh == Mesh(devices[:2].reshape(1, 2), ("x", "y"))
    assert Mesh(devices.reshape(2, 2).T, ("x", "y")).local_mesh == Mesh(devices[:2].reshape(2, 1), ("x", "y"))
    with pytest.raises(ShardingError, match="are no block of"):
        Mesh(devices[[0, 2, 3, 1]].reshape(2, 2), ("x", "y")).local_mesh  # noqa: B018


SCRIPT = """
    from tinyjax.experimental import multihost_utils as m
    rows, everywhere = begin()
    m.sync_global_devices("begin")
    assert tj.numpy.asarray(3.0).is_fully_addressable  # on the host of any process
    m.assert_equal({"a": np.array([np.nan, -0.0 if ME else 0.0]), "b": (3, "x" == "x")})
    m.assert_equal(tj.jit(lambda x: x.sum(), out_shardings=everywhere)(spread(np.arange(8.0), rows)))
    tree = {"a": np.arange(3) + 10 * ME, "b": (np.float32(ME - 0.5), tj.numpy.full((2, 2), ME, "bfloat16"), ME == 1)}
    for source in (None, ME == 1):
        found = m.broadcast_one_to_all(tree, source)
        at = 0 if source is None else 1
        assert found["a"].tolist() == [10 * at, 10 * at + 1, 10 * at + 2] and found["b"][2] == at, found
        assert found["b"][0] == at - 0.5 and str(found["b"][1].dtype) == "bfloat16" and found["b"][1][1, 1] == at
    mine = np.arange(4.0)[:, None] + 10 * ME + np.arange(2.0)
    x = m.host_local_array_to_global_array(mine, rows.mesh, P("x"))
    assert x.shape == (8, 2) and x.sharding == rows
    every = tj.process_allgather(x, tiled=True)
    np.testing.assert_array_equal(every[4:] - 10, np.arange(4.0)[:, None] + np.arange(2.0))
    np.testing.assert_array_equal(m.global_array_to_host_local_array(x, rows.mesh, P("x")), mine)
    both = m.global_array_to_host_local_array({"all": x}, rows.mesh, P())["all"]
    assert both.shape == (8, 2) and both.is_fully_addressable
    same = m.host_local_array_to_global_array(np.arange(3.0), rows.mesh, P())
    assert same.shape == (3,) and same.sharding == everywhere
    try:
        m.assert_equal(x)
    except tj.errors.InputError as error:
        assert "none of which has all of it" in str(error)
    else:
        raise AssertionError
    say("done")
"""


@pytest.mark.sweep
def test_two_processes(tmp_path: Path) -> None:
    for ended in run(SCRIPT, 2, tmp_path, devices=2).values():
        assert (ended.code, ended.out.splitlines()[-1:]) == (0, ["done"]), ended.err
