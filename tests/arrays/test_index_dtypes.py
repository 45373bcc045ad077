"""Positions are the numbers they are, in every integer dtype: negative, too large for the array, or for int64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, lax
from tinyjax.errors import IndexingError

Vector: TypeAlias = npt.NDArray[np.float64]
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def from_end(v: int, n: int) -> int:
    return v + n if v < 0 else v


def clipped(v: int, n: int, size: int = 1) -> int:
    return min(max(v, 0), n - size)


def written(x: Vector, at: int, *values: float) -> Vector:
    """x with values from a position on; x itself if that is out of range."""
    out = x.copy()
    if 0 <= at <= len(x) - len(values):
        out[at : at + len(values)] = values
    return out


def filled(x: Vector, at: int) -> float:
    return float(x[at]) if 0 <= at < len(x) else np.nan


DIMS = lax.GatherDimensionNumbers((), (0,), (0,))
WRITING = lax.ScatterDimensionNumbers((), (0,), (0,))

#: Functions of an array and a position, and what they are for a position that is a Python integer.
TAKING: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Vector, int], object]]] = {
    "dynamic_slice": (
        lambda x, i: lax.dynamic_slice(x, [i], [2]),
        lambda x, v: x[clipped(from_end(v, len(x)), len(x), 2) :][:2],
    ),
    "dynamic_slice, not negative": (
        lambda x, i: lax.dynamic_slice(x, [i], [2], allow_negative_indices=False),
        lambda x, v: x[clipped(v, len(x), 2) :][:2],
    ),
    "dynamic_index_in_dim": (
        lambda x, i: lax.dynamic_index_in_dim(x, i, keepdims=False),
        lambda x, v: x[clipped(from_end(v, len(x)), len(x))],
    ),
    "at.get, clip": (
        lambda x, i: x.at[i].get(mode="clip"), lambda x, v: x[clipped(from_end(v, len(x)), len(x))]
    ),
    "at.get, fill": (lambda x, i: x.at[i].get(mode="fill"), lambda x, v: filled(x, from_end(v, len(x)))),
    "at.get, rows": (lambda x, i: tnp.stack([x, x]).at[:, i].get(mode="fill")[1],
                     lambda x, v: filled(x, from_end(v, len(x)))),
    "take": (tnp.take, lambda x, v: filled(x, from_end(v, len(x)))),
    "take, clip": (lambda x, i: tnp.take(x, i, mode="clip"), lambda x, v: x[clipped(v, len(x))]),
    "take, wrap": (lambda x, i: tnp.take(x, i, mode="wrap"), lambda x, v: x[v % len(x)]),
    "take_along_axis": (
        lambda x, i: tnp.take_along_axis(x, i[None], 0)[0], lambda x, v: filled(x, from_end(v, len(x)))
    ),
    "gather, clip": (lambda x, i: lax.gather(x, i[None], DIMS, (1,), mode="clip"), lambda x, v: x[clipped(v, len(x))]),
    "gather, fill": (lambda x, i: lax.gather(x, i[None], DIMS, (1,), mode="fill"), filled),
    "switch": (
        lambda x, i: lax.switch(i, [lambda: x[0], lambda: x[1], lambda: x[2]]), lambda x, v: x[min(max(v, 0), 2)]
    ),
    "dynamic_update_slice": (
        lambda x, i: lax.dynamic_update_slice(x, np.array([-1.0, -2.0]), [i]),
        lambda x, v: written(x, clipped(from_end(v, len(x)), len(x), 2), -1.0, -2.0),
    ),
    "dynamic_update_index_in_dim": (
        lambda x, i: lax.dynamic_update_index_in_dim(x, -7.0, i, 0),
        lambda x, v: written(x, clipped(from_end(v, len(x)), len(x)), -7.0),
    ),
    "at.set": (lambda x, i: x.at[i].set(-7.0), lambda x, v: written(x, from_end(v, len(x)), -7.0)),
    "at.set, clip": (
        lambda x, i: x.at[i].set(-7.0, mode="clip"),
        lambda x, v: written(x, clipped(from_end(v, len(x)), len(x)), -7.0),
    ),
    "at.set, not negative": (
        lambda x, i: x.at[i].set(-7.0, wrap_negative_indices=False), lambda x, v: written(x, v, -7.0)
    ),
    "at.min, of many": (lambda x, i: x.at[i[None]].min(-7.0), lambda x, v: written(x, from_end(v, len(x)), -7.0)),
    "at.set, rows": (lambda x, i: x[None].at[0, i].set(-7.0)[0], lambda x, v: written(x, from_end(v, len(x)), -7.0)),
    "scatter, clip": (
        lambda x, i: lax.scatter(x, i[None], -7.0, WRITING, mode="clip"),
        lambda x, v: written(x, clipped(v, len(x)), -7.0),
    ),
    "put": (
        lambda x, i: tnp.put(x, i, -7.0, inplace=False),
        lambda x, v: written(x, clipped(from_end(v, len(x)), len(x)), -7.0),
    ),
    "put, wrap": (
        lambda x, i: tnp.put(x, i, -7.0, mode="wrap", inplace=False), lambda x, v: written(x, v % len(x), -7.0)
    ),
}  # fmt: skip


def positions(dtype: str, n: int) -> list[int]:
    limits = np.iinfo(dtype)
    near = [
        0,
        n - 1,
        n,
        -1,
        -n,
        -n - 1,
        127,
        255,
        2**31,
        -(2**31) - 1,
        2**32 - 1,
        2**32 + 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
    ]
    return sorted({v for v in [*near, limits.min, limits.max] if limits.min <= v <= limits.max})


#: Some in every run, the others in the session for what takes long.
CASES = [(dtype, 200) for dtype in DTYPES] + [("int8", 3), ("uint64", 3)]
SAMPLED = {("int8", 200), ("int64", 200), ("uint64", 3)}


@pytest.mark.parametrize(
    ("dtype", "n"), [pytest.param(*case, marks=() if case in SAMPLED else pytest.mark.sweep) for case in CASES]
)
def test_in_every_dtype(dtype: str, n: int) -> None:
    """One by one on the host, and all of them mapped, on the host and compiled."""
    array, values = np.arange(float(n)), positions(dtype, n)

    def all_of_them(i: Array) -> list[Array]:
        x = tnp.asarray(array)
        return [taking(x, i) for taking, _ in TAKING.values()]

    def rows(columns: list[Array]) -> list[list[Array]]:
        return [[column[i] for column in columns] for i in range(len(values))]

    batch = tnp.asarray(np.array(values, dtype))
    routes = {
        "eager": [all_of_them(tnp.asarray(np.asarray(v, dtype))) for v in values],
        "vmap": rows(tj.vmap(all_of_them)(batch)),
        "jit": rows(tj.jit(tj.vmap(all_of_them))(batch)),
    }
    for route, results in routes.items():
        for v, row in zip(values, results, strict=True):
            for (name, (_, expected)), found in zip(TAKING.items(), row, strict=True):
                np.testing.assert_array_equal(found, expected(array, v), err_msg=f"{route}: {name} at {v}")


def test_one_position_that_is_traced() -> None:
    """Not mapped, so these aren't gathers."""
    array, values = np.arange(5.0), positions("uint64", 5)

    @tj.jit
    def f(i: Array) -> list[Array]:
        return [taking(tnp.asarray(array), i) for taking, _ in TAKING.values()]

    for v in values:
        for (name, (_, expected)), found in zip(TAKING.items(), f(tnp.asarray(np.asarray(v, "uint64"))), strict=True):
            np.testing.assert_array_equal(found, expected(array, v), err_msg=f"{name} at {v}")


def test_python_integers_of_any_size() -> None:
    x = tnp.arange(3.0)
    for v in (2**63, 2**64, -(2**63) - 1, -(2**80), 2**200):
        np.testing.assert_array_equal(x.at[v].set(9.0), x)
        np.testing.assert_array_equal(x.at[v].set(9.0, mode="clip"), written(np.arange(3.0), 2 if v > 0 else 0, 9.0))
        assert np.isnan(float(x.at[v].get(mode="fill")))
        with pytest.raises(IndexingError, match="out of bounds"):
            x[v]


def _numbers(i: Any) -> Any:
    """The leaves that may be traced: those in the tuples and lists of an index."""
    return tuple(part for part in i if not isinstance(part, slice))


@pytest.mark.parametrize(
    "index",
    [
        ([1, 0],),
        ([[1]],),
        ([0, 1], [1, 2]),
        ((1, 0), (1, -2)),
        (((1, 1), (1, 0)), 2),
        ([[0, 1], [1, -1]], slice(None), [[0, 1], [3, 2]]),
    ],
)
def test_positions_in_nested_sequences_that_are_traced(index: Any) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)

    def key(numbers: Any) -> Any:
        rest = iter(numbers)
        return tuple(part if isinstance(part, slice) else next(rest) for part in index)

    expected = values[tuple(np.asarray(part) if isinstance(part, list | tuple) else part for part in index)]
    functions: list[Callable[[Any, Any], Any]] = [
        lambda x, i: tnp.asarray(x)[key(i)],
        lambda x, i: x.at[key(i)].get(),
        lambda x, i: x.at[key(i)].set(1.0)[key(i)] * tnp.asarray(x)[key(i)],
        lambda x, i: tj.grad(lambda x: (x[key(i)] ** 2).sum())(x)[key(i)] / 2.0 * (expected.size > 0),
    ]
    x = tnp.asarray(values)
    numbers = _numbers(index)
    for f in functions[:3]:
        np.testing.assert_array_equal(tj.jit(f)(x, numbers), expected)
        np.testing.assert_array_equal(f(x, numbers), expected)
    np.testing.assert_array_equal(tj.jit(functions[3])(x, numbers), functions[3](x, numbers))
    doubled = tj.tree.map(lambda n: np.array([n, n]), numbers)
    batch = tj.vmap(functions[0], in_axes=(None, 0))(x, doubled)
    np.testing.assert_array_equal(batch, [expected, expected])


def test_bad_nested_positions_that_are_traced() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    with pytest.raises(IndexError, match=r"nested positions differ in shape: ~i64\[\], i64\[2\]"):
        tj.jit(lambda i: tnp.asarray(x)[[i, np.ones(2, int)],])(1)
    with pytest.raises(TypeError, match="only integers, slices"):
        tj.jit(lambda i: tnp.asarray(x)[[i, 0],])(1.5)
