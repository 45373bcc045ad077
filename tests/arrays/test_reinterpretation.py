"""Bytes of arrays: `view`, `byteswap`, `tobytes`, and methods that are functions of `numpy` as well."""

from __future__ import annotations

from array import array as python_array
from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import ConcretizationError, InputError, ShapeError

DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]


def numbers(dtype: str, shape: tuple[int, ...]) -> Any:
    found = np.random.default_rng(0).normal(size=shape) * 100
    return (found > 0) if dtype == "bool" else np.abs(found).astype(dtype)


def viewed(dtype: str) -> Callable[[Any], Any]:
    return lambda x: x.view(dtype)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("shape", [(2, 8), (3,), ()])
def test_views_have_the_bytes_of_numpys(shape: tuple[int, ...], compiled: bool) -> None:
    for own, other in product(DTYPES, [dtype for dtype in DTYPES if dtype != "bool"]):
        x = numbers(own, shape)
        run = tj.jit(viewed(other)) if compiled else viewed(other)
        try:
            expected = x.view(other)
        except ValueError:
            with pytest.raises(ShapeError, match="view: the bytes along the last axis"):
                run(tnp.asarray(x))
            continue
        found = run(tnp.asarray(x))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes(), (own, other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes(dtype: str) -> None:
    x = numbers(dtype, (2, 3))
    ours = tnp.asarray(x)
    orders: list[Literal["C", "F"]] = ["C", "F"]
    for order in orders:
        assert ours.tobytes(order) == x.tobytes(order)
    assert ours.byteswap().tobytes() == x.byteswap().tobytes()
    assert ours.byteswap().dtype == x.dtype
    assert ours.item(1, 2) == ours.item(5) == ours.item((1, 2)) == x.item(5)


def test_traced_arrays_have_no_bytes() -> None:
    with pytest.raises(ConcretizationError, match="converted to bytes"):
        tj.jit(lambda x: x.tobytes())(np.ones(2))


def test_methods_are_functions() -> None:
    x = tnp.asarray([1, 3, 0, 7])
    assert (3 in x, 2 in x) == (True, False)
    assert x.nonzero()[0].tolist() == [0, 1, 3]
    assert x.compress(np.array([True, False, True])).tolist() == [1, 0]
    assert x.sort().searchsorted(3).tolist() == 2
    assert x[x.argpartition(1)[:2]].tolist() == [0, 1]
    assert tnp.asarray([1, 0]).choose(np.array([[1, 2], [3, 4]])).tolist() == [3, 2]
    assert x.devices() == {x.device}


@pytest.mark.parametrize("item", ["abc", None])
def test_what_is_no_number_is_in_no_array(item: Any) -> None:
    with pytest.raises(InputError, match="an element of an array is a number"):
        item in tnp.arange(3)  # noqa: B015
    with pytest.raises(ShapeError, match="one axis"):
        1 in tnp.asarray(1)  # noqa: B015
    with pytest.raises(ShapeError, match="is a scalar"):
        tnp.arange(3) in tnp.arange(3)  # noqa: B015


@pytest.mark.parametrize("buffer", [bytearray(b"\x2a\xf3"), memoryview(b"\x2a\xf3"), python_array("B", b"\x2a\xf3")])
def test_what_has_memory_becomes_an_array(buffer: Any) -> None:
    found = tnp.asarray(buffer)
    assert (found.dtype, found.tolist()) == (np.dtype("uint8"), [42, 243])


@pytest.mark.parametrize(
    "make", [lambda: tnp.asarray(2**64), lambda: tnp.array([0, -(2**63) - 1]), lambda: tnp.ones(2, "uint8") + 256]
)
def test_integers_that_do_not_fit_overflow(make: Callable[[], object]) -> None:
    with pytest.raises(OverflowError, match="doesn't fit in"):
        make()
