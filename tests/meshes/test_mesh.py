"""Meshes: what they say of themselves, and what they refuse."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import jax
import numpy as np
import pytest
from hypothesis import given

import tinyjax as tj
from tests.meshes.cases import jax_mesh, meshes
from tinyjax.errors import InputError, ShardingError
from tinyjax.meshes import AbstractMesh, AxisType, Device, Mesh


@given(meshes())
def test_it_says_what_jax_says(mesh: Mesh) -> None:
    theirs = jax_mesh(mesh)
    assert mesh.shape == theirs.shape
    assert list(mesh.shape) == list(theirs.shape)
    assert mesh.shape_tuple == theirs.shape_tuple
    assert mesh.axis_names == theirs.axis_names
    assert mesh.axis_sizes == theirs.axis_sizes
    assert mesh.size == theirs.size
    assert mesh.empty == theirs.empty
    assert mesh.is_scalar == theirs.is_scalar
    assert mesh.device_ids.tolist() == theirs.device_ids.tolist()
    assert mesh.devices.shape == theirs.devices.shape
    assert len(mesh.local_devices) == len(theirs.local_devices)
    assert [t.name for t in mesh.axis_types] == [t.name for t in theirs.axis_types]
    assert mesh.abstract_mesh == AbstractMesh(mesh.axis_sizes, mesh.axis_names)
    assert mesh.abstract_mesh != mesh
    assert pickle.loads(pickle.dumps(mesh)) == mesh == copy.deepcopy(mesh)
    assert hash(pickle.loads(pickle.dumps(mesh))) == hash(mesh)


def test_printed() -> None:
    assert repr(Mesh((4, 2), ("x", "y"))) == "Mesh('x': 4, 'y': 2)"
    assert repr(Mesh((4,), "x", AxisType.Manual)) == "Mesh('x': 4, axis_types=(Manual,))"
    mixed = Mesh((4, 2), ("x", "y"), (AxisType.Auto, AxisType.Explicit))
    theirs = jax.sharding.AbstractMesh((4, 2), ("x", "y"), (jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit))
    assert f"Abstract{mixed}" == repr(theirs)


def test_empty() -> None:
    mesh = Mesh((), ())
    assert mesh.empty
    assert mesh.size == 0
    assert Mesh(np.empty((), object), ()) == mesh


def test_axes_by_type() -> None:
    mesh = AbstractMesh((2, 2, 2), ("x", "y", "z"), (AxisType.Auto, AxisType.Manual, AxisType.Explicit))
    assert (mesh.auto_axes, mesh.manual_axes, mesh.explicit_axes) == (("x",), ("y",), ("z",))
    assert mesh.update_axis_types({"x": AxisType.Manual}).manual_axes == ("x", "y")
    assert mesh.update(axis_names=("a", "b", "c")).axis_names == ("a", "b", "c")
    assert mesh.update(axis_sizes=(2, 2, 4)).size == 16


def test_of_devices_of_jax_and_of_names() -> None:
    ours = Mesh([["cpu:0", "cpu:1"]], ("x", "y"))
    assert Mesh(np.array(jax.devices("cpu")[:2]).reshape(1, 2), ("x", "y")) == ours
    assert ours.update(axis_names=("a", "b")).flat_devices == (Device("cpu", 0), Device("cpu", 1))


def test_made_of_what_there_is() -> None:
    mesh = tj.make_mesh((2, 2), ("x", "y"), devices=tj.devices("cpu"))
    assert mesh.flat_devices == tuple(tj.devices("cpu")[:4])
    assert mesh.axis_types == (AxisType.Explicit,) * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mesh((4, 2), ("x", "x")), "'x' is there twice"),
        (lambda: Mesh((4, 0), ("x", "y")), "at least one device"),
        (lambda: Mesh((4, 2), ("x",)), "got 1 names"),
        (lambda: Mesh((4,), ("x",), (AxisType.Auto,) * 2), "got 2 types"),
        (lambda: Mesh([Device("cpu"), Device("cpu")], "x"), "cpu:0 is there twice"),
        (lambda: Mesh([[Device("cpu")], []], ("x", "y")), "rows of equal lengths"),
        (lambda: Mesh((4,), "x").devices, "no devices"),
        (lambda: tj.make_mesh((3, 1000), ("x", "y")), "takes 3000 devices"),
    ],
)
def test_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mesh((4,), (1,)), "not 1"),  # type: ignore[arg-type]
        (lambda: Mesh((4,), "x", ("Auto",)), "not 'Auto'"),  # type: ignore[arg-type]
        (lambda: Mesh([None, None], "x"), "array of devices"),
        (lambda: tj.make_mesh("ab", ("x", "y")), "sequence of integers"),  # type: ignore[arg-type]
    ],
)
def test_wrong_types(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_the_sizes_of_made_meshes_have_the_names_of_both_versions_of_jax() -> None:
    """JAX 0.10 calls them `axis_shapes`, JAX 0.11 `axis_sizes`."""
    mesh = tj.make_mesh((1, 1), ("x", "y"))
    assert tj.make_mesh(axis_sizes=(1, 1), axis_names=("x", "y")) == mesh
    assert tj.make_mesh(axis_shapes=(1, 1), axis_names=("x", "y")) == mesh
    ours, theirs = (set(inspect.signature(make).parameters) for make in (tj.make_mesh, jax.make_mesh))
    assert theirs <= ours
    untyped: Callable[..., Mesh] = tj.make_mesh
    sizes: dict[str, object] = {"axis_sizes": (1,)}
    for arguments in ({}, sizes, sizes | {"axis_shapes": (1,), "axis_names": ("x",)}):
        with pytest.raises(InputError, match=r"takes the sizes of the axes, once, and their names: make_mesh\("):
            untyped(**arguments)
