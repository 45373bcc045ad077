"""What is made like a value within `shard_map` varies along the axes of the mesh along which that does, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import ShardingError

#: Of a module and a value that varies along "x", the same along it once it is summed.
MADE: dict[str, Callable[[Any, Any], Any]] = {  # Any: modules and arrays of two libraries
    "lax.full_like": lambda m, x: m.lax.full_like(x, 1.0),
    "full_like of a sum": lambda m, x: m.lax.full_like(m.lax.psum(x, "x"), 1.0),
    "full_like of a type": lambda m, x: m.lax.full_like(m.eval_shape(lambda x: x.sum(), x), 1.0),
    "zeros_like": lambda m, x: m.numpy.zeros_like(x),
    "ones_like of a type": lambda m, x: m.numpy.ones_like(m.eval_shape(lambda x: x.sum(), x)),
    "another shape": lambda m, x: m.numpy.zeros_like(x, shape=(3,)),
    "another dtype": lambda m, x: m.numpy.full_like(x, 2, dtype="int32"),
    "empty_like": lambda m, x: m.numpy.empty_like(x),
    "zeros": lambda m, x: m.numpy.zeros(3, x.dtype),
}


def varying(m: Any, made: Callable[[Any, Any], Any]) -> tuple[frozenset[str], Any]:
    mesh = m.make_mesh((4, 2), ("x", "y"), (m.sharding.AxisType.Auto,) * 2, devices=m.devices("cpu")[:8])
    seen: list[frozenset[str]] = []

    def f(x: Any) -> Any:
        y = made(m, x)
        seen.append(m.typeof(y).manual_axis_type.varying)
        return x + m.numpy.sum(y).astype(x.dtype)

    mapped = m.shard_map(f, mesh=mesh, in_specs=m.P("x"), out_specs=m.P("x"))
    found = np.asarray(m.jit(mapped)(np.arange(8.0)))
    return seen[0], found


@pytest.mark.parametrize("name", MADE)
def test_as_in_jax(name: str) -> None:
    with jax.enable_x64(True):
        (ours, found), (theirs, expected) = varying(tj, MADE[name]), varying(jax, MADE[name])
    assert ours == theirs
    np.testing.assert_array_equal(found, expected)


LEFT_TO_XLA: dict[str, Callable[[Any], object]] = {  # Any: shardings, to be given as they are
    "device_put": lambda lies: tj.device_put(np.ones(2), lies),
    "an argument": lambda lies: tj.jit(lambda x: x, in_shardings=lies)(np.ones(2)),
    "an operand": lambda lies: tj.jit(lambda x: x + 1.0, in_shardings=lies)(np.ones(2)),
    "a result": lambda lies: tj.jit(lambda x: x + 1.0, out_shardings=lies)(np.ones(2)),
    "within": lambda lies: tj.jit(tj.jit(lambda x: x + 1.0, in_shardings=lies))(np.ones(2)),
    "a result within": lambda lies: tj.vmap(tj.jit(lambda x: x + 1.0, out_shardings=lies))(np.ones((2, 2))),
    "compiled ahead": lambda lies: tj.jit(lambda x: x + 1.0, out_shardings=lies).lower(np.ones(2)).compile(),
    "a type": lambda lies: tj.jit(lambda x: x + 1.0).lower(tj.ShapeDtypeStruct((2,), "f4", sharding=lies)).compile(),
}


@pytest.mark.parametrize("kind", ["unreduced", "reduced"])
@pytest.mark.parametrize("name", LEFT_TO_XLA)
def test_sums_along_axes_that_are_left_to_xla(name: str, kind: str) -> None:
    """Which JAX refuses in any `NamedSharding`, and so it is here if the mesh has devices."""
    mesh = tj.make_mesh((2,), "x", (tj.sharding.AxisType.Auto,), devices=tj.devices("cpu")[:2])
    spec = tj.P(**{kind: {"x"}})
    with pytest.raises(ShardingError, match="Explicit"):
        tj.NamedSharding(mesh, spec)
    for lies in (tj.NamedSharding(mesh.abstract_mesh, spec), spec):
        if name == ("a type" if isinstance(lies, tj.P) else "device_put"):
            continue
        with tj.set_mesh(mesh), pytest.raises(ShardingError, match="Explicit"):
            LEFT_TO_XLA[name](lies)
