"""Parts of different sizes that devices give each other, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import P, lax
from tinyjax.errors import InputError, ShapeError
from tinyjax.meshes import AbstractMesh, Mesh

ROWS, PLACES = 12, 20


def cases(devices: int, each: int, seed: int) -> list[Any]:
    """Operands, outputs, and where slices are: for each device a row of these."""
    rng = np.random.default_rng(seed)
    count = devices * each
    sizes = rng.integers(0, 4, (devices, count))
    starts = np.stack([rng.integers(0, ROWS - 3, count) for _ in range(devices)])
    received = sizes.reshape(devices, devices, each).transpose(1, 0, 2).reshape(devices, count)
    before = np.minimum(np.cumsum(received, 1) - received, PLACES - 4)
    places = before.reshape(devices, devices, each).transpose(1, 0, 2).reshape(devices, count)
    operand, output = rng.normal(size=(devices, ROWS, 2)), rng.normal(size=(devices, PLACES, 2))
    return [operand, output, starts, sizes, places, received]


def by_hand(operand: Any, output: Any, starts: Any, sizes: Any, places: Any, _: Any) -> Any:
    found, (devices, count) = output.copy(), starts.shape
    for source in range(devices):
        for i in range(count):
            receiver, size = i // (count // devices), sizes[source, i]
            rows = operand[source, starts[source, i] : starts[source, i] + size]
            found[receiver, places[source, i] : places[source, i] + size] = rows
    return found


@pytest.mark.parametrize(("each", "seed"), [(1, 0), pytest.param(3, 1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("kind", ["vmap", "host", pytest.param("devices", marks=pytest.mark.sweep)])
def test_slices(each: int, seed: int, kind: str) -> None:
    args = cases(4, each, seed)
    expected = by_hand(*args)
    mesh = Mesh(np.array(tj.devices("cpu")[:4], object), ("i",)) if kind == "devices" else AbstractMesh((4,), ("i",))

    def send(*args: Any) -> Any:
        return lax.ragged_all_to_all(*args, axis_name="i")

    def mapped(*args: Any) -> Any:
        return send(*[arg[0] for arg in args])[None]

    f = tj.vmap(send, axis_name="i")
    if kind != "vmap":
        f = tj.shard_map(mapped, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    np.testing.assert_array_equal(f(*args), expected)
    weights = np.random.default_rng(2).normal(size=expected.shape)
    rest = args[2:]
    taken, kept = tj.grad(lambda x, out: (f(x, out, *rest) * weights).sum(), argnums=(0, 1))(*args[:2])
    ones = by_hand(np.zeros_like(args[0]), np.ones_like(args[1]), *rest)  # where nothing is written
    np.testing.assert_allclose(kept, weights * ones)
    total = (expected * weights).sum() - (np.asarray(kept) * args[1]).sum()
    np.testing.assert_allclose((np.asarray(taken) * args[0]).sum(), total)


def test_groups() -> None:
    halves = [cases(2, 1, seed) for seed in (3, 4)]
    args = [np.concatenate(pair) for pair in zip(*halves, strict=True)]

    def send(*args: Any) -> Any:
        return lax.ragged_all_to_all(*args, axis_name="i", axis_index_groups=[[0, 1], [2, 3]])

    found = tj.vmap(send, axis_name="i")(*args)
    np.testing.assert_array_equal(found, np.concatenate([by_hand(*half) for half in halves]))


def test_errors() -> None:
    operand, output, starts, sizes, places, received = cases(4, 1, 0)

    def send(*args: Any) -> Any:
        return tj.vmap(lambda *args: lax.ragged_all_to_all(*args, axis_name="i"), axis_name="i")(*args)

    with pytest.raises(InputError, match=r"send_sizes is a vector of integers, got f64\[4\]"):
        send(operand, output, starts, sizes * 1.0, places, received)
    with pytest.raises(ShapeError, match="a multiple of 4, got"):
        send(operand, output, *(v[:, :3] for v in (starts, sizes, places, received)))
    with pytest.raises(ShapeError, match="one shape but for the first axis"):
        send(operand[..., :1], output, starts, sizes, places, received)
    with pytest.raises(InputError, match="have one dtype"):
        send(operand.astype("float32"), output, starts, sizes, places, received)
