"""What is made like another array is where that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax

JNP: Any = jnp
MAKERS: dict[str, Callable[[Any], Any]] = {
    "zeros_like": tnp.zeros_like,
    "ones_like": tnp.ones_like,
    "empty_like": tnp.empty_like,
    "full_like": lambda x: tnp.full_like(x, 2.0),
    "of another shape": lambda x: tnp.zeros_like(x, shape=(4,)),
    "of another dtype": lambda x: tnp.zeros_like(x, dtype=int),
    "lax": lambda x: lax.full_like(x, 2.0),
}


@pytest.mark.parametrize("name", MAKERS)
def test_on_the_device_that_something_said(name: str) -> None:
    make, device = MAKERS[name], tj.devices()[-1]
    x = tj.device_put(np.ones(3, "float32"), device)
    found = make(x)
    assert found.devices() == {device}
    np.testing.assert_array_equal(np.asarray(found), np.asarray(make(np.ones(3, "float32"))))
    assert make(np.ones(3)).devices() == {tj.device_put(np.ones(3), "host").device}, "what is on the host stays there"
    assert tnp.zeros_like(x, device="host").platform == "host"
    np.testing.assert_array_equal(np.asarray(tj.jit(make)(x)), np.asarray(found))


class Described:
    """A type of arrays without elements."""

    shape = (2, 3)
    dtype = np.dtype("float32")


class Costly(Described):
    """Says its type, and has elements only where they are asked for."""

    def __jax_array__(self) -> Any:
        raise AssertionError("its elements aren't needed")


@pytest.mark.parametrize("kind", [Described, Costly])
def test_what_has_a_shape_and_a_dtype_is_a_type(kind: type[Described]) -> None:
    x: Any = kind()
    for name, make in MAKERS.items():
        found = make(x)
        assert found.shape == ((4,) if name == "of another shape" else x.shape)
        assert found.dtype == ("int64" if name == "of another dtype" else x.dtype)
        assert tj.jit(lambda make=make: make(x))().aval == found.aval
    assert tnp.shape(x) == (2, 3)
    assert tnp.size(x) == 6
    assert tnp.size(x, 1) == 3
    assert tnp.ndim(x) == 2
    assert tj.eval_shape(tnp.sum, x).dtype == "float32"


def test_keys_are_no_numbers() -> None:
    key = tj.random.key(0)
    for convert in (float, int, complex, lambda k: np.asarray(k, dtype="uint32"), lambda k: np.asarray(k, dtype=float)):
        with pytest.raises(tj.errors.TypingError, match=r"key.* can't become numbers: tinyjax.random.key_data"):
            convert(key)
    assert np.asarray(key).dtype == key.dtype
    assert np.asarray(tj.random.key_data(key)).tolist() == np.asarray(jax.random.key_data(jax.random.key(0))).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_limits(dtype: str) -> None:
    ours, theirs = tnp.finfo(dtype), JNP.finfo(dtype)
    for name in ("bits", "iexp", "machep", "negep", "maxexp", "minexp", "precision", "nexp", "nmant"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("eps", "epsneg", "max", "min", "tiny", "smallest_normal", "smallest_subnormal", "resolution"):
        assert np.dtype(dtype).type(getattr(ours, name)) == np.dtype(dtype).type(getattr(theirs, name)), name
    for kind in ("int8", "uint16"):
        assert tnp.iinfo(kind).kind == JNP.iinfo(kind).kind


def test_piecewise_takes_conditions_as_one_array() -> None:
    x = np.arange(-4, 5)
    functions = [lambda x: x * 0, lambda x: x * 10, lambda x: x * 100]
    found = tnp.piecewise(x, np.array([False, True, False]), functions)
    want = JNP.piecewise(x, JNP.array([False, True, False]), functions)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(want))
    one = tnp.piecewise(x, x < 0, functions[1:])
    np.testing.assert_array_equal(np.asarray(one), np.piecewise(x, x < 0, functions[1:]))
