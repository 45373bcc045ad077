"""Donated arrays on the host can't be used afterwards either, unless they are results; others' arrays stay."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array
from tinyjax.errors import DeletedBufferError, InputError


def test_they_are_deleted() -> None:
    step = tj.jit(lambda state, x: ({"w": state["w"] - x}, x * 2.0), donate_argnums=0)
    for _ in range(3):  # prepared from the second on
        state, x = {"w": tnp.ones(4)}, tnp.arange(4.0)
        new, _ = step(state, x)
        assert state["w"].is_deleted()
        assert not x.is_deleted()
        with pytest.raises(DeletedBufferError):
            np.asarray(state["w"])
        np.testing.assert_array_equal(new["w"], 1.0 - np.arange(4.0))


def test_by_name_and_twice_in_a_row() -> None:
    f = tj.jit(lambda x, y: x + y, donate_argnames="y")
    x, y = tnp.ones(3), tnp.ones(3)
    f(x, y=y)
    assert (x.is_deleted(), y.is_deleted()) == (False, True)
    with pytest.raises(DeletedBufferError):
        f(x, y=y)
    z = tnp.zeros(3)
    for _ in range(3):
        z = f(x, y=z)
    np.testing.assert_array_equal(z, 3.0)


def test_users_arrays_and_results_stay() -> None:
    given, shared = np.ones(3), tnp.ones(3)
    f = tj.jit(lambda x: x * 2.0, donate_argnums=0)
    f(given)
    np.testing.assert_array_equal(given, 1.0)
    other = shared.reshape(1, 3)
    f(shared)
    np.testing.assert_array_equal(other, 1.0)
    same = tj.jit(lambda x: x, donate_argnums=0)
    for _ in range(3):
        np.testing.assert_array_equal(same(tnp.ones(3)), 1.0)


def test_not_within_transformations() -> None:
    f, x = tj.jit(lambda x, y: x * y, donate_argnums=0), tnp.ones(3)

    def g(y: Array) -> Array:
        found: Array = f(x, y)
        return found.sum()

    np.testing.assert_array_equal(tj.grad(g)(2.0 * x), 1.0)
    tj.jit(g)(x)
    assert not x.is_deleted()


def test_what_is_donated_is_no_other_argument() -> None:
    """As on devices, and in jax; nothing is used up then."""
    x = tnp.arange(3.0)
    cases: list[tuple[tuple[int, ...], tuple[Any, Any]]] = [
        ((0, 1), (x, x)),
        ((0,), (x, x)),
        ((-1,), (x, x)),
        ((0,), ({"u": x}, [x, 2.0])),
        ((0,), ((x, x), 1.0)),
    ]
    for donated, args in cases:
        f = tj.jit(lambda a, b: (a, b, tnp.sum(tj.tree.leaves((a, b))[0])), donate_argnums=donated)
        for _ in range(2):
            with pytest.raises(InputError, match=r"f64\[3\] is donated, so the same array can't be another argument"):
                f(*args)
            assert not x.is_deleted()
    with pytest.raises(InputError, match="is donated"):
        tj.jit(lambda a, b: a + b, donate_argnames="b")(x, b=x)
    np.testing.assert_array_equal(tj.jit(lambda a, b: a + b, donate_argnums=0)(x + 0.0, x), [0.0, 2.0, 4.0])


@pytest.mark.parametrize("put", [lambda x: x, tj.device_put], ids=["host", "device"])
@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        tnp.copy,
        tnp.array,
        tj.Array.copy,
        lambda x: x.astype(x.dtype, copy=True),
        lambda x: tnp.astype(x, x.dtype, copy=True),
        lambda x: copy.deepcopy({"w": [x]})["w"][0],
    ],
)
def test_copies_outlive_what_was_donated(put: Any, copied: Any) -> None:
    """As in JAX, where each of these has a buffer of its own; `astype` alone converts, and shares what fits already."""
    x = put(tnp.ones(4))
    y, shared = copied(x), x.astype(x.dtype)
    assert x.unsafe_buffer_pointer() != y.unsafe_buffer_pointer()
    assert x.unsafe_buffer_pointer() == shared.unsafe_buffer_pointer()
    tj.jit(lambda x: x + 1.0, donate_argnums=0)(x)
    assert (x.is_deleted(), y.is_deleted()) == (True, False)
    np.testing.assert_array_equal(y, np.ones(4))
