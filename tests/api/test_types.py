"""Types of values by JAX's names; objects with a shape and a dtype in the place of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import InputError


class Described:
    """Neither an array nor a type of ours."""

    shape: Final = (2, 3)
    dtype: Final = np.dtype("float32")


@pytest.mark.parametrize(
    "described",
    [Described(), jax.ShapeDtypeStruct((2, 3), "float32"), tj.ShapeDtypeStruct(shape=(2, 3), dtype=np.float32)],
)
@pytest.mark.parametrize(
    "typed",
    [
        tj.eval_shape,
        lambda f, x: tj.make_jaxpr(f)(x).out_avals[0],
        lambda f, x: tj.jit(f).trace(x).out_info,
        lambda f, x: tj.trace(f)(x).out_info,
    ],
)
def test_what_has_a_shape_and_a_dtype_stands_for_an_array(
    typed: Callable[[Callable[..., Any], object], object], described: object
) -> None:
    assert typed(tnp.transpose, described) == tj.ShapedArray((3, 2), "float32")


def test_weak_types_are_taken_over() -> None:
    weak = jax.ShapeDtypeStruct((), "float32", weak_type=True)
    assert tj.eval_shape(lambda x: -x, weak) == tj.ShapeDtypeStruct((), "float32", weak_type=True)


def test_typeof() -> None:
    assert tj.typeof(np.ones((2,), "int8")) == tj.ShapeDtypeStruct((2,), "int8")
    assert tj.typeof(2.0) == tj.ShapedArray((), "float64", weak_type=True)
    types: list[object] = []

    def noted(x: tj.Array) -> tj.Array:
        types.append(tj.typeof(x))
        return x

    tj.vmap(noted)(tnp.ones((2, 3)))
    assert types == [tj.ShapedArray((3,), "float64")]
    text: Any = "a"
    with pytest.raises(InputError, match="typeof takes an array, a number or a Ref, got 'a' of type str"):
        tj.typeof(text)


def test_passes_of_reverse_mode_are_compiled_once() -> None:
    traced: list[None] = []

    def f(x: tj.Array, y: tj.Array, scale: float = 1.0) -> tuple[tj.Array, int]:
        traced.append(None)
        return scale * x @ y, 3

    x, y = tnp.reshape(tnp.arange(4.0), (2, 2)), tnp.ones((2, 2))
    forward, backward = tj.fwd_and_bwd(f, (0, 1), has_aux=True)
    out, residuals, aux = forward(x, y)
    backward(residuals, y)
    out, residuals, aux = forward(x, y)
    cts = backward(residuals, y)
    assert len(traced) == 1
    assert aux == 3
    expected, pull = jax.vjp(lambda x, y: x @ y, np.asarray(x, "float32"), np.asarray(y, "float32"))
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    for ct, right in zip(cts, pull(np.asarray(y, "float32")), strict=True):
        np.testing.assert_allclose(ct, right, rtol=1e-6)
    forward_one, backward_one = tj.fwd_and_bwd(f, 1, has_aux=True, jitted=False)
    np.testing.assert_allclose(backward_one(forward_one(x, y, scale=2.0)[1], y), 2.0 * cts[1])


def test_jacobian_is_that_of_reverse_mode() -> None:
    assert tj.jacobian is tj.jacrev


def test_types_of_types() -> None:
    for described in (tj.ShapedArray((2, 3), "float32"), tj.ShapeDtypeStruct((2, 3), "float32")):
        assert tj.typeof(described) is described
        for like in (tj.lax.full_like(described, 2), tnp.full_like(described, 2)):
            assert tj.typeof(like) == described
            assert np.unique(like).tolist() == [2.0]
    assert tj.typeof(tj.lax.full_like(tj.eval_shape(tnp.sum, np.ones(3)), 1, "int8")) == tj.ShapedArray((), "int8")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_what_is_on_no_mesh_says_so_in_its_type(shape: tuple[int, ...]) -> None:
    """Libraries hand `typeof(x).sharding` on, ask its mesh and read its specification."""
    x = np.ones(shape)
    found: list[object] = []

    def asking(x: tj.Array) -> tj.Array:
        sharding = tj.typeof(x).sharding
        assert isinstance(sharding, tj.NamedSharding)
        found.append(sharding)
        return tj.random.normal(tj.random.key(0), shape, out_sharding=sharding)

    sharding = tj.typeof(tnp.asarray(x)).sharding
    theirs = jax.typeof(jax.numpy.asarray(x)).sharding
    runs: list[Callable[[tj.Array], object]]
    runs = [tj.grad(lambda x: asking(x).sum() * x.sum()), tj.jit(asking), lambda x: tj.vmap(asking)(x[None])]
    for run in runs:
        run(tnp.asarray(x))
    assert found == [sharding] * 3
    assert isinstance(sharding, tj.NamedSharding)
    assert (*sharding.spec,) == (*theirs.spec,)
    for name in ("empty", "are_all_axes_explicit", "are_all_axes_auto", "axis_names", "size"):
        assert getattr(sharding.mesh, name) == getattr(theirs.mesh, name), name
    assert sharding.is_fully_replicated == theirs.is_fully_replicated
    assert sharding.shard_shape(shape) == theirs.shard_shape(shape)
    described = tj.ShapeDtypeStruct(shape, x.dtype, sharding=sharding)
    assert described == tj.typeof(x)
    assert tj.eval_shape(lambda x: 2 * x, described) == tj.typeof(x)
    assert tj.jit(lambda x: 2 * x).lower(described).compile()(x).shape == shape
    assert tnp.zeros_like(described).shape == shape
