"""What is wrong with the types of operands is wrong under vmap, too, and said of the types that the function sees."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, lax
from tinyjax.errors import TypingError

INTS = "int64"
DIMS = lax.GatherDimensionNumbers((), (0,), (0,))
WRITING = lax.ScatterDimensionNumbers((), (0,), (0,))

#: Functions, and operands that they refuse, written as a dtype and the sizes.
WRONG: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "add": (lax.add, ("float64 3", "float64 4")),
    "add, rank": (lax.add, ("float64 5", "float64 5 5")),
    "add, dtypes": (lax.add, ("float64 3", "float32 3")),
    "lt": (lax.lt, ("float64 2", "float64 3")),
    "select_n": (lambda x, y: lax.select(x > 0, x, y), ("float64 3", "float64 1")),
    "clamp": (lax.clamp, ("float64 3", "float64 4", "float64 3")),
    "operator": (lambda x, y: x + y, ("float64 3", "float64 4")),
    "matmul": (lambda x, y: x @ y, ("float64 2 3", "float64 2 3")),
    "dot_general": (lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ()))), ("float64 2 3", "float64 2 3")),
    "concatenate": (lambda x, y: lax.concatenate([x, y], 0), ("float64 2 3", "float64 2 4")),
    "concatenate, axis": (lambda x: lax.concatenate([x, x], 2), ("float64 3",)),
    "reshape": (lambda x: lax.reshape(x, (7,)), ("float64 3",)),
    "transpose": (lambda x: lax.transpose(x, (0, 0)), ("float64 2 3",)),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (4,), (0,)), ("float64 3",)),
    "squeeze": (lambda x: lax.squeeze(x, (0,)), ("float64 3",)),
    "slice": (lambda x: lax.slice(x, (1,), (9,)), ("float64 3",)),
    "pad": (lambda x: lax.pad(x, 0.0, [(0, 0, 0)] * 2), ("float64 3",)),
    "rev": (lambda x: lax.rev(x, (2,)), ("float64 3",)),
    "reduce_sum": (lambda x: lax.reduce_sum(x, (3,)), ("float64 3",)),
    "argmax": (lambda x: lax.argmax(x, 4, "int32"), ("float64 3",)),
    "cumsum": (lambda x: lax.cumsum(x, 2), ("float64 3",)),
    "sort": (lambda x, y: lax.sort((x, y)), ("float64 3", "float64 4")),
    "split": (lambda x: lax.split(x, (1, 1)), ("float64 3",)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, [i], [4]), ("float64 3", INTS)),
    "dynamic_update_slice": (lambda x, y, i: lax.dynamic_update_slice(x, y, [i]), ("float64 3", "float64 4", INTS)),
    "gather": (lambda x, i: lax.gather(x, i, DIMS, (2,)), ("float64 3", "int64 4 1")),
    "scatter": (lambda x, i, u: lax.scatter(x, i, u, WRITING), ("float64 3", "int64 4 1", "float64 3")),
    "bits": (lambda x: lax.bitcast_convert_type(x, "int64"), ("int8 3",)),
}


def operands(types: tuple[str, ...], axes: tuple[int | None, ...]) -> list[Array]:
    """Ones of these types, with a mapped axis of size 5 where there is one."""
    found: list[Array] = []
    for text, at in zip(types, axes, strict=True):
        dtype, *sizes = text.split()
        shape = [int(size) for size in sizes]
        if at is not None:
            shape.insert(len(shape) if at == -1 else at, 5)
        found.append(tnp.ones(shape, dtype))
    return found


@pytest.mark.parametrize("name", WRONG)
def test_the_message_is_that_without_vmap(name: str) -> None:
    f, types = WRONG[name]
    with pytest.raises(TypingError) as plain:
        f(*operands(types, (None,) * len(types)))
    for axes in itertools.product((0, None, -1), repeat=len(types)):
        if all(at is None for at in axes):
            continue
        mapped = tj.vmap(f, in_axes=axes)
        outer = tj.vmap(mapped, in_axes=tuple(None if at is None else 0 for at in axes))
        xs = operands(types, axes)
        twice = [x if at is None else x[None] for x, at in zip(xs, axes, strict=True)]
        for run, args in ((mapped, xs), (tj.jit(mapped), xs), (outer, twice)):
            with pytest.raises(TypingError) as caught:
                run(*args)
            assert caught.value.args == plain.value.args, axes
            assert type(caught.value) is type(plain.value)


def test_scalars_are_still_repeated() -> None:
    x, y = tnp.arange(5.0), tnp.arange(15.0).reshape(5, 3)
    np.testing.assert_array_equal(tj.vmap(lax.add)(x, y), np.asarray(x)[:, None] + np.asarray(y))
    np.testing.assert_array_equal(tj.vmap(lax.add, in_axes=(0, None))(x, y[0]), np.add.outer(x, y[0]))
