"""Bits as elements of other dtypes, distances between floats, and places in row-major order: what JAX's tests ask."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.errors import ChoiceError
from tinyjax.extend.core import jaxpr_as_fun

NARROW = ("uint4", "int4")
OTHERS = ("uint8", "int16", "uint32", "int64", "float16", "bfloat16", "float32", "complex64", "bool")


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("own", "other"), [*itertools.product(NARROW, (*NARROW, *OTHERS)), *itertools.product(OTHERS, NARROW)]
)
def test_views_of_and_as_four_bits(own: str, other: str) -> None:
    x = np.arange(64).reshape(2, 32).astype(getattr(ml_dtypes, own, own))
    with jax.enable_x64(True):
        expected = np.asarray(jnp.asarray(x).view(getattr(ml_dtypes, other, other)))
    for found in (tnp.asarray(x).view(other), tj.jit(lambda y: y.view(other))(x)):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        assert np.asarray(found).tobytes() == expected.tobytes()


def test_views_of_four_bits_are_as_long_as_their_bytes() -> None:
    x = tnp.arange(8, dtype="uint4")
    np.testing.assert_array_equal(np.asarray(x.view("uint16")), [0x3210, 0x7654])
    np.testing.assert_array_equal(np.asarray(x.view("uint8").view("uint4")), np.asarray(x))


def test_a_view_needs_whole_elements() -> None:
    with pytest.raises(ValueError, match="u4"):
        tnp.zeros((2, 3), "uint4").view("uint8")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_spacing_is_numpys_among_subnormals_too(dtype: str) -> None:
    info = np.finfo(dtype)
    ends = [0.0, info.smallest_subnormal, info.smallest_normal, 3 * info.smallest_normal, 1.0, info.max / 3]
    near = np.array([*ends, *(np.nextafter(np.array(x, dtype), np.array(0, dtype)) for x in ends)], dtype)
    x = np.concatenate([near, -near, np.array([np.nan, np.inf, -np.inf], dtype)])
    with np.errstate(invalid="ignore"):
        expected = np.spacing(x)
    np.testing.assert_array_equal(np.asarray(tnp.spacing(x)), expected)
    np.testing.assert_array_equal(np.asarray(tj.jit(tnp.spacing)(x)), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (4, 1, 5)])
def test_places_with_sizes_that_are_traced(dtype: str, shape: tuple[int, ...]) -> None:
    places = np.array([-100, -1, 0, 1, 5, 99]).astype(dtype)
    known = tnp.unravel_index(places, shape)
    for found in (
        tj.jit(tnp.unravel_index)(places, shape),
        tj.jit(lambda i, sizes: tnp.unravel_index(i, tuple(sizes)))(places, np.array(shape, np.int32)),
        tnp.unravel_index(places, tnp.asarray(np.array(shape, np.int64))),
    ):
        assert len(found) == len(known)
        for x, y in zip(found, known, strict=True):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y), strict=True)


def test_positions_out_of_range_count_as_they_are_if_ignored() -> None:
    positions: tuple[npt.NDArray[np.int64], ...] = (np.array([0, 5]), np.array([-1, 9]))
    np.testing.assert_array_equal(np.asarray(tnp.ravel_multi_index(positions, (2, 3), mode="ignore")), [-1, 24])
    for mode, message in (("raise", "invalid entry in coordinates array"), ("skip", "'ignore', got 'skip'")):
        with pytest.raises(ChoiceError, match=message):
            tnp.ravel_multi_index(positions, (2, 3), mode=mode)


def test_values_go_before_places_that_are_traced() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for places, values, axis in (
        ([1, 2], 9, 1), ([2, 1, 1], [7, 8, 9], 1), ([-1, 0], [[7], [8]], 0), ([], 1, None), ([5, 0], [8, 9], None),
        ([1], [7, 8], None), (-1, [7, 8, 9], 0),
    ):  # fmt: skip
        kinds: list[type] = [np.int64, np.int8] if np.ndim(places) else [np.int64]
        for dtype in kinds:
            program = tj.make_jaxpr(lambda i, values=values, axis=axis: tnp.insert(x, i, values, axis))(
                np.asarray(places, dtype)
            )
            (found,) = jaxpr_as_fun(program)(np.asarray(places, dtype))
            np.testing.assert_array_equal(
                np.asarray(found), np.insert(x, np.asarray(places, int), values, axis), strict=True
            )
    program = tj.make_jaxpr(lambda i: tnp.insert(x, i, 9))(np.array([0, 0]))
    np.testing.assert_array_equal(np.asarray(jaxpr_as_fun(program)(np.array([-99, 99]))[0]), [9, 0, 1, 2, 3, 4, 5, 9])
