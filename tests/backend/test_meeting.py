"""Where programs run that are for a mesh of one device."""

from __future__ import annotations

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import P, lax
from tinyjax.sharding import AbstractMesh, Mesh

X = np.array([0.5, 1.0, 1.5])


def weighted(mesh: Mesh, x: tj.Array) -> tj.Array:
    def body(x: tj.Array) -> tj.Array:
        return lax.psum(tnp.sin(x), "i") * x

    return tj.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)


@pytest.mark.parametrize("placed", [True, False])
def test_a_mesh_of_one_device_is_where_the_arguments_are(placed: bool) -> None:
    mesh = Mesh(np.array(tj.devices("cpu")[3:4]), ("i",)) if placed else AbstractMesh((1,), ("i",))
    x = tj.device_put(X, "cpu:3")

    def total(x: tj.Array) -> tj.Array:
        return tnp.sin(tj.jit(lambda x: weighted(mesh, x))(x)).sum()

    inner = np.sin(X) * X
    expected = np.cos(inner) * (np.cos(X) * X + np.sin(X))
    for grad in (tj.grad(total), tj.jit(tj.grad(total))):
        found = grad(x)
        assert {str(device) for device in found.devices()} == {"cpu:3"}
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(tj.grad(total)(tnp.asarray(X))), expected, rtol=1e-12)
