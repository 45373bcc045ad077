"""Updates whose values the array can't hold: cast as by JAX, with a warning of the same class at the user's line."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import LossyUpdateWarning

#: What both libraries do to an array `x` of few values and numbers `y`, which are more.
UPDATES: dict[str, Callable[[Any, Any], Any]] = {  # Any: arrays of two libraries
    "set": lambda x, y: x.at[0].set(y[0]),
    "set rows": lambda x, y: x.at[:].set(y),
    "set some": lambda x, y: x.at[np.array([2, 0])].set(y[:2]),
    "add": lambda x, y: x.at[1:].add(y[1:]),
    "add twice": lambda x, y: x.at[np.array([1, 1])].add(y[:2]),
    "subtract": lambda x, y: x.at[1].subtract(y[2]),
    "multiply": lambda x, y: x.at[1].multiply(y[0]),
    "min": lambda x, y: x.at[2].min(y[0]),
    "max": lambda x, y: x.at[0].max(y[2]),
}


@pytest.mark.filterwarnings("ignore:scatter inputs", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize(
    ("ours", "theirs"), [("int64", "float64"), ("int32", "float32"), ("float32", "complex64"), ("uint8", "float32")]
)
def test_as_jax(name: str, ours: str, theirs: str) -> None:
    if theirs == "complex64" and name in ("min", "max"):
        pytest.skip("XLA doesn't order complex numbers as NumPy does")
    x, y = np.arange(1, 4).astype(ours), np.array([0.5, 1.75, 2.25]).astype(theirs)
    expected = UPDATES[name](jax.numpy.asarray(x), y)
    for f in (UPDATES[name], tj.jit(UPDATES[name])):
        with pytest.warns(LossyUpdateWarning, match="can't be stored in an array of type .* without loss") as seen:
            found = f(tnp.asarray(x), y)
        assert {warning.filename for warning in seen} == {__file__}
        assert issubclass(LossyUpdateWarning, FutureWarning)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_it_is_told_where_promotion_gives_another_dtype() -> None:
    """What is of 64 bits, as NumPy makes it unasked, counts as of 32: what JAX makes of it by default."""
    dtypes = ("bool", "int8", "int32", "uint8", "uint32", "bfloat16", "float16", "float32", "complex64")
    wide = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
    for ours in dtypes:
        x = tnp.zeros(2, ours)
        for theirs in (*dtypes, *wide):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                x.at[0].set(tnp.ones((), theirs))
            told = any(issubclass(warning.category, LossyUpdateWarning) for warning in seen)
            assert told == (jax.numpy.promote_types(ours, wide.get(theirs, theirs)) != ours), (ours, theirs)


@pytest.mark.filterwarnings("error")
def test_what_fits_is_stored_in_silence() -> None:
    np.testing.assert_array_equal(tnp.zeros(2).at[0].set(1), [1.0, 0.0])
    np.testing.assert_array_equal(tnp.zeros(2, "float32").at[0].set(np.float64(1.5)), [1.5, 0.0])
    with pytest.raises(LossyUpdateWarning):
        tnp.zeros(2, int).at[0].set(1.5)


def test_imaginary_parts_are_not_lost_in_silence() -> None:
    """A ComplexWarning at the user's line, also while tracing; as a bool nothing is lost."""
    z = tnp.array([1 + 2j, 0])
    convert: list[Callable[[Any], Any]] = [
        lambda z: z.astype("float32"),
        lambda z: tj.lax.convert_element_type(z, int),
        lambda z: tnp.array(np.asarray(z) if isinstance(z, tj.Array) else z, float),
        lambda z: tnp.sum(z, dtype=float),
        lambda z: tnp.concatenate([z, z], dtype=float),
        lambda z: tnp.full(2, 1j, float),
        tj.jit(lambda z: z.astype("float32")),
    ]
    for f in convert:
        with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part") as seen:
            f(z)
        assert {warning.filename for warning in seen} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(z.astype(bool), [True, False])
        assert z.astype("complex64").dtype == "complex64"
