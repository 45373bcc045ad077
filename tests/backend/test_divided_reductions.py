"""Reductions over an axis that is divided among devices, of which XLA knows how to send only some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P, lax
from tinyjax.meshes import Mesh
from tinyjax.ops import segment_max

MESH = Mesh(np.array(tj.devices("cpu"), object).reshape(4, 2), ("x", "y"))
A = np.random.default_rng(0).normal(size=(8, 4))
Z = A + 1j * A[::-1]
I = (10 * A).astype(np.int32)
F: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "complex max": (lambda x: tnp.max(x, axis=0), Z),
    "complex min": (lambda x: tnp.min(x, axis=0), Z),
    "complex ptp": (tnp.ptp, Z),
    "complex windows": (lambda x: lax.reduce_window(x, -np.inf + 0j, lax.max, (3, 1), (1, 1), "SAME"), Z),
    "complex groups": (lambda x: segment_max(x, np.array([0, 1, 1, 2, 2, 2, 0, 3]), 4), Z),
    "complex prod from": (lambda x: lax.reduce(x, 1 + 2j, lax.mul, (0,)), Z),
    "xor": (lambda x: lax.reduce(x, 9, lax.bitwise_xor, (0,)), I),
    "xor of booleans": (lambda x: lax.reduce(x > 0, False, lax.bitwise_xor, (0,)), A),
    "and": (tnp.bitwise_and.reduce, I),
    "or": (lambda x: lax.reduce(x, 0, lax.bitwise_or, (0,)), I),
    "and of booleans from": (lambda x: lax.reduce(x > -9, False, lax.bitwise_and, (0,)), A),
    "sum from": (lambda x: lax.reduce(x, 5.0, lax.add, (0,)), A),
    "prod from": (lambda x: lax.reduce(x, 5.0, lax.mul, (0, 1)), A),
    "max from": (lambda x: lax.reduce(x, 0.5, lax.max, (0,)), A),
    "sum by a function": (lambda x: lax.reduce(x, 5.0, lambda a, b: b + a, (0,)), A),
    "sum of halves from": (lambda x: lax.reduce(tnp.asarray(x, "bfloat16"), tnp.bfloat16(1), lax.add, (0,)), I % 8),
    "logaddexp": (lambda x: lax.reduce(x, -np.inf, tnp.logaddexp, (0,)), A),
    "two at once from": (
        lambda x: lax.reduce((x, x), (3.0, 0.5), lambda a, b: (a[0] + b[0], tnp.maximum(a[1], b[1])), (0,)),
        A,
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", F)
@pytest.mark.parametrize("spec", [P("x"), P(("x", "y")), P("y", "x")], ids=str)
def test_values_are_those_of_one_device(name: str, spec: P) -> None:
    f, x = F[name]
    expected = tj.jit(f)(x)
    lies = NamedSharding(MESH, spec)
    for found in (tj.jit(f)(tj.device_put(x, lies)), tj.jit(f, in_shardings=lies)(x)):
        for a, b in zip(tj.tree.leaves(found), tj.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(np.asarray(a, np.complex128), np.asarray(b, np.complex128), rtol=2.0**-40)


@pytest.mark.sweep
def test_also_within_shard_map_over_some_axes() -> None:
    def each(x: Any) -> Any:
        return lax.reduce(x, 5.0, lax.add, (0,)) + tnp.max(x + 1j * x, axis=0).imag

    mapped = tj.shard_map(each, mesh=MESH, in_specs=P("y"), out_specs=P("y"), axis_names={"y"})
    expected = np.concatenate([5.0 + half.sum(0) + half.max(0) for half in np.split(A, 2)])
    x = tj.device_put(A, NamedSharding(MESH, P(("y", "x"))))
    np.testing.assert_allclose(np.asarray(tj.jit(mapped)(x)), expected, rtol=2.0**-40)


JOINED = [("concatenate", axis) for axis in (0, 1, -1, None)] + [("stack", axis) for axis in (0, 1, -1)]
JOINED += [(name, 0) for name in ("vstack", "hstack", "dstack", "column_stack")]


@pytest.mark.parametrize(("name", "axis"), JOINED)
def test_an_array_of_arrays_is_joined_as_it_is(name: str, axis: int | None) -> None:
    given = {"axis": axis} if name in ("concatenate", "stack") else {}
    for shape in ((4,), (4, 3), (4, 1), (1, 3), (4, 3, 2), (2, 3, 0), (2, 3, 2, 3)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        if name in ("concatenate", "stack") and axis is not None and not -1 <= axis < x.ndim - (name != "stack"):
            continue
        if name == "concatenate" and x.ndim == 1 and axis is not None:
            continue
        found = getattr(tnp, name)(tnp.asarray(x), **given)
        expected = getattr(np, name)(x, **given)
        assert found.shape == expected.shape, shape
        np.testing.assert_array_equal(found, expected)
        count = len(tj.make_jaxpr(lambda x: getattr(tnp, name)(x, **given))(x).eqns)
        assert count <= 3
