"""`tinyjax.nn.initializers` give the numbers that `jax.nn.initializers` give for the same key."""

from __future__ import annotations

from typing import Any

import jax
import jax.nn.initializers as theirs
import numpy as np
import pytest

from tinyjax import jit, random
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.nn import initializers as ours

CASES: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("uniform", (), (3, 4)), ("normal", (0.5,), (3,)), ("truncated_normal", (), (2, 3)), ("constant", (0.5,), (2, 2)),
    *((f"{name}_{kind}", (), (4, 3)) for name in ("glorot", "xavier", "lecun", "he", "kaiming") for kind in
      ("normal", "uniform")),
    ("variance_scaling", (2.0, "fan_out", "normal"), (3, 5, 2, 4)), ("he_normal", (0, 1), (3, 5, 2)),
    ("variance_scaling", (2.0, "fan_geo_avg", "uniform", -2, -1, 0), (3, 5, 2)),
    ("orthogonal", (2.0,), (4, 3)), ("orthogonal", (1.0, 0), (3, 2, 4)), ("orthogonal", (), (0, 3)),
    ("delta_orthogonal", (), (3, 2, 2)), ("delta_orthogonal", (2.0,), (3, 4, 2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.sweep)])
@pytest.mark.parametrize(("name", "args", "shape"), CASES, ids=[f"{name}-{shape}" for name, _, shape in CASES])
@pytest.mark.sweep
def test_numbers(name: str, args: tuple[Any, ...], shape: tuple[int, ...], dtype: str) -> None:
    found = getattr(ours, name)(*args)(random.key(3), shape, dtype)
    expected = getattr(theirs, name)(*args)(jax.random.key(3), shape, dtype)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    near = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), near, near)


@pytest.mark.sweep
@pytest.mark.parametrize("distribution", ["normal", "uniform", "truncated_normal"])
def test_complex_numbers(distribution: str) -> None:
    args: Any = (1.0, "fan_in", distribution)
    found = ours.variance_scaling(*args)(random.key(3), (4, 3), "complex64")
    expected = theirs.variance_scaling(*args)(jax.random.key(3), (4, 3), "complex64")
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-5, 1e-6)


def test_dtypes_and_shapes() -> None:
    assert ours.zeros(None, (2,)).dtype == ours.normal()(random.key(0), [2]).dtype == np.float64
    assert ours.ones(None, (2,), "float32").dtype == ours.he_normal(dtype="float32")(random.key(0), (2, 2)).dtype
    made = jit(lambda key: ours.lecun_normal()(key, (2, 3)))(random.key(1))
    np.testing.assert_allclose(np.asarray(made), np.asarray(ours.lecun_normal()(random.key(1), (2, 3))), 1e-12)


def test_errors() -> None:
    with pytest.raises(ShapeError, match="has no axis of inputs; make it of two axes"):
        ours.he_normal()(random.key(0), (3,))
    with pytest.raises(ChoiceError, match="mode is one of fan_in"):
        ours.variance_scaling(1.0, "fan", "normal")  # type: ignore[arg-type]
    with pytest.raises(ChoiceError, match="distribution is one of"):
        ours.variance_scaling(1.0, "fan_in", "cauchy")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="two axes at least"):
        ours.orthogonal()(random.key(0), (3,))
    with pytest.raises(ShapeError, match="3 to 5 axes"):
        ours.delta_orthogonal()(random.key(0), (3, 3))
