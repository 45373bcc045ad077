"""`axis_index_groups`: held to what each group does by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import P, lax
from tinyjax.errors import AxisNameError, ShapeError
from tinyjax.sharding import AbstractMesh, Mesh

EVEN = ((0, 3), (2, 1), (5, 4))
UNEVEN = [[0, 3, 5], [1], [4, 2]]
X = np.random.default_rng(0).normal(size=(6, 2, 4, 6))
MESHES = pytest.mark.parametrize("devices", [False, pytest.param(True, marks=pytest.mark.sweep)])
Function = Callable[..., Any]


def alone(f: Function, groups: Any) -> Any:
    """Each group by itself."""
    found: dict[int, Any] = {}
    for group in groups:
        outs = tj.vmap(lambda a: f(a, "i", None), axis_name="i")(X[list(group)])
        found.update(zip(group, np.asarray(outs), strict=True))
    return np.stack([found[i] for i in range(len(X))])


FUNCTIONS: dict[str, Function] = {
    "psum": lambda a, name, groups: lax.psum(a, name, axis_index_groups=groups),
    "pmean": lambda a, name, groups: lax.pmean(a, name, axis_index_groups=groups),
    "pmax": lambda a, name, groups: lax.pmax(a, name, axis_index_groups=groups),
    "pmin": lambda a, name, groups: lax.pmin(a, name, axis_index_groups=groups),
    "all_gather": lambda a, name, groups: lax.all_gather(a, name, axis=1, axis_index_groups=groups),
    "gather_tiled": lambda a, name, groups: lax.all_gather(a, name, axis=2, tiled=True, axis_index_groups=groups),
    "psum_scatter": lambda a, name, groups: lax.psum_scatter(a, name, axis_index_groups=groups),
    "scatter_tiled": lambda a, name, groups: lax.psum_scatter(
        a, name, scatter_dimension=1, tiled=True, axis_index_groups=groups
    ),
    "all_to_all": lambda a, name, groups: lax.all_to_all(a, name, 0, 2, axis_index_groups=groups),
    "exchange_tiled": lambda a, name, groups: lax.all_to_all(a, name, 1, 2, tiled=True, axis_index_groups=groups),
    "back": lambda a, name, groups: lax.all_to_all(a, name, 2, 0, tiled=True, axis_index_groups=groups),
}


@pytest.mark.sweep
@MESHES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_group_by_itself(name: str, devices: bool) -> None:
    f = FUNCTIONS[name]
    cases = [EVEN, UNEVEN] if name in ("psum", "pmax", "pmin") else [EVEN]
    mesh = Mesh(tj.devices("cpu")[:6], "x") if devices else AbstractMesh((6,), "x")
    for groups in cases:
        expected = alone(f, groups)

        def one(a: Any, groups: Any = groups) -> Any:
            return f(a[0], "x", groups)[None]

        mapped = tj.vmap(lambda a, groups=groups: f(a, "i", groups), axis_name="i")
        np.testing.assert_allclose(mapped(X), expected, rtol=2.0**-40)
        for check_vma in (True, False):
            divided = tj.jit(tj.shard_map(one, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma))
            np.testing.assert_allclose(divided(X), expected, rtol=2.0**-40)
            weights = np.random.default_rng(1).normal(size=expected.shape)
            found = tj.grad(lambda a, divided=divided, w=weights: (divided(a) * w).sum())(X)
            wanted = tj.grad(lambda a, mapped=mapped, w=weights: (mapped(a) * w).sum())(X)
            np.testing.assert_allclose(found, wanted, rtol=2.0**-40, atol=1e-14)


def test_groups_that_are_wrong() -> None:
    def on(f: Function, groups: Any) -> Any:
        return tj.vmap(lambda a: f(a, "i", groups), axis_name="i")(X)

    for groups in ([[0, 1]], [[0, 1, 2], [2, 3, 4, 5]], [[0, 1, 2, 3, 4, 6]], []):
        with pytest.raises(AxisNameError, match="axis_index_groups has each of the 6 numbers along 'i' once"):
            on(FUNCTIONS["psum"], groups)
    for name in ("pmean", "all_gather", "psum_scatter", "all_to_all"):
        with pytest.raises(ShapeError, match="the groups of axis_index_groups have the same size"):
            on(FUNCTIONS[name], UNEVEN)
    with pytest.raises(ShapeError, match="the axis of size 2 that is divided has the 3 elements"):
        on(FUNCTIONS["psum_scatter"], [[0, 1, 2], [3, 4, 5]])
