"""`pjit`: shardings by position, and what None says under a mesh, as in JAX."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import P
from tinyjax.experimental.pjit import pjit
from tinyjax.sharding import AxisType, Mesh, NamedSharding

X = np.arange(16.0).reshape(8, 2)
ROWS = P("x")


def mesh_of(kind: AxisType = AxisType.Auto) -> Mesh:
    return Mesh(np.array(tj.devices("cpu")[:8]).reshape(4, 2), ("x", "y"), (kind,) * 2)


def spec_in_jax(*shardings: Any) -> tuple[Any, ...]:
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))
    theirs: list[Any] = [None if spec is None else jax.P(*spec) for spec in shardings]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from jax.experimental.pjit import pjit as jax_pjit

        with mesh:
            found: tuple[Any, ...] = tuple(partial(jax_pjit, lambda x: x)(*theirs)(X).sharding.spec)
    return found


@pytest.mark.parametrize("shardings", [(ROWS, ROWS), (ROWS, None), (None, ROWS), (None, None), (ROWS,), ()])
def test_by_position_under_a_mesh(shardings: tuple[Any, ...]) -> None:
    call: Any = partial(pjit, lambda x: x)(*shardings)
    with mesh_of():
        found = call(X)
    assert tuple(found.sharding.spec) == spec_in_jax(*shardings)
    np.testing.assert_array_equal(found, X)


def test_none_in_a_tree() -> None:
    with mesh_of():
        left, right = pjit(lambda x, y: (x, y), (ROWS, ROWS), (ROWS, None))(X, X)
        free = pjit(lambda x: x, ROWS)(X)
    assert (left.sharding.spec, right.sharding.spec, free.sharding.spec) == (ROWS, P(), ROWS)


def test_none_without_a_mesh_or_along_explicit_axes() -> None:
    mesh = mesh_of(AxisType.Explicit)
    rows = NamedSharding(mesh, ROWS)
    assert pjit(lambda x: x, rows, None)(X).sharding.spec == P("x", None)
    with tj.set_mesh(mesh):
        assert pjit(lambda x: x, None, None)(tj.device_put(X, rows)).sharding.spec == P("x", None)
    assert pjit(lambda x: x + 1.0, None, None)(1.0) == 2.0


def test_as_jit_otherwise() -> None:
    f = pjit(lambda x, n: x * n, static_argnums=1, donate_argnums=0)
    np.testing.assert_array_equal(f(X, 3), 3 * X)
    assert "stablehlo.multiply" in f.lower(X, 3).as_text()
