"""`experimental.mesh_utils`: devices in the order of a mesh, against JAX's."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpy.typing as npt
import pytest
from jax.experimental import mesh_utils as theirs

import tinyjax as tj
from tinyjax.errors import InputError, ShardingError
from tinyjax.experimental import io_callback, mesh_utils
from tinyjax.meshes.device import OneDevice
from tinyjax.sharding import AbstractMesh, AxisType, Mesh


def ids(devices: npt.NDArray[np.object_]) -> npt.NDArray[np.int64]:
    found: list[Any] = devices.ravel().tolist()  # of ours or of jax
    return np.array([device.id for device in found]).reshape(devices.shape)


@pytest.mark.parametrize("shape", [(8,), (4, 2), (2, 1, 4)])
def test_devices_are_in_order_as_in_jax(shape: tuple[int, ...]) -> None:
    ours, want = mesh_utils.create_device_mesh(shape), theirs.create_device_mesh(shape)
    assert ids(ours).tolist() == ids(want).tolist()
    names = ("x", "y", "z")[: len(shape)]
    assert Mesh(ours, names).axis_sizes == shape
    some = mesh_utils.create_device_mesh((2,), tj.devices()[2:4])
    assert ids(some).tolist() == [device.id for device in jax.devices()[2:4]]


def test_groups_are_the_processes() -> None:
    devices: list[OneDevice] = [tj.Device("cpu", 10 * process + i, process) for process in (1, 0) for i in range(4)]
    found = mesh_utils.create_hybrid_device_mesh((2, 2), (2, 1), devices, process_is_granule=True)
    want = np.array([[0, 1], [2, 3], [10, 11], [12, 13]])
    np.testing.assert_array_equal(ids(found), want)
    found = mesh_utils.create_hybrid_device_mesh((2, 2), (1, 2), devices, should_sort_granules_by_key=False)
    np.testing.assert_array_equal(ids(found), np.array([[10, 11, 0, 1], [12, 13, 2, 3]]))


def test_messages() -> None:
    with pytest.raises(ShardingError, match=r"shape \(3, 1\) has 3 devices, but there are 8\. Say which of them"):
        mesh_utils.create_device_mesh((3, 1))
    with pytest.raises(ShardingError, match=r"\(2, 1\) is about 2 processes, but there are devices of 1"):
        mesh_utils.create_hybrid_device_mesh((2, 2), (2, 1))
    with pytest.raises(InputError, match="sizes of the same axes"):
        mesh_utils.create_hybrid_device_mesh((2, 2), (1,))
    with pytest.raises(ShardingError, match="so P\\(UNCONSTRAINED,\\) can't leave that open"):
        tj.jit(lambda x: x, in_shardings=tj.P(tj.P.UNCONSTRAINED))


def test_names() -> None:
    assert io_callback is tj.io_callback
    auto, explicit = (AbstractMesh((2, 2), ("x", "y"), (kind,) * 2) for kind in (AxisType.Auto, AxisType.Explicit))
    mixed = auto.update_axis_types({"x": AxisType.Manual})
    manual = mixed.update_axis_types({"y": AxisType.Manual})
    for mesh, kind in (
        (auto, "auto"),
        (explicit, "explicit"),
        (manual, "manual"),
        (mixed, ""),
        (AbstractMesh((), ()), ""),
    ):
        assert mesh.are_all_axes_auto is (kind == "auto")
        assert mesh.are_all_axes_explicit is (kind == "explicit")
        assert mesh.are_all_axes_explicit_or_manual is (kind in ("explicit", "manual"))
        assert mesh.are_all_axes_manual is (kind == "manual")
