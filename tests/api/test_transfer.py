"""Moving trees to devices and back, and which devices there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import ChoiceError, TreeError

X = np.arange(3.0)
_JAXS = jax.devices("cpu")[0]


def test_the_default_device() -> None:
    moved: Any = tj.device_put({"a": X, "b": (1.0, None)})
    assert moved["a"].device == moved["b"][0].device == tj.devices()[0]
    np.testing.assert_array_equal(moved["a"], X)


@pytest.mark.parametrize(
    "device",
    [
        "cpu:0",
        "cpu",
        tj.devices("cpu")[0],
        jax.devices("cpu")[0],
        jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0]),
    ],
)
def test_a_device(device: Any) -> None:
    moved: Any = tj.device_put((X, 2), device)
    assert [x.device for x in moved] == [tj.Device("cpu")] * 2
    assert tj.device_put(moved[0], "host").device == tj.Device("host")


def test_a_tree_of_devices() -> None:
    tree = {"a": (X, X), "b": X, "c": None}
    moved: Any = tj.device_put(tree, {"a": "host", "b": None, "c": "cpu"})
    assert moved["a"][0].device == moved["a"][1].device == tj.Device("host")
    assert moved["b"].device == tj.devices()[0]
    with pytest.raises(TreeError):
        tj.device_put(tree, {"a": "host"})


def test_what_is_traced_stays() -> None:
    assert tj.make_jaxpr(lambda x: tj.device_put(x, "cpu"))(X).eqns == ()
    assert tj.grad(lambda x: tj.device_put(x, "cpu") ** 2)(3.0) == 6.0


def test_there_is_none_such() -> None:
    for device in ("abacus", "cpu:99"):
        with pytest.raises(ChoiceError):
            tj.device_put(X, device)
    with pytest.raises(ChoiceError):
        tj.devices("abacus")


def test_devices_are_jaxs() -> None:
    assert [(d.platform, d.id) for d in tj.devices()] == [(d.platform, d.id) for d in jax.local_devices()]
    assert tj.device_count() == jax.local_device_count()
    assert tj.default_backend() == tj.devices()[0].platform


def test_within_compiled_functions_constants_stay_too() -> None:
    mesh = tj.make_mesh((4,), "i", devices=tj.devices("cpu")[:4])
    f = tj.shard_map(
        lambda x: x + tj.device_put(1.0, tj.devices("cpu")[0]), mesh=mesh, in_specs=tj.P("i"), out_specs=tj.P("i")
    )
    for g in (f, tj.jit(f)):
        np.testing.assert_array_equal(g(np.arange(8.0)), np.arange(8.0) + 1.0)
    found = tj.jit(lambda: tj.device_put(np.arange(8.0), tj.NamedSharding(mesh, tj.P("i"))))()
    assert found.sharding.is_equivalent_to(tj.NamedSharding(mesh, tj.P("i")), 1)


def test_kinds_of_memory_that_devices_lack() -> None:
    """They are refused where they are said, as in JAX."""
    mesh = tj.make_mesh((2,), "i", devices=tj.devices("cpu")[:2])
    lies = tj.NamedSharding(mesh, tj.P("i"))
    make: list[Callable[[], object]] = [
        lambda: tj.NamedSharding(mesh, tj.P("i"), memory_kind="weird"),
        lambda: tj.NamedSharding(mesh.abstract_mesh, tj.P("i"), memory_kind="weird"),
        lambda: lies.with_memory_kind("weird"),
        lambda: tj.sharding.SingleDeviceSharding(tj.devices("cpu")[0], memory_kind="weird"),
    ]
    for each in make:
        with pytest.raises(ChoiceError, match="Got memory kind: weird"):
            each()


def test_the_usual_kind_of_memory() -> None:
    """As in JAX, it has a name where devices are known, and saying it says nothing."""
    for m in (tj, jax):
        lib: Any = m
        mesh = lib.make_mesh((2,), "i", devices=lib.devices("cpu")[:2])
        lies, said = [lib.sharding.NamedSharding(mesh, lib.P("i"), memory_kind=kind) for kind in (None, "device")]
        assert lies == said
        assert hash(lies) == hash(said)
        assert lies.is_equivalent_to(said, 1)
        assert lies.memory_kind == "device"
        array = lib.device_put(np.arange(8.0), said)
        assert array.sharding.memory_kind == "device"
        assert not lies.is_equivalent_to(lies.with_memory_kind("pinned_host"), 1)
        assert lib.sharding.SingleDeviceSharding(lib.devices("cpu")[0]).memory_kind == "device"
        there = lib.device_put(array, lies.with_memory_kind("pinned_host"))
        assert [x.sharding.memory_kind for x in (there, lib.device_put(there, lies))] == ["pinned_host", "device"]
    assert tj.numpy.ones(3).sharding.memory_kind is None  # on the host


def test_where_arrays_come_from() -> None:
    device = tj.devices("cpu")[0]
    tree = {"a": (X, X), "b": X}
    moved: Any = tj.device_put(tree, device, src={"a": "host", "b": None})
    assert moved["a"][1].device == moved["b"].device == device
    assert tj.device_put(moved["b"], "host", src=device).device == tj.Device("host")
    with pytest.raises(TreeError):
        tj.device_put(tree, device, src={"a": "host"})


@pytest.mark.parametrize("place", ["host", "cpu:0"])
@pytest.mark.parametrize("start", ["host", "cpu:0"])
@pytest.mark.parametrize("alias", [None, False])
def test_what_is_given_up_is_deleted_wherever_it_was(start: str, place: str, alias: bool | None) -> None:
    x, y = (tj.device_put(tj.numpy.arange(3.0), start) for _ in range(2))
    moved = tj.device_put((x, y), place, donate=(True, False), may_alias=alias)
    assert (x.is_deleted(), y.is_deleted()) == (True, False)
    for found in moved:
        assert not found.is_deleted()
        np.testing.assert_array_equal(np.asarray(found), X)
    assert (moved[1] is y) == (start == place and alias is None)
    with pytest.raises(ValueError, match="can't be returned as it is"):
        tj.device_put(y, place, donate=True, may_alias=True)


def test_what_is_traced_stays_where_it_is() -> None:
    """As in JAX: a library may look at what it is given, traced or not."""

    def f(x: Any) -> Any:
        assert tj.device_get({"x": x, "n": 2})["x"] is x
        assert tj.copy_to_host_async((x, 1.0))[0] is x
        return x * 2.0

    for transformed in (tj.jit(f), tj.grad(f), tj.jit(tj.grad(f))):
        assert float(transformed(1.0)) == 2.0
    np.testing.assert_array_equal(tj.vmap(f)(X), X * 2.0)
    assert tj.make_jaxpr(f)(1.0).eqns[0].primitive.name == "mul"


def test_copies_begin() -> None:
    tree = {"x": tj.device_put(X), "n": 2, "y": X}
    assert tj.copy_to_host_async(tree) is tree
    np.testing.assert_array_equal(tj.device_get(tree)["x"], X)
    assert jax.copy_to_host_async(X) is X


def test_whatever_can_is_copied_in_advance() -> None:
    """As in jax, which asks for the method."""
    for module in (jax, tj):
        asked: list[object] = []

        class Other:
            def copy_to_host_async(self, asked: list[object] = asked) -> None:
                asked.append(self)

        other = Other()
        given = [object(), 1, other]
        assert module.copy_to_host_async(given) is given
        assert asked == [other]
