"""`auto_axes` and `explicit_axes`: values are JAX's, and arrays lie as they say."""

from __future__ import annotations

from typing import Any

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
