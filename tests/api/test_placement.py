"""Where arrays are, and where computations with them run, as in JAX."""

from __future__ import annotations

import copy
import pickle
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.meshes.cases import jax_sharding
from tinyjax import NamedSharding, P
from tinyjax.errors import DeletedBufferError, IndexingError, InputError, ShardingError, TreeError
from tinyjax.meshes import Mesh

DEVICES = tj.devices("cpu")
MESH = Mesh(np.array(DEVICES, object).reshape(4, 2), ("x", "y"))
PAIR = Mesh(np.array(DEVICES[:2], object), ("z",))
X = np.arange(48.0).reshape(8, 6)
ROWS = NamedSharding(MESH, P("x"))


def made(what: str) -> tuple[Any, Any]:
    """An array at a place, and jax's."""
    place: Any = {
        "first": DEVICES[0],
        "second": DEVICES[1],
        "rows": ROWS,
        "pair": NamedSharding(PAIR, P("z")),
        "default": None,
        "result of second": DEVICES[1],
    }[what]
    if place is None:
        theirs: Any = None
    elif isinstance(place, NamedSharding):
        theirs = jax_sharding(place)
    else:
        theirs = jax.devices("cpu")[place.id]
    ours, other = tj.device_put(X, place), jax.device_put(X, theirs)
    if what.startswith("result"):
        ours, other = tj.jit(lambda x: x + 0.0)(ours), other + 0.0
    return ours, jax.block_until_ready(other)


PLACES = ["first", "second", "rows", "pair", "default", "result of second"]


@pytest.mark.sweep
@pytest.mark.parametrize("one", PLACES)
@pytest.mark.parametrize("two", PLACES)
@pytest.mark.parametrize("jitted", [False, True])
def test_computations_run_where_jax_runs_them(one: str, two: str, jitted: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y

    (x, xj), (y, yj) = made(one), made(two)
    try:
        expected = jax.block_until_ready(jax.jit(f)(xj, yj))
    except ValueError:
        with pytest.raises(ShardingError, match=r"is on|lies on"):
            (tj.jit(f) if jitted else f)(x, y)
        return
    found = (tj.jit(f) if jitted else f)(x, y)
    np.testing.assert_array_equal(np.asarray(found), X * X)
    assert {device.id for device in found.devices()} == {device.id for device in expected.devices()}
    assert found.committed == expected.committed or found.devices() == {DEVICES[0]}


def test_who_has_chosen_the_place() -> None:
    assert [tj.device_put(X, place).committed for place in (None, DEVICES[0], DEVICES[1], ROWS)] == [0, 1, 1, 1]
    assert not tnp.asarray(X).committed
    assert not tj.jit(lambda x: x)(X).committed
    add = tj.jit(lambda a, b: a + b)
    with pytest.raises(ShardingError, match=r"argument b of '<lambda>' is on cpu:2, but argument a of '<lambda>' on"):
        add(tj.device_put(X, DEVICES[1]), tj.device_put(X, DEVICES[2]))
    with pytest.raises(ShardingError, match=r"is on cpu:0, but .* runs on 8 devices. Move it first"):
        tj.jit(lambda x: x, in_shardings=ROWS)(tj.device_put(X, DEVICES[0]))
    compiled = tj.jit(lambda x: x, in_shardings=ROWS).lower(X).compile()
    with pytest.raises(ShardingError, match=r"lies as NamedSharding.*'y'.*, but the program was compiled for"):
        compiled(tj.device_put(X, NamedSharding(MESH, P(None, "y"))))
    turned = NamedSharding(Mesh(MESH.devices[::-1], MESH.axis_names), ROWS.spec)
    with pytest.raises(ShardingError, match=r"lies as NamedSharding.* on cpu:6, .*compiled for .* on cpu:0, "):
        compiled(tj.device_put(X, turned))


def test_parts_and_sizes() -> None:
    x = tj.device_put(X, ROWS)
    np.testing.assert_array_equal(np.asarray(x.addressable_data(2)), X[2:4])
    assert x.addressable_data(-1).devices() == {DEVICES[-1]}
    assert x.on_device_size_in_bytes() == 2 * X.nbytes
    assert tj.device_put(X, NamedSharding(MESH, P())).on_device_size_in_bytes() == 8 * X.nbytes
    assert tnp.asarray(X).on_device_size_in_bytes() == X.nbytes
    x.copy_to_host_async()
    tnp.asarray(X).copy_to_host_async()
    assert tj.block_until_ready(x).is_ready()
    assert tnp.asarray(X).is_ready()
    with pytest.raises(IndexingError, match=r"addressable_data\(8\): the array has 8 parts in this process"):
        x.addressable_data(8)
    x.delete()
    for use in (x.is_ready, x.copy_to_host_async, x.on_device_size_in_bytes):
        with pytest.raises(DeletedBufferError):
            use()


@pytest.mark.parametrize("place", [ROWS, DEVICES[1], None], ids=["rows", "second", "default"])
def test_copied_and_given_up(place: Any) -> None:
    first = tj.device_put(X, place)
    assert tj.device_put(first, place) is first
    second = tj.device_put(first, place, may_alias=False)
    third = copy.deepcopy(first)
    tj.jit(lambda x: 2.0 * x, donate_argnums=0)(first)
    assert first.is_deleted()
    assert third.sharding == second.sharding == first.sharding
    fourth = tj.device_put(second, place, donate=True)
    assert second.is_deleted()
    fifth, sixth = tj.device_put((fourth, X), NamedSharding(MESH, P("y")), donate=(True, False))
    assert fourth.is_deleted()
    for array in (third, fifth, sixth, pickle.loads(pickle.dumps(fifth))):
        np.testing.assert_array_equal(np.asarray(array), X)
    kept = tnp.asarray(X)
    tj.device_put(kept, ROWS, donate=True)
    assert kept.is_deleted()  # on the host, too


def test_what_is_on_devices_stays_there() -> None:
    for place, _ in product([ROWS, DEVICES[1]], range(2)):
        x = tj.device_put(X, place)
        assert tj.device_put(x) is x
        assert tj.device_put({"x": x}, {"x": None})["x"] is x


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="leave out may_alias"):
        tj.device_put(X, donate=True, may_alias=True)
    with pytest.raises(TreeError, match="device_put"):
        tj.device_put((X, X), donate=(True,))
