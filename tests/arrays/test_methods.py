"""The methods and properties of arrays, against jax's."""

from __future__ import annotations

import inspect
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax.numpy as tnp
from tests.numpy.oracle import Function, agree, compare, numbers, words
from tinyjax import Array, ShapedArray, make_jaxpr
from tinyjax.errors import ShapeError, UnsupportedError

CALLS: dict[str, tuple[object, ...]] = {
    "reshape": (3, 4),
    "reshape ": ((2, -1),),
    "ravel": (),
    "flatten": ("F",),
    "squeeze": (),
    "transpose": (),
    "transpose ": (1, 0, 2),
    "transpose  ": ((2, 1, 0),),
    "transpose   ": (None,),
    "swapaxes": (0, -1),
    "repeat": (2, 1),
    "diagonal": (1,),
    "trace": (),
    "conj": (),
    "conjugate": (),
    "astype": ("float32",),
    "astype ": (None,),
    "copy": (),
    "round": (1,),
    "clip": (-1, 1),
    "dot": (np.arange(3.0),),
    "sum": (0,),
    "prod": (1,),
    "max": (),
    "min": (-1,),
    "all": (),
    "any": ((0, 1),),
    "mean": (),
    "var": (),
    "std": (2,),
    "ptp": (),
    "argmax": (),
    "argmin": (1,),
    "cumsum": (0,),
    "cumprod": (),
    "sort": (),
    "argsort": (0,),
}


def _method(name: str, arguments: tuple[object, ...]) -> Function:
    def call(x: object) -> object:
        return getattr(x, name)(*arguments)

    return call


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_methods(dtype: str) -> None:
    x = numbers(dtype, 2, 2, 3)
    calls: dict[str, tuple[Function, Function]] = {}
    for key, arguments in CALLS.items():
        call = _method(key.strip(), arguments)
        calls[key] = call, call
    compare(calls, [tnp.asarray(x)], [jnp.asarray(x)])


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bool"])
def test_properties(dtype: str) -> None:
    x = numbers(dtype, 2, 3)
    ours, theirs = tnp.asarray(x), jnp.asarray(x)
    for name in words("shape ndim size nbytes itemsize"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in words("T mT real imag"):
        agree(getattr(ours, name), getattr(theirs, name), name)
    assert ours.aval == ShapedArray((2, 3), dtype)
    assert ours.dtype == theirs.dtype


def test_weak_types() -> None:
    assert tnp.asarray(2.0).weak_type
    assert not tnp.asarray(2.0).astype(float).weak_type
    assert not tnp.asarray(True).weak_type


def test_properties_of_tracers() -> None:
    seen: list[object] = []

    def f(x: Array) -> Array:
        seen.extend([x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.weak_type, len(x)])
        return x.T

    make_jaxpr(f)(np.zeros((2, 3), np.float32))
    assert seen == [(2, 3), np.float32, 2, 6, 24, False, 2]


@pytest.mark.parametrize("name", sorted({key.strip() for key in CALLS}))
def test_signatures_are_those_of_jax(name: str) -> None:
    def parameters(function: object) -> list[str]:
        assert callable(function)
        return [
            p for p in inspect.signature(function).parameters if p not in ("device", "out_sharding", "self", "args")
        ]

    theirs = parameters(getattr(jnp.zeros(()), name))
    ours = [p for p in parameters(getattr(tnp.zeros(()), name)) if p not in ("shape", "axes")]
    assert [p for p in ours if p in theirs] == [p for p in theirs if p in ours]
    # Arguments that jax has and we don't would be features that we lack; those that only we have, NumPy has, or jax's
    # function of this name.
    assert set(theirs) <= set(ours) | {"total_repeat_length"}
    assert set(ours) <= set(theirs) | {"out", "mean"} | ({"dtype"} if name == "argsort" else set())


#: Methods that take other arguments than NumPy's functions of these names, or arguments in another form.
OWN = {"reshape", "transpose", "astype", "copy", "take", "dot", "flatten", "ravel", "repeat"}


@pytest.mark.parametrize("name", sorted({key.strip() for key in CALLS} - OWN))
def test_methods_are_functions(name: str) -> None:
    method, function = (inspect.unwrap(found) for found in (getattr(Array, name), getattr(tnp, name, tnp.ravel)))
    assert method is function
    assert function.__doc__
    bound = list(inspect.signature(getattr(tnp.zeros(()), name)).parameters.values())
    assert bound == list(inspect.signature(function).parameters.values())[1:]


@pytest.mark.parametrize("name", sorted({key.strip() for key in CALLS}))
def test_annotations_mean_something(name: str) -> None:
    for found in (getattr(Array, name), getattr(tnp, name, tnp.ravel)):
        assert typing.get_type_hints(found)["return"] is Array


def test_keywords() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert tnp.sum(a=x, axis=0, initial=1.0).tolist() == tnp.asarray(x).sum(axis=0, initial=1.0).tolist() == [4, 6, 8]
    assert tnp.argmax(a=x, keepdims=True).tolist() == tnp.asarray(x).argmax(keepdims=True).tolist() == [[5]]


def test_arguments_that_are_not_supported() -> None:
    x = tnp.asarray([1.5, 2.5])
    with pytest.raises(UnsupportedError, match="std: out is not supported, because arrays are immutable"):
        np.std(x, out=np.zeros(()))
    with pytest.raises(ShapeError, match="takes integers, or one sequence of them"):
        x.reshape((2,), 1)


def test_matrix_transpose_of_a_vector() -> None:
    with pytest.raises(ShapeError, match=r"at least two axes, got f64\[3\]"):
        _ = tnp.zeros(3).mT


def test_copies_are_equations() -> None:
    assert "copy" in str(make_jaxpr(lambda x: x.copy())(1.0))
    assert str(jax.make_jaxpr(lambda x: x.copy())(1.0)).count("copy") == 1
