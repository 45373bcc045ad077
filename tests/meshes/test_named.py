"""How arrays lie on meshes, compared with JAX."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyjax as tj
from tests.meshes.cases import jax_sharding, shardings
from tinyjax.errors import InputError, ShardingError
from tinyjax.meshes import AxisType, Device, Mesh, NamedSharding, P, SingleDeviceSharding

MESH = Mesh((4, 2), ("x", "y"))
SHAPES = st.lists(st.sampled_from([1, 2, 4, 8, 16, 24]), min_size=3, max_size=3).map(tuple)


@given(shardings(3), SHAPES)
def test_blocks_lie_where_jax_has_them(ours: NamedSharding, shape: tuple[int, ...]) -> None:
    theirs = jax_sharding(ours)
    assert ours.is_fully_replicated == theirs.is_fully_replicated
    assert ours.num_devices == theirs.num_devices
    assert ours.is_fully_addressable
    assert {device.id for device in ours.device_set} == {device.id for device in theirs.device_set}
    try:
        block = theirs.shard_shape(shape)
    except ValueError:
        with pytest.raises(ShardingError, match="can't be divided equally"):
            ours.shard_shape(shape)
        return
    assert ours.shard_shape(shape) == block
    found = {device.id: index for device, index in ours.devices_indices_map(shape).items()}
    assert found == {device.id: index for device, index in theirs.devices_indices_map(shape).items()}
    here = ours.addressable_devices_indices_map(shape)
    assert here == ours.devices_indices_map(shape)


@given(shardings(2), shardings(2))
def test_equivalent_where_jax_says_so(one: NamedSharding, two: NamedSharding) -> None:
    for x, y in ((one, two), (one, two.update(mesh=one.mesh)) if two.mesh.ndim == one.mesh.ndim else (one, one)):
        for ndim in (2, 3):
            assert x.is_equivalent_to(y, ndim) == jax_sharding(x).is_equivalent_to(jax_sharding(y), ndim)
    assert (one == two) == (jax_sharding(one) == jax_sharding(two))


@given(shardings(3))
def test_values(sharding: NamedSharding) -> None:
    assert pickle.loads(pickle.dumps(sharding)) == sharding == copy.deepcopy(sharding)
    assert hash(pickle.loads(pickle.dumps(sharding))) == hash(sharding)
    assert sharding.abstract.mesh.placed is None
    assert sharding.abstract.indices((48, 48, 48)) == sharding.indices((48, 48, 48))
    assert repr(sharding) == f"NamedSharding(mesh={sharding.mesh}, spec={sharding.spec})"


def test_replicas_are_counted() -> None:
    assert NamedSharding(MESH, P("y")).replica_ids(1) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_one_device() -> None:
    mesh = Mesh([Device("cpu")], "x")
    one = SingleDeviceSharding(Device("cpu"))
    assert one.is_equivalent_to(NamedSharding(mesh, P("x")), 1)
    assert not one.is_equivalent_to(SingleDeviceSharding(Device("cpu", 1)), 1)
    assert one == SingleDeviceSharding(jax.devices("cpu")[0])
    assert one.devices_indices_map((2, 3)) == {Device("cpu"): (slice(None), slice(None))}


def test_sums_yet_to_be_made_are_told_apart() -> None:
    assert not NamedSharding(MESH, P("x", unreduced={"y"})).is_equivalent_to(NamedSharding(MESH, P("x")), 1)
    assert NamedSharding(MESH, P("x", unreduced={"y"})).replicated_axes == frozenset()


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        (P("x"), (12,), None),
        (P("x"), (6,), r"argument 'a' has the shape \(6,\), whose axis 0 of size 6 .* 'x' \(4\)\. Pad it to 8"),
        (P(None, ("x", "y")), (3, 12), r"axis 1 of size 12 .* by 8: .* 'x' \(4\) and 'y' \(2\)\. Pad it to 16"),
        (P("x", None), (8,), r"has 2 parts, but argument 'a' has the shape \(8,\)"),
        (P(None), (), r"write P\(\)"),
    ],
)
def test_what_doesnt_divide_is_named(spec: P, shape: tuple[int, ...], message: str | None) -> None:
    sharding = NamedSharding(MESH, spec)
    if message is None:
        sharding.check(shape, "argument 'a'")
        return
    with pytest.raises(ShardingError, match=message):
        sharding.check(shape, "argument 'a'")


def test_refused() -> None:
    with pytest.raises(ShardingError, match="no axis 'z'; its axes are 'x', 'y'"):
        NamedSharding(MESH, P("z"))
    with pytest.raises(ShardingError, match="has 'x' twice"):
        NamedSharding(MESH, P("x", ("y", "x")))
    with pytest.raises(ShardingError, match="Auto axes"):
        NamedSharding(Mesh((4,), "x", AxisType.Explicit), P(P.UNCONSTRAINED))
    with pytest.raises(InputError, match=r"such as P\('x', None\)"):
        NamedSharding(MESH, ("x",))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"sharding\.Mesh"):
        NamedSharding("x", P())  # type: ignore[arg-type]
    with pytest.raises(ShardingError, match="found when a program is placed"):
        _ = NamedSharding(MESH, P()).device_set


def test_coordinates_are_those_of_the_mesh() -> None:
    rows = NamedSharding(MESH, P(("y", "x"))).coordinates(1)[:, 0]
    assert rows.tolist() == np.arange(8).reshape(2, 4).T.ravel().tolist()


@pytest.mark.parametrize("kind", ["unreduced", "reduced"])
@pytest.mark.parametrize("axis_type", list(AxisType))
def test_sums_are_along_explicit_axes(kind: str, axis_type: AxisType) -> None:
    def sharding(m: Any) -> Any:  # Any: a sharding of either library
        types = (m.sharding.AxisType[axis_type.name], m.sharding.AxisType.Explicit)
        mesh = m.sharding.Mesh(np.array(m.devices("cpu"), object).reshape(4, 2), ("x", "y"), axis_types=types)
        return m.sharding.NamedSharding(mesh, m.P("y", **{kind: {"x"}}))

    if axis_type == AxisType.Explicit:
        assert getattr(sharding(tj).spec, kind) == getattr(sharding(jax).spec, kind) == {"x"}
        return
    for m in (tj, jax):
        with pytest.raises(ValueError, match="Explicit"):
            sharding(m)


@pytest.mark.parametrize("shape", [(8, 2), (8,), ()])
def test_what_can_lie_so(shape: tuple[int, ...]) -> None:
    def answers(m: Any) -> list[Any]:  # Any: values of two libraries
        devices = m.devices("cpu")
        mesh = m.sharding.Mesh(np.array(devices, object).reshape(4, 2), ("x", "y"))
        found: list[Any] = []
        for sharding in (m.sharding.NamedSharding(mesh, m.P("x", "y")), m.sharding.SingleDeviceSharding(devices[0])):
            found.append(sharding.has_addressable_devices)
            try:
                found.append(sharding.check_compatible_aval(shape))
            except ValueError:
                found.append("refused")
        return found

    assert answers(tj) == answers(jax)


def test_what_cannot_be_divided_equally_cannot_lie_so() -> None:
    """In JAX only the number of axes counts there."""
    with pytest.raises(ShardingError, match="of size 7 can't be divided equally by 4"):
        NamedSharding(MESH, P("x")).check_compatible_aval((7,))
