"""`ds`: entries of an index whose beginning may be traced, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import IndexingError, IndexKindError

X = np.arange(24.0).reshape(4, 6)
#: Keys, made with the library's own `ds`.
KEYS: dict[str, Callable[[Any, Any], Any]] = {
    "first axis": lambda ds, i: ds(i, 2),
    "second axis": lambda ds, i: (slice(None), ds(i, 3)),
    "both": lambda ds, i: (ds(i, 2), ds(i, 2)),
    "integer": lambda ds, i: (0, ds(i, 2)),
    "traced integer": lambda ds, i: (i % 3, ds(i, 2)),
    "array before": lambda ds, i: (np.array([0, 2]), ds(i, 2)),
    "array after": lambda ds, i: (ds(i, 2), np.array([0, 2])),
    "array of two axes": lambda ds, i: (np.array([[0], [2]]), ds(i, 2)),
    "mask": lambda ds, i: (ds(i, 2), np.array([True, False] * 3)),
    "new axis": lambda ds, i: (None, ds(i, 2), Ellipsis, slice(None, None, 2)),
    "steps": lambda ds, i: ds(i, 2, 2),
    "steps along the second axis": lambda ds, i: (slice(None), ds(i, 2, 2)),
    "steps and an array": lambda ds, i: (ds(i, 2, 2), np.array([0, 2])),
    "nothing": lambda ds, i: ds(i, 0),
    "reversed": lambda ds, i: (ds(i, 2), slice(None, None, -1)),
    "the whole axis": lambda ds, i: (ds(i, 4), 1),
}
KINDS: dict[str, Callable[[int], Any]] = {"int": int, "NumPy": np.int32, "traced": np.int32}
#: Beyond the axis, too. Negative ones are read as JAX does where it takes dynamic slices.
STARTS = {"get": range(7), "set": range(-7, 7), "add": range(-7, 7)}


def function(module: Any, what: str, key: Callable[[Any, Any], Any], kind: str) -> Callable[[int], Any]:
    def f(x: Any, i: Any) -> Any:
        at = key(module.ds, i)
        if what == "get":
            return x[at]
        return x.at[at].set(-1.0) if what == "set" else x.at[at].add(5.0)

    run, x = module.jit(f) if kind == "traced" else f, module.numpy.asarray(X)
    return lambda i: np.asarray(run(x, KINDS[kind](i)))


@pytest.mark.sweep
@pytest.mark.parametrize("what", STARTS)
@pytest.mark.parametrize("key", KEYS)
def test_windows_are_those_of_jax(key: str, what: str) -> None:
    theirs = function(jax, what, KEYS[key], "traced")
    for i in STARTS[what]:
        expected = theirs(i)
        for kind in KINDS:
            found = function(tj, what, KEYS[key], kind)(i)
            assert found.shape == expected.shape, (i, kind)
            np.testing.assert_array_equal(found, expected, f"{i} {kind}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [-6, -2, 0, 3, 5])
def test_windows_that_are_read_fit(start: int, kind: str) -> None:
    first = min(max(start + 6 if start < 0 else start, 0), 4)
    np.testing.assert_array_equal(function(tj, "get", KEYS["both"], kind)(1), X[1:3, 1:3])
    found = function(tj, "get", KEYS["array before"], kind)(start)
    np.testing.assert_array_equal(found, X[np.array([0, 2]), first : first + 2])


def test_a_window_is_one_dynamic_slice() -> None:
    program = tj.make_jaxpr(lambda x, i: x[:, tj.ds(i, 2)])(X, np.int32(1))
    assert [eqn.primitive.name for eqn in program.eqns] == ["lt", "add", "select_n", "dynamic_slice"]
    assert [eqn.primitive.name for eqn in tj.make_jaxpr(lambda x: x[tj.ds(1, 2)])(X).eqns] == ["slice"]


def test_derivatives_and_batches() -> None:
    x, starts = tnp.asarray(X), np.array([0, 1, 3])
    slopes = tj.vmap(tj.grad(lambda x, i: (x[:, tj.ds(i, 2)] ** 2).sum()), (None, 0))(x, starts)
    for slope, i in zip(np.asarray(slopes), starts, strict=True):
        expected = np.zeros_like(X)
        expected[:, i : i + 2] = 2 * X[:, i : i + 2]
        np.testing.assert_array_equal(slope, expected)


def test_what_ds_returns() -> None:
    assert tj.ds(None) == slice(None)
    assert tnp.arange(5)[tj.ds(None, stride=2)].tolist() == [0, 2, 4]
    assert tnp.arange(9)[tj.ds(3, stride=3)].tolist() == [0, 3, 6]
    assert tnp.arange(9)[tj.ds(None, 3, 2)].tolist() == [0, 2, 4]
    assert tnp.arange(5)[tj.ds(2)].tolist() == [0, 1]
    theirs: object = jax.ds(None)
    assert theirs == slice(None)


def test_bad_windows() -> None:
    x = tnp.asarray(X)
    with pytest.raises(IndexKindError, match="ds: the size is at least 0, got -2"):
        tj.ds(0, -2)
    with pytest.raises(IndexKindError, match="ds: the stride is at least 1, got 0"):
        tj.ds(0, 1, 0)
    size: Any = 1.5
    with pytest.raises(IndexKindError, match=r"ds: the size is an integer, got 1\.5"):
        tj.ds(0, size)
    with pytest.raises(IndexingError, match=r"9 positions in steps of 1 don't fit in axis 0 of f64\[4,6\], of size 4"):
        x[tj.ds(0, 9)]
    starts: Any = (1.5, np.array([1, 2]), "a")
    for start in starts:
        with pytest.raises(IndexKindError, match="only integers, slices"):
            x[tj.ds(start, 2)]
