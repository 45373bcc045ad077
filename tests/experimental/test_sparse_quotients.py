"""Quotients of sparse arrays: the values and dtypes of dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import tinyjax.numpy as tnp
from tinyjax.experimental.sparse import BCOO


@pytest.mark.parametrize("divisor", [2, 2.0, np.int32(2), np.float32(2), np.array([1, 2, 4], "int32"), 2j])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64", "float16", "float32", "float64", "complex64"])
def test_dtypes(dtype: str, divisor: complex) -> None:
    x = BCOO.fromdense(tnp.asarray(np.array([[0, 1, 2], [3, 0, 0]]).astype(dtype)))
    found, expected = (x / divisor).todense(), x.todense() / divisor
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-3)
