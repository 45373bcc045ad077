"""`tinyjax.image` against `jax.image`: values, types, derivatives, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

from tinyjax import Array, ArrayLike, grad, image, jit, vmap
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import HostArray

METHODS = ("nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area")
SMOOTH = METHODS[1:]


def pixels(shape: Sequence[int], dtype: str) -> HostArray:
    found: HostArray = (np.random.default_rng(7).normal(size=shape) * 10).astype(dtype)
    return found


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "float16"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.sweep
def test_resize(method: str, dtype: str, antialias: bool) -> None:
    x = pixels((7, 5, 3), dtype)
    near = 2e-2 if dtype == "float16" else 1e-4
    for shape in ((7, 5, 3), (3, 5, 3), (14, 9, 3), (1, 1, 3), (4, 11, 2), (0, 5, 3)):
        found = image.resize(x, shape, method, antialias)
        expected = jax.image.resize(x, shape, method, antialias)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(np.asarray(found, "float64"), np.asarray(expected, "float64"), near, near)


@pytest.mark.parametrize("method", ["area", *(pytest.param(name, marks=pytest.mark.sweep) for name in SMOOTH[:-1])])
@pytest.mark.sweep
def test_scale_and_translate(method: str) -> None:
    """Values and the derivatives by the image, the scales and the translations, eager and compiled."""
    x = pixels((6, 5), "float64")
    scale, move = np.array([0.5, 2.0]), np.array([1.2, -0.7])

    def ours(x: ArrayLike, scale: ArrayLike, move: ArrayLike) -> Array:
        return image.scale_and_translate(x, (6, 7), (0, 1), scale, move, method)

    def theirs(x: Any, scale: Any, move: Any) -> Any:
        return jax.image.scale_and_translate(x, (6, 7), (0, 1), scale, move, method)

    expected = theirs(x, scale, move)
    for run in (ours, jit(ours)):
        np.testing.assert_allclose(run(x, scale, move), expected, atol=1e-12)
    found = grad(lambda x, s, t: (ours(x, s, t) ** 2).sum(), (0, 1, 2))(x, scale, move)
    wanted = jax.grad(lambda x, s, t: (theirs(x, s, t) ** 2).sum(), (0, 1, 2))(x, scale, move)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_batch_is_a_dimension_that_stays() -> None:
    x = pixels((4, 3, 3), "float32")
    mapped = vmap(lambda one: image.resize(one, (5, 2), "cubic"))(x)
    np.testing.assert_allclose(mapped, image.resize(x, (4, 5, 2), image.ResizeMethod.CUBIC), 1e-5)


@pytest.mark.parametrize(
    ("run", "error", "said"),
    [
        (lambda x: image.resize(x, (2,), "linear"), ShapeError, r"a size for each dimension of the image; \(2,\)"),
        (lambda x: image.resize(x, (2, 2), "square"), ChoiceError, "no method 'square' of resizing; choose from near"),
        (lambda x: image.resize(x[:0], (2, 3), "linear"), ShapeError, "dimension 0 of the image is empty"),
        (lambda x: image.scale_and_translate(x, (2, 2), (0,), x[0, :1], x[0, :1], "nearest"), ChoiceError, "NEAREST"),
        (lambda x: image.scale_and_translate(x, (2, 2), (0, 1), x[0], x[0], "area"), ShapeError, "as many scales"),
        (lambda x: image.scale_and_translate(x, (2, 2), (2,), x[0, :1], x[0, :1], "area"), ShapeError, "axis 2"),
    ],
)
def test_bad_input(run: Callable[[HostArray], Array], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        run(np.ones((2, 3)))
