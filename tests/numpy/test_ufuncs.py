"""Universal functions: their methods are NumPy's, and mean the same under transformations."""

from __future__ import annotations

import inspect
import math
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import TypingError

NAMES = [name for name in dir(tnp) if isinstance(getattr(tnp, name), tnp.ufunc)]
BINARY = [name for name in NAMES if getattr(tnp, name).nin == 2]
DTYPES = ("bool", "int8", "uint16", "int64", "float32", "float64", "complex64")


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    found = np.random.default_rng(len(shape)).integers(-3, 4, shape)
    return (np.abs(found) if dtype == "uint16" else found).astype(dtype)


def agrees(ours: Callable[[], Any], numpys: Callable[[], Any]) -> None:
    """The same values; what NumPy refuses is refused, or computed where JAX computes it, too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = numpys()
    except (TypeError, ValueError):
        return
    close = 1e-2 if np.asarray(expected).dtype == np.float16 else 1e-5  # of NumPy's, for integers of 8 bits
    np.testing.assert_allclose(np.asarray(ours()), expected, rtol=close, atol=close)


@pytest.mark.parametrize("name", NAMES)
def test_properties(name: str) -> None:
    ours, numpys = getattr(tnp, name), getattr(np, name)
    assert (ours.nin, ours.nout, ours.identity, ours.nargs) == (numpys.nin, 1, numpys.identity, numpys.nin)
    assert ours.__name__ == name
    assert str(inspect.signature(ours)).endswith("-> 'Array'")
    assert pickle.loads(pickle.dumps(ours)) is ours
    with pytest.raises(AttributeError):
        ours.nin = 3


def test_functions_of_the_same_function_are_equal() -> None:
    def f(x: float, y: float) -> float:
        return x + y

    assert tnp.frompyfunc(f, 2, 1) == tnp.frompyfunc(f, 2, 1)
    assert len({tnp.frompyfunc(f, 2, 1), tnp.frompyfunc(f, 2, 1)}) == 1
    assert tnp.frompyfunc(f, 2, 1) != tnp.frompyfunc(f, 2, 1, identity=0)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_methods_are_numpys(name: str, dtype: str) -> None:
    ours, numpys = getattr(tnp, name), getattr(np, name)
    x = numbers((3, 2), dtype)
    mask = np.array([[True, False], [False, False], [True, True]])
    masked: dict[str, Any] = {"keepdims": True, "initial": 1, "where": mask}
    kept = x.dtype if name in ("add", "multiply") else None  # which widen small integers in NumPy
    for axis in (0, 1, -1):
        agrees(partial(ours.reduce, x, axis), partial(numpys.reduce, x, axis))
        agrees(partial(ours.accumulate, x, axis), partial(numpys.accumulate, x, axis))
        agrees(partial(ours.reduceat, x, [0, 1], axis), partial(numpys.reduceat, x, [0, 1], axis, kept))
        agrees(partial(ours.reduce, x, axis, **masked), partial(numpys.reduce, x, axis, **masked))
    if ours.identity is not None:
        agrees(lambda: ours.reduce(x, None), lambda: numpys.reduce(x, None))
        agrees(lambda: ours.reduce(x[:0]), lambda: numpys.reduce(x[:0]))
    agrees(lambda: ours.outer(x, x[0]), lambda: numpys.outer(x, x[0]))

    def updated() -> Any:
        copy = x.copy()
        numpys.at(copy, [0, 2, 0], x[0])
        return copy

    agrees(lambda: ours.at(x, [0, 2, 0], x[0], inplace=False), updated)


@pytest.mark.parametrize("name", ["negative"])
def test_a_function_of_one_argument_is_applied_as_often_as_a_position_is_listed(name: str) -> None:
    x, positions = np.array([3.0, 1.0, 2.0]), np.array([0, 2, 1, 2])
    expected, ours = getattr(jax.numpy, name).at(x, positions, inplace=False), getattr(tnp, name)
    for at in (ours.at, tj.jit(ours.at, static_argnames="inplace")):
        np.testing.assert_array_equal(at(x, positions, inplace=False), expected)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "float32"])
def test_reduceat_has_the_dtype_of_the_functions_results(dtype: str) -> None:
    x = np.array([1, 1, 0, 2]).astype(dtype)
    for ours, jaxs in ((tnp.add, jax.numpy.add), (tnp.multiply, jax.numpy.multiply)):
        found, expected = ours.reduceat(x, [0, 2]), jaxs.reduceat(x, np.array([0, 2]))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_they_are_functions_of_arrays_like_others() -> None:
    x = np.array([1.0, 2.0, 3.0])
    assert tj.jit(tnp.add.reduce)(x).tolist() == 6.0
    assert np.asarray(tj.grad(lambda x: tnp.multiply.reduce(x, 0))(x)).tolist() == [6.0, 3.0, 2.0]
    np.testing.assert_allclose(np.asarray(tj.vmap(tnp.logaddexp)(x, x)), x + math.log(2), rtol=1e-12)
    np.testing.assert_allclose(
        np.asarray(tj.jit(tj.vmap(tnp.logaddexp.reduce))(np.stack([x, -x]))),
        [np.log(np.sum(np.exp(x))), np.log(np.sum(np.exp(-x)))],
        rtol=1e-12,
    )


def test_what_is_reduced_at_once_is_one_reduction() -> None:
    x = np.ones((2, 3))
    assert "reduce_sum" in str(tj.make_jaxpr(tnp.add.reduce)(x))
    assert "reduce_max" in str(tj.make_jaxpr(tnp.maximum.reduce)(x))
    assert "cumsum" in str(tj.make_jaxpr(tnp.add.accumulate)(x))
    assert "scatter_add" in str(tj.make_jaxpr(lambda x: tnp.add.at(x, [0, 0], 1.0, inplace=False))(x)).replace("-", "_")


def test_errors_name_the_method() -> None:
    with pytest.raises(tj.errors.InputError, match="arrays are immutable"):
        tnp.add.at(np.zeros(2), [0], 1.0)
    with pytest.raises(tj.errors.InputError, match="where needs initial"):
        tnp.subtract.reduce(np.zeros(2), where=np.array([True, False]))
    with pytest.raises(tj.errors.ShapeError, match="no identity"):
        tnp.subtract.reduce(np.zeros(0))
    with pytest.raises(tj.errors.TypingError, match="two arguments"):
        tnp.negative.outer(1, 2)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_no_axes_are_no_way_around_a_dtype(name: str) -> None:
    function = getattr(tnp, name)
    with pytest.raises(TypingError, match="does not accept f64 operands"):
        function.reduce(np.ones(3), axis=())
    with pytest.raises(TypingError, match="does not accept f64 operands"):
        function.reduce(np.ones(()), axis=None)
    assert function.reduce(np.arange(3), axis=()).tolist() == [0, 1, 2]
