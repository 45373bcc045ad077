"""`ShapeDtypeStruct`: it stands for arrays as JAX's does, and says where they lie."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P, ShapeDtypeStruct
from tinyjax.errors import InputError, ShardingError
from tinyjax.sharding import AbstractMesh

ROWS = NamedSharding(AbstractMesh((8,), ("x",)), P("x"))


def test_it_is_a_value() -> None:
    x = ShapeDtypeStruct((2, 3), "float32")
    theirs = jax.ShapeDtypeStruct((2, 3), "float32")
    assert repr(x) == repr(theirs)
    assert (x.shape, x.dtype, x.ndim, x.size, len(x)) == (theirs.shape, theirs.dtype, 2, 6, 2)
    assert x == ShapeDtypeStruct((2, 3), np.float32) == tj.ShapedArray((2, 3), "f32") == x
    assert len({x, tj.ShapedArray((2, 3), "float32")}) == 1
    placed = ShapeDtypeStruct((8, 3), "float32", sharding=ROWS)
    assert placed != ShapeDtypeStruct((8, 3), "float32")
    assert pickle.loads(pickle.dumps(placed)) == placed
    assert placed.update(shape=(16,)) == ShapeDtypeStruct((16,), "float32", sharding=ROWS)
    assert isinstance(tj.eval_shape(tnp.sin, x), ShapeDtypeStruct)
    assert not isinstance(3.0, ShapeDtypeStruct)


def test_like() -> None:
    x = tnp.zeros((8, 2), "int32", out_sharding=NamedSharding(tj.make_mesh((8,), ("x",)), P("x")))
    assert ShapeDtypeStruct.like(x) == ShapeDtypeStruct((8, 2), "int32", sharding=x.sharding)
    assert ShapeDtypeStruct.like(np.ones(3)) == ShapeDtypeStruct.like(jax.ShapeDtypeStruct((3,), "float64"))
    assert ShapeDtypeStruct.like(2.0).weak_type


def test_programs_are_compiled_for_where_arguments_lie() -> None:
    given = ShapeDtypeStruct((8, 2), "float32", sharding=ROWS)
    lowered = tj.jit(lambda x: x * 2.0).lower(given)
    assert '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}' in lowered.as_text()
    (found,) = tj.tree.leaves(lowered.compile().input_shardings)
    assert found.spec == P("x")
    mesh = tj.make_mesh((8,), ("x",))
    with tj.set_mesh(mesh):
        here = ShapeDtypeStruct((8, 2), "float32", sharding=P("x"))
    compiled = tj.jit(lambda x: x + 1.0).lower(here).compile()
    x = tj.device_put(np.ones((8, 2), "float32"), NamedSharding(mesh, P("x")))
    np.testing.assert_array_equal(np.asarray(compiled(x)), np.full((8, 2), 2.0))


def test_functions_take_it() -> None:
    x = ShapeDtypeStruct((2,), "float32")
    assert tj.make_jaxpr(tnp.sin)(x).in_avals == (tj.ShapedArray((2,), "float32"),)
    assert tnp.zeros_like(x).dtype == "float32"
    out = tj.pure_callback(np.cos, x, np.zeros(2, "float32"))
    np.testing.assert_array_equal(np.asarray(out), np.ones(2))


def test_arrays_like_divided_ones_are_divided() -> None:
    rows = NamedSharding(tj.make_mesh((8,), ("x",)), P("x"))
    x = tj.device_put(np.ones((8, 2)), rows)
    for like in (tnp.zeros_like, tnp.ones_like, tnp.empty_like):
        assert like(x).sharding.is_equivalent_to(rows, 2)
        assert not isinstance(like(x, shape=(3,)).sharding, NamedSharding)
    assert tnp.full_like(x, 2, device="host").sharding != rows


def test_errors() -> None:
    with pytest.raises(ShardingError, match="can't be divided equally by 8"):
        ShapeDtypeStruct((6,), "float32", sharding=ROWS)
    wrong: Any = "x"
    with pytest.raises(InputError, match=r"sharding is NamedSharding\(mesh, P\('x', None\)\), not 'x'"):
        ShapeDtypeStruct((8,), "float32", sharding=wrong)
    with pytest.raises(ShardingError, match="more parts than the shape"):
        ShapeDtypeStruct((8,), "float32", sharding=P(None, "x"))
    later = ShapeDtypeStruct((8,), "float32", sharding=P("x"))
    assert "sharding=P('x',)" in repr(later)
    for each in (later, later.update(shape=(16,))):
        with pytest.raises(TypeError, match="set_mesh"):
            _ = each.sharding
        with tj.set_mesh(ROWS.mesh):
            assert each.sharding == ROWS
    with pytest.raises(InputError, match="has no axes, and no length"):
        len(ShapeDtypeStruct((), "float32"))


@pytest.mark.parametrize("kind", [tj.ShapeDtypeStruct, tj.ShapedArray])
def test_a_type_needs_a_dtype(kind: Callable[[tuple[int, ...], None], object]) -> None:
    with pytest.raises(ValueError, match="a type needs a dtype"):
        kind((), None)


def test_what_is_asked_of_results_is_said() -> None:
    place = tj.sharding.SingleDeviceSharding(tj.devices()[0])
    there = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    ours = tj.jit(lambda x: (x * 2, x), out_shardings=(place, None))
    theirs = jax.jit(lambda x: (x * 2, x), out_shardings=(there, None))
    for m, f, own in ((tj, ours, place), (jax, theirs, there)):
        first, second = f.eval_shape(np.arange(8))
        assert (first.shape, first.sharding, second.sharding) == ((8,), own, None), m
    assert ours.trace(np.arange(8)).out_info[0].sharding == place
