"""`auto_axes` and `explicit_axes`: values are JAX's, and arrays lie as they say."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import NamedSharding, P
from tinyjax.errors import InputError, ShardingError
from tinyjax.sharding import auto_axes, explicit_axes

X = np.arange(32.0).reshape(8, 4)


def test_results_lie_so() -> None:
    rows = NamedSharding(tj.make_mesh((4, 2), ("x", "y")), P("x"))

    @auto_axes(axes=("x",), out_sharding=(rows, None))
    def f(x: tj.Array) -> tuple[tj.Array, tj.Array]:
        return x * 2.0, x.sum()

    x = tj.numpy.asarray(X)
    for g in (f, tj.jit(f)):
        doubled, total = g(x)
        assert doubled.sharding.is_equivalent_to(rows, 2)
        np.testing.assert_array_equal(np.asarray(doubled), 2.0 * X)
        assert float(total) == X.sum()
    np.testing.assert_array_equal(np.asarray(tj.grad(lambda x: f(x)[1])(x)), np.ones_like(X))


def test_calls_may_say_it() -> None:
    mesh = tj.make_mesh((8,), ("x",))

    def increased(x: Any) -> Any:
        return x + 1.0

    def lies(x: Any) -> Any:
        return x.sharding.spec

    call: Any = auto_axes(increased)
    with tj.set_mesh(mesh):
        assert call(X, out_sharding=P("x")).sharding.spec == P("x", None)
        given: Any = explicit_axes(lies)
        assert given(X, in_sharding=P("x")) == P("x", None)
    with pytest.raises(InputError, match="needs out_sharding=NamedSharding"):
        call(X)
    with pytest.raises(ShardingError, match=r"with tinyjax\.set_mesh\(mesh\)"):
        given(X, in_sharding=P("x"))
    wrong: Any = 3
    with pytest.raises(InputError, match="axes are names of axes of the mesh, such as"):
        auto_axes(call, axes=wrong)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["eager", "jit", "grad", "jit of grad"])
@pytest.mark.parametrize("left", ["x", "y"])
@pytest.mark.parametrize("spec", [("x", "y"), ("y", "x"), (None, "y"), ("x", None)])
def test_types_within_say_what_is_left_explicit(spec: tuple[str | None, str | None], left: str, mode: str) -> None:
    """Along the axes that XLA decides about, they say nothing; along others, what they said before. As in JAX."""
    results: list[tuple[list[str], str, object]] = []
    for lib in (tj, jax):
        module: Any = lib
        mesh = module.make_mesh((2, 2), ("x", "y"), axis_types=(module.sharding.AxisType.Explicit,) * 2)
        lies = module.sharding.PartitionSpec(*spec)
        seen: list[str] = []

        def f(x: Any, module: Any = module, seen: list[str] = seen) -> Any:
            y = x * 2.0
            seen.extend(str(module.typeof(z).sharding.spec) for z in (x, y))
            return y

        g = module.sharding.auto_axes(f, axes=left, out_sharding=lies)
        h = module.grad(lambda x, g=g: (g(x) ** 2).sum()) if "grad" in mode else g
        with module.set_mesh(mesh):
            x = module.device_put(np.arange(16.0).reshape(4, 4), module.sharding.NamedSharding(mesh, lies))
            found = (module.jit(h) if "jit" in mode else h)(x).block_until_ready()
        results.append((seen[:2], str(found.sharding.spec), np.asarray(found).tolist()))
    assert results[0] == results[1]


def test_auto_axes_without_a_mesh_is_the_function_itself() -> None:
    f = auto_axes(lambda x: 2.0 * x, out_sharding=P())
    for run in (f, tj.jit(f)):
        np.testing.assert_array_equal(run(np.arange(4.0)), 2.0 * np.arange(4.0))
    with pytest.raises(ShardingError, match="of which mesh"):
        auto_axes(lambda x: 2.0 * x, out_sharding=P("x"))(np.arange(4.0))
