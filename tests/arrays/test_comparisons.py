"""Comparisons with Python's integers, of any size, as NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp

OPERATORS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "uint64", "int64"]


def plain(f: Callable[..., object]) -> Callable[..., object]:
    return f


@given(
    st.sampled_from(DTYPES),
    st.sampled_from(OPERATORS),
    st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([-1, 128, 256, -129, 2**16, 2**32, -(2**31) - 1])),
    st.sampled_from([plain, tj.jit, tj.vmap]),
)
def test_integers_that_do_not_fit(
    dtype: str, compared: Callable[[Any, Any], Any], number: int, run: Callable[..., Callable[..., Any]]
) -> None:
    limits = np.iinfo(dtype)
    x = np.array([0, 1, limits.min, limits.max], dtype)
    functions: list[Callable[[Any], Any]] = [lambda x: compared(x, number), lambda x: compared(number, x)]
    for function in functions:
        found = run(function)(tnp.asarray(x))
        assert found.dtype == bool
        assert np.array_equal(found, function(x))


def test_functions_and_shapes() -> None:
    x = np.zeros((2, 0, 3), "uint8")
    assert tnp.less(x, 300).shape == tnp.less(300, x).shape == x.shape
    assert np.array_equal(tnp.equal(np.asarray([1, 2], "uint8"), -1), [False, False])
    assert (
        tj.make_jaxpr(lambda x: x == -1)(np.asarray([1], "uint8")).jaxpr.eqns[-1].primitive.name == "broadcast_in_dim"
    )
    with pytest.raises(OverflowError, match="the Python integer 300 doesn't fit in uint8"):
        tnp.asarray(np.asarray([1], "uint8")) + 300
