"""The functions of lax that take and write at computed positions, against jax's."""

from __future__ import annotations

import inspect

import jax
import numpy as np
import pytest

from tests.numpy.oracle import agree
from tinyjax import Array, grad, jit, lax, make_jaxpr, vmap
from tinyjax import numpy as tnp
from tinyjax.errors import IndexingError, InputError, ShapeError, TypingError

X = np.arange(20.0).reshape(4, 5)
NAMES = (
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "dynamic_update_index_in_dim",
    "gather",
    "scatter",
    "scatter_add",
    "scatter_mul",
    "scatter_min",
    "scatter_max",
)


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (lax, jax.lax))
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in theirs.values()
    ]


@pytest.mark.parametrize("start", [-5, -1, 0, 2, 9])
def test_slices(start: int) -> None:
    u = -np.ones((2, 5))
    agree(lax.dynamic_slice(X, (start, 1), (2, 3)), jax.lax.dynamic_slice(X, (start, 1), (2, 3)))
    agree(lax.dynamic_slice_in_dim(X, start, 2, -1), jax.lax.dynamic_slice_in_dim(X, start, 2, -1))
    agree(lax.dynamic_index_in_dim(X, start, 1), jax.lax.dynamic_index_in_dim(X, start, 1))
    agree(lax.dynamic_index_in_dim(X, start, 1, False), jax.lax.dynamic_index_in_dim(X, start, 1, False))
    agree(lax.dynamic_update_slice(X, u, (start, 0)), jax.lax.dynamic_update_slice(X, u, (start, 0)))
    agree(lax.dynamic_update_slice_in_dim(X, u, start, 0), jax.lax.dynamic_update_slice_in_dim(X, u, start, 0))
    agree(lax.dynamic_update_index_in_dim(X, u[0], start, 0), jax.lax.dynamic_update_index_in_dim(X, u[0], start, 0))

    def ours(i: Array) -> list[Array]:
        return [
            lax.dynamic_slice(X, (i, 1), (2, 3)),
            lax.dynamic_slice(X, tnp.stack([i, i]), (2, 3)),
            lax.dynamic_slice(X, (i, 1), (2, 3), allow_negative_indices=False),
            lax.dynamic_update_slice(X, u, (i, np.uint8(0))),
        ]

    def theirs(i: jax.Array) -> list[jax.Array]:
        return [
            jax.lax.dynamic_slice(X, (i, 1), (2, 3)),
            jax.lax.dynamic_slice(X, jax.numpy.stack([i, i]), (2, 3)),
            jax.lax.dynamic_slice(X, (i, 1), (2, 3), allow_negative_indices=False),
            jax.lax.dynamic_update_slice(X, u, (i, np.int64(0))),
        ]

    agree(jit(ours)(tnp.asarray(start)), jax.jit(theirs)(start))


def test_programs() -> None:
    jaxpr = make_jaxpr(lambda x: lax.dynamic_slice(x, (-1, 0), (1, 2)))(X)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["dynamic_slice"]
    jaxpr = make_jaxpr(vmap(lax.dynamic_index_in_dim, (0, None)))(X, np.int32(1))
    assert "gather" not in [eqn.primitive.name for eqn in jaxpr.eqns]


def test_windows() -> None:
    i = np.array([[3], [0], [4]])
    ours = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    theirs = jax.lax.GatherDimensionNumbers((1,), (0,), (0,))
    for mode in (None, "clip", "fill", lax.GatherScatterMode.CLIP):
        name = mode.name.lower() if isinstance(mode, lax.GatherScatterMode) else mode
        agree(lax.gather(X, i, ours, (1, 5), mode=mode), jax.lax.gather(X, i, theirs, (1, 5), mode=name))
    agree(
        lax.gather(X, i, ours, (1, 5), mode="fill", fill_value=7.0),
        jax.lax.gather(X, i, theirs, (1, 5), mode="fill", fill_value=7.0),
    )
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    jax_numbers = jax.lax.ScatterDimensionNumbers((1,), (0,), (0,))
    updates = np.linspace(-3.0, 9.0, 15).reshape(3, 5)
    for name in ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"):
        for mode in (None, "clip", "drop"):
            got = getattr(lax, name)(X, i, updates, numbers, mode=mode, unique_indices=mode != "clip")
            want = getattr(jax.lax, name)(X, i, updates, jax_numbers, mode=mode, unique_indices=mode != "clip")
            agree(got, want, f"{name} {mode}")
    assert lax.scatter_add(X, i, 1.0 * np.ones((3, 5)), numbers)[0, 0].item() == 1.0


def test_in_loops() -> None:
    """A row for each step: what loops do with dynamic slices."""

    def filled(x: Array) -> Array:
        out = tnp.zeros((3, 2))
        for i in range(3):
            out = lax.dynamic_update_index_in_dim(out, x * i, i, 0)
        return out

    np.testing.assert_array_equal(np.asarray(grad(lambda x: filled(x).sum())(np.ones(2))), [3.0, 3.0])


def test_errors() -> None:
    with pytest.raises(ShapeError, match=r"dynamic_slice: a start for each axis of f64\[4,5\] is needed, got 1"):
        lax.dynamic_slice(X, (0,), (1, 1))
    with pytest.raises(ShapeError, match="a sequence of scalars or a vector"):
        lax.dynamic_slice(X, np.zeros((2, 1), int), (1, 1))
    with pytest.raises(IndexingError, match=r"must be integer scalars, got ~f64\[\]"):
        lax.dynamic_slice(X, (0, 1.0), (1, 1))
    with pytest.raises(ShapeError, match="not larger"):
        lax.dynamic_slice(X, (0, 0), (5, 1))
    with pytest.raises(TypingError, match="the same dtypes"):
        lax.dynamic_update_slice(X, np.zeros((1, 1), "float32"), (0, 0))
    with pytest.raises(ShapeError, match=r"doesn't fit f64\[4,5\], with an axis or without"):
        lax.dynamic_update_index_in_dim(X, 1.0, 0, 0)
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        lax.dynamic_index_in_dim(X, 0, 2)
    with pytest.raises(InputError, match="unknown mode 'wrap'; the modes are"):
        lax.gather(X, np.zeros((1, 1), int), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 5), mode="wrap")


@pytest.mark.parametrize("index", [-3, -2, -1, 0, 1, 2])
def test_index_in_dim_is_in_range(index: int) -> None:
    x = np.arange(4.0).reshape(2, 2)
    if -2 <= index < 2:
        agree(lax.index_in_dim(x, index, -1), jax.lax.index_in_dim(x, index, -1))
    else:
        with pytest.raises(
            IndexError, match=rf"index_in_dim: index {index} is out of bounds for axis 1 with size 2, of f64\[2,2\]"
        ):
            lax.index_in_dim(x, index, -1)


@pytest.mark.parametrize(
    ("name", "arguments"), [("slice_in_dim", (0, 1)), ("index_in_dim", (0,)), ("dynamic_slice_in_dim", (0, 1))]
)
def test_scalars_have_no_dimension(name: str, arguments: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=f"{name}: axis 0 is out of range for an array with 0 axes"):
        getattr(lax, name)(1.0, *arguments)
