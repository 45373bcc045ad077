"""The mesh in force: what says it, where it counts, and that it is taken back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import P, lax
from tinyjax.errors import InputError, ShardingError
from tinyjax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)
from tinyjax.tracing.concrete import ROOT, active, active_frame

FOUR = AbstractMesh((4, 2), ("x", "y"))
TWO = AbstractMesh((2, 4), ("x", "y"))


def devices(sizes: tuple[int, ...] = (4, 2)) -> Mesh:
    return Mesh(np.array(tj.devices("cpu")[:8]).reshape(sizes), ("x", "y"))


def total(a: tj.ArrayLike) -> tj.Array:
    """The sum over the parts along x: what it is depends on the mesh in force."""
    return tj.shard_map(part_of_total, in_specs=P("x"), out_specs=P())(a)


def part_of_total(a: tj.ArrayLike) -> tj.Array:
    return lax.psum(tj.numpy.asarray(a), "x")


def test_without_a_mesh() -> None:
    assert get_mesh().empty
    assert get_abstract_mesh().empty
    with pytest.raises(ShardingError, match=r"shard_map needs a mesh: .*with tinyjax.set_mesh\(mesh\): \.\.\."):
        total(np.arange(8.0))
    with pytest.raises(ShardingError, match=r"x: the sharding is P\('x',\), which doesn't say of which mesh"):
        lax.with_sharding_constraint(np.ones(8), P("x"))
    with pytest.raises(ShardingError, match=r"device_put: the place is P.*of which mesh"):
        tj.device_put(np.ones(8), P("x"))


def with_mesh(mesh: Mesh) -> AbstractContextManager[object]:
    return mesh


@pytest.mark.parametrize("enter", [set_mesh, use_abstract_mesh, with_mesh])
def test_a_block_has_a_mesh_and_gives_it_back(enter: Callable[[Mesh], AbstractContextManager[object]]) -> None:
    mesh = devices()
    with set_mesh(TWO):
        with enter(mesh):
            assert get_abstract_mesh() == mesh.abstract_mesh
            assert get_mesh() == (mesh.abstract_mesh if enter is use_abstract_mesh else mesh)
            np.testing.assert_array_equal(total(np.arange(8.0)), [12.0, 16.0])
        assert get_mesh() == TWO
        np.testing.assert_array_equal(total(np.arange(8.0)), [4.0, 6.0, 8.0, 10.0])
        with pytest.raises(ZeroDivisionError), enter(mesh):
            1 / 0  # noqa: B018
        assert get_mesh() == TWO
        with enter(mesh), enter(mesh):
            assert get_abstract_mesh() == FOUR
        with set_mesh(None):
            assert get_mesh().empty
    assert get_mesh().empty


def test_a_function_is_traced_for_each_mesh() -> None:
    traced: list[Mesh] = []

    @tj.jit
    def f(a: tj.ArrayLike) -> tj.Array:
        traced.append(get_abstract_mesh())
        return total(a)

    a = np.arange(8.0)
    for _ in range(3):
        for mesh, expected in ((FOUR, [12.0, 16.0]), (TWO, [4.0, 6.0, 8.0, 10.0])):
            with set_mesh(mesh):
                np.testing.assert_array_equal(f(a), expected)
                np.testing.assert_array_equal(tj.vmap(f)(np.stack([a, a]))[1], expected)
                np.testing.assert_array_equal(tj.jit(lambda a: f(a) * 1.0)(a), expected)
    assert traced == [FOUR, TWO]
    assert str(f.explain(a).differences[0]) == "the mesh in force: none, was Mesh('x': 2, 'y': 4)"
    with pytest.raises(ShardingError, match="needs a mesh"):
        f(a)


def test_the_same_axes_on_other_devices_are_the_same_program() -> None:
    count = 0

    @tj.jit
    def f(x: tj.ArrayLike) -> tj.Array:
        nonlocal count
        count += 1
        return tj.numpy.add(x, 1.0)

    for placed in (devices(), Mesh(devices().devices[::-1], ("x", "y"))):
        for _ in range(2):
            with set_mesh(placed):
                y = f(np.ones(8))
            assert y.sharding == NamedSharding(placed, P())
    assert count == 1
    alone = tj.device_put(np.ones(8), NamedSharding(Mesh(tj.devices("cpu")[:2], "z"), P("z")))
    with set_mesh(devices()):
        assert f(alone).sharding.num_devices == 2  # where the argument is


def test_it_is_of_this_thread_only() -> None:
    found: list[bool] = []
    with set_mesh(FOUR):
        thread = threading.Thread(target=lambda: found.append(get_mesh().empty))
        thread.start()
        thread.join()
    assert found == [True]


def test_as_a_decorator() -> None:
    @set_mesh(FOUR)
    def f() -> Mesh:
        return get_mesh()

    assert f() == f() == FOUR
    assert get_mesh().empty


def test_a_mesh_as_a_decorator() -> None:
    mesh = devices()

    @mesh
    def f(x: Any, *, by: float) -> tuple[Mesh, Any]:
        """Doubles."""
        return get_mesh(), tj.reshard(by * x, P("x"))

    assert f.__name__ == "f"
    assert f.__doc__ == "Doubles."
    for _ in range(2):
        inside, y = f(np.ones(4), by=2.0)
        assert inside == mesh
        assert y.sharding == NamedSharding(mesh, P("x"))
        assert get_mesh().empty
    with pytest.raises(ValueError, match="stop"):
        mesh(lambda: (_ for _ in ()).throw(ValueError("stop")))()
    assert get_mesh().empty


def test_specifications_are_about_it() -> None:
    mesh = devices()
    with set_mesh(mesh):
        assert tj.device_put(np.ones((4, 2)), P("x")).sharding == NamedSharding(mesh, P("x"))
        assert tj.reshard(np.ones((4, 2)), P("y")).sharding == NamedSharding(mesh, P("y"))
        y = tj.jit(lambda x: lax.with_sharding_constraint(2 * x, P("x", "y")))(np.ones((4, 4)))
        assert y.sharding == NamedSharding(mesh, P("x", "y"))
        with pytest.raises(ShardingError, match="no axis 'z'"):
            tj.reshard(np.ones((4, 2)), P("z"))


def test_within_shard_map() -> None:
    seen: list[Mesh] = []

    def inner(b: tj.ArrayLike) -> tj.Array:
        seen.append(get_abstract_mesh())
        return lax.psum(tj.numpy.asarray(b), ("x", "y"))

    def outer(a: tj.ArrayLike) -> tj.Array:
        seen.append(get_abstract_mesh())
        return tj.shard_map(inner, in_specs=P("y"), out_specs=P())(a)

    mapped = tj.shard_map(outer, mesh=FOUR, in_specs=P("x"), out_specs=P(), axis_names={"x"})
    np.testing.assert_array_equal(mapped(np.arange(8.0)), [28.0])
    assert seen == [
        FOUR.update(axis_types=(AxisType.Manual, AxisType.Auto)),
        FOUR.update(axis_types=(AxisType.Manual, AxisType.Manual)),
    ]
    np.testing.assert_array_equal(tj.grad(lambda a: mapped(a).sum())(np.arange(8.0)), np.ones(8))
    np.testing.assert_array_equal(tj.jit(mapped)(np.arange(8.0)), [28.0])


def test_it_isnt_set_within_functions_being_transformed() -> None:
    def f(x: object) -> object:
        with set_mesh(FOUR):
            return x

    with pytest.raises(ShardingError, match="set_mesh is for outside of functions"):
        tj.jit(f)(1.0)
    with pytest.raises(ShardingError, match="set_mesh is for outside of functions"):
        tj.jvp(f, (1.0,), (1.0,))
    with pytest.raises(ShardingError, match="get_abstract_mesh"):
        tj.make_jaxpr(get_mesh)()

    def g(x: tj.ArrayLike) -> tj.Array:
        with use_abstract_mesh(FOUR):
            return 2.0 * total(x)

    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: g(x).sum()))(np.arange(8.0)), np.full(8, 2.0))
    assert tj.watch(g)(np.arange(8.0)).result.shape == (2,)


def test_what_is_no_mesh_to_set() -> None:
    not_typed: Callable[..., object] = set_mesh
    with pytest.raises(InputError, match="set_mesh takes a Mesh, not 3"):
        not_typed(3)
    with pytest.raises(ShardingError, match="only shard_map can begin"):
        set_mesh(FOUR.update(axis_types=(AxisType.Manual, AxisType.Auto)))
    with pytest.raises(ShardingError, match="has no devices"), FOUR:
        pass
    with set_mesh(FOUR):
        with (
            pytest.raises(ShardingError, match="another number of devices"),
            use_abstract_mesh(AbstractMesh((3,), "z")),
        ):
            pass
        with pytest.raises(ShardingError, match=r"is in force\. Leave one of them out"):
            tj.shard_map(lambda a: a, mesh=TWO, in_specs=P(), out_specs=P())(np.ones(8))
    assert get_mesh().empty


@pytest.fixture
def no_mesh_left() -> Iterator[None]:
    before = active_frame()
    yield
    active.set(before)


@pytest.mark.usefixtures("no_mesh_left")
def test_it_is_in_force_from_then_on() -> None:
    """As in JAX: also without a block."""
    set_mesh(FOUR)
    assert get_mesh() == FOUR
    np.testing.assert_array_equal(total(np.arange(8.0)), [12.0, 16.0])
    two = AbstractMesh((2,), ("x",))
    with set_mesh(two):
        assert get_mesh() == two
        set_mesh(FOUR)
        assert get_mesh() == FOUR
    assert get_mesh() == FOUR
    set_mesh(two)
    with pytest.raises(ZeroDivisionError), set_mesh(FOUR):
        raise ZeroDivisionError
    assert get_mesh() == two
    assert tj.make_jaxpr(total)(np.arange(8.0)).eqns[0].primitive.name == "shard_map"
    set_mesh(None)
    assert get_mesh().empty
    with pytest.raises(ShardingError, match="shard_map needs a mesh"):
        total(np.arange(8.0))


@pytest.mark.usefixtures("no_mesh_left")
def test_blocks_may_begin_later_and_again() -> None:
    first = set_mesh(FOUR)
    second = set_mesh(AbstractMesh((2,), ("x",)))
    with first:
        assert get_mesh() == FOUR
        with first:
            assert get_mesh() == FOUR
    assert get_mesh() == AbstractMesh((2,), ("x",))
    with second:
        assert get_mesh() == AbstractMesh((2,), ("x",))
    assert get_mesh() == FOUR  # as before the second was set
    first.__call__(lambda: None)
    assert get_mesh() == FOUR


@pytest.mark.usefixtures("no_mesh_left")
def test_threads_and_tasks_have_their_own() -> None:
    set_mesh(FOUR)
    found: list[object] = []

    def elsewhere() -> None:
        found.append(get_mesh().empty)
        set_mesh(AbstractMesh((2,), ("x",)))

    async def task() -> None:
        found.append(get_mesh())
        set_mesh(None)

    async def both() -> None:
        await asyncio.gather(task(), task())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    asyncio.run(both())
    assert found == [True, FOUR, FOUR]
    assert get_mesh() == FOUR


@pytest.mark.usefixtures("no_mesh_left")
def test_there_is_no_chain_of_meshes() -> None:
    frames = []
    for _ in range(3):
        set_mesh(FOUR)
        frames.append(active_frame())
    assert all(frame.parent is ROOT for frame in frames)
    with set_mesh(FOUR):
        assert active_frame().parent is ROOT
