"""What XLA divides among devices has no messages but those that the program asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P, lax, nn
from tinyjax.sharding import AbstractMesh, AxisType

X = np.linspace(-1.0, 1.0, 8 * 64 * 64, dtype="float32").reshape(8, 64, 64)
#: Along axes that aren't divided.
WITHIN: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: x.max(-1),
    "min": lambda x: x.min((1, 2)),
    "nanmax": lambda x: tnp.nanmax(x, -1),
    "ptp": lambda x: tnp.ptp(x, -1),
    "argmax": lambda x: x.argmax(-1),
    "softmax": lambda x: nn.softmax(x, -1),
    "logsumexp": lambda x: nn.logsumexp(x, -1),
    "log_softmax": lambda x: nn.log_softmax(x, -1),
    "standardize": lambda x: nn.standardize(x, -1),
    "cummax": lambda x: lax.cummax(x, 1),
    "cumsum": lambda x: tnp.cumsum(x, 1),
    "sort": lambda x: tnp.sort(x, -1),
    "median": lambda x: tnp.median(x, -1),
    "norm": lambda x: tnp.linalg.norm(x, axis=-1),
    "matmul": lambda x: x @ x.swapaxes(1, 2),
    "max_pool": lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID"),
    "cholesky": lambda x: tnp.linalg.cholesky(x @ x.swapaxes(1, 2) + 9.0 * tnp.eye(64, dtype=x.dtype)),
    "qr": tnp.linalg.qr,
    "eigh": lambda x: tnp.linalg.eigh(x[:, :4, :4]),
    "eigh values": lambda x: tnp.linalg.eigvalsh(x[:, :4, :4]),
    "eig": lambda x: tnp.linalg.eig(x[:, :4, :4]),
    "svd": lambda x: tnp.linalg.svd(x[:, :5, :4]),
    "schur": lambda x: lax.linalg.schur(x[:, :4, :4]),
    "hessenberg": lambda x: lax.linalg.hessenberg(x[:, :4, :4]),
    "tridiagonal": lambda x: lax.linalg.tridiagonal(x[:, :4, :4]),
    "triangular solve": lambda x: lax.linalg.triangular_solve(x, x),
    "lu": lax.linalg.lu,
    "det": tnp.linalg.det,
    "inv": tnp.linalg.inv,
    "solve": lambda x: tnp.linalg.solve(x, x[:, :, :2]),
    "tridiagonal solve": lambda x: lax.linalg.tridiagonal_solve(x[:, 0], x[:, 1], x[:, 2], x),
    "gelu": nn.gelu,
    "clip": lambda x: tnp.clip(x, -0.5, 0.5),
}


def messages(f: Callable[[Any], Any]) -> list[str]:
    rows = NamedSharding(AbstractMesh((8,), ("x",)), P("x"))
    text = tj.jit(f, in_shardings=rows).lower(tj.ShapedArray(X.shape, "float32")).compile().as_text()
    return re.findall(r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(", text)


@pytest.mark.sweep
@pytest.mark.parametrize("name", WITHIN)
def test_none_along_axes_that_are_not_divided(name: str) -> None:
    assert messages(WITHIN[name]) == []


def test_one_for_a_sum_over_what_is_divided() -> None:
    assert messages(lambda x: x.sum()) == ["all-reduce"]
    assert messages(lambda x: x.max(-1)) == []


@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_and_zeros_are_those_of_one_device(name: str) -> None:
    x = np.where(np.arange(X.size).reshape(X.shape) % 3 == 0, -0.0, 0.0).astype("float32")
    x[3, 5, 7] = np.nan
    x[4] -= 1.0 if name == "max" else -1.0
    mesh = tj.make_mesh((8,), ("x",))
    divided = tj.device_put(x, NamedSharding(mesh, P("x")))
    for axes in (-1, (1, 2), (0, 1), None):
        expected = np.asarray(getattr(tnp, name)(x, axes))
        found = np.asarray(tj.jit(lambda x, axes=axes: getattr(x, name)(axes))(divided))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.sweep
@pytest.mark.parametrize("spec", [P("x"), P(None, "y"), P("y", "x"), P(("x", "y")), P(None, None, "x", "y")])
@pytest.mark.parametrize("name", ["cholesky", "inv", "qr", "svd", "eigh", "det", "lu", "solve", "triangular_solve"])
def test_matrices_on_several_devices_are_those_of_one(name: str, spec: P) -> None:
    x = np.random.default_rng(5).normal(size=(8, 8, 8, 8))
    x = x @ x.swapaxes(-1, -2) + 8.0 * np.eye(8)
    f = getattr(tnp.linalg, name, None) or getattr(lax.linalg, name)
    args = [x] * (1 + name.endswith("solve"))
    mesh = tj.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    divided = [tj.device_put(arg, NamedSharding(mesh, spec)) for arg in args]
    for found, expected in zip(tj.tree.leaves(tj.jit(f)(*divided)), tj.tree.leaves(tj.jit(f)(*args)), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-9, atol=1e-9)
